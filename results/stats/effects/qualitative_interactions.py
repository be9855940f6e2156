"""Whether a value is better than the base on one slice of a task's examples and worse on another.

The errors of slices are taken as independent. Trainings and groups that several slices share make them positively
correlated, which is safe; trainings that are better on one slice at the price of another would not be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from scipy import stats
from statsmodels.stats.multitest import multipletests

from results.records.trials import TrialRecord
from results.stats.configuration_means import ConfigurationMeans, configuration_means
from results.stats.effects.key_effects import grid_contrasts
from results.stats.effects.searched_keys import SearchedKey
from results.stats.error_spending import ERROR
from results.stats.margins import distributions_of
from results.stats.resampling import Floats
from results.stats.trial_scores import TrialScores


@dataclass(frozen=True, kw_only=True)
class QualitativeInteraction:
    """A value whose effect has different signs on slices."""

    key: str
    value: Any
    base: Any
    """What it is compared with."""
    task: str
    column: str
    """Of the slices."""
    better_on: str
    """The slice on which it is most surely better; of a significant one it is."""
    gain: float
    """Difference from the base there, in score."""
    worse_on: str
    loss: float
    """Likewise, below 0."""
    p_value: float
    """Of the hypothesis that no sign differs, adjusted over all values, columns of slices and tasks (Holm)."""


def qualitative_interactions(
    keys: Mapping[str, Sequence[SearchedKey]],
    groups: Mapping[str, Sequence[Sequence[TrialRecord]]],
    scores: TrialScores,
) -> list[QualitativeInteraction]:
    """Returns the significant ones of a grid at one look: all tests together make an error of 5 %.

    Args:
        keys: those with listed values, each with its base, by task.
        groups: the trials of each configuration that count at the look, by task.
        scores: of these trials.
    """
    found = [
        one
        for task, own in groups.items()
        for (column, means_of), key in product(means_by_column(task, own, scores).items(), keys[task])
        for one in of_key(key, task, column, [group[0].params for group in own], means_of)
    ]
    if not found:
        return []
    adjusted = multipletests([one.p_value for one in found], method="holm")[1]
    return [replace(one, p_value=float(p)) for one, p in zip(found, adjusted, strict=True) if p < ERROR]


def means_by_column(
    task: str, groups: Sequence[Sequence[TrialRecord]], scores: TrialScores
) -> dict[str, list[tuple[str, ConfigurationMeans]]]:
    """Returns the means of configurations, given as the trials of each, on the slices of a task on which they can be
    compared, with their values, by column; columns with fewer than two such slices are left out, and a task whose dev
    examples are in too few groups."""
    found: dict[str, list[tuple[str, ConfigurationMeans]]] = {}
    trials = [record.trial_id for group in groups for record in group]
    if not trials or task not in scores.slices or scores.few_groups([task]):
        return {}
    for sliced in scores.slices[task].scores_of(scores.places((task, "dev"), trials)):
        degrees = sliced.drawn.degrees_of_differences(np.arange(len(trials)))
        if degrees and np.isfinite(sliced.scores).all():
            models = scores.models(groups, scores=sliced.scores, covariance=sliced.covariance, degrees=degrees)
            found.setdefault(sliced.column, []).append((sliced.value, configuration_means(models)))
    return {
        column: own for column, own in found.items() if len(own) > 1 and all(means.can_be_compared for _, means in own)
    }


def of_key(
    key: SearchedKey,
    task: str,
    column: str,
    params: Sequence[Mapping[str, Any]],
    means_of: Sequence[tuple[str, ConfigurationMeans]],
) -> list[QualitativeInteraction]:
    """Returns the test of each value of a key on the slices of a column, with p-values that are not adjusted.

    Args:
        key: with its base.
        task, column: of the slices.
        params: of each configuration.
        means_of: of the configurations on each slice, with its value.
    """
    differences = grid_contrasts(key, params, means_of[0][1]).differences
    if not differences:
        return []
    sizes, normal = [], []  # (slices, values)
    for _, means in means_of:
        own = means.of_distinct(np.stack(list(differences.values())))
        sizes.append(own @ (means.weights @ means.scores.scores))
        normal.append(distributions_of(means, own).normal_scores(sizes[-1][None])[0])
    names, found = [name for name, _ in means_of], []
    for value, size, score in zip(differences, np.transpose(sizes), np.transpose(normal), strict=True):
        best, worst = int(score.argmax()), int(score.argmin())
        found.append(
            QualitativeInteraction(
                key=key.name,
                value=value,
                base=key.base,
                task=task,
                column=column,
                better_on=names[best],
                gain=float(size[best]),
                worse_on=names[worst],
                loss=float(size[worst]),
                p_value=gail_and_simon(score),
            )
        )
    return found


def gail_and_simon(normal: Floats) -> float:
    """Returns the p-value of the hypothesis that no two of several effects have different signs.

    Args:
        normal: (effects,) of independent estimates, each divided by its standard error.

    Source: Gail and Simon (1985), "Testing for qualitative interactions between treatment effects and patient subsets".
    """
    statistic = min(float((normal[normal > 0] ** 2).sum()), float((normal[normal < 0] ** 2).sum()))
    if statistic == 0:
        return 1.0
    counts = np.arange(1, len(normal))
    return float(stats.binom.pmf(counts, len(normal) - 1, 0.5) @ stats.chi2.sf(statistic, counts))
