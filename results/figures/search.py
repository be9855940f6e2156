"""Charts of a search: its history, importances, slices and parallel coordinates."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mtlib.tasks import Task, value_of
from results.analysis.effects.searched_keys import KeyRange, SearchedKey
from results.analysis.ranking.render import short_numbers
from results.analysis.ranking.short_keys import short_keys
from results.figures.chart import Axis, Bars, Chart, Labels, Panel, Series
from results.figures.hover import score_described, score_title, trial_text, value_names
from results.records.trials import COMPLETED, TrialRecord

KINDS = ("trained to the end", "pruned", "not ended", "failed")
"""Trials in the legend, in the order of styles."""
MAX_AXES = 10
"""Keys side by side in parallel coordinates."""
MAX_NAMED_VALUES = 5
"""Listed values of a key that are all named on its axis; of more the first, the middle and the last one are."""
MAX_AXIS_CHARACTERS = 32
"""What an axis of parallel coordinates has room for on a narrow screen, so that texts stand side by side."""
NUM_NAME_CHARACTERS = 12
"""Of the axes' names, beside which there is so much room; each one more takes one from the texts."""
HIGH, MIDDLE, LOW = "best quarter", "second quarter", "other half"


@dataclass(frozen=True, kw_only=True)
class SearchedScore:
    """The score that a search maximised, which charts show as the value of its metric."""

    name: str
    """A task, or `overall`."""
    tasks: Mapping[str, Task]
    """The definitions of the sweep's tasks."""

    @property
    def title(self) -> str:
        """E.g. `STS, RMSE`; `overall` stays."""
        return score_title(self.name, self.tasks)

    @property
    def described(self) -> str:
        """The title with the direction, for a caption."""
        return score_described(self.name, self.tasks)

    def is_comparable(self, records: Sequence[TrialRecord]) -> bool:
        """Whether the trials' scores can be compared: overall scores of different tasks cannot."""
        return self.name in self.tasks or len({frozenset(record.best) for record in records if self.has(record)}) < 2

    def has(self, record: TrialRecord) -> bool:
        """Whether a trial has it."""
        return self.name in record.best

    def value_of(self, record: TrialRecord) -> float:
        """A trial's best value."""
        return value_of(self.name, record.best[self.name], self.tasks)

    def text_of(self, record: TrialRecord) -> str:
        """A trial with its best value."""
        return trial_text(record, f"{self.title} {self.value_of(record):.3f} at epoch {record.best_epoch[self.name]}")

    def frame_of(self, records: Sequence[TrialRecord]) -> pd.DataFrame:
        """A row for each trial with its best value and its searched values."""
        return pd.DataFrame([{"trial": r.trial_id, self.name: self.value_of(r), **r.params} for r in records])


def history_chart(records: Sequence[TrialRecord], score: SearchedScore) -> Chart:
    """The best score of each trial in the order in which they started, and the best so far if they can be compared."""
    started = [record for record in sorted(records, key=start_order) if score.has(record)]
    numbers = {record.trial_id: number for number, record in enumerate(started, 1)}
    marks = [
        Series(
            x=[numbers[record.trial_id] for record in group],
            y=[score.value_of(record) for record in group],
            hover=[score.text_of(record) for record in group],
            name=kind,
            style=style,
        )
        for style, (kind, group) in enumerate(by_kind(started).items())
        if group
    ]
    counted = [record for record in started if record.status != "failed"] if score.is_comparable(started) else []
    best = list(itertools.accumulate(counted, lambda *pair: max(pair, key=lambda record: record.best[score.name])))
    line = Series(
        x=[numbers[record.trial_id] for record in counted],
        y=[score.value_of(record) for record in best],
        hover=[f"best so far\n{score.text_of(record)}" for record in best],
        mode="steps",
        name="best so far",
        style=7,
        dash="solid",
    )
    rows = [(record.trial_id, record.status, score.value_of(record)) for record in started]
    return Chart(
        name="history",
        title="History of the search",
        caption=f"The best dev score of each trial ({score.described}), in the order in which they started. Failed "
        "trials are not among the best.",
        panels=[Panel(x=Axis(title="trial"), y=Axis(title=score.title), marks=[line, *marks])] if started else [],
        frame=pd.DataFrame(rows, columns=["trial", "status", score.name]),
    )


def start_order(record: TrialRecord) -> tuple[str, int, int]:
    """Trials in the order in which they started; reused ones have no time and come first."""
    return record.started or "", record.number, record.replicate


def by_kind(records: Sequence[TrialRecord]) -> dict[str, list[TrialRecord]]:
    """Trials by how far they were trained, for each of `KINDS`."""
    return {kind: [record for record in records if kind_of(record) == kind] for kind in KINDS}


def kind_of(record: TrialRecord) -> str:
    """How far a trial was trained."""
    if record.status in COMPLETED:
        return KINDS[0]
    return {"pruned": KINDS[1], "failed": KINDS[3]}.get(record.status, KINDS[2])


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


def slice_chart(records: Sequence[TrialRecord], keys: Sequence[SearchedKey], score: SearchedScore) -> Chart:
    """The best scores against each key, whatever the other keys."""
    scored = [record for record in records if score.has(record) and record.status != "failed"]
    panels = [slice_panel(scored, key, score) for key in keys]
    return Chart(
        name="slices",
        title="Slices",
        caption=f"The best dev score of each trial ({score.described}) against each key. What looks like an effect may "
        "be that of another key that a search varied along with it.",
        panels=[panel for panel in panels if panel.marks],
        frame=score.frame_of(scored),
    )


def slice_panel(records: Sequence[TrialRecord], key: SearchedKey, score: SearchedScore) -> Panel:
    """The scores against one key, of the trials that have it."""
    names = value_names(key.values)
    groups = by_kind([record for record in records if key.value_of(record.params) is not None])
    marks = []
    for style, (kind, group) in enumerate(groups.items()):
        values = [key.value_of(record.params) for record in group]
        if group:
            marks.append(
                Series(
                    x=values if key.range else [names[value] for value in values],
                    y=[score.value_of(record) for record in group],
                    hover=[score.text_of(record) for record in group],
                    name=kind,
                    style=style,
                )
            )
    if key.range:
        x = Axis(title=key.name, scale="log" if key.range.is_log else "linear")
    else:
        x = Axis(title=key.name, scale="category", categories=list(names.values()))
    return Panel(title=key.name, x=x, y=Axis(title=score.title), marks=marks)


def parallel_chart(
    records: Sequence[TrialRecord],
    keys: Sequence[SearchedKey],
    score: SearchedScore,
    importances: Mapping[str, float],
) -> Chart:
    """Each trial as a line through its values of all keys, to its score.

    Args:
        records: the sweep's trials.
        keys: what was searched.
        score: at the last axis.
        importances: of `key_importances`, by key; empty where they are not known. The most important keys come first,
            and those without one last.
    """
    ordered = sorted(keys, key=lambda key: -importances.get(key.name, 0.0))
    shown = ordered[:MAX_AXES]
    names = [*short_keys([key.name for key in shown], score.title).values(), score.title]
    scored = sorted((r for r in records if score.has(r) and r.status != "failed"), key=lambda r: r.best[score.name])
    ends = KeyRange(low=0.0, high=0.0, is_log=False)
    if scored:
        low, high = sorted((score.value_of(scored[0]), score.value_of(scored[-1])))
        ends = KeyRange(low=low, high=high, is_log=False)
    marks = [
        parallel_lines(group, shown, names, score, ends, name) for name, group in by_quarter(scored).items() if group
    ]
    room = MAX_AXIS_CHARACTERS - max(0, *(len(name) - NUM_NAME_CHARACTERS for name in names))
    texts = [*(axis_texts(key, room) for key in shown), range_texts(ends, axis_scores)]
    most = f"{MAX_AXES} most important" if importances else f"first {MAX_AXES}"
    left_out = f" The {most} of {len(keys)} keys are shown." if len(keys) > MAX_AXES else ""
    y = Axis(scale="category", categories=names)
    x = Axis(ticks=((0.0, "low"), (0.5, "middle"), (1.0, "high")), range=(-0.03, 1.03))
    return Chart(
        name="parallel-coordinates",
        title="Parallel coordinates",
        caption="Each line is a trial, from its values of the keys at the top to its best dev score at the bottom "
        f"({score.described}). Each key has an axis, from its lowest to its highest value, or its values in "
        f"their order; where a trial does not have a key, its line is interrupted.{left_out}",
        panels=[Panel(x=x, y=y, marks=[*marks, axis_labels(names, texts)])] if len(scored) > 1 else [],
        frame=score.frame_of(scored),
    )


def by_quarter(scored: Sequence[TrialRecord]) -> dict[str, list[TrialRecord]]:
    """Trials, given from the lowest score, by their rank: what is drawn first lies below."""
    shares = [number / len(scored) for number in range(1, len(scored) + 1)]
    names = [HIGH if share > 0.75 else MIDDLE if share > 0.5 else LOW for share in shares]
    return {
        group: [record for record, name in zip(scored, names, strict=True) if name == group]
        for group in (LOW, MIDDLE, HIGH)
    }


def parallel_lines(
    records: Sequence[TrialRecord],
    keys: Sequence[SearchedKey],
    names: Sequence[str],
    score: SearchedScore,
    ends: KeyRange,
    name: str,
) -> Series:
    """The lines of some trials, with gaps between them and where a trial does not have a key.

    Args:
        records: at least one trial with a score.
        keys: of the axes.
        names: of the axes, that of the score last.
        score: of the last axis.
        ends: of the last axis.
        name: of these trials in the legend.
    """
    x: list[float] = []
    y: list[str | None] = []
    hover: list[str] = []
    for record in records:
        positions = [position(key, key.value_of(record.params)) for key in keys]
        positions += [position_within(ends, score.value_of(record)), None]
        x += [0.0 if at is None else at for at in positions]
        y += [None if at is None else axis for at, axis in zip(positions, [*names, None], strict=True)]
        hover += [score.text_of(record)] * len(positions)
    style = 1 if name == MIDDLE else 0
    return Series(x=x, y=y, hover=hover, mode="line", style=style, name=name, is_faint=name == LOW, dash="solid")


def position(key: SearchedKey, value: Any) -> float | None:
    """Where a value is on its key's axis, 0 to 1; None where a trial has none."""
    if value is None:
        return None
    if key.range:
        return position_within(key.range, value)
    return key.values.index(value) / (len(key.values) - 1) if len(key.values) > 1 else 0.5


def position_within(ends: KeyRange, value: float) -> float:
    """Where a number is between the ends of a range, 0 to 1; in the middle if they are equal."""
    scale = math.log if ends.is_log else float
    low, high = scale(ends.low), scale(ends.high)
    return (scale(value) - low) / (high - low) if high > low else 0.5


def axis_texts(key: SearchedKey, num_characters: int) -> dict[float, str]:
    """The texts on a key's axis by their position: ends and middle of its range, or its values.

    Args:
        key: of the axis.
        num_characters: what listed values have room for side by side.
    """
    if key.range:
        return range_texts(key.range, short_numbers)
    names = list(value_names(key.values).values())
    last = len(names) - 1
    numbers = range(len(names)) if last < MAX_NAMED_VALUES else (0, (last + 1) // 2, last)
    gaps = max(len(numbers) - 1, 1)
    # Texts at the ends stand within the axis, so that between one and its neighbour there are one and a half.
    length = max(2, int(num_characters / (2 if gaps == 1 else 1.5 * gaps)))
    shown = [names[number] if len(names[number]) <= length else f"{names[number][: length - 1]}…" for number in numbers]
    return {number / last if last else 0.5: text for number, text in zip(numbers, shown, strict=True)}


def range_texts(ends: KeyRange, texts_of: Callable[[Sequence[float]], list[str]]) -> dict[float, str]:
    """The low end, middle and high end of a range by their position; its only value in the middle if they are equal."""
    middle = math.sqrt(ends.low * ends.high) if ends.is_log else (ends.low + ends.high) / 2
    texts = dict(zip((0.0, 0.5, 1.0), texts_of([ends.low, middle, ends.high]), strict=True))
    return texts if ends.high > ends.low else {0.5: texts[0.5]}


def axis_scores(scores: Sequence[float]) -> list[str]:
    """Scores with three decimals."""
    return [f"{score:.3f}" for score in scores]


def axis_labels(names: Sequence[str], texts: Sequence[Mapping[float, str]]) -> Labels:
    """The texts of all axes; those at the ends of an axis stand within it."""
    labels = [
        (at, name, text) for name, by_position in zip(names, texts, strict=True) for at, text in by_position.items()
    ]
    return Labels(
        x=[at for at, _, _ in labels],
        y=[name for _, name, _ in labels],
        texts=[text for _, _, text in labels],
        sides=["left" if at == 0 else "right" if at == 1 else "centre" for at, _, _ in labels],
    )
