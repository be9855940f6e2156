"""The scores of selection methods, and their leads over the best single model and over the base configuration."""

from collections.abc import Mapping

import numpy as np
from scipy.stats import norm, t

from results.ensembles.methods import SINGLE
from results.records.selection import MethodScore
from results.selection.cross_fitting import ZERO_SPREAD, CrossFitted, bootstrap, total_error, widened
from results.stats.resampling import CONFIDENCE, Floats, percentile_interval


def method_scores(
    fitted: Mapping[str, CrossFitted],
    in_sample: Mapping[str, float],
    num_models: Mapping[str, int],
    *,
    base: str | None,
    seed: int,
) -> dict[str, MethodScore]:
    """Returns the scores of selection methods, by name; the 95 % intervals of all leads hold together.

    Args:
        fitted: cross-fitted on the same examples and folds, by name; `SINGLE` is one of them.
        in_sample: dev score of what each chooses from all of dev.
        num_models: members of that.
        base: the name under which the base configuration is listed; None where no candidate has it.
        seed: of the bootstrap, whose resamples are the same for all methods.
    """
    resampled = {name: bootstrap(own, seed=seed) for name, own in fitted.items()}
    references = [SINGLE] if base is None else [SINGLE, base]
    differences = [resampled[name] - resampled[other] for other in references for name in fitted]
    quantile = simultaneous_quantile(np.stack(differences))
    found = {}
    for name, own in fitted.items():
        bounds = own.task.metric_entry.bounds(own.task.label_range)
        score, error = float(own.scores.mean()), own.standard_error
        leads = [paired_difference(own, fitted[other])[0] for other in references]
        intervals = [lead_interval(own, fitted[other], quantile) for other in references]
        found[name] = MethodScore(
            name=name,
            in_sample=in_sample[name],
            cross_fitted=float(np.clip(score, *bounds)),
            standard_error=error,
            interval=fitted_interval(own, resampled[name]),
            num_models=num_models[name],
            mean_absolute_error=own.mean_absolute_error,
            lead=leads[0],
            lead_interval=intervals[0],
            base_lead=None if base is None else leads[1],
            base_lead_interval=() if base is None else intervals[1],
        )
    return found


def fitted_interval(fitted: CrossFitted, resampled: Floats) -> tuple[float, ...]:
    """Returns low and high of the 95 % interval of a score, within the bounds of its metric; nothing where examples are
    in too few groups."""
    degrees, bounds = fitted.degrees_over(), fitted.task.metric_entry.bounds(fitted.task.label_range)
    if not degrees:
        return ()
    around = widened(resampled, float(fitted.scores.mean()), fitted.standard_error)
    return tuple(np.clip(percentile_interval(around, degrees), *bounds).tolist())


def lead_interval(first: CrossFitted, second: CrossFitted, quantile: float) -> tuple[float, ...]:
    """Returns low and high of the interval of a difference of scores; nothing where examples are in too few groups.

    Args:
        first, second: of the same examples and folds.
        quantile: of normal errors; with few groups the one of a t distribution with the same tail probability counts.
    """
    degrees, (lead, error) = first.degrees_over(second), paired_difference(first, second)
    if not degrees:
        return ()
    half = error * (quantile if np.isinf(degrees) else float(t.isf(norm.sf(quantile), degrees)))
    return lead - half, lead + half


def paired_difference(first: CrossFitted, second: CrossFitted) -> tuple[float, float]:
    """Returns the difference of two scores of the same examples and folds, and its standard error, which is paired."""
    differences = first.scores - second.scores
    return float(differences.mean()), total_error(first.influences - second.influences, differences)


def simultaneous_quantile(resampled: Floats) -> float:
    """By how many standard errors one of several estimates is off at most, with a probability of 95 %.

    It is the quantile over resamples of the largest deviation from the mean, in standard deviations, and not below that
    of a single normal variable. Estimates that no resample changes do not count.

    Args:
        resampled: (estimates, resamples).

    Source: Romano and Wolf (2005), "Exact and approximate stepdown methods for multiple hypothesis testing", section
    4.2, without the steps.
    """
    single = float(norm.ppf((1 + CONFIDENCE) / 2))
    spread = resampled.std(axis=1, ddof=1, keepdims=True)
    varied = (spread > ZERO_SPREAD)[:, 0]
    if not varied.any():
        return single
    deviations = np.abs(resampled - resampled.mean(axis=1, keepdims=True))[varied] / spread[varied]
    return max(single, float(np.quantile(deviations.max(axis=0), CONFIDENCE)))
