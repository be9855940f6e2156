"""Outputs that are all the same, and dev sets that say little, are found in predictions."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mtlib.tasks import TASKS
from mtlib.training.evaluation import Predictions
from results.health.outputs import constant_predictions, is_constant, weak_dev_sets
from results.records.epochs import write_epoch
from results.sweep import Sweep
from tests.results.conftest import build_report
from tests.results.page.recorded_sweep import with_records, write_recorded_sweep


def test_trial_that_predicts_one_label_is_named(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine")
    assert list(constant_predictions(sweep)) == []
    report = build_report(3)

    def stuck(part: Predictions) -> Predictions:
        is_changed = part.split == "dev" and part.task != "sst"
        return replace(part, logits=np.full_like(part.logits, 2.5)) if is_changed else part

    points = [replace(point, value=2.0) if point.task == "overall" else point for point in report.points]
    report = replace(report, predictions=tuple(map(stuck, report.predictions)), points=tuple(points))
    write_epoch(sweep.path, "0001-r1", report)
    assert list(constant_predictions(sweep)) == []
    qqp, sts = constant_predictions(with_records(tmp_path / "mine", sweep.records))
    assert qqp.what == "QQP: nearly the whole dev set gets the same label in 1 of 6 finished trials: 0001-r1"
    assert sts.what == "STS: nearly the whole dev set gets the same number in 1 of 6 finished trials: 0001-r1"
    pruned = [replace(r, status="pruned" if r.trial_id == "0001-r1" else r.status) for r in sweep.records]
    assert list(constant_predictions(with_records(tmp_path / "mine", pruned))) == []


@pytest.mark.parametrize(
    ("num_predicted", "num_labels", "expected"),
    [(98, 60, False), (99, 60, True), (100, 60, True), (99, 0, True), (99, 99, False), (100, 99, True)],
)
def test_boundary_of_one_label_for_nearly_all(num_predicted: int, num_labels: int, *, expected: bool) -> None:
    logits = np.where(np.arange(100) < num_predicted, 1.0, -1.0)[:, None]
    labels = (np.arange(100) < num_labels).astype(float)
    assert is_constant(TASKS["qqp"], logits, labels) is expected
    ranked = replace(TASKS["qqp"], metric="average_precision")
    assert not is_constant(ranked, logits, labels)  # it needs no threshold


@pytest.mark.parametrize(("spread", "expected"), [(0.0, True), (0.049, True), (0.051, False), (1.4, False)])
def test_boundary_of_a_constant_regression(spread: float, *, expected: bool) -> None:
    logits = 2.5 + spread * np.array([-1.0, 1.0] * 20)[:, None]
    assert is_constant(TASKS["sts"], logits, np.zeros(40)) is expected


def write_dev(sweep: Sweep, task: str, labels: Sequence[float]) -> None:
    """Gives every trial predictions for a dev set with other labels."""
    own = Predictions(
        task=task,
        split="dev",
        ids=[str(row) for row in range(len(labels))],
        labels=np.array(labels, np.float32),
        logits=np.zeros((len(labels), TASKS[task].num_logits), np.float32),
    )
    for trial in sorted(set(sweep.trials["trial"])):
        for epoch in (1, 2):
            report = build_report(epoch)
            others = tuple(part for part in report.predictions if (part.task, part.split) != (task, "dev"))
            write_epoch(sweep.path, trial, replace(report, predictions=(own, *others)))


@pytest.mark.parametrize(
    ("task", "labels", "words"),
    [
        ("sst", [1, 0, 1], "SST has 3 dev rows"),
        ("qqp", [1] * 30, "QQP have the same label"),
        ("sts", [1] * 30, "STS have the same label"),
        ("qqp", [0, 1] * 20, ""),
        ("qqp", [1] * 40 + [0] * 8, "QQP, class 0: 8 dev rows; one error moves its F1 by .07"),
    ],
)
def test_dev_sets_that_show_little_are_named(tmp_path: Path, task: str, labels: list[float], words: str) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine", num_replicates=1)
    write_dev(sweep, "sst", [0, 1, 2, 3, 4] * 20)
    assert list(weak_dev_sets(sweep)) == []
    write_dev(sweep, task, labels)
    found = " ".join(own.what for own in weak_dev_sets(sweep) if TASKS[task].title in own.what)
    assert words in found
    assert bool(found) is bool(words)
