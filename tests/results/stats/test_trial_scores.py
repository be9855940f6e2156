"""A trial counts with its best epoch; scores and covariances of all trials are read once."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mtlib.tasks import TASKS
from mtlib.training.epoch_report import EpochReport
from mtlib.training.evaluation import Predictions
from results.records.schemas import CURVES
from results.records.trials import TrialRecord
from results.stats.covariance import score_covariance
from results.stats.trial_scores import (
    TOTAL,
    PredictedRows,
    TrialScores,
    equal_points,
    group_by_configuration,
    read_scores,
)

MakeReport = Callable[..., EpochReport]
MakeRecord = Callable[..., TrialRecord]
Reports = Mapping[str, Sequence[EpochReport]]


def curves_of(reports: Reports) -> pd.DataFrame:
    points = [(trial, point) for trial, found in reports.items() for report in found for point in report.points]
    rows = [{"trial": trial, **vars(point)} for trial, point in points]
    frame: pd.DataFrame = pa.Table.from_pylist(rows, schema=CURVES).to_pandas()
    return frame


def scores_of(records: Sequence[TrialRecord], reports: Reports) -> TrialScores:
    """Scores of trials given as reports of their epochs."""

    def read(task: str, split: str, wanted: Sequence[tuple[str, int]]) -> PredictedRows:
        parts = [predictions_of(reports[trial][epoch - 1], task, split) for trial, epoch in wanted]
        return PredictedRows(labels=parts[0].labels, logits=np.stack([part.logits for part in parts]))

    return read_scores(records, curves_of(reports), TASKS, read)


def predictions_of(report: EpochReport, task: str, split: str) -> Predictions:
    return next(part for part in report.predictions if (part.task, part.split) == (task, split))


def value_of(report: EpochReport, task: str, split: str) -> float:
    metric = TASKS[task].metric if task in TASKS else "overall"
    return next(p.value for p in report.points if (p.task, p.split, p.metric) == (task, split, metric))


def test_scores_are_those_of_the_best_epoch_and_failed_trials_have_none(
    make_report: MakeReport, make_record: MakeRecord
) -> None:
    reports = {f"{n:04d}-r0": [make_report(1, skill=0.2), make_report(2, skill=3.0, seed=n)] for n in range(3)}
    scores = scores_of([make_record(0), make_record(1, status="pruned"), make_record(2, status="failed")], reports)
    assert scores.epochs == {"0000-r0": 2, "0001-r0": 2}
    expected = {trial: value_of(reports[trial][1], *TOTAL) for trial in scores.epochs}
    assert scores.values[TOTAL] == pytest.approx(expected)
    assert set(scores.values) == {("sst", "dev"), ("sst", "train"), ("qqp", "dev"), ("sts", "dev"), TOTAL}


def test_total_covariance_is_that_of_the_tasks_that_count(make_report: MakeReport, make_record: MakeRecord) -> None:
    reports = {f"{n:04d}-r0": [make_report(1, seed=n)] for n in range(3)}
    scores, trials = scores_of([make_record(n) for n in range(3)], reports), ["0002-r0", "0000-r0"]
    parts = {}
    for task in ("sst", "sts"):
        own = [predictions_of(reports[trial][0], task, "dev") for trial in trials]
        parts[task], _ = score_covariance(TASKS[task], trials, np.stack([p.logits for p in own]), own[0].labels)
    found = scores.covariance(TOTAL, ("sst", "sts"), trials)
    np.testing.assert_allclose(found, parts["sst"] / 4 + parts["sts"] / 16)
    np.testing.assert_allclose(scores.covariance(("sts", "dev"), (), trials), parts["sts"])


def test_trainings_with_equal_losses_and_dev_scores_are_the_same(make_report: MakeReport) -> None:
    first, other = [make_report(1, seed=1), make_report(2, seed=2)], [make_report(1, seed=1), make_report(2, seed=3)]
    points = equal_points(curves_of({"a": first, "b": other, "c": first, "d": first[:1]}))
    assert points["b"] != points["a"] == points["c"] != points["d"]


def test_models_of_configurations_are_numbered_by_configuration_replicate_and_training(
    make_report: MakeReport, make_record: MakeRecord
) -> None:
    keys = [(1, 2), (4, 0), (4, 2)]
    reports = {f"{n:04d}-r{r}": [make_report(1, seed=n)] for n, r in keys}
    records = [make_record(*key) for key in keys]
    scores = scores_of(records, reports)
    models = scores.of_models(TOTAL, ("sst", "qqp", "sts"), group_by_configuration(records[::-1]))
    assert models.configurations.tolist() == [0, 1, 1]
    assert models.replicates.tolist() == [1, 0, 1]
    assert models.trainings.tolist() == [0, 1, 1]
    assert models.scores.tolist() == [scores.values[TOTAL][record.trial_id] for record in records]
    np.testing.assert_allclose(models.covariance[1], models.covariance[2])
