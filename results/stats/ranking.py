"""Ranks the configurations of a sweep by their overall score, and marks those that may be the best.

Which configuration is best is a question about training again and about other examples: both variances are in the
margin by which a row must be below the best one (`results.stats.margins`). It holds for all rows at once, and for all
looks at the sweep: what was shown not to be the best at the declared look stays so.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from mtlib.tasks import Task, in_order, value_of
from results.records.trials import COMPLETED, OVERALL, TrialRecord
from results.stats.configuration_means import configuration_means
from results.stats.error_spending import Look
from results.stats.groups import DrawnGroups
from results.stats.looks import Looks
from results.stats.margins import best_set
from results.stats.resampling import replicate_error
from results.stats.texts import frame_value
from results.stats.trial_scores import TOTAL, Column, TrialScores, group_by_configuration

FRAME_TYPES = {
    "number": "int64",
    "best_epoch": "float64",
    "below_best": "float64",
    "margin": "float64",
    "may_be_best": "bool",
    "decided_at": "Int64",
    "was_dropped": "bool",
    "status": "string",
    "trials": "string",
    "collapsed": "string",
    "failures": "string",
}
"""Columns of the frame, besides the searched keys and the scores."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """A score and its standard errors."""

    value: float
    """Mean over replicates, without the effects of replicates where some configurations lack one."""
    example_error: float
    """Standard error over examples."""
    replicate_error: float | None
    """Standard error over replicates; None where there is one only."""


@dataclass(frozen=True, kw_only=True)
class RankedConfiguration:
    """One configuration, all its replicates together."""

    number: int
    params: Mapping[str, Any]
    status: str
    """The statuses of its trials, as they are shown: `complete`, or where they differ `complete 2, failed 1`."""
    is_finished: bool
    """Whether some trial of it has completed; then only completed ones count."""
    trials: tuple[str, ...]
    """Replicates with an overall score: the completed ones of complete rounds, or if there are none, all completed
    ones; or if there are none of these either, those that have not failed."""
    scores: Mapping[Column, Score]
    """At each trial's best overall epoch, `TOTAL` among them; empty where no trial counts."""
    best_epoch: float | None
    """Epoch of the highest overall score, from 1; mean over replicates."""
    below_best: float | None = None
    """How far its mean overall score is below the best one of the same tasks; None if no trial of it has completed or
    there is nothing to compare."""
    margin: float | None = None
    """How far it must be below, so that some row is shown to be better than it (95 %, all rows and all looks at once);
    None where this is not known, because training was not repeated or examples are in too few groups."""
    decided_at: int | None = None
    """Replicates, or trainings of a search, after which it was shown not to be the best; None if it may be."""
    few_groups: Mapping[str, DrawnGroups] = field(default_factory=dict)
    """By title the tasks whose dev examples are in too few groups for any difference to be claimed."""
    was_dropped: bool = False
    """Whether it was not among the best, which alone were trained again: it is not compared with them."""
    collapsed: tuple[str, ...] = ()
    """Those of `trials` that give nearly all dev rows of some task one prediction, unlike others of them."""
    failures: tuple[str, ...]
    """`<trial>: <reason>` of each trial that failed."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks with a dev score: totals can be compared only where these are the same."""
        return in_order({task for task, split in self.scores if split == "dev" and task != OVERALL})

    @property
    def may_be_best(self) -> bool:
        """Whether it has finished, and no other configuration of the same tasks was shown to be better."""
        return bool(self.scores) and self.is_finished and self.decided_at is None


def rank(
    records: Sequence[TrialRecord], scores: TrialScores, looks: Looks, best: Set[int] | None = None
) -> list[RankedConfiguration]:
    """Ranks configurations, best first; those without an overall score follow in the order of their numbers.

    Overall scores of different tasks are not comparable: configurations with the most tasks come first, those with the
    same tasks stay together, and each is compared with the first of its own. If only the `best` were trained again,
    the others follow them and are not compared; nor are those that have not finished, which come last. Trials that do
    not count at the last of the `looks` have no part in the scores, so that these are what the comparisons say.
    """
    rows = [rank_one(group, scores, looks) for group in group_by_configuration(records)]
    rows = [replace(row, was_dropped=best is not None and row.number not in best) for row in rows]
    rows.sort(key=lambda row: (*comparison_group(row), -row.scores[TOTAL].value if row.scores else 1.0, row.number))
    by_trial = {record.trial_id: record for record in records}
    alike = itertools.groupby(rows, key=comparison_group)
    return [row for _, found in alike for row in compare_with_best(list(found), scores, looks, by_trial)]


def comparison_group(row: RankedConfiguration) -> tuple[int, tuple[str, ...], bool, bool]:
    """Rows of equal groups are compared with each other; those with a lower one come first."""
    return -len(row.tasks), row.tasks, row.was_dropped, not row.is_finished


def rank_one(group: Sequence[TrialRecord], scores: TrialScores, looks: Looks) -> RankedConfiguration:
    """Returns one configuration from its replicates."""
    completed = [record for record in group if record.status in COMPLETED]
    counting = [record for record in completed if looks.has(record.number, record.replicate)]
    trials = [record.trial_id for record in counting or completed or group if record.trial_id in scores.epochs]
    tasks = [task for task in scores.tasks if any(trial in scores.values.get((task, "dev"), {}) for trial in trials)]
    counts = Counter(record.status for record in group)
    statuses = counts if len(counts) == 1 else [f"{status} {count}" for status, count in counts.items()]
    means = {}
    for column, by_trial in scores.values.items():
        counted = [trial for trial in trials if trial in by_trial]
        if counted:
            own = [by_trial[trial] for trial in counted]
            means[column] = Score(
                value=float(np.mean(own)),
                example_error=float(np.sqrt(max(0.0, scores.covariance(column, tasks, counted).mean()))),
                replicate_error=replicate_error(own),
            )
    return RankedConfiguration(
        number=group[0].number,
        params=group[0].params,
        status=", ".join(statuses),
        is_finished=bool(completed),
        trials=tuple(trials),
        scores=means,
        best_epoch=float(np.mean([scores.epochs[trial] for trial in trials])) if trials else None,
        collapsed=tuple(scores.collapsed(trials)),
        failures=tuple(f"{r.trial_id}: {r.error or 'no reason recorded'}" for r in group if r.status == "failed"),
    )


def compare_with_best(
    rows: Sequence[RankedConfiguration], scores: TrialScores, looks: Looks, records: Mapping[str, TrialRecord]
) -> list[RankedConfiguration]:
    """Compares configurations, all with the same tasks, with the best of them, and sorts them.

    What was shown not to be the best at an earlier look stays so, unless it has the highest mean now.
    """
    if len(rows) < 2 or not rows[0].scores or rows[0].was_dropped or not rows[0].is_finished:
        return list(rows)
    few_groups = scores.few_groups(rows[0].tasks)
    rows = [replace(row, few_groups=few_groups) for row in with_fitted_means(rows, scores, records)]
    trials = [[records[trial] for trial in row.trials] for row in rows]
    decided_at = {
        place: looks.race.worse_at[row.number] for place, row in enumerate(rows) if row.number in looks.race.worse_at
    }
    means = configuration_means(scores.of_models(TOTAL, rows[0].tasks, trials))
    among = np.array([place not in decided_at for place in range(len(rows))])
    found = best_set(means, among, look=looks.now)
    best = int(np.where(among, means.means, -np.inf).argmax())
    for look in looks.kept[:-1]:
        if look.num_rounds not in looks.race.left_at.values():
            earlier = [[one for one in own if looks.has(one.number, one.replicate, look)] for own in trials]
            worse = distinguished(rows[0].tasks, scores, earlier, look)
            if best not in worse:
                decided_at = dict.fromkeys(worse, look.num_rounds) | decided_at
    decided_at = dict.fromkeys(np.flatnonzero(~found.is_left).tolist(), looks.num_rounds) | decided_at
    compared = [
        replace(
            row,
            below_best=float(below),
            margin=None if np.isnan(margin) else float(margin),
            decided_at=decided_at.get(place),
        )
        for place, (row, below, margin) in enumerate(zip(rows, found.below_best, found.margins, strict=True))
    ]
    return sorted(
        compared, key=lambda row: (row.decided_at is not None and (row.below_best or 0.0) < 0, row.below_best)
    )


def with_fitted_means(
    rows: Sequence[RankedConfiguration], scores: TrialScores, records: Mapping[str, TrialRecord]
) -> list[RankedConfiguration]:
    """Returns the rows with means without the effects of replicates, where some of them lack a replicate."""
    found = list(rows)
    for column in {column for row in rows for column in row.scores}:
        places = [place for place, row in enumerate(rows) if column in row.scores]
        trials = [[records[one] for one in rows[place].trials if one in scores.values[column]] for place in places]
        if len({tuple(sorted(one.replicate for one in own)) for own in trials}) > 1:
            means = configuration_means(scores.of_models(column, rows[0].tasks, trials)).means
            for place, mean in zip(places, means.tolist(), strict=True):
                fitted = replace(found[place].scores[column], value=mean)
                found[place] = replace(found[place], scores={**found[place].scores, column: fitted})
    return found


def distinguished(
    tasks: Sequence[str], scores: TrialScores, groups: Sequence[Sequence[TrialRecord]], look: Look
) -> list[int]:
    """Numbers of the configurations, given as their trials, that a look shows not to be the best."""
    present = [number for number, own in enumerate(groups) if own]
    if len(present) < 2:
        return []
    models = scores.of_models(TOTAL, tasks, [groups[number] for number in present])
    is_left = best_set(configuration_means(models), look=look).is_left
    return [number for number, left in zip(present, is_left, strict=True) if not left]


def searched_names(rows: Iterable[RankedConfiguration]) -> list[str]:
    """Returns the searched keys that some row has a value of, in the order of the search."""
    return list(dict.fromkeys(name for row in rows for name in row.params))


def score_columns(rows: Sequence[RankedConfiguration], tasks: Iterable[str]) -> list[Column]:
    """Returns the columns that some row has a score in, as a table shows them: each task's dev, then train;
    the total last."""
    order = [(task, split) for task in (*tasks, OVERALL) for split in ("dev", "train")]
    return [column for column in order if any(column in row.scores for row in rows)]


def to_frame(rows: Sequence[RankedConfiguration], tasks: Mapping[str, Task]) -> pd.DataFrame:
    """Returns a ranking as a data frame: a row per configuration, best first; `Sweep.ranking` describes the columns."""
    columns = score_columns(rows, tasks)
    frame = pd.DataFrame([frame_row(row, columns, tasks) for row in rows], columns=None if rows else list(FRAME_TYPES))
    params = searched_names(rows)
    others = [str(name) for name in frame if name not in params]
    types = {name: FRAME_TYPES.get(name, "float64") for name in others}
    return frame.astype(types)[[others[0], *params, *others[1:]]]


def frame_row(row: RankedConfiguration, columns: Sequence[Column], tasks: Mapping[str, Task]) -> dict[str, Any]:
    """Returns one row of the data frame; None where there is no score."""
    cells: dict[str, Any] = {"number": row.number, **{name: frame_value(value) for name, value in row.params.items()}}
    for column in columns:
        name, score = OVERALL if column == TOTAL else "_".join(column), row.scores.get(column)
        cells[name] = score and value_of(column[0], score.value, tasks)
        cells[f"{name}_standard_error"] = score and score.example_error
        cells[f"{name}_replicate_error"] = score and score.replicate_error
    compared: dict[str, Any] = {"below_best": row.below_best, "margin": row.margin, "may_be_best": row.may_be_best}
    compared |= {"decided_at": row.decided_at, "was_dropped": row.was_dropped}
    rest = {"best_epoch": row.best_epoch, **compared, "status": row.status}
    return {
        **cells,
        **rest,
        "trials": " ".join(row.trials),
        "collapsed": " ".join(row.collapsed),
        "failures": "; ".join(row.failures),
    }
