"""Figures of training: learning curves, losses and penalties."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from mtlib.tasks import Task, title_of
from results.figures.draw import Dash, Mode, Panel, Trace, axis, figure_of, series
from results.figures.hover import score_title, short_names, values_lines
from results.records.trials import OVERALL, TrialRecord
from results.stats.ranking import RankedConfiguration
from results.stats.trial_scores import STEP_COUNT, TOKEN_COUNT

MAX_HIGHLIGHTED = 6
"""Configurations that have a colour each: the best ones."""
OTHERS, SINGLE_TRIALS = "other trials", "single trials"
"""Names of what is grey."""
LOSS, NORM, LOSS_WEIGHT, NOISE_NORM, CLIPPED = "loss", "gradient_norm", "loss_weight", "noise_norm", "clipped_steps"
LOG_RATIO = 30
"""The ratio of the largest to the smallest value from which an axis is logarithmic."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """What the figures of training are drawn from."""

    curves: pd.DataFrame
    records: Mapping[str, TrialRecord]
    """By trial."""
    tasks: Mapping[str, Task]
    styles: Mapping[int, int]
    """Styles of highlighted configurations by number."""
    names: Mapping[int, str]
    """Names of these."""
    stage_ends: Sequence[int]
    """Epochs after which another stage began in all trials; none where trials differ."""

    def groups(self, rows: pd.DataFrame) -> list[tuple[int | None, pd.DataFrame]]:
        """Rows of trials in the order in which they are drawn: those of configurations that are not highlighted, with
        None, then those of each highlighted number, the best one last and so above the others."""
        numbers = rows["trial"].map({trial: record.number for trial, record in self.records.items()})
        others = rows[~numbers.isin(list(self.styles))]
        return [(None, others), *((number, rows[numbers == number]) for number in reversed(self.styles))]

    def style(self, number: int | None) -> dict[str, Any]:
        """Style and name of a group's marks."""
        if number is None:
            return {"is_faint": True, "name": OTHERS}
        return {"style": self.styles[number], "name": self.names[number]}

    @property
    def replicated(self) -> set[int]:
        """Numbers of the highlighted configurations with several trials, whose mean has the colour."""
        num_trials = Counter(record.number for record in self.records.values())
        return {number for number in self.styles if num_trials[number] > 1}


def training_of(
    curves: pd.DataFrame,
    records: Sequence[TrialRecord],
    tasks: Mapping[str, Task],
    ranked: Sequence[RankedConfiguration],
) -> Training:
    """Returns a sweep's training, with its best configurations highlighted."""
    best = [row for row in ranked if row.scores][:MAX_HIGHLIGHTED]
    by_trial = {record.trial_id: record for record in records}
    ends = {stage_ends(record.config) for record in records}
    return Training(
        curves=curves[curves["trial"].isin(list(by_trial))],  # a running sweep may have started trials since
        records=by_trial,
        tasks=tasks,
        styles={row.number: style for style, row in enumerate(best)},
        names=short_names([(row.number, row.params) for row in best]),
        stage_ends=list(*ends) if len(ends) == 1 else [],
    )


def stage_ends(config: str) -> tuple[int, ...]:
    """Returns the last epochs of all stages but the last, of a configuration of any version."""
    epochs = [int(stage["epochs"]) for stage in json.loads(config).get("stages", ())]
    return tuple(sum(epochs[: number + 1]) for number in range(len(epochs) - 1))


def learning_curves(training: Training, only: str | None = None) -> go.Figure:
    """Returns the scores of each task, or of one or `overall` only, by epoch, on dev and,
    where it was scored, on train."""
    metrics = {task: definition.metric for task, definition in training.tasks.items()} | {OVERALL: OVERALL}
    rows = training.curves[training.curves["metric"] == training.curves["task"].map(metrics)]
    if len(set(rows[rows["split"] == "dev"].groupby("trial")["task"].agg(frozenset))) > 1:
        rows = rows[rows["task"] != OVERALL]  # means over different tasks are not compared
    return figure_of(
        name="learning-curves",
        title="Learning curves",
        caption="Scores on dev, and dashed on the scored rows of train. A gap that widens between the two is "
        "over-fitting; a score that falls while another task is trained is forgetting."
        f"{' Vertical lines are the ends of stages.' * bool(training.stage_ends)}{highlighted_note(training)}",
        panels=[
            epoch_panel(training, rows[rows["task"] == task], score_title(task, training.tasks), "score")
            for task in (OVERALL, *training.tasks)
            if only in (None, task) and (rows["task"] == task).any()
        ],
    )


def losses(training: Training, only: str | None = None) -> go.Figure:
    """Returns the loss of each task, or of one only, by epoch, on train and on dev."""
    rows = training.curves[training.curves["metric"] == LOSS]
    return figure_of(
        name="losses",
        title="Losses",
        caption="Mean loss on dev, and dashed the running mean over the epoch's training steps, with dropout, "
        f"without penalties.{highlighted_note(training)}",
        panels=[
            epoch_panel(training, rows[rows["task"] == task], title_of(task, training.tasks), "loss")
            for task in training.tasks
            if only in (None, task) and (rows["task"] == task).any()
        ],
    )


def penalties(training: Training) -> go.Figure:
    """Penalties, norms of their noise, and learned weights by epoch, of each task that has them."""
    curves = training.curves
    known = {LOSS, NORM, TOKEN_COUNT, STEP_COUNT, OVERALL, *(task.metric for task in training.tasks.values())}
    rows = curves[(curves["split"] == "train") & ~curves["metric"].isin(known)]
    scored = set(curves.loc[curves["split"] == "dev", "metric"])
    rows = rows[~rows["metric"].isin(scored)]
    groups = dict(list(rows.groupby(["metric", "task"])))
    return figure_of(
        name="penalties",
        title="Penalties",
        caption="Means over the epoch's training steps that have them, before weights."
        f"{penalty_notes(set(rows['metric']))}{highlighted_note(training)}",
        panels=[
            epoch_panel(
                training,
                groups[metric, task],
                f"{spoken(metric)}, {title_of(task, training.tasks)}",
                spoken(metric),
                is_log=spans_decades(groups[metric, task]["value"]),
            )
            for metric in sorted(set(rows["metric"]))
            for task in training.tasks
            if (metric, task) in groups
        ],
    )


def penalty_notes(metrics: Collection[str]) -> str:
    """Returns what those of these metrics mean whose name does not say it."""
    noise = " The noise norm is the largest entry of SMART's perturbation of a row, mean over the rows."
    learned = f" {spoken(LOSS_WEIGHT).capitalize()} is the learned factor of a loss at the epoch's end."
    clipped = " Clipped steps are the share of the task's steps whose gradient was clipped."
    return noise * (NOISE_NORM in metrics) + learned * (LOSS_WEIGHT in metrics) + clipped * (CLIPPED in metrics)


def spoken(metric: str) -> str:
    """Returns a metric's name in a sentence."""
    return metric.replace("_", " ")


def spans_decades(values: pd.Series) -> bool:
    """Returns whether positive values differ so much that only a logarithmic axis shows them all."""
    return bool((values > 0).all() and values.max() > LOG_RATIO * values.min())


def highlighted_note(training: Training) -> str:
    """Returns what colours mean, where not all lines have one."""
    mean = ", as the mean of their trials" if training.replicated else ""
    others = {record.number for record in training.records.values()} - set(training.styles)
    is_known = training.styles and (mean or others)
    return f" Coloured are the best configurations{mean}; the others are grey." if is_known else ""


def epoch_panel(training: Training, rows: pd.DataFrame, title: str, y_title: str, *, is_log: bool = False) -> Panel:
    """Lines by epoch of all trials: dev as lines with points, train dashed."""
    last, has_dev = rows["epoch"].max(), bool((rows["split"] == "dev").any())
    traces: list[Trace] = []
    groups, replicated = training.groups(rows), training.replicated
    grey = pd.concat([of_group for number, of_group in groups if number is None or number in replicated])
    for number, of_group in [(None, grey), *groups[1:]]:
        for split in ("dev", "train"):
            lines = lines_of(training, of_group[of_group["split"] == split], number)
            if lines:
                traces.append(series_of(training, lines, number, split, is_dashed=split == "train" and has_dev))
    y = axis(y_title, scale="log" if is_log else "linear")
    ends = [end + 0.5 for end in training.stage_ends if end < last]
    return Panel(title, axis("epoch", whole_to=int(last)), y, traces, ends)


Line = tuple[str, Mapping[str, Any], pd.Series]
"""What it is of, the values of the searched keys, and numbers by epoch, at least one."""


def lines_of(training: Training, rows: pd.DataFrame, number: int | None) -> list[Line]:
    """Returns a line for each trial, or the mean of a highlighted configuration's replicates,
    by the epochs that all have."""
    by_trial = [
        (str(trial), training.records[str(trial)].params, points.set_index("epoch")["value"].sort_index())
        for trial, points in rows.groupby("trial")
    ]
    if number is None or len(by_trial) < 2:
        return by_trial
    means = pd.concat([values for _, _, values in by_trial], axis=1, join="inner").mean(axis=1).sort_index()
    name = f"configuration {number:04d}, mean of {len(by_trial)} replicates"
    return [(name, by_trial[0][1], means)] if len(means) else []


def series_of(training: Training, lines: Sequence[Line], number: int | None, split: str, *, is_dashed: bool) -> Trace:
    """Returns the lines, at least one, of a configuration, or all grey ones, as one trace with gaps between them."""
    style = training.style(number)
    if number is None and training.replicated:
        style["name"] = SINGLE_TRIALS
    x: list[float | str] = []
    y: list[float | str | None] = []
    hover: list[str] = []
    for name, params, values in lines:
        x += [*values.index.tolist(), values.index[-1]]
        y += [*values.tolist(), None]
        hover += ["\n".join([f"{name}, {split}", *values_lines(params)])] * (len(values) + 1)
    lengths = [len(values) for _, _, values in lines]
    has_line, has_points = any(length > 1 for length in lengths), 1 in lengths  # a line of one epoch is not visible
    has_points = has_points or not (is_dashed or number is None)
    mode: Mode = "markers" if not has_line else "lines+markers" if has_points else "lines"
    dash: Dash = "dash" if is_dashed else "solid"
    return series(x, y, hover=hover, adds_coordinates=True, mode=mode, dash=dash, **style)
