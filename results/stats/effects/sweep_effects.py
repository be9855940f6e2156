"""The effects of everything that a sweep searched, on every task and overall."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mtlib.runtime.storage import Location
from mtlib.tasks import Task, title_of, value_of
from results.records.expected_trials import status_counts
from results.records.race import RaceRecord, claim_of
from results.records.replicated_best import replicated_best
from results.records.trials import COMPLETED, OVERALL, TrialRecord
from results.stats.configuration_means import ConfigurationMeans, configuration_means
from results.stats.effects.interactions import Interaction, find_interactions
from results.stats.effects.key_effects import (
    Trend,
    ValueEffect,
    find_trend,
    grid_contrasts,
    key_effects,
    value_margins,
    with_earlier,
)
from results.stats.effects.qualitative_interactions import QualitativeInteraction, qualitative_interactions
from results.stats.effects.range_effect import RangeEffect, choice_contrasts, fit_keys, range_effect
from results.stats.effects.searched_keys import NO_VALUE, SearchedKey, searched_keys, with_bases
from results.stats.error_spending import Look
from results.stats.groups import DrawnGroups
from results.stats.looks import Looks, look_after, looks_at
from results.stats.power import Precision, precision_of
from results.stats.texts import value_text
from results.stats.trial_scores import TOKEN_COUNT, TOTAL, Amounts, TrialScores, group_by_configuration
from search_spaces.claim import Claim


@dataclass(frozen=True, kw_only=True)
class ColumnEffects:
    """Effects on one score."""

    task: str
    """A task, or `overall`."""
    tasks: Mapping[str, Task]
    """The definitions of the sweep's tasks."""
    num_configurations: int
    num_distinct: int
    """Configurations, where those that trained the same count once."""
    num_trials: int
    num_replicates: tuple[int, int]
    """Fewest and most of a configuration."""
    is_known: bool
    """Whether both variances are known: of training from replicates, or from the scatter around the fit of a search."""
    few_groups: Mapping[str, DrawnGroups] = field(default_factory=dict)
    """By title the tasks whose dev examples are in too few groups for any difference to be claimed."""
    values: Mapping[str, Sequence[ValueEffect]] = field(default_factory=dict)
    """By key with listed values."""
    trends: Mapping[str, Trend] = field(default_factory=dict)
    """By key of a grid, of those that show one."""
    curves: Mapping[str, RangeEffect] = field(default_factory=dict)
    """By key with a range."""
    precisions: Mapping[str, Precision | None] = field(default_factory=dict)
    """By key of a grid; None where no value was compared with the base, or as `precision_of`."""
    interactions: Sequence[Interaction] = ()
    keys: Mapping[str, SearchedKey] = field(default_factory=dict)
    """By name the keys with listed values, each with the value as its base that others are compared with in this score.
    """

    def key_of(self, key: SearchedKey) -> SearchedKey:
        """Returns the key as one of `keys`, or as it is."""
        return self.keys.get(key.name, key)

    @property
    def title(self) -> str:
        """The title of the task; `overall` stays."""
        return title_of(self.task, self.tasks)

    @property
    def measure(self) -> str:
        """What is better or worse, in a sentence: `overall`, or `in accuracy on SST`."""
        if self.task == OVERALL:
            return OVERALL
        return f"in {self.tasks[self.task].metric_entry.title} on {self.title}"

    @property
    def has_unbounded(self) -> bool:
        """Whether the score is, or holds, an error, which may be larger than 1."""
        counted = self.tasks if self.task == OVERALL else [self.task]
        return any(self.tasks[task].metric_entry.lower_is_better for task in counted)

    def value_of(self, score: float) -> float:
        """Returns the value, as it is shown, of a score or of a difference of scores."""
        return value_of(self.task, score, self.tasks)

    def bounds_of(self, bounds: Sequence[float]) -> tuple[float, float]:
        """Low and high of an interval of scores, or of differences, as values."""
        low, high = sorted(map(self.value_of, bounds))
        return low, high

    def bounds_text(self, bounds: Sequence[float]) -> str:
        """Returns the interval of a difference as it is shown: `-0.006 to +0.014`."""
        low, high = self.bounds_of(bounds)
        return f"{low:+.3f} to {high:+.3f}"

    def with_earlier(self, earlier: "ColumnEffects") -> "ColumnEffects":
        """Returns these effects of a grid with what an earlier look has shown, which holds with the present one."""
        p_values = {pair.keys: pair.p_value for pair in earlier.interactions}
        return replace(
            self,
            values={name: with_earlier(own, earlier.values.get(name, ())) for name, own in self.values.items()},
            trends={**earlier.trends, **self.trends},
            interactions=[
                replace(pair, p_value=min(pair.p_value, p_values.get(pair.keys, 1.0))) for pair in self.interactions
            ],
        )


@dataclass(frozen=True, kw_only=True)
class SweepEffects:
    """Effects of the searched keys."""

    path: Location
    """The folder of the sweep, or its URI."""
    question: str
    metric: str
    """The score that the search maximised."""
    search: str
    keys: Sequence[SearchedKey]
    columns: Mapping[str, ColumnEffects]
    """By task, the overall score last; only scores that at least two configurations have, and no overall scores of
    different tasks."""
    left_out: Mapping[str, int]
    """Number of trials that do not count, by status; those that are not on record yet are queued."""
    num_early: int = 0
    """Finished trials of a grid that do not count yet, as not all configurations have as many replicates."""
    race: RaceRecord = field(default_factory=RaceRecord)
    """What was decided after rounds of replicates; nothing of a sweep that is no race."""
    num_dropped: int = 0
    """Finished configurations that were not among the best, which alone were trained again."""
    qualitative: Sequence[QualitativeInteraction] = ()
    """Values of a grid that at the declared look are better on one slice of dev and worse on another."""
    claim: Claim | None = None
    """What the sweep checks, where it checks a claim."""
    has_different_tasks: bool = False
    """Whether finished configurations were trained on different tasks, so that overall scores are not compared."""
    counted: frozenset[str] = frozenset()
    """The trials that count in some score."""
    amounts: Mapping[tuple[str, ...], Amounts] = field(default_factory=dict)
    """How much was trained of each task, the mean over trials, by the tasks that they were trained on."""

    @property
    def base_text(self) -> str:
        """The values that differences are from, e.g. `the base value (smart.weight 0)`."""
        found: dict[str, list[str]] = {}
        for key in self.keys:
            if key.range is None:
                base = "" if key.base is NO_VALUE else f" {value_text(key.base)}"
                found.setdefault(key.base_title, []).append(key.name + base)
        return " and ".join(f"the {title} ({', '.join(values)})" for title, values in found.items())

    @property
    def compared(self) -> list[ColumnEffects]:
        """The score that the search maximised, or each task's where overall scores are not compared; empty: no effects
        of these could be estimated."""
        if self.metric == OVERALL and self.has_different_tasks:
            return list(self.columns.values())
        return [self.columns[self.metric]] if self.metric in self.columns else []

    @property
    def why_none(self) -> str:
        """Why nothing is compared; where something is, why the score that the search maximised is not."""
        if self.metric != OVERALL or not self.has_different_tasks:
            return "fewer than two finished configurations have a score"
        different = "configurations were trained on different tasks, so overall scores are not compared"
        return different if self.columns else f"{different}, and no task has the scores of two"


def sweep_effects(
    path: Location,
    info: Mapping[str, Any],
    records: Sequence[TrialRecord],
    scores: TrialScores,
    bases: Mapping[str, Any] | None = None,
) -> SweepEffects:
    """Estimates the effects of a sweep's keys. Only finished trials count, and of a grid only complete rounds.

    If only the best configurations were trained again, those of a grid are compared with each other alone. A curve is
    fitted to the trainings that all configurations have.

    Args:
        path: folder of the sweep, or its URI.
        info: the content of `sweep.json`.
        records: its trials.
        scores: of these trials.
        bases: other base values, as in `with_bases`; None for those of the sweep.

    Raises:
        ValueError: as `searched_keys` and `with_bases`.
    """
    looks = looks_at(info, records)
    ended = [record for record in records if record.status in COMPLETED]
    finished = [record for record in ended if looks.has(record.number, record.replicate)]
    counted, best = finished, replicated_best(info, records)
    is_grid = info.get("search") == "grid"
    if best is not None:
        counted = [r for r in finished if (r.number in best if is_grid else r.replicate < info["options"]["chosen_by"])]
    keys, search = with_bases(searched_keys(info, counted), bases or {}), info["search"]
    keys.sort(key=lambda key: key.name)  # what is said does not depend on the order of typing
    scored = {task: [r for r in counted if r.trial_id in scores.values.get((task, "dev"), {})] for task in scores.tasks}
    tasks = [task for task in scores.tasks if scored[task]]
    scored[OVERALL] = [r for r in counted if r.trial_id in scores.values.get(TOTAL, {})]
    has_different_tasks = any(scored[task] != scored[OVERALL] for task in tasks)
    columns = {}
    for task in tasks if has_different_tasks else [*tasks, OVERALL]:
        groups = group_by_configuration(scored[task])
        if len(groups) > 1:
            columns[task] = column_effects(task, tasks, keys, groups, scores, looks, is_grid=is_grid)
    return SweepEffects(
        path=path,
        question=info["space"]["question"],
        metric=info["space"]["metric"],
        search=search,
        keys=keys,
        columns=columns,
        left_out={name: count for name, count in status_counts(info, records).items() if name not in COMPLETED},
        num_early=len(ended) - len(finished),
        race=looks.race,
        qualitative=at_declared_look(columns, scored, scores, looks) if is_grid else (),
        claim=claim_of(info),
        num_dropped=0 if best is None else len({record.number for record in finished} - best),
        has_different_tasks=has_different_tasks,
        counted=frozenset(record.trial_id for record in counted),
        amounts=amounts_by_tasks(counted, scores),
    )


def at_declared_look(
    columns: Mapping[str, ColumnEffects],
    scored: Mapping[str, Sequence[TrialRecord]],
    scores: TrialScores,
    looks: Looks,
) -> list[QualitativeInteraction]:
    """Returns the qualitative interactions of a grid's keys with slices, by the trials of the declared look; none
    before it, and none in a race, which declares no look.

    Args:
        columns: effects by task.
        scored: the trials that count, by task.
        scores: of these trials.
        looks: at the sweep.
    """
    if looks.declared is None or looks.num_rounds < looks.declared:
        return []
    look, tasks = look_after(looks.declared, looks.declared), [task for task in columns if task in scores.slices]
    counted = {task: [own for own in scored[task] if looks.has(own.number, own.replicate, look)] for task in tasks}
    keys = {task: list(columns[task].keys.values()) for task in tasks}
    return qualitative_interactions(keys, {task: group_by_configuration(counted[task]) for task in tasks}, scores)


def amounts_by_tasks(records: Sequence[TrialRecord], scores: TrialScores) -> dict[tuple[str, ...], Amounts]:
    """Returns how much was trained of each task, the mean over trials, by the tasks of the trials, few first."""
    groups: dict[tuple[str, ...], list[Amounts]] = {}
    for record in records:
        own = scores.amounts.get(record.trial_id, {})
        groups.setdefault(tuple(task for task in scores.tasks if (task, TOKEN_COUNT) in own), []).append(own)
    return {
        names: {  # trials that began before steps were recorded lack them
            key: float(np.mean([own[key] for own in groups[names]]))
            for key in set[tuple[str, str]].intersection(*map(set, groups[names]))
        }
        for names in sorted(groups, key=lambda names: (len(names), names))
    }


def column_effects(
    task: str,
    counted: Sequence[str],
    keys: Sequence[SearchedKey],
    groups: Sequence[Sequence[TrialRecord]],
    scores: TrialScores,
    looks: Looks,
    *,
    is_grid: bool,
) -> ColumnEffects:
    """Returns the effects on one score.

    Args:
        task: a task, or `overall`.
        counted: the tasks that the overall score counts.
        keys: all that were searched.
        groups: the trials of each configuration.
        scores: of these trials.
        looks: at the sweep.
        is_grid: whether it searches a grid: a race between the best of a search has rounds, too, and still curves.
    """
    params, models = [group[0].params for group in groups], scores.of_models((task, "dev"), counted, groups)
    means = configuration_means(models)
    varied = [key for key in keys if len({key.value_of(own) for own in params}) > 1]
    column = ColumnEffects(
        task=task,
        tasks=scores.tasks,
        num_configurations=len(params),
        num_distinct=len(means.weights),
        num_trials=len(models.scores),
        num_replicates=(int(means.num_models.min()), int(means.num_models.max())),
        is_known=means.can_be_compared,
        few_groups=scores.few_groups(counted if task == OVERALL else [task]),
    )
    if is_grid:
        column = with_grid(column, varied, params, means, looks.now)
        for look in looks.kept[:-1]:
            before = [
                [record for record in group if looks.has(record.number, record.replicate, look)] for group in groups
            ]
            before = [group for group in before if group]
            own = configuration_means(scores.of_models((task, "dev"), counted, before))
            keys_now = list(column.keys.values())
            column = column.with_earlier(with_grid(column, keys_now, [group[0].params for group in before], own, look))
        return column
    fit = fit_keys(varied, means, params)
    if fit is None or column.few_groups:
        return replace(column, is_known=False)
    choices = {key.name: choice_contrasts(key, fit, params) for key in varied if not key.range}
    return replace(
        column,
        is_known=fit.means.can_be_compared,
        values={name: key_effects(own, fit.means, looks.now) for name, own in choices.items()},
        curves={key.name: range_effect(key, fit, looks.now) for key in varied if key.range},
        keys={name: own.key for name, own in choices.items()},
    )


def with_grid(
    column: ColumnEffects,
    keys: Sequence[SearchedKey],
    params: Sequence[Mapping[str, Any]],
    means: ConfigurationMeans,
    look: Look,
) -> ColumnEffects:
    """Returns a score with the effects of a grid's keys at a look."""
    contrasts = {key.name: grid_contrasts(key, params, means) for key in keys}
    margins = {name: value_margins(own, means, look) for name, own in contrasts.items()}
    values = {name: key_effects(own, means, look, margins[name]) for name, own in contrasts.items()}
    trends = {key.name: find_trend(key, params, means, look) for key in keys}
    return replace(
        column,
        values=values,
        trends={name: trend for name, trend in trends.items() if trend},
        precisions={
            name: None if own is None else precision_of(means, own, list(contrasts[name].differences))
            for name, own in margins.items()
        },
        interactions=find_interactions(keys, means, params, look),
        keys={name: own.key for name, own in contrasts.items()},
    )
