"""bf16 pays where the machine has instructions for it, and on a CPU where they are measured to be faster."""

import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from mtlib.runtime import bf16
from mtlib.runtime.bf16 import block_speedup, does_bf16_pay, gpus_have_bf16


def set_features(monkeypatch: pytest.MonkeyPatch, features: str) -> None:
    monkeypatch.setattr(bf16, "processor_fields", lambda: {"features": features} if features else {})


def set_speedup(monkeypatch: pytest.MonkeyPatch, speedup: float) -> list[tuple[int, int]]:
    measured = []

    def measure(width: int, num_threads: int) -> float:
        measured.append((width, num_threads))
        return speedup

    monkeypatch.setattr(bf16, "block_speedup", measure)
    return measured


@pytest.mark.parametrize("features", ["", "fma avx512f", "avx512_bf16x amx_tile bf"])
def test_processor_without_instructions_is_not_measured(monkeypatch: pytest.MonkeyPatch, features: str) -> None:
    set_features(monkeypatch, features)
    measured = set_speedup(monkeypatch, 9.0)
    answer = does_bf16_pay(64, 1, on_gpu=False)
    assert (answer.pays, answer.why) == (False, "the processor is not known to have instructions for bf16")
    assert measured == []


@pytest.mark.parametrize("feature", ["amx_bf16", "avx512_bf16", "bf16"])
@pytest.mark.parametrize(("speedup", "pays"), [(1.3, True), (1.2999, False), (0.1, False), (8.0, True)])
def test_measurement_decides_where_there_are_instructions(
    monkeypatch: pytest.MonkeyPatch, feature: str, speedup: float, pays: bool
) -> None:
    set_features(monkeypatch, f"fma {feature} sse2")
    measured = set_speedup(monkeypatch, speedup)
    answer = does_bf16_pay(384, 2, on_gpu=False)
    assert answer.pays == pays
    assert f"{speedup:.1f} times as fast in bf16" in answer.why
    assert ("below 1.3" in answer.why) != pays
    assert measured == [(384, 2)]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [("8.0\n", True), ("7.5\n", False), ("9.0\n8.6\n", True), ("9.0\n7.0\n", False), ("", False), ("12.0\n", True)],
)
def test_all_gpus_must_have_the_capability(monkeypatch: pytest.MonkeyPatch, lines: str, expected: bool) -> None:
    def answer(command: Sequence[str], **_options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 0, stdout=lines)

    monkeypatch.setattr(subprocess, "run", answer)
    assert gpus_have_bf16() == expected
    found = does_bf16_pay(64, 1, on_gpu=True)
    assert (found.pays, found.why) == (expected, f"the GPUs have {'' if expected else 'no '}instructions for it")


@pytest.mark.parametrize("problem", [FileNotFoundError("nvidia-smi"), subprocess.CalledProcessError(9, "nvidia-smi")])
@pytest.mark.parametrize(("has_gpu", "has_bf16"), [(True, True), (True, False), (False, True)])
def test_torch_is_asked_where_nvidia_smi_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, problem: Exception, has_gpu: bool, has_bf16: bool
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise problem

    monkeypatch.setattr(subprocess, "run", fail)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has_bf16)  # noqa: ARG005
    assert gpus_have_bf16() == (has_gpu and has_bf16)


def test_speedup_is_the_median_of_paired_times(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([9.0, 9.0, 2.0, 1.0, 8.0, 1.0, 3.0, 1.0])  # the first two are not counted
    order = []

    def take(_block: object, _states: object, *, is_bf16: bool) -> float:
        order.append(is_bf16)
        return next(times)

    monkeypatch.setattr(bf16, "block_seconds", take)
    monkeypatch.setattr(bf16, "SECONDS", -1.0)
    assert block_speedup(8, 1) == 3.0
    assert order == [False, True] * 4


def test_measurement_leaves_random_state_and_threads_alone() -> None:
    torch.manual_seed(3)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    assert block_speedup(8, threads + 1) > 0
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
