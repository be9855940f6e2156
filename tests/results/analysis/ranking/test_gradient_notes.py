"""A starved task is named, with what to set, from the ratio of 10 on."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from results.analysis.ranking.gradient_notes import MAX_RATIO, gradient_notes
from results.records.trials import TrialRecord
from tests.results.conftest import build_record

BASE = TrialConfig(stages=(StageConfig(tasks=("sst", "qqp", "sts")),))
COLUMNS = ["trial", "epoch", "task", "split", "metric", "value"]


def curves(*points: tuple[str, int, str, float], metric: str = "gradient_norm", split: str = "train") -> pd.DataFrame:
    """Curves with these values by trial, epoch and task."""
    rows = [(trial, epoch, task, split, metric, value) for trial, epoch, task, value in points]
    return pd.DataFrame(rows, columns=COLUMNS)


def records(*changes: Mapping[str, Any]) -> list[TrialRecord]:
    """A trial for each change of the base configuration."""
    return [build_record(number, config=BASE.override(change).to_json()) for number, change in enumerate(changes)]


def notes(norms: Mapping[str, float], **changes: Any) -> list[str]:
    """The notes on one trial with these norms by task, and these keys, dots as two underscores."""
    change = {key.replace("__", "."): value for key, value in changes.items()}
    points = curves(*(("0000-r0", 1, task, norm) for task, norm in norms.items()))
    return [note.line for note in gradient_notes(points, records(change))]


def test_raw_labels_that_starve_a_task_are_to_be_scaled() -> None:
    assert notes({"sst": 2.0, "qqp": 1.9, "sts": 65.0}) == [
        "STS's gradients are 34 times those of QQP in the first steps (trial 0000-r0), which starves QQP: "
        "set tasks.sts.target_scale=unit"
    ]


@pytest.mark.parametrize(
    ("norms", "changes", "remedy"),
    [
        ({"sst": 1.0, "qqp": 25.0}, {}, "tasks.qqp.loss_weight=0.04"),
        ({"sst": 1.0, "qqp": 25.0}, {"tasks__qqp__loss_weight": 2}, "tasks.qqp.loss_weight=0.08"),
        ({"sst": 1.0, "sts": 32.0}, {"tasks__sts__target_scale": "unit"}, "tasks.sts.loss_weight=0.031"),
        (
            {"sst": 1.0, "qqp": 25.0},
            {"loss_weighting": "uncertainty"},
            "loss_weighting=fixed and tasks.qqp.loss_weight=0.04",
        ),
        ({"sst": 1.0, "sts": 25.0}, {"loss_weighting": "uncertainty"}, "tasks.sts.target_scale=unit"),
    ],
)
def test_other_tasks_get_the_loss_weight_that_makes_norms_equal(
    norms: Mapping[str, float], changes: Mapping[str, Any], remedy: str
) -> None:
    (line,) = notes(norms, **changes)
    assert line.endswith(f": set {remedy}")


def test_every_task_that_starves_another_is_named() -> None:
    (line,) = notes({"sst": 0.5, "qqp": 6.0, "sts": 20.0})
    assert line.startswith("QQP's and STS's gradients are 12 and 40 times those of SST in the first steps")
    assert line.endswith("set tasks.qqp.loss_weight=0.083 and tasks.sts.target_scale=unit")


@pytest.mark.parametrize(("ratio", "is_named"), [(MAX_RATIO, False), (1.001 * MAX_RATIO, True), (1, False)])
def test_boundary_of_the_ratio(ratio: float, is_named: bool) -> None:
    assert bool(notes({"sst": 0.5, "qqp": 0.5 * ratio})) is is_named


def test_several_trials_are_one_line_for_each_starved_task() -> None:
    norms = {"0000-r0": (1.0, 20.0), "0001-r0": (1.0, 50.0), "0002-r0": (1.0, 2.0), "0003-r0": (30.0, 1.0)}
    points = [(trial, 1, "sst", sst) for trial, (sst, _) in norms.items()]
    points += [(trial, 1, "qqp", qqp) for trial, (_, qqp) in norms.items()]
    of_qqp, of_sst = gradient_notes(curves(*points), records({}, {}, {}, {}))
    assert of_qqp.what.startswith("SST's gradients are 30 times those of QQP in the first steps (trial 0003-r0), which")
    assert of_sst.line == (
        "QQP's gradients are 50 times those of SST in the first steps (2 trials, most in 0001-r0), which starves SST: "
        "set tasks.qqp.loss_weight=0.02"
    )


def test_norms_are_means_over_epochs_and_tasks_without_one_do_not_count() -> None:
    points = (("0000-r0", 1, "sst", 1.0), ("0000-r0", 2, "sst", 3.0), ("0000-r0", 1, "qqp", 30.0))
    (note,) = gradient_notes(curves(*points), records({}))
    assert "are 15 times those of SST" in note.what
    other = (("0001-r0", 1, "sts", 1.0),)
    assert gradient_notes(curves(*points, *other), records({}, {})) == [note]


def test_without_norms_there_is_no_note() -> None:
    points = (("0000-r0", 1, "sst", 1.0), ("0000-r0", 1, "qqp", 99.0))
    assert gradient_notes(curves(), []) == []
    assert gradient_notes(curves(*points, metric="loss"), records({})) == []
    assert gradient_notes(curves(*points, split="dev"), records({})) == []
    assert len(gradient_notes(curves(*points), records({}))) == 1


def test_a_task_without_any_gradient_is_not_a_matter_of_scale() -> None:
    assert notes({"sst": 0.0, "qqp": 1.0}) == []
