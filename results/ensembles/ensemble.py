"""An ensemble of candidates: members, weights, outputs and score."""

from dataclasses import dataclass

import numpy as np

from results.ensembles.candidates import Pool
from results.ensembles.outputs import Outputs, values_of
from results.stats.resampling import Floats, Numbers, score_examples


@dataclass(frozen=True, kw_only=True)
class Ensemble:
    """Members of a pool and how they are averaged."""

    members: tuple[int, ...]
    """Numbers of candidates in the pool, each once."""
    weights: tuple[float, ...]
    """By member; not negative, their sum is 1."""

    def __post_init__(self) -> None:
        assert len(self.members) == len(self.weights) == len(set(self.members)) > 0
        assert min(self.weights) >= 0
        assert abs(sum(self.weights) - 1) < 1e-6


def equal_ensemble(members: Numbers) -> Ensemble:
    """Returns the plain mean of some candidates."""
    return Ensemble(members=tuple(members.tolist()), weights=(1 / len(members),) * len(members))


def weighted_ensemble(members: Numbers, weights: Floats, max_models: int) -> Ensemble:
    """Returns the members with the largest weights, at most so many, in the order of their weights;
    at least one weight > 0."""
    order = np.argsort(-weights, kind="stable")[:max_models]
    order = order[weights[order] > 0]
    shares = weights[order] / weights[order].sum()
    return Ensemble(members=tuple(members[order].tolist()), weights=tuple(shares.tolist()))


def ensemble_outputs(pool: Pool, ensemble: Ensemble, rows: Numbers) -> Floats:
    """Returns an ensemble's outputs for some rows, (rows, width): the mean of its members'."""
    outputs = pool.outputs[np.array(ensemble.members)][:, rows].astype(np.float64)
    return combine_outputs(outputs, ensemble)


def combine_outputs(outputs: Floats, ensemble: Ensemble) -> Floats:
    """Averages its members' outputs, (members, rows, width) -> (rows, width).

    As weights sum to 1, the mean absolute error of a regression's mean prediction is at most the weighted mean of the
    members' errors.
    """
    return np.asarray(np.tensordot(np.array(ensemble.weights), outputs, axes=1))


def score_rows(pool: Pool, outputs: Floats | Outputs, rows: Numbers) -> float:
    """Returns the task's main metric of outputs for some rows, (rows, width)."""
    labels = pool.labels[rows]
    return float(score_examples(pool.task, values_of(pool.task, outputs, labels)[None], labels)[0])
