"""Ranks the configurations of a sweep by their overall score, and marks those not significantly below the best."""

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mtlib.errors import require_name
from mtlib.tasks import TASKS
from results.comparison.bootstrap import (
    Floats,
    bootstrap_overall,
    bootstrap_scores,
    example_values,
    not_significantly_worse,
    replicate_error,
    standard_error,
)
from results.records.predictions import TrialEpoch
from results.records.trials import OVERALL, TrialRecord

Column = tuple[str, str]
"""A task, or `overall`, and a split."""

ReadPredictions = Callable[[str, str, Sequence[TrialEpoch]], tuple[npt.ArrayLike, npt.ArrayLike]]
"""From task, split and the wanted trials and epochs to labels, (rows,), and logits, (wanted, rows, num_logits)."""

TOTAL: Column = (OVERALL, "dev")


@dataclass(frozen=True, kw_only=True)
class Score:
    """A score and its standard errors."""

    value: float
    """Mean over replicates."""
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
    """Of its trials: `complete`, or where they differ `complete 2, failed 1`."""
    trials: tuple[str, ...]
    """Replicates with an overall score that have not failed."""
    scores: Mapping[Column, Score]
    """At each trial's best overall epoch, `TOTAL` among them; empty where no trial counts."""
    best_epoch: float | None
    """Epoch of the highest overall score, from 1; mean over replicates."""
    is_close: bool = False
    """Not the best of its tasks, but not significantly below it: the 95 % interval of the difference contains 0."""
    failures: tuple[str, ...]
    """`<trial>: <reason>` of each trial that failed."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks with a dev score: totals can be compared only where these are the same."""
        return tuple(task for task in TASKS if (task, "dev") in self.scores)


def rank(records: Sequence[TrialRecord], curves: pd.DataFrame, read: ReadPredictions) -> list[RankedConfiguration]:
    """Ranks configurations, best first; those without an overall score follow in the order of their numbers.

    Overall scores of different tasks are not comparable: configurations with the most tasks come first, those with the
    same tasks stay together, and each is compared with the first of its own.

    A trial counts with its scores at the epoch of its highest overall score (the first, where there are several); a
    failed one does not count. Standard errors and differences come from a bootstrap over examples on which all trials
    share their resamples (`results.comparison.bootstrap`).

    Raises:
        ValueError: the sweep has a task that `mtlib.tasks` does not know, or predictions are missing.
    """
    best = best_overall_epochs(curves, [record.trial_id for record in records if record.status != "failed"])
    values = scores_at(curves, best)
    resampled = resample(values, best, read)
    rows = [rank_one(group, best, values, resampled) for group in group_by_configuration(records)]
    rows.sort(key=lambda row: (-len(row.tasks), row.tasks, -row.scores[TOTAL].value if row.scores else 1.0))
    alike = itertools.groupby(rows, key=lambda row: row.tasks)
    return [row for _, found in alike for row in mark_close(list(found), resampled.get(TOTAL, {}))]


def group_by_configuration(records: Sequence[TrialRecord]) -> list[list[TrialRecord]]:
    """The replicates of each configuration, in the order of numbers."""
    ordered = sorted(records, key=lambda record: (record.number, record.replicate))
    return [list(group) for _, group in itertools.groupby(ordered, key=lambda record: record.number)]


def best_overall_epochs(curves: pd.DataFrame, trials: Sequence[str]) -> dict[str, int]:
    """The first epoch of the highest overall score of each of these trials that has one."""
    points = curves[(curves["task"] == OVERALL) & curves["trial"].isin(trials)]
    highest = points.sort_values(["value", "epoch"], ascending=[False, True]).drop_duplicates("trial")
    return dict(zip(highest["trial"], highest["epoch"].astype(int), strict=True))


def scores_at(curves: pd.DataFrame, epochs: Mapping[str, int]) -> dict[Column, dict[str, float]]:
    """The main metric at these epochs, by trial, of every task and split that has it, and the total."""
    points = curves[curves["epoch"] == curves["trial"].map(dict(epochs))]
    found: dict[Column, dict[str, float]] = {}
    rows = points[["trial", "task", "split", "metric", "value"]].itertuples(index=False)
    for trial, task, split, metric, value in rows:
        require_name(task, (*TASKS, OVERALL), "task")
        if metric == (OVERALL if task == OVERALL else TASKS[task].metric):
            found.setdefault((task, split), {})[trial] = value
    return found


def resample(
    values: Mapping[Column, Mapping[str, float]], epochs: Mapping[str, int], read: ReadPredictions
) -> dict[Column, dict[str, Floats]]:
    """Each score again on the resamples, (resamples,): tasks from their predictions, the total from the tasks."""
    resampled: dict[Column, dict[str, Floats]] = {}
    for (task, split), by_trial in values.items():
        if task != OVERALL:
            labels, logits = read(task, split, [(trial, epochs[trial]) for trial in by_trial])
            scores = bootstrap_scores(TASKS[task], example_values(TASKS[task], logits, labels), labels)
            resampled[task, split] = dict(zip(by_trial, scores, strict=True))
    dev = {task: by_trial for (task, split), by_trial in resampled.items() if split == "dev"}
    resampled[TOTAL] = {
        trial: bootstrap_overall({task: by_trial[trial] for task, by_trial in dev.items() if trial in by_trial})
        for trial in epochs
    }
    return resampled


def rank_one(
    group: Sequence[TrialRecord],
    epochs: Mapping[str, int],
    values: Mapping[Column, Mapping[str, float]],
    resampled: Mapping[Column, Mapping[str, Floats]],
) -> RankedConfiguration:
    """One configuration from its replicates."""
    trials = [record.trial_id for record in group if record.trial_id in epochs]
    scores = {}
    for column, by_trial in values.items():
        counted = [trial for trial in trials if trial in by_trial]
        if counted:
            own, mean = [by_trial[t] for t in counted], np.mean([resampled[column][t] for t in counted], axis=0)
            scores[column] = Score(
                value=float(np.mean(own)),
                example_error=float(standard_error(mean)),
                replicate_error=replicate_error(own),
            )
    return RankedConfiguration(
        number=group[0].number,
        params=group[0].params,
        status=status_of(group),
        trials=tuple(trials),
        scores=scores,
        best_epoch=float(np.mean([epochs[trial] for trial in trials])) if trials else None,
        failures=tuple(f"{r.trial_id}: {r.error or 'no reason recorded'}" for r in group if r.status == "failed"),
    )


def status_of(group: Sequence[TrialRecord]) -> str:
    """The status that all trials share, or the number of trials by status."""
    counts = Counter(record.status for record in group)
    return ", ".join(counts if len(counts) == 1 else (f"{status} {count}" for status, count in counts.items()))


def mark_close(rows: Sequence[RankedConfiguration], resampled: Mapping[str, Floats]) -> list[RankedConfiguration]:
    """Marks the configurations not significantly below the first; `rows` have the same tasks, the best is first."""
    totals = [np.mean([resampled[trial] for trial in row.trials], axis=0) for row in rows if row.scores]
    if len(totals) < 2:
        return list(rows)
    close = [False, *not_significantly_worse(totals[0], np.stack(totals[1:])).tolist()]
    return [replace(row, is_close=mark) for row, mark in zip(rows, close, strict=False)] + list(rows[len(close) :])


def score_columns(rows: Sequence[RankedConfiguration]) -> list[Column]:
    """The columns that some row has a score in, as a table shows them: each task's dev, then train; the total last."""
    order = [(task, split) for task in (*TASKS, OVERALL) for split in ("dev", "train")]
    return [column for column in order if any(column in row.scores for row in rows)]


def to_frame(rows: Sequence[RankedConfiguration]) -> pd.DataFrame:
    """A ranking as a data frame: a row per configuration, best first.

    Returns:
        Columns `number`, the searched keys, then per score `<task>_<split>` (`overall` for the total),
        `<task>_<split>_standard_error` over examples and `<task>_<split>_replicate_error`, then `best_epoch`,
        `is_close`, `status`, `trials` and `failures`.
    """
    columns = score_columns(rows)
    frame = pd.DataFrame([frame_row(row, columns) for row in rows])
    params = list(dict.fromkeys(name for row in rows for name in row.params))  # some rows may lack some
    return frame[["number", *params, *(name for name in frame if name not in ("number", *params))]] if rows else frame


def frame_row(row: RankedConfiguration, columns: Sequence[Column]) -> dict[str, Any]:
    """One row of the data frame; None where there is no score."""
    cells: dict[str, Any] = {"number": row.number, **row.params}
    for column in columns:
        name, score = OVERALL if column == TOTAL else "_".join(column), row.scores.get(column)
        cells[name] = score and score.value
        cells[f"{name}_standard_error"] = score and score.example_error
        cells[f"{name}_replicate_error"] = score and score.replicate_error
    rest = {"best_epoch": row.best_epoch, "is_close": row.is_close, "status": row.status}
    return {**cells, **rest, "trials": " ".join(row.trials), "failures": "; ".join(row.failures)}
