"""Only finished trials with a score count; configurations and replicates are numbered without gaps."""

from collections.abc import Callable

import numpy as np

from results.analysis.comparison.score_covariance import ScoreCovariance
from results.analysis.effects.trained_models import trained_models
from results.records.trials import TrialRecord


def test_finished_trials_count_in_the_order_of_numbers(make_record: Callable[..., TrialRecord]) -> None:
    statuses = {(4, 2): "complete", (4, 0): "reused", (1, 2): "complete", (2, 0): "pruned", (3, 0): "failed"}
    records = [make_record(number, replicate, status) for (number, replicate), status in statuses.items()]
    records.append(make_record(5))  # without a score
    trials = [f"{number:04d}-r{replicate}" for number, replicate in statuses]
    values = dict(zip(trials, (0.1, 0.2, 0.3, 0.4, 0.5), strict=True))
    covariance = ScoreCovariance(trials=tuple(trials), matrix=np.arange(25.0).reshape(5, 5))
    found = trained_models(records, values, covariance, {"0001-r2": "a", "0004-r2": "a"})
    assert [record.number for record in found.records] == [1, 4]
    assert found.scores.configurations.tolist() == [0, 1, 1]
    assert found.scores.replicates.tolist() == [1, 0, 1]
    assert found.scores.scores.tolist() == [0.3, 0.2, 0.1]
    assert found.scores.trainings.tolist() == [0, 1, 0]
    assert found.scores.covariance.tolist() == [[12, 11, 10], [7, 6, 5], [2, 1, 0]]
