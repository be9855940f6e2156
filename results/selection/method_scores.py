"""Cross-fitted scores of selection methods, and their differences from the baselines."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mtlib.tasks import Task
from results.ensembles.best_k import choose_single
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Ensemble, ensemble_outputs, score_rows
from results.ensembles.selection_method import Choose, Settings
from results.records.selection import MethodScore
from results.selection.base_configuration import BaseConfiguration
from results.selection.cross_fitting import (
    CrossFitted,
    Estimate,
    bootstrap,
    cross_fit,
    estimate_score,
    simultaneous_quantile,
)
from results.stats.resampling import Floats


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


def method_scores(
    evaluated: Sequence[EvaluatedMethod], single: EvaluatedMethod, base: EvaluatedMethod | None
) -> tuple[MethodScore, ...]:
    """The scores of selection methods, and their leads over the best single candidate and over the base configuration.

    The 95 % intervals of all leads hold together. `base` is None where no candidate is of the base configuration.
    """
    leads = [method.estimate - single.estimate for method in evaluated]
    base_leads = [None if base is None else method.estimate - base.estimate for method in evaluated]
    quantile = simultaneous_quantile([*leads, *(lead for lead in base_leads if lead is not None)])
    return tuple(
        MethodScore(
            name=method.name,
            in_sample=method.in_sample,
            cross_fitted=clip_to_metric(method.fitted.task, (method.estimate.score,) * 2)[0],
            standard_error=method.estimate.standard_error,
            interval=clip_to_metric(method.fitted.task, method.estimate.interval),
            num_models=method.num_models,
            mean_absolute_error=method.fitted.mean_absolute_error,
            lead=lead.score,
            lead_interval=symmetric_interval(lead, quantile),
            base_lead=None if base_lead is None else base_lead.score,
            base_lead_interval=() if base_lead is None else symmetric_interval(base_lead, quantile),
        )
        for method, lead, base_lead in zip(evaluated, leads, base_leads, strict=True)
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
