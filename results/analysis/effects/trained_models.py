"""The trials that effects are estimated from: their configurations, replicates, scores and covariance over examples.

Only completed trials count: a pruned one was stopped because of its score, others have not ended.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from results.analysis.comparison.configuration_means import ModelScores
from results.analysis.comparison.score_covariance import ScoreCovariance
from results.analysis.comparison.trial_scores import number_trainings
from results.records.trials import COMPLETED, TrialRecord


@dataclass(frozen=True, kw_only=True)
class TrainedModels:
    """Trials of one sweep with a score in one column, all with the same tasks."""

    records: tuple[TrialRecord, ...]
    """One of each configuration, in the order of the numbers in `scores.configurations`."""
    scores: ModelScores


def trained_models(
    records: Sequence[TrialRecord],
    values: Mapping[str, float],
    covariance: ScoreCovariance,
    trainings: Mapping[str, Hashable],
) -> TrainedModels:
    """The completed trials that have a score.

    Args:
        records: trials of a sweep.
        values: score by trial.
        covariance: of these trials' scores.
        trainings: by trial, as in `TrialScores`.
    """
    counted = [record for record in records if record.status in COMPLETED and record.trial_id in values]
    counted.sort(key=lambda record: (record.number, record.replicate))
    trials = [record.trial_id for record in counted]
    numbers = [record.number for record in counted]
    _, firsts, configurations = np.unique(numbers, return_index=True, return_inverse=True)
    return TrainedModels(
        records=tuple(counted[first] for first in firsts),
        scores=ModelScores(
            configurations=configurations,
            replicates=np.unique([record.replicate for record in counted], return_inverse=True)[1],
            scores=np.array([values[trial] for trial in trials]),
            covariance=covariance.between(trials),
            trainings=number_trainings(trials, trainings),
        ),
    )
