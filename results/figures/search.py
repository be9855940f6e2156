"""Charts of a search: its history, importances, slices, parallel coordinates, and what was pruned when."""

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from results.analysis.effects.searched_keys import SearchedKey
from results.analysis.ranking.render import value_text
from results.figures.chart import Axis, Bars, Chart, Panel, Series
from results.figures.hover import last_part, trial_text
from results.records.trials import COMPLETED, TrialRecord

KINDS = ("trained to the end", "pruned", "not ended", "failed")
"""Trials in the legend, in the order of styles."""
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
        caption="Asynchronous successive halving stops trials at its rungs: after 1, 3, 9, ... epochs with an overall "
        "score it keeps about a third of those that got there.",
        panels=[Panel(x=x, y=Axis(title="trials"), marks=marks)] if marks else [],
        frame=pd.DataFrame(rows, columns=["trials", "epochs", "count"]),
    )
