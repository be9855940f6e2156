"""How ways to choose have done: their scores, and their leads over those that they are compared with."""

from dataclasses import dataclass

import numpy as np

from mtlib.tasks import Task
from results.ensembles.base_configuration import ConfigurationKey, base_candidates
from results.ensembles.best_k import Method, Settings, choose_single
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Combine, Ensemble, ensemble_outputs, score_rows
from results.ensembles.methods import BASE
from results.ranking.bootstrap import Floats
from results.records.selection import MethodScore
from results.scoring.cross_fitting import CrossFitted, bootstrap, compare, cross_fit, interval, widened


@dataclass(frozen=True, kw_only=True)
class EvaluatedMethod:
    """One way to choose, scored."""

    name: str
    fitted: CrossFitted
    resampled: Floats
    """(resamples,)."""
    in_sample: float
    """Dev score of what it chooses from all of dev."""
    num_models: int
    """Members of that."""


@dataclass(frozen=True, kw_only=True)
class Baselines:
    """What every way to choose is compared with."""

    single: EvaluatedMethod
    """The best single candidate."""
    base: EvaluatedMethod | None = None
    """The base configuration; None where no candidate is of it."""


def evaluate_method(
    name: str,
    method: Method,
    pool: Pool,
    settings: Settings,
    num_repeats: int,
    *,
    chosen: Ensemble,
    kept: Pool,
    combine: Combine = ensemble_outputs,
) -> EvaluatedMethod:
    """Scores one way to choose by cross-fitting on all examples.

    Args:
        name: what it is called.
        method: the way.
        pool: what it chooses from when it is scored.
        settings: what it is told.
        num_repeats: of cross-fitting.
        chosen: what it chooses by all examples.
        kept: the pool that this is from.
        combine: gives the outputs of what was chosen.
    """
    rows = np.arange(len(pool.labels))
    fitted = cross_fit(pool, method, settings, rows, num_repeats=num_repeats, combine=combine)
    in_sample = score_rows(kept, combine(kept, chosen, rows), rows)
    return evaluate_fitted(name, fitted, settings, in_sample=in_sample, num_models=len(chosen.members))


def evaluate_fitted(
    name: str, fitted: CrossFitted, settings: Settings, *, in_sample: float, num_models: int
) -> EvaluatedMethod:
    """Resamples what has been cross-fitted: for all ways to choose alike."""
    resampled = bootstrap(fitted, seed=settings.seed)
    return EvaluatedMethod(name=name, fitted=fitted, resampled=resampled, in_sample=in_sample, num_models=num_models)


def evaluate_base(
    pool: Pool, base: frozenset[ConfigurationKey], settings: Settings, num_repeats: int
) -> EvaluatedMethod | None:
    """Scores the best candidate of the base configuration; None where there is none."""
    own = base_candidates(pool, base)
    if not own.candidates:
        return None
    chosen = choose_single(own, np.arange(len(pool.labels)), settings)
    return evaluate_method(BASE, choose_single, own, settings, num_repeats, chosen=chosen, kept=own)


def compare_with_baselines(tried: EvaluatedMethod, yardsticks: Baselines) -> MethodScore:
    """The scores of one way to choose, and its leads over the yardsticks."""
    score, error = tried.fitted.score, tried.fitted.standard_error
    lead, lead_interval = lead_over(tried, yardsticks.single)
    base_lead, base_interval = (None, ()) if yardsticks.base is None else lead_over(tried, yardsticks.base)
    return MethodScore(
        name=tried.name,
        in_sample=tried.in_sample,
        cross_fitted=score,
        standard_error=error,
        interval=clip_to_metric(tried.fitted.task, interval(widened(tried.resampled, score, error))),
        num_models=tried.num_models,
        lead=lead,
        lead_interval=lead_interval,
        base_lead=base_lead,
        base_lead_interval=base_interval,
    )


def clip_to_metric(task: Task, bounds: tuple[float, float]) -> tuple[float, float]:
    """The part of an interval that is within what the task's metric can be."""
    lowest = -1.0 if task.metric == "pearson" else 0.0
    low, high = (min(max(bound, lowest), 1.0) for bound in bounds)
    return low, high


def lead_over(tried: EvaluatedMethod, other: EvaluatedMethod) -> tuple[float, tuple[float, ...]]:
    """How much better one way is than another, cross-fitted, and the 95 % interval of that on the same resamples."""
    lead, error = compare(tried.fitted, other.fitted)
    return lead, interval(widened(tried.resampled - other.resampled, lead, error))
