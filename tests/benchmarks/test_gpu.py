"""The measurements for a GPU: refused in a line without one; the whole command runs on a CPU."""

import subprocess
import sys

import pytest
import torch

from benchmarks import gpu
from tests.scripts import ROOT


def test_without_a_gpu_the_command_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu.py"])
    with pytest.raises(SystemExit) as raised:
        gpu.main()
    assert raised.value.code == 2
    assert capsys.readouterr().err.endswith("this benchmark needs a GPU that torch can use, and there is none\n")


@pytest.mark.slow
def test_whole_command_runs_on_a_cpu() -> None:
    small = ["--layers", "1", "--width", "32", "--steps", "3", "--rounds", "2", "--trials", "2"]
    command = [sys.executable, "benchmarks/gpu.py", "--device", "cpu", *small]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=True)
    for part in ("tokens a second", "SMART, T = 1", "PALs beside the layer", "PCGrad, three tasks", "trials an hour"):
        assert part in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines()[-4:]] == ["1", "2", "4", "8"]
