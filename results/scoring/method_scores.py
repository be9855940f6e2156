"""Cross-fitted scores of selection methods, and their differences to the baselines."""

from dataclasses import dataclass

import numpy as np

from mtlib.tasks import Task
from results.comparison.bootstrap import Floats
from results.ensembles.best_k import choose_single
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Combine, Ensemble, ensemble_outputs, score_rows
from results.ensembles.methods import BASE
from results.ensembles.selection_method import Choose, Settings
from results.records.selection import MethodScore
from results.scoring.base_configuration import ConfigurationKey
from results.scoring.cross_fitting import CrossFitted, bootstrap, compare, cross_fit, interval, widened


@dataclass(frozen=True, kw_only=True)
class EvaluatedMethod:
    """A cross-fitted selection method."""

    name: str
    fitted: CrossFitted
    resampled: Floats
    """(resamples,)."""
    in_sample: float
    """Dev score of the ensemble that it chooses by all of dev."""
    num_models: int
    """Members of that ensemble."""


@dataclass(frozen=True, kw_only=True)
class Baselines:
    """What every selection method is compared with."""

    single: EvaluatedMethod
    """The best single candidate."""
    base: EvaluatedMethod | None = None
    """The base configuration; None where no candidate is of it."""


def evaluate_method(
    name: str,
    method: Choose,
    pool: Pool,
    settings: Settings,
    num_repeats: int,
    *,
    chosen: Ensemble,
    kept: Pool,
    combine: Combine = ensemble_outputs,
) -> EvaluatedMethod:
    """Scores a selection method by cross-fitting on all examples, and `chosen` of `kept`, its ensemble, in sample."""
    rows = np.arange(len(pool.labels))
    fitted = cross_fit(pool, method, settings, rows, num_repeats=num_repeats, combine=combine)
    in_sample = score_rows(kept, combine(kept, chosen, rows), rows)
    return evaluate_fitted(name, fitted, settings, in_sample=in_sample, num_models=len(chosen.members))


def evaluate_fitted(
    name: str, fitted: CrossFitted, settings: Settings, *, in_sample: float, num_models: int
) -> EvaluatedMethod:
    """Adds the bootstrap to cross-fitted values; the resamples are the same for all methods."""
    resampled = bootstrap(fitted, seed=settings.seed)
    return EvaluatedMethod(name=name, fitted=fitted, resampled=resampled, in_sample=in_sample, num_models=num_models)


def evaluate_base(
    pool: Pool, base: frozenset[ConfigurationKey], settings: Settings, num_repeats: int
) -> EvaluatedMethod | None:
    """Scores the best candidate of the base configuration; None where there is none."""
    own = pool.only([place for place, one in enumerate(pool.candidates) if (one.sweep, one.number) in base])
    if not own.candidates:
        return None
    chosen = choose_single(own, np.arange(len(pool.labels)), settings)
    return evaluate_method(BASE, choose_single, own, settings, num_repeats, chosen=chosen, kept=own)


def compare_with_baselines(method: EvaluatedMethod, baselines: Baselines) -> MethodScore:
    """The scores of a selection method, and its differences to the baselines."""
    score, error = method.fitted.score, method.fitted.standard_error
    lead, lead_interval = lead_over(method, baselines.single)
    base_lead, base_interval = (None, ()) if baselines.base is None else lead_over(method, baselines.base)
    return MethodScore(
        name=method.name,
        in_sample=method.in_sample,
        cross_fitted=score,
        standard_error=error,
        interval=clip_to_metric(method.fitted.task, interval(widened(method.resampled, score, error))),
        num_models=method.num_models,
        lead=lead,
        lead_interval=lead_interval,
        base_lead=base_lead,
        base_lead_interval=base_interval,
    )


def clip_to_metric(task: Task, bounds: tuple[float, float]) -> tuple[float, float]:
    """An interval clipped to the range of the task's metric."""
    lowest = -1.0 if task.metric == "pearson" else 0.0
    low, high = (min(max(bound, lowest), 1.0) for bound in bounds)
    return low, high


def lead_over(method: EvaluatedMethod, other: EvaluatedMethod) -> tuple[float, tuple[float, ...]]:
    """The cross-fitted difference of two methods, and its 95 % interval on the same resamples."""
    lead, error = compare(method.fitted, other.fitted)
    return lead, interval(widened(method.resampled - other.resampled, lead, error))
