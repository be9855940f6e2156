"""Figures of a search: Optuna's history, importances, slices and parallel coordinates, and the rungs of ASHA."""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd
import plotly.graph_objects as go

from mtlib.tasks import Task, score_of, title_of, value_of
from results.figures.draw import Panel, adopt, axis, bars, colour_of, figure_of, series, whole_ticks
from results.figures.hover import trial_text
from results.figures.search_study import CONFIGURATION
from results.records.rungs import REDUCTION_FACTOR, rungs_up_to
from results.records.trials import OVERALL, TrialRecord

if TYPE_CHECKING:
    from optuna import Study

MAX_AXES = 10
"""Keys side by side in parallel coordinates."""
MEANS = "Each point is a finished configuration with the mean of its replicates' best dev scores"
KEPT, STOPPED = "not stopped", "stopped here"


def history(study: "Study", score: str) -> go.Figure:
    """Returns the score of each configuration in the order in which they started, and the best so far."""
    from optuna.visualization import plot_optimization_history

    if not study.trials:
        return adopt(go.Figure(), "history", "History of the search", "")
    figure = plot_optimization_history(study, target_name=score)
    names = [f"configuration {trial.user_attrs[CONFIGURATION]}: %{{y:.3f}}<extra></extra>" for trial in study.trials]
    figure.data[0].update(hovertemplate=names)
    for style, trace in enumerate(figure.data):  # the legend of a page shows the colour that a trace names
        trace.update(marker_color=colour_of(style), line_color=colour_of(style))
    figure.update_xaxes(
        title_text="finished configurations, in the order of their start", **whole_ticks(len(study.trials))
    )
    return adopt(figure, "history", "History of the search", f"{MEANS}, in the order in which they started.")


def importance(importances: Mapping[str, float]) -> go.Figure:
    """Returns the share of the scores' variance that each key explains, of `key_importances`."""
    keys = list(importances)
    hover = [f"{key}\n{share:.1%} of the variance" for key, share in importances.items()]
    trace = bars(keys, list(importances.values()), hover)
    return figure_of(
        name="importance",
        title="Importance of the searched keys",
        caption="The share of the variance of the configurations' scores that each key explains by itself or with "
        "others, estimated by a random forest (fANOVA, Hutter et al. 2014); rough where configurations are few.",
        panels=[Panel("", axis("share of the variance"), axis(categories=keys), [trace])],
    )


def slices(study: "Study", score: str) -> go.Figure:
    """Returns the scores against each key, whatever the other keys."""
    from optuna.visualization import plot_slice

    caption = f"{MEANS}. What looks like an effect may be that of another key that a search varied along with it."
    if not study.trials:
        return adopt(go.Figure(), "slices", "Slices", caption)
    return adopt(plot_slice(study, target_name=score), "slices", "Slices", caption)


def parallel_coordinates(study: "Study", score: str, importances: Mapping[str, float]) -> go.Figure:
    """Returns each configuration as a line through its values of all keys, of many the most important ones,
    and its score."""
    from optuna.visualization import plot_parallel_coordinate

    names = {name for trial in study.trials for name in trial.params}
    ordered = [*importances, *sorted(names - set(importances))]
    figure = plot_parallel_coordinate(study, params=ordered[:MAX_AXES], target_name=score)
    left_out = f" {MAX_AXES} of {len(ordered)} keys are shown." if len(ordered) > MAX_AXES else ""
    caption = f"Each line is a finished configuration that has all these keys.{left_out}"
    return adopt(figure, "parallel-coordinates", "Parallel coordinates", caption)


def rungs(records: Sequence[TrialRecord], curves: pd.DataFrame, tasks: Mapping[str, Task], metric: str) -> go.Figure:
    """Returns the scores by which successive halving compared the trials at each rung,
    and which ones it stopped there."""
    points: dict[str, list[tuple[str, float, str]]] = {KEPT: [], STOPPED: []}
    for record, bests in bests_by_scored_epoch(records, curves, tasks, metric):
        for rung in rungs_up_to(len(bests)):
            is_stopped = record.status == "pruned" and len(bests) == rung
            value = value_of(metric, bests[rung - 1], tasks)
            hover = trial_text(record, f"best {title_of(metric, tasks)} {value:.3f} at rung {rung}")
            points[STOPPED if is_stopped else KEPT].append((str(rung), value, hover))
    traces = [
        series(
            [rung for rung, _, _ in own],
            [value for _, value, _ in own],
            hover=[text for _, _, text in own],
            name=name,
            style=style,
        )
        for style, (name, own) in enumerate(points.items())
    ]
    stopped = Counter(rung for rung, _, _ in points[STOPPED])
    reached = stopped + Counter(rung for rung, _, _ in points[KEPT])
    names = sorted(reached, key=int)
    return figure_of(
        name="rungs",
        title="Rungs",
        caption="After so many epochs asynchronous successive halving (ASHA) compares the best score of a trial with "
        f"those of the trials that were there before it, and lets about one in {REDUCTION_FACTOR} continue. A trial "
        "that ends there anyway is not stopped, and replicates are not compared. Stopped: "
        f"{', '.join(f'{stopped[rung]} of {reached[rung]} at {rung}' for rung in names)}.",
        panels=[
            Panel("", axis("epochs with an overall score", categories=names), axis(title_of(metric, tasks)), traces)
        ],
    )


def bests_by_scored_epoch(
    records: Sequence[TrialRecord], curves: pd.DataFrame, tasks: Mapping[str, Task], metric: str
) -> Iterator[tuple[TrialRecord, list[float]]]:
    """Yields each first training with its best scores so far, at the epochs with an overall score,
    which the rungs count."""
    is_overall = (curves["task"] == OVERALL) & (curves["split"] == "dev")
    counted = set(zip(curves["trial"][is_overall], curves["epoch"][is_overall], strict=True))
    own_metric = tasks[metric].metric if metric in tasks else OVERALL
    wanted = (curves["task"] == metric) & (curves["split"] == "dev") & (curves["metric"] == own_metric)
    scores: dict[str, list[float]] = {}
    points = curves[wanted].sort_values("epoch")[["trial", "epoch", "value"]]
    for trial, epoch, value in points.itertuples(index=False):
        if (trial, epoch) in counted:
            scores.setdefault(trial, []).append(score_of(metric, value, tasks))
    for record in records:
        if record.replicate == 0 and record.trial_id in scores:
            yield record, list(itertools.accumulate(scores[record.trial_id], max))
