"""Charts of a search: its history, importances, slices, parallel coordinates, and what was pruned when."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from mtlib.tasks import Task, score_of, title_of, value_of
from results.analysis.effects.searched_keys import SearchedKey
from results.analysis.ranking.render import value_text
from results.figures.chart import Axis, Bars, Chart, Panel, Series
from results.figures.hover import last_part, trial_text
from results.records.rungs import REDUCTION_FACTOR, rungs_up_to
from results.records.trials import COMPLETED, OVERALL, TrialRecord

KINDS = ("trained to the end", "pruned", "not ended", "failed")
"""Trials in the legend, in the order of styles."""
KEPT, STOPPED = "not stopped", "stopped here"
MAX_AXES = 10
"""Keys side by side in parallel coordinates; the first ones of the space."""
HIGH, MIDDLE, LOW = "best quarter", "second quarter", "lower half"


def history_chart(records: Sequence[TrialRecord], metric: str) -> Chart:
    """The best score of each trial in the order in which they started, and the best so far."""
    begun = [record for record in sorted(records, key=start_order) if metric in record.best]
    marks = []
    for style, kind in enumerate(KINDS):
        own = [(place, record) for place, record in enumerate(begun, 1) if kind_of(record) == kind]
        if own:
            scores = [record.best[metric] for _, record in own]
            marks.append(
                Series(
                    x=[place for place, _ in own],
                    y=scores,
                    hover=[score_text(record, metric) for _, record in own],
                    name=kind,
                    style=style,
                )
            )
    counted = [(place, record.best[metric]) for place, record in enumerate(begun, 1) if record.status != "failed"]
    best = list(itertools.accumulate((score for _, score in counted), max))
    places = [place for place, _ in counted]
    line = Series(x=places, y=best, mode="steps", name="best so far", style=7, dash="solid")
    rows = [(record.trial_id, record.status, record.best[metric]) for record in begun]
    return Chart(
        name="history",
        title="History of the search",
        caption=f"The highest {metric} dev score of each trial, in the order in which they started. Failed trials are "
        "not among the best.",
        panels=[Panel(x=Axis(title="trial"), y=Axis(title=metric), marks=[line, *marks])] if begun else [],
        frame=pd.DataFrame(rows, columns=["trial", "status", metric]),
    )


def start_order(record: TrialRecord) -> tuple[str, int, int]:
    """Trials in the order in which they started; reused ones have no time and come first."""
    return record.started or "", record.number, record.replicate


def kind_of(record: TrialRecord) -> str:
    """How far a trial was trained."""
    if record.status in COMPLETED:
        return KINDS[0]
    return {"pruned": KINDS[1], "failed": KINDS[3]}.get(record.status, KINDS[2])


def score_text(record: TrialRecord, metric: str) -> str:
    """A trial with its best score."""
    return trial_text(record, f"{metric} {record.best[metric]:.3f} at epoch {record.best_epoch[metric]}")


def importance_chart(importances: Mapping[str, float]) -> Chart:
    """The share of the scores' variance that each key explains."""
    keys = sorted(importances, key=lambda key: -importances[key])
    bars = Bars(
        categories=keys,
        values=[importances[key] for key in keys],
        hover=[f"{key}\n{importances[key]:.1%} of the variance" for key in keys],
        along="x",
    )
    y = Axis(scale="category", categories=keys)
    return Chart(
        name="importance",
        title="Importance of the searched keys",
        caption="The share of the variance of the configurations' scores that each key explains by itself or with "
        "others, estimated by a random forest (fANOVA, Hutter et al. 2014); rough where configurations are few.",
        panels=[Panel(x=Axis(title="share of the variance"), y=y, marks=[bars])] if keys else [],
        frame=pd.DataFrame({"key": keys, "importance": [importances[key] for key in keys]}),
    )


def slice_chart(records: Sequence[TrialRecord], keys: Sequence[SearchedKey], metric: str) -> Chart:
    """The best scores against each key, whatever the other keys."""
    scored = [record for record in records if metric in record.best and record.status != "failed"]
    panels = [slice_panel(scored, key, metric) for key in keys]
    return Chart(
        name="slices",
        title="Slices",
        caption=f"The highest {metric} dev score of each trial against each key. What looks like an effect may be that "
        "of another key that a search varied along with it.",
        panels=[panel for panel in panels if any(len(mark.x) for mark in panel.marks if isinstance(mark, Series))],
        frame=pd.DataFrame([{"trial": r.trial_id, metric: r.best[metric], **r.params} for r in scored]),
    )


def slice_panel(records: Sequence[TrialRecord], key: SearchedKey, metric: str) -> Panel:
    """The scores against one key."""
    marks = []
    for style, kind in enumerate(KINDS):
        own = [r for r in records if kind_of(r) == kind and key.value_of(r.params) is not None]
        if own:
            values = [key.value_of(record.params) for record in own]
            marks.append(
                Series(
                    x=values if key.range else [value_text(value) for value in values],
                    y=[record.best[metric] for record in own],
                    hover=[score_text(record, metric) for record in own],
                    name=kind,
                    style=style,
                )
            )
    if key.range:
        x = Axis(title=key.name, scale="log" if key.range.is_log else "linear")
    else:
        x = Axis(title=key.name, scale="category", categories=[value_text(value) for value in key.values])
    return Panel(title=key.name, x=x, y=Axis(title=metric), marks=marks)


def parallel_chart(records: Sequence[TrialRecord], keys: Sequence[SearchedKey], metric: str) -> Chart:
    """Each trial as a line through its values of all keys, to its score."""
    shown = list(keys)[:MAX_AXES]
    scored = sorted((r for r in records if metric in r.best and r.status != "failed"), key=lambda r: r.best[metric])
    names = [*(last_part(key.name) for key in shown), metric]
    names = [
        name if names.count(name) == 1 else key.name for name, key in zip(names, [*shown, None], strict=True) if key
    ]
    names = [*names, metric]
    groups: dict[str, list[TrialRecord]] = {LOW: [], MIDDLE: [], HIGH: []}
    for place, record in enumerate(scored, 1):
        share = place / len(scored)
        groups[HIGH if share > 0.75 else MIDDLE if share > 0.5 else LOW].append(record)
    marks = [
        parallel_lines(own, shown, names, scored, metric, style, name)
        for style, (name, own) in zip((0, 1, 0), groups.items(), strict=True)
        if own
    ]
    left_out = f" The first {MAX_AXES} of {len(keys)} keys are shown." if len(keys) > MAX_AXES else ""
    return Chart(
        name="parallel-coordinates",
        title="Parallel coordinates",
        caption="Each line is a trial. Each key has an axis of its own, from its lowest to its highest value, or its "
        f"values in their order; hovering a line shows them.{left_out}",
        panels=[
            Panel(
                x=Axis(scale="category", categories=names),
                y=Axis(title="position in the range", ticks=((0.0, "low"), (0.5, "middle"), (1.0, "high"))),
                marks=marks,
            )
        ]
        if len(scored) > 1
        else [],
        frame=pd.DataFrame([{"trial": r.trial_id, metric: r.best[metric], **r.params} for r in scored]),
    )


def parallel_lines(
    records: Sequence[TrialRecord],
    keys: Sequence[SearchedKey],
    names: Sequence[str],
    scored: Sequence[TrialRecord],
    metric: str,
    style: int,
    name: str,
) -> Series:
    """The lines of some trials, with gaps between them."""
    low, high = scored[0].best[metric], scored[-1].best[metric]
    x: list[float | str] = []
    y: list[float | str | None] = []
    hover: list[str] = []
    for record in records:
        at = (record.best[metric] - low) / (high - low) if high > low else 0.5
        x += [*names, names[-1]]
        y += [*(position(key, key.value_of(record.params)) for key in keys), at, None]
        hover += [score_text(record, metric)] * (len(names) + 1)
    return Series(x=x, y=y, hover=hover, mode="line", style=style, name=name, is_faint=name == LOW, dash="solid")


def position(key: SearchedKey, value: Any) -> float | None:
    """A value's place on its axis, 0 to 1; None where a trial has none."""
    if value is None:
        return None
    if not key.range:
        return key.values.index(value) / (len(key.values) - 1) if len(key.values) > 1 else 0.5
    scale = math.log if key.range.is_log else float
    low, high, at = scale(key.range.low), scale(key.range.high), scale(value)
    return (at - low) / (high - low)


def pruning_chart(records: Sequence[TrialRecord]) -> Chart:
    """After how many epochs trials ended, and why."""
    begun = [record for record in records if record.epochs > 0]
    counts = {kind: Counter(r.epochs for r in begun if kind_of(r) == kind) for kind in KINDS}
    epochs = sorted({record.epochs for record in begun})
    names = [str(epoch) for epoch in epochs]
    marks = [
        Bars(
            categories=names,
            values=[own[epoch] for epoch in epochs],
            name=kind,
            hover=[f"{own[epoch]} trials {kind}\nafter epoch {epoch}" for epoch in epochs],
            style=style,
        )
        for style, (kind, own) in enumerate(counts.items())
        if own
    ]
    rows = [(kind, epoch, own[epoch]) for kind, own in counts.items() for epoch in sorted(own)]
    x = Axis(title="epochs trained", scale="category", categories=names)
    return Chart(
        name="pruning",
        title="How far trials were trained",
        caption="Trials by the number of their last epoch.",
        panels=[Panel(x=x, y=Axis(title="trials"), marks=marks)] if marks else [],
        frame=pd.DataFrame(rows, columns=["trials", "epochs", "count"]),
    )


def rungs_chart(records: Sequence[TrialRecord], curves: pd.DataFrame, tasks: Mapping[str, Task], metric: str) -> Chart:
    """The scores by which successive halving compared the trials at each rung, and which ones it stopped there."""
    rows, hover = [], []
    for record, bests in bests_by_scored_epoch(records, curves, tasks, metric):
        for rung in rungs_up_to(len(bests)):
            is_stopped = record.status == "pruned" and len(bests) == rung
            value = value_of(metric, bests[rung - 1], tasks)
            rows.append((record.trial_id, str(rung), STOPPED if is_stopped else KEPT, value))
            hover.append(trial_text(record, f"best {title_of(metric, tasks)} {value:.3f} at rung {rung}"))
    frame = pd.DataFrame(rows, columns=["trial", "rung", "decision", metric])
    marks = [
        Series(
            x=own["rung"].tolist(),
            y=own[metric].tolist(),
            hover=[hover[row] for row in own.index],
            name=name,
            style=style,
        )
        for style, name in enumerate((KEPT, STOPPED))
        if len(own := frame[frame["decision"] == name])
    ]
    rungs = sorted(frame["rung"].unique(), key=int)
    x = Axis(title="epochs with an overall score", scale="category", categories=rungs)
    return Chart(
        name="rungs",
        title="Rungs",
        caption="After so many epochs asynchronous successive halving (ASHA) compares the best score of a trial with "
        f"those of the trials that were there before it, and lets about one in {REDUCTION_FACTOR} continue. A trial "
        f"that ends there anyway is not stopped, and replicates are not compared. {rung_counts(frame)}",
        panels=[Panel(x=x, y=Axis(title=title_of(metric, tasks)), marks=marks)] if marks else [],
        frame=frame,
    )


def rung_counts(frame: pd.DataFrame) -> str:
    """How many trials reached each rung and were stopped there, in a sentence."""
    reached, stopped = (Counter(own["rung"]) for own in (frame, frame[frame["decision"] == STOPPED]))
    return f"Stopped: {', '.join(f'{stopped[rung]} of {reached[rung]} at {rung}' for rung in reached)}."


def bests_by_scored_epoch(
    records: Sequence[TrialRecord], curves: pd.DataFrame, tasks: Mapping[str, Task], metric: str
) -> Iterator[tuple[TrialRecord, list[float]]]:
    """Each first training with its best scores so far, at the epochs with an overall score, which the rungs count."""
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
