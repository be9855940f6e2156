"""The scores of a sweep's trials at their best epochs, and the covariance over examples of these scores.

The ranking and the effects both use them. A trial counts with the epoch of its highest overall dev score, the first
where there are several; a failed trial does not count.
"""

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from mtlib.metrics.constant_prediction import collapsed_tasks
from mtlib.runtime.errors import require_name
from mtlib.tasks import Task, overall_slopes, score_of
from results.records.predictions import TrialEpoch
from results.records.trials import OVERALL, TrialRecord
from results.stats.configuration_means import ModelScores, number_equal
from results.stats.covariance import score_covariance
from results.stats.groups import DrawnGroups, independent_groups
from results.stats.resampling import Floats, Numbers, example_values
from results.stats.slices import SlicedRows

Column = tuple[str, str]
"""A task, or `overall`, and a split."""

TOTAL: Column = (OVERALL, "dev")

TOKEN_COUNT, STEP_COUNT = "tokens", "steps"
"""Metrics of how much was trained of a task."""

Amounts = Mapping[tuple[str, str], float]
"""How much was trained, over all epochs, by task and metric."""


@dataclass(frozen=True, kw_only=True)
class PredictedRows:
    """What trials predict for the examples of a task and split."""

    labels: npt.ArrayLike
    """(rows,)."""
    logits: npt.ArrayLike
    """(trials, rows, num_logits)."""
    groups: npt.ArrayLike | None = None
    """(rows,) group of connected examples; None where it is not known."""
    slices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The cells of each column of slices, one per row."""


ReadPredictions = Callable[[str, str, Sequence[TrialEpoch]], PredictedRows]
"""From task, split and the wanted trials and epochs to their predictions."""


@dataclass(frozen=True, kw_only=True)
class TrialScores:
    """Scores of trials at their best epochs."""

    epochs: Mapping[str, int]
    """By trial: the epoch of its highest overall dev score."""
    values: Mapping[Column, Mapping[str, float]]
    """The score at these epochs, by trial, of every task and split that has it, and the total."""
    covariances: Mapping[Column, pd.DataFrame]
    """Over examples, of the scores of each task and split, (trials, trials)."""
    drawn: Mapping[Column, DrawnGroups] = field(default_factory=dict)
    """The groups that the examples of each task and split were drawn in; not known of a task that is not there."""
    slices: Mapping[str, SlicedRows] = field(default_factory=dict)
    """By task: the slices of its dev examples, with the predictions of all trials in the order of `values`."""
    constant: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)
    """By trial and task: whether it predicts one label, or one number, for nearly all dev examples."""
    trainings: Mapping[str, Hashable]
    """By trial: what is equal for trials that trained the same, as `equal_points`."""
    amounts: Mapping[str, Amounts] = field(default_factory=dict)
    """By trial: how much it trained of each task."""
    tasks: Mapping[str, Task]
    """The definitions of the sweep's tasks, in the order in which they are shown."""

    def covariance(self, column: Column, tasks: Sequence[str], trials: Sequence[str]) -> Floats:
        """(trials, trials) covariance over examples of some trials' scores in a column; the total counts `tasks`."""
        if column != TOTAL:
            return self.covariances[column].loc[list(trials), list(trials)].to_numpy()
        slopes = overall_slopes(tasks, self.tasks)  # the tasks' examples are drawn independently
        parts = [slopes[task] ** 2 * self.covariance((task, "dev"), tasks, trials) for task in tasks]
        return np.asarray(np.sum(parts, axis=0))

    def degrees(self, column: Column, tasks: Sequence[str], trials: Sequence[str]) -> float:
        """Degrees of freedom of the covariance of some trials' scores; 0 if examples of a task are in too few groups.

        Of the total they are those of a sum of variances, each the mean over trials' differences (Satterthwaite 1946).
        """
        if column != TOTAL:
            places = self.places(column, trials)
            return self.drawn[column].degrees_of_differences(places) if column in self.drawn else math.inf
        parts = {task: self.degrees((task, "dev"), tasks, trials) for task in tasks}
        if not all(parts.values()) or all(map(math.isinf, parts.values())):
            return min(parts.values())
        slopes, variances = overall_slopes(tasks, self.tasks), dict[str, float]()
        for task in parts:
            own = self.covariance((task, "dev"), tasks, trials)
            variances[task] = slopes[task] ** 2 * float(np.trace(own) - own.mean() * len(own))
        unknown = sum(variances[task] ** 2 / degrees for task, degrees in parts.items())
        return sum(variances.values()) ** 2 / unknown if unknown > 0 else math.inf

    def collapsed(self, trials: Iterable[str]) -> dict[str, set[str]]:
        """Returns which of one configuration's trials have collapsed, with the tasks (`collapsed_tasks`)."""
        return collapsed_tasks({trial: self.constant.get(trial, {}) for trial in trials})

    def few_groups(self, tasks: Iterable[str]) -> dict[str, DrawnGroups]:
        """Returns by title those of some tasks whose dev examples are in too few groups for any difference."""
        found = {self.tasks[task].title: self.drawn.get((task, "dev")) for task in tasks}
        return {title: drawn for title, drawn in found.items() if drawn is not None and not drawn.are_usable}

    def of_models(self, column: Column, tasks: Sequence[str], groups: Sequence[Sequence[TrialRecord]]) -> ModelScores:
        """Returns the scores in a column of configurations, given as the trials of each; the total counts `tasks`."""
        trials = [record.trial_id for group in groups for record in group]
        return self.models(
            groups,
            scores=np.array([self.values[column][trial] for trial in trials]),
            covariance=self.covariance(column, tasks, trials),
            degrees=self.degrees(column, tasks, trials),
        )

    def places(self, column: Column, trials: Sequence[str]) -> Numbers:
        """Returns the places of some trials among all that have a score in a column."""
        order = {trial: place for place, trial in enumerate(self.values[column])}
        return np.array([order[trial] for trial in trials], dtype=np.intp)

    def models(
        self, groups: Sequence[Sequence[TrialRecord]], *, scores: Floats, covariance: Floats, degrees: float
    ) -> ModelScores:
        """Returns scores of configurations, given as the trials of each; the other arguments are those of
        `ModelScores`."""
        records = [record for group in groups for record in group]
        return ModelScores(
            configurations=np.repeat(np.arange(len(groups)), [len(group) for group in groups]),
            replicates=np.unique([record.replicate for record in records], return_inverse=True)[1],
            scores=scores,
            covariance=covariance,
            trainings=number_equal([self.trainings.get(own.trial_id, own.trial_id) for own in records]),
            degrees=degrees,
        )


def read_scores(
    records: Sequence[TrialRecord], curves: pd.DataFrame, tasks: Mapping[str, Task], read: ReadPredictions
) -> TrialScores:
    """Returns the scores of a sweep's trials that have not failed.

    Raises:
        ValueError: the curves have a task that `tasks` lacks, or predictions are missing.
    """
    epochs, by_column = scores_at_best_epochs(records, curves, tasks)
    covariances, drawn, slices = {}, {}, {}
    constant: dict[str, dict[str, bool]] = {}
    for (task, split), by_trial in by_column.items():
        if task != OVERALL:
            rows = read(task, split, [(trial, epochs[trial]) for trial in by_trial])
            found = score_covariance(tasks[task], list(by_trial), rows.logits, rows.labels, rows.groups)
            covariances[task, split], drawn[task, split] = found
            if split == "dev":
                for trial, logits in zip(by_trial, np.asarray(rows.logits), strict=True):
                    constant.setdefault(trial, {})[task] = tasks[task].has_one_prediction(logits, rows.labels)
            if rows.slices:
                values = example_values(tasks[task], rows.logits, rows.labels)
                slices[task] = SlicedRows(
                    task=tasks[task],
                    values=values,
                    labels=np.asarray(rows.labels, dtype=np.float64),
                    groups=independent_groups(rows.groups, values.shape[1]),
                    columns=rows.slices,
                )
    return TrialScores(
        epochs=epochs,
        values=by_column,
        covariances=covariances,
        drawn=drawn,
        slices=slices,
        constant=constant,
        trainings=equal_points(curves),
        amounts=amounts_by_trial(curves),
        tasks=tasks,
    )


def amounts_by_trial(curves: pd.DataFrame) -> dict[str, dict[tuple[str, str], float]]:
    """By trial: how much it trained of each task, over all epochs."""
    points = curves[(curves["split"] == "train") & curves["metric"].isin([TOKEN_COUNT, STEP_COUNT])]
    found: dict[str, dict[tuple[str, str], float]] = {}
    for row in points.groupby(["trial", "task", "metric"], as_index=False)["value"].sum().itertuples():
        found.setdefault(str(row.trial), {})[str(row.task), str(row.metric)] = float(row.value)
    return found


def equal_points(curves: pd.DataFrame) -> dict[str, Hashable]:
    """By trial: its losses and dev scores in all epochs, to compare whether two trained the same."""
    where = ["epoch", "task", "split", "metric"]
    compared = curves[(curves["metric"] == "loss") | (curves["split"] == "dev")].sort_values(where)
    return {
        str(trial): tuple(own[[*where, "value"]].itertuples(index=False, name=None))
        for trial, own in compared.groupby("trial")
    }


def scores_at_best_epochs(
    records: Sequence[TrialRecord], curves: pd.DataFrame, tasks: Mapping[str, Task]
) -> tuple[dict[str, int], dict[Column, dict[str, float]]]:
    """Returns the best epochs of the trials that have not failed, and their scores there, as in `TrialScores`.

    Raises:
        ValueError: the curves have a task that `tasks` lacks.
    """
    epochs = best_overall_epochs(curves, records)
    points = curves[curves["epoch"] == curves["trial"].map(dict(epochs))]
    found: dict[Column, dict[str, float]] = {}
    rows = points[["trial", "task", "split", "metric", "value"]].itertuples(index=False)
    for trial, task, split, metric, value in rows:
        require_name(task, (*tasks, OVERALL), "task")
        if metric == (OVERALL if task == OVERALL else tasks[task].metric):
            found.setdefault((task, split), {})[trial] = score_of(task, value, tasks)
    return epochs, found


def best_overall_epochs(curves: pd.DataFrame, records: Sequence[TrialRecord]) -> dict[str, int]:
    """Returns the first epoch of the highest overall score of each trial that has one and has not failed."""
    trials = [record.trial_id for record in records if record.status != "failed"]
    points = curves[(curves["task"] == OVERALL) & curves["trial"].isin(trials)]
    highest = points.sort_values(["value", "epoch"], ascending=[False, True]).drop_duplicates("trial")
    return dict(zip(highest["trial"], highest["epoch"].astype(int), strict=True))


def group_by_configuration(records: Sequence[TrialRecord]) -> list[list[TrialRecord]]:
    """Returns the replicates of each configuration, in an order that does not depend on their numbers.

    Numbers follow the order in which values were typed, and quantiles that are drawn would follow the numbers.
    """
    ordered = sorted(records, key=lambda record: (record.number, record.replicate))
    groups = [list(group) for _, group in itertools.groupby(ordered, key=lambda record: record.number)]
    return sorted(groups, key=lambda group: group[0].config_hash)
