"""Charts of what the searched keys do to the scores: differences with intervals, also beside published ones, and scores
against values."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from mtlib.runtime.command_line import counted
from results.analysis.comparison.trial_scores import TrialScores
from results.analysis.effects.frame import effects_frame
from results.analysis.effects.published_differences import RECOMPUTED_NOTE, ColumnDifferences, mark_of
from results.analysis.effects.searched_keys import SearchedKey
from results.analysis.effects.sweep_effects import ColumnEffects, SweepEffects
from results.analysis.ranking.render import value_text
from results.figures.chart import Axis, Band, Chart, Mark, Panel, Reference, Series
from results.figures.hover import score_described, trial_text, value_names
from results.records.trials import OVERALL, TrialRecord
from search_spaces.published import PublishedTable

TRIAL, MEAN = "trial", "mean"
PUBLISHED, HERE = "published", "here"
MAX_KEYS = 3
"""Keys of a search whose effects are shown on every task."""
PARTS_JOINED = str.maketrans({".": "-", "_": "-", "+": "-", "*": "all", " ": None})
"""How a key becomes a part of a file's name."""


def effect_charts(effects: SweepEffects) -> list[Chart]:
    """A forest plot of each key with listed values."""
    return [
        effect_chart(effects, key) for key in effects.keys if any(key.name in c.values for c in scored_columns(effects))
    ]


def effect_chart(effects: SweepEffects, key: SearchedKey) -> Chart:
    """The differences of a key's values from the base value, with their 95 % intervals, for each task."""
    columns = [
        column
        for column in scored_columns(effects)  # a task may have no value that can be compared with the base
        if any(value.difference is not None for value in column.values.get(key.name, ()))
    ]
    frame = effects_frame(effects)
    return Chart(
        name=f"effects-{file_part(key.name)}",
        title=f"Effect of {key.name}",
        caption=f"Difference in score from {key.name} {value_text(key.base)}, the {key.base_title}. Intervals are "
        "95 %, hold for all values of the key at once, and include the variance of training and of the dev examples; a "
        "value without an interval was not trained often enough.",
        panels=[effect_panel(column, key) for column in columns],
        frame=frame[frame["key"] == key.name],
    )


def column_title_of(column: ColumnEffects) -> str:
    """A score with its metric, and its direction where lower is better."""
    return score_described(column.task, column.tasks)


def scored_columns(effects: SweepEffects) -> list[ColumnEffects]:
    """The scores, the overall one first."""
    return sorted(effects.columns.values(), key=lambda column: column.task != OVERALL)


def effect_panel(column: ColumnEffects, key: SearchedKey) -> Panel:
    """The differences in one score."""
    names = marked_names([value.value for value in column.values[key.name]], key)
    compared = [value for value in column.values[key.name] if value.difference is not None]
    bounds = [column.bounds_of(v.interval) if v.interval else (float("nan"),) * 2 for v in compared]
    hover = []
    for value, (low, high) in zip(compared, bounds, strict=True):
        interval = f"95 %: {low:+.3f} to {high:+.3f}" if value.interval else "interval not known"
        mean, difference = column.value_of(value.mean), column.value_of(value.difference or 0.0)
        lines = [f"{key.name} {names[value.value]}", f"{column.title} {mean:.3f}, {difference:+.3f}", interval]
        hover.append("\n".join([*lines, counted(value.num_trials, "trial")]))
    base = [value for value in column.values[key.name] if value.value == key.base]
    marks: list[Mark] = [
        Reference(at=0.0, across="x"),
        Series(
            x=[column.value_of(value.difference or 0.0) for value in compared],
            y=[names[value.value] for value in compared],
            hover=hover,
            low=[low for low, _ in bounds],
            high=[high for _, high in bounds],
            interval_along="x",
        ),
        Series(
            x=[0.0 for _ in base],
            y=[names[value.value] for value in base],
            hover=[f"{key.name} {names[v.value]}\n{column.title} {column.value_of(v.mean):.3f}" for v in base],
            style=7,
        ),
    ]
    x, y = Axis(title="difference"), Axis(scale="category", categories=list(names.values()), title=key.name)
    return Panel(title=column_title_of(column), x=x, y=y, marks=marks)


def marked_names(values: Iterable[Any], key: SearchedKey) -> dict[Any, str]:
    """Values on an axis; the one that others are compared with is marked: `0 (base)`."""
    mark = f" ({key.base_title.removesuffix(' value')})"
    return {value: name + mark * (value == key.base) for value, name in value_names(values).items()}


def value_charts(effects: SweepEffects, records: Sequence[TrialRecord], scores: TrialScores) -> list[Chart]:
    """For each key the scores of all trials against its values.

    Of many keys only those with an estimated effect, and the score that the search maximised alone.
    """
    if len(effects.keys) <= MAX_KEYS:
        return [value_chart(effects, records, scores, key) for key in effects.keys]
    overall = {name: column for name, column in effects.columns.items() if name == effects.metric}
    fitted = {key for column in overall.values() for key in (*column.values, *column.curves)}
    only = replace(effects, columns=overall)
    return [value_chart(only, records, scores, key) for key in effects.keys if key.name in fitted]


def value_chart(effects: SweepEffects, records: Sequence[TrialRecord], scores: TrialScores, key: SearchedKey) -> Chart:
    """The scores of all trials against a key's values, replicates as points."""
    columns = scored_columns(effects)
    rows = [row for column in columns for row in trial_rows(column, records, scores, key)]
    frame = pd.DataFrame(rows, columns=["trial", "task", "value", "score", "hover"])
    curve = (
        " The line is the fitted curve. The area is the 95 % interval of its difference from its mean, at each point "
        "alone: it shows how certain the shape is, not the level."
        if key.range
        else ""
    )
    return Chart(
        name=f"scores-{file_part(key.name)}",
        title=f"Scores against {key.name}",
        caption=f"Each point is a trial at the epoch of its highest overall dev score.{curve}",
        panels=[value_panel(column, frame[frame["task"] == column.task], key) for column in columns],
        frame=frame.drop(columns="hover"),
    )


def trial_rows(
    column: ColumnEffects, records: Sequence[TrialRecord], scores: TrialScores, key: SearchedKey
) -> Iterator[dict[str, Any]]:
    """The trials that have a score and a value of the key."""
    dev_scores = scores.values.get((column.task, "dev"), {})
    for record in records:
        value = key.value_of(record.params)
        if record.trial_id in dev_scores and value is not None:
            score = column.value_of(dev_scores[record.trial_id])
            hover = trial_text(record, f"{column.title} {score:.3f}")
            yield {"trial": record.trial_id, "task": column.task, "value": value, "score": score, "hover": hover}


def value_panel(column: ColumnEffects, frame: pd.DataFrame, key: SearchedKey) -> Panel:
    """The trials' values of one score."""
    title = column_title_of(column)
    y = Axis(title=title)
    if key.range:
        x = Axis(title=key.name, scale="log" if key.range.is_log else "linear")
        points = Series(x=list(frame["value"]), y=list(frame["score"]), hover=list(frame["hover"]), name=TRIAL)
        return Panel(title=title, x=x, y=y, marks=[*curve_marks(column, key), points])
    names = marked_names(
        [*key.values, *frame["value"].tolist()], key
    )  # a trial that is not finished may have another value
    points = Series(
        x=[names[value] for value in frame["value"]],
        y=list(frame["score"]),
        hover=list(frame["hover"]),
        name=TRIAL,
        is_faint=True,
    )
    means = column.values.get(key.name, ())
    mean = Series(
        x=[names[value.value] for value in means],
        y=[column.value_of(value.mean) for value in means],
        hover=[f"{key.name} {names[v.value]}\nmean {column.value_of(v.mean):.3f}" for v in means],
        name=MEAN,
        style=1,
    )
    x = Axis(title=key.name, scale="category", categories=list(names.values()))
    return Panel(title=title, x=x, y=y, marks=[points, mean])


def curve_marks(column: ColumnEffects, key: SearchedKey) -> list[Mark]:
    """The fitted curve with its band; none where there is no fit."""
    if key.name not in column.curves:
        return []
    curve = column.curves[key.name]
    means = [column.value_of(mean) for mean in curve.means]
    widths = curve.half_widths.tolist()
    low = [mean - width for mean, width in zip(means, widths, strict=True)]
    high = [mean + width for mean, width in zip(means, widths, strict=True)]
    points = curve.points.tolist()
    line = Series(x=points, y=means, mode="line", name="fitted curve", style=1, dash="solid")
    return [Band(x=points, low=low, high=high, name="95 % band", style=1), line]


def file_part(key: str) -> str:
    """A key as a part of a file's name."""
    return key.translate(PARTS_JOINED)


def published_chart(table: PublishedTable, found: Sequence[ColumnDifferences], number: int) -> Chart:
    """Published differences from the base value beside the sweep's, with their intervals.

    Args:
        table: where they are published.
        found: of `find_differences`.
        number: of the table among those of the question, from 1.
    """
    rows = [
        (own, name, difference)
        for own in found
        for name, difference in zip(difference_names(own).values(), own.differences, strict=True)
    ]
    return Chart(
        name=f"published-differences-{number}",
        title=f"Differences beside {table.paper}, {table.table}",
        caption="Score minus that of the value that the axis names. The papers trained each configuration once, so "
        "that their differences have no interval."
        + (f" {RECOMPUTED_NOTE}" if any(difference.is_recomputed for *_, difference in rows) else ""),
        panels=[differences_panel(own) for own in found],
        frame=pd.DataFrame(
            {
                "task": [own.column.task for own, *_ in rows],
                "key": [own.key.name for own, *_ in rows],
                "base": [value_text(own.key.base) for own, *_ in rows],
                "value": [name for _, name, _ in rows],
                HERE: [difference.here for *_, difference in rows],
                "low": [difference.bounds[0] for *_, difference in rows],
                "high": [difference.bounds[1] for *_, difference in rows],
                "comparison": [difference.verdict for *_, difference in rows],
                PUBLISHED: [difference.published for *_, difference in rows],
                "is_recomputed": [difference.is_recomputed for *_, difference in rows],
            }
        ),
    )


def differences_panel(found: ColumnDifferences) -> Panel:
    """The sweep's differences in one score with their intervals, and the published ones."""
    key, differences, names = found.key, found.differences, difference_names(found)
    values = [names[difference.value] for difference in differences]
    marks: list[Mark] = [
        Reference(at=0.0, across="x"),
        Series(
            x=[difference.here for difference in differences],
            y=values,
            low=[difference.bounds[0] for difference in differences],
            high=[difference.bounds[1] for difference in differences],
            interval_along="x",
            hover=[f"{key.name} {names[difference.value]}\n{difference.verdict}" for difference in differences],
            name=f"{HERE}, 95 % interval",
        ),
        Series(
            x=[difference.published for difference in differences],
            y=values,
            hover=[
                f"{key.name} {names[difference.value]}\n{PUBLISHED} {difference.published:+.3f}"
                + mark_of(difference.is_recomputed)
                for difference in differences
            ],
            name=PUBLISHED,
            style=1,
        ),
    ]
    y = Axis(scale="category", categories=list(names.values()), title=key.name)
    x = Axis(title=f"difference from {key.name} {value_text(key.base)}")
    return Panel(title=column_title_of(found.column), x=x, y=y, marks=marks)


def difference_names(found: ColumnDifferences) -> dict[Any, str]:
    """The values that are compared, as they are shown."""
    return value_names([difference.value for difference in found.differences])
