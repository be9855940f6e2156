"""The example of one model: it trains without Ray, and gets better."""

import os
import re
from pathlib import Path

from tests.scripts import ROOT, run_process


def test_example_trains_without_ray(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = run_process([str(ROOT / "examples" / "train_one_model.py")], tmp_path, environment)
    assert (done.code, done.stderr) == (0, "")
    assert not done.heavy_packages & {"ray", "optuna"}
    found = re.findall(r"^epoch (\d): overall dev score (0\.\d{3})$", done.stdout, re.MULTILINE)
    assert [epoch for epoch, _ in found] == ["1", "2", "3"]
    assert float(found[-1][1]) > float(found[0][1])
