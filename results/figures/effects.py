"""Figures of what the searched keys do: differences with intervals, and scores by value."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import plotly.graph_objects as go

from mtlib.runtime.command_line import counted
from results.figures.draw import Panel, Trace, axis, band, figure_of, series, shortened
from results.figures.hover import score_title, trial_text
from results.records.trials import OVERALL, TrialRecord
from results.stats.effects.key_effects import ValueEffect
from results.stats.effects.searched_keys import NO_VALUE, SearchedKey, is_numeric
from results.stats.effects.sweep_effects import ColumnEffects, SweepEffects
from results.stats.texts import value_text, value_texts
from results.stats.trial_scores import TrialScores

MAX_KEYS = 3
"""Keys of a search whose effects are shown on every task."""
PARTS_JOINED = str.maketrans({".": "-", "_": "-", "+": "-", "*": "all", " ": None})
"""How a key becomes a part of a figure's name."""
MOST_LETTERS = 20
"""Letters of a value in an axis title: beyond, the titles of two panels side by side may overlap."""
NOT_COUNTED = "trial that is not compared"
"""Trials in the legend that the means leave out."""
SIGNIFICANT, UNDECIDED = "significant, 95 %", "not decided"
"""Differences in the legend."""


def forest_plots(effects: SweepEffects) -> list[go.Figure]:
    """Returns a forest plot of each key with listed values."""
    columns = scored_columns(effects)
    return [forest_plot(effects, key) for key in effects.keys if any(key.name in own.values for own in columns)]


def answer_figures(effects: SweepEffects, records: Sequence[TrialRecord], scores: TrialScores) -> Iterator[go.Figure]:
    """Yields for a few keys, decided ones first, what the answer in words says: intervals of values, or a curve.

    Only scores that the question is about are shown: the one that the search maximised, and of a key of one task that
    task's.
    """
    for key in sorted(effects.keys, key=lambda key: not is_decided(effects, key))[:MAX_KEYS]:
        columns = {own.task: own for own in effects.columns.values() if own.task == key.task or own in effects.compared}
        only = replace(effects, columns={name: own for name, own in columns.items() if own.is_known})
        if any(key.name in own.values for own in only.columns.values()):
            yield forest_plot(only, key, name="answer")
        elif any(key.name in own.curves for own in only.columns.values()):
            yield scores_by_value(only, records, scores, key, name="answer")


def is_decided(effects: SweepEffects, key: SearchedKey) -> bool:
    """Returns whether a difference of the key's values, or its curve, is significant in a score of the question."""
    return any(
        any(value.is_significant for value in column.values.get(key.name, ()))
        or (key.name in column.curves and column.curves[key.name].is_significant)
        for column in effects.compared
    )


def forest_plot(effects: SweepEffects, key: SearchedKey, name: str = "effects") -> go.Figure:
    """Returns the differences of a key's values from the base value, with their 95 % intervals, for each task."""
    columns = [  # a task may have no value that can be compared with the base
        column
        for column in scored_columns(effects)
        if any(value.difference is not None for value in column.values.get(key.name, ()))
    ]
    return figure_of(
        name=f"{name}-{file_part(key.name)}",
        title=f"Effect of {key.name}",
        caption=forest_caption(key, [value for column in columns for value in column.values[key.name]]),
        panels=[effect_panel(column, key) for column in columns],
    )


def forest_caption(key: SearchedKey, values: Sequence[ValueEffect]) -> str:
    """Returns what is drawn of a key's values, and how to read it."""
    compared = [value for value in values if value.difference is not None]
    known = [value for value in compared if value.interval is not None]
    base = "" if key.base is NO_VALUE else f"{key.name} {value_text(key.base)}, "
    sentences = [f"Paired differences in score from {base}the {key.base_title}."]
    if known:
        sentences.append(
            "Intervals are 95 %, hold for all values of the key at once and however often you look, and include the "
            "variance of training and of the dev examples."
        )
    if len({value.is_significant for value in known}) > 1:
        sentences.append("Intervals that exclude 0 are coloured, others are grey.")
    if len(known) < len(compared):
        sentences.append("A value without an interval was not trained often enough, or dev rows are in too few groups.")
    return " ".join(sentences)


def scored_columns(effects: SweepEffects) -> list[ColumnEffects]:
    """Returns the scores, the overall one first."""
    return sorted(effects.columns.values(), key=lambda column: column.task != OVERALL)


def effect_panel(column: ColumnEffects, key: SearchedKey) -> Panel:
    """Returns the differences in one score."""
    values, key = column.values[key.name], column.key_of(key)
    names = marked_names([value.value for value in values], key)
    compared = [value for value in values if value.difference is not None]
    traces = [
        effect_series(column, key, names, [value for value in compared if value.is_significant], name=SIGNIFICANT),
        effect_series(column, key, names, [value for value in compared if not value.is_significant], name=UNDECIDED),
    ]
    base = [value for value in values if value.value == key.base]
    hover = [f"{key.name} {names[value.value]}\n{column.title} {column.value_of(value.mean):.3f}" for value in base]
    traces.append(series([0.0] * len(base), [names[value.value] for value in base], hover=hover, style=2))
    y = axis(key.name, categories=list(names.values()))
    x = axis(f"difference from {shortened(value_text(key.base), MOST_LETTERS)}")  # panels stand side by side
    return Panel(score_title(column.task, column.tasks), x, y, traces, [0.0])


def effect_series(
    column: ColumnEffects, key: SearchedKey, names: dict[Any, str], values: Sequence[ValueEffect], *, name: str
) -> Trace:
    """Returns the differences of some values; undecided ones are grey."""
    bounds = [column.bounds_of(value.interval) if value.interval else (float("nan"),) * 2 for value in values]
    hover = []
    for value, (low, high) in zip(values, bounds, strict=True):
        interval = f"95 %: {low:+.3f} to {high:+.3f}" if value.interval else "interval not known"
        mean, difference = column.value_of(value.mean), column.value_of(value.difference or 0.0)
        lines = [f"{key.name} {names[value.value]}", f"{column.title} {mean:.3f}, {difference:+.3f}", interval]
        hover.append("\n".join([*lines, counted(value.num_trials, "trial")]))
    return series(
        [column.value_of(value.difference or 0.0) for value in values],
        [names[value.value] for value in values],
        name=name,
        hover=hover,
        low=[low for low, _ in bounds],
        high=[high for _, high in bounds],
        along="x",
        style=7 if name == UNDECIDED else 0,
    )


def marked_names(values: Iterable[Any], key: SearchedKey) -> dict[Any, str]:
    """Values on an axis, numbers in their order; the one that others are compared with is marked: `0 (base)`."""
    mark = " (best mean)" if key.is_picked else f" ({key.base_title.removesuffix(' value')})"
    different = list(dict.fromkeys(values))
    names = dict(zip(different, value_texts(different), strict=True))
    ordered = sorted(names) if all(map(is_numeric, names)) else list(names)
    return {value: names[value] + mark * (value == key.base) for value in ordered}


def value_figures(effects: SweepEffects, records: Sequence[TrialRecord], scores: TrialScores) -> list[go.Figure]:
    """For each key the scores of all trials against its values.

    Of many keys only those with an estimated effect, and the score that the search maximised alone.
    """
    if len(effects.keys) <= MAX_KEYS:
        return [scores_by_value(effects, records, scores, key) for key in effects.keys]
    overall = {name: column for name, column in effects.columns.items() if name == effects.metric}
    fitted = {key for column in overall.values() for key in (*column.values, *column.curves)}
    only = replace(effects, columns=overall)
    return [scores_by_value(only, records, scores, key) for key in effects.keys if key.name in fitted]


def scores_by_value(
    effects: SweepEffects, records: Sequence[TrialRecord], scores: TrialScores, key: SearchedKey, name: str = "scores"
) -> go.Figure:
    """Returns the scores of all trials against a key's values, replicates as points."""
    curve = (
        " The line is the fitted curve. The area is the 95 % interval of its difference from its mean, at each point "
        "alone: it shows how certain the shape is, not the level."
        if any(key.name in column.curves for column in effects.columns.values())
        else ""
    )
    return figure_of(
        name=f"{name}-{file_part(key.name)}",
        title=f"Scores against {key.name}",
        caption="Scores as they are, not differences: each point is a trial at the epoch of its highest overall dev "
        f"score.{curve}",
        panels=[value_panel(column, records, scores, key, effects.counted) for column in scored_columns(effects)],
    )


def value_panel(
    column: ColumnEffects,
    records: Sequence[TrialRecord],
    scores: TrialScores,
    key: SearchedKey,
    counted: Collection[str] = (),
) -> Panel:
    """Returns the trials' values of one score; those that are not `counted`, if any are, as outlines."""
    dev_scores, title = scores.values.get((column.task, "dev"), {}), score_title(column.task, column.tasks)
    scored = [record for record in records if record.trial_id in dev_scores]
    shown = [record for record in scored if key.value_of(record.params) is not NO_VALUE]
    values = [key.value_of(record.params) for record in shown]
    heights = [column.value_of(dev_scores[record.trial_id]) for record in shown]
    hover = [trial_text(record, f"{column.title} {height:.3f}") for record, height in zip(shown, heights, strict=True)]
    if key.range:
        x = axis(key.name, scale="log" if key.range.log else "linear")
        points = series(values, heights, hover=hover, name="trial")
        return Panel(title, x, axis(title), [*curve_traces(column, key), points])
    # A trial that is not finished may have another value.
    names = marked_names([*key.values, *values], column.key_of(key))
    means = column.values.get(key.name, ())
    mean = series(
        [names[value.value] for value in means],
        [column.value_of(value.mean) for value in means],
        hover=[f"{key.name} {names[own.value]}\nmean {column.value_of(own.mean):.3f}" for own in means],
        name="mean",
        style=1,
    )
    traces = []
    for name, is_hollow in (("trial", False), (NOT_COUNTED, True)):
        places = [place for place, own in enumerate(shown) if (own.trial_id in counted or not counted) != is_hollow]
        where = [names[values[place]] for place in places]
        texts = [hover[place] for place in places]
        own_heights = [heights[place] for place in places]
        traces.append(series(where, own_heights, hover=texts, name=name, is_faint=True, is_hollow=is_hollow))
    return Panel(title, axis(key.name, categories=list(names.values())), axis(title), [*traces, mean])


def curve_traces(column: ColumnEffects, key: SearchedKey) -> list[Trace]:
    """Returns the fitted curve with its band; none where there is no fit."""
    if key.name not in column.curves:
        return []
    curve = column.curves[key.name]
    points, widths = curve.points.tolist(), curve.half_widths.tolist()
    means = [column.value_of(mean) for mean in curve.means]
    low = [mean - width for mean, width in zip(means, widths, strict=True)]
    high = [mean + width for mean, width in zip(means, widths, strict=True)]
    line = series(points, means, mode="lines", name="fitted curve", style=1, dash="solid")
    return [band(points, low, high, name="95 % band", style=1), line]


def file_part(key: str) -> str:
    """Returns a key as a part of a figure's name."""
    return key.translate(PARTS_JOINED)
