"""Outputs that are all the same, and dev sets that say little, are found in predictions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mtlib.config.trial import TrialConfig
from mtlib.tasks import TASKS
from mtlib.training.evaluation import Predictions
from results.health.outputs import (
    WHERE_COLLAPSED,
    WHERE_RATE_IS_HIGH,
    WHERE_UNTRAINED,
    constant_predictions,
    weak_dev_sets,
)
from results.records.epochs import write_epoch
from results.records.trials import TrialRecord
from results.sweep import Sweep
from tests.results.conftest import build_report
from tests.results.page.recorded_sweep import with_records, write_recorded_sweep


def make_constant(sweep: Sweep, trial: str, tasks: Collection[str] = ("qqp", "sts")) -> None:
    """Lets a trial predict one label, or number, for all of dev of some tasks in its last and best epoch."""
    report = build_report(3)

    def stuck(part: Predictions) -> Predictions:
        is_changed = part.split == "dev" and part.task in tasks
        return replace(part, logits=np.full_like(part.logits, 2.5)) if is_changed else part

    points = [replace(point, value=2.0) if point.task == "overall" else point for point in report.points]
    report = replace(report, predictions=tuple(map(stuck, report.predictions)), points=tuple(points))
    write_epoch(sweep.path, trial, report)


def with_rates(sweep: Sweep, rates: Mapping[str, float]) -> list[TrialRecord]:
    """The records of a sweep, some with another learning rate."""
    return [
        replace(record, config=TrialConfig.from_json(record.config).override(changes).to_json())
        for record in sweep.records
        for changes in [{"optimizer.learning_rate": rates[record.trial_id]} if record.trial_id in rates else {}]
    ]


def test_trial_that_predicts_one_label_while_others_learn_has_collapsed(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine")
    assert list(constant_predictions(sweep)) == []
    make_constant(sweep, "0001-r1")
    qqp, sts = constant_predictions(with_records(tmp_path / "mine", sweep.records))
    others = "in 1 of 6 finished trials, while other trainings of the configuration learned: 0001-r1"
    assert qqp.what == f"QQP: nearly the whole dev set gets the same label {others}"
    assert sts.what == f"STS: nearly the whole dev set gets the same number {others}"
    assert qqp.advice == WHERE_COLLAPSED
    pruned = [replace(r, status="pruned" if r.trial_id == "0001-r1" else r.status) for r in sweep.records]
    assert list(constant_predictions(with_records(tmp_path / "mine", pruned))) == []


def test_trial_has_collapsed_in_the_task_that_others_learned_alone(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine", weights=(0.0,))
    make_constant(sweep, "0000-r0")
    make_constant(sweep, "0000-r1", ("qqp",))
    qqp, sts = constant_predictions(with_records(tmp_path / "mine", sweep.records))
    assert (qqp.advice, sts.advice) == (WHERE_UNTRAINED, WHERE_COLLAPSED)
    assert qqp.what.endswith("in 2 of 2 finished trials: 0000-r0, 0000-r1")
    assert sts.what.endswith("in 1 of 2 finished trials, while other trainings of the configuration learned: 0000-r0")


@pytest.mark.parametrize(
    ("rate", "advice"), [(1e-2, WHERE_RATE_IS_HIGH), (1e-7, WHERE_UNTRAINED), (None, WHERE_UNTRAINED)]
)
def test_configuration_that_never_learns_has_advice_by_its_rate(
    tmp_path: Path, rate: float | None, advice: str
) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine")
    stuck = ("0001-r0", "0001-r1")
    for trial in stuck:
        make_constant(sweep, trial)
    records = with_rates(sweep, {} if rate is None else dict.fromkeys(stuck, rate))
    qqp, _ = constant_predictions(with_records(tmp_path / "mine", records))
    assert qqp.what == "QQP: nearly the whole dev set gets the same label in 2 of 6 finished trials: 0001-r0, 0001-r1"
    assert qqp.advice == advice


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
