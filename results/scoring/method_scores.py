"""Cross-fitted scores of selection methods, and their differences from the baselines."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mtlib.tasks import Task
from results.analysis.comparison.bootstrap import Floats
from results.ensembles.best_k import choose_single
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Ensemble, ensemble_outputs, score_rows
from results.ensembles.selection_method import Choose, Settings
from results.records.selection import MethodScore
from results.scoring.base_configuration import BaseConfiguration
from results.scoring.cross_fitting import CrossFitted, bootstrap, cross_fit
from results.scoring.estimate import Estimate, estimate_score, simultaneous_quantile


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

    @cached_property
    def estimate(self) -> Estimate:
        """The cross-fitted score."""
        return estimate_score(self.fitted, self.resampled)


@dataclass(frozen=True, kw_only=True)
class ComparedMethod:
    """A selection method, what to expect of it, and its differences from the baselines."""

    method: EvaluatedMethod
    score: Estimate
    lead: Estimate
    """Over the best single candidate."""
    base_lead: Estimate | None
    """Over the base configuration; None where no candidate is of it."""


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
) -> EvaluatedMethod:
    """Scores a selection method by cross-fitting on all examples, and `chosen` of `kept`, its ensemble, in sample."""
    rows = np.arange(len(pool.labels))
    fitted = cross_fit(pool, method, settings, rows, num_repeats=num_repeats)
    in_sample = score_rows(kept, ensemble_outputs(kept, chosen, rows), rows)
    return evaluate_fitted(name, fitted, settings, in_sample=in_sample, num_models=len(chosen.members))


def evaluate_fitted(
    name: str, fitted: CrossFitted, settings: Settings, *, in_sample: float, num_models: int
) -> EvaluatedMethod:
    """Adds the bootstrap to cross-fitted values; the resamples are the same for all methods."""
    resampled = bootstrap(fitted, seed=settings.seed)
    return EvaluatedMethod(name=name, fitted=fitted, resampled=resampled, in_sample=in_sample, num_models=num_models)


def evaluate_base(pool: Pool, base: BaseConfiguration, settings: Settings, num_repeats: int) -> EvaluatedMethod | None:
    """Scores the best candidate of the base configuration; None where there is none."""
    own = pool.only([place for place, one in enumerate(pool.candidates) if (one.sweep, one.number) in base.places])
    if not own.candidates:
        return None
    chosen = choose_single(own, np.arange(len(pool.labels)), settings)
    return evaluate_method(base.name, choose_single, own, settings, num_repeats, chosen=chosen, kept=own)


def compare_with_baselines(method: EvaluatedMethod, baselines: Baselines) -> ComparedMethod:
    """The differences of a selection method from the baselines."""
    return ComparedMethod(
        method=method,
        score=method.estimate,
        lead=method.estimate - baselines.single.estimate,
        base_lead=None if baselines.base is None else method.estimate - baselines.base.estimate,
    )


def adjusted_scores(compared: Sequence[ComparedMethod]) -> tuple[MethodScore, ...]:
    """The scores of selection methods; the 95 % intervals of differences hold for all of them together."""
    leads = [lead for found in compared for lead in (found.lead, found.base_lead) if lead is not None]
    quantile = simultaneous_quantile(leads)
    return tuple(method_score(found, quantile) for found in compared)


def method_score(compared: ComparedMethod, quantile: float) -> MethodScore:
    """The scores of a selection method; intervals of differences are so many standard errors wide on both sides."""
    method, score, base_lead = compared.method, compared.score, compared.base_lead
    task = method.fitted.task
    return MethodScore(
        name=method.name,
        in_sample=method.in_sample,
        cross_fitted=clip_to_metric(task, (score.score, score.score))[0],
        standard_error=score.standard_error,
        interval=clip_to_metric(task, score.interval),
        num_models=method.num_models,
        mean_absolute_error=method.fitted.mean_absolute_error,
        lead=compared.lead.score,
        lead_interval=symmetric_interval(compared.lead, quantile),
        base_lead=None if base_lead is None else base_lead.score,
        base_lead_interval=() if base_lead is None else symmetric_interval(base_lead, quantile),
    )


def symmetric_interval(estimate: Estimate, quantile: float) -> tuple[float, float]:
    """So many standard errors on both sides."""
    margin = quantile * estimate.standard_error
    return estimate.score - margin, estimate.score + margin


def clip_to_metric(task: Task, bounds: tuple[float, float]) -> tuple[float, float]:
    """An interval of scores clipped to the range of the task's metric."""
    lowest, highest = task.metric_entry.bounds(task.label_range)
    low, high = (min(max(bound, lowest), highest) for bound in bounds)
    return low, high
