"""Which trackers there are, and what they get of an epoch."""

import importlib.util
import math

import pytest

from sweeps.tracking.tracker import TRACKERS, check_trackers, curve_values
from tests.recorded_trials import report_of


@pytest.mark.parametrize("name", TRACKERS)
def test_missing_package_is_one_line_that_says_how_to_install_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_trackers([name])
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ValueError, match=rf"pip install 'multitask-sweeps\[{name}\]'"):
        check_trackers([name])


def test_points_have_names_by_split_task_and_metric() -> None:
    points = [vars(point) for point in report_of(3, 0.6).points]
    assert curve_values([*points, {**points[0], "metric": "f1", "value": math.inf}]) == {
        "dev/qqp/f1": math.inf,
        "epoch": 3,
        "dev/qqp/accuracy": 0.99,
        "dev/sst/accuracy": 0.3,
        "train/sst/accuracy": 1.0,
        "dev/sst/loss": 9.0,
        "dev/overall": 0.6,
    }
