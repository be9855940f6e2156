"""Facts about one key of a grid: which value to use, what is decided, and what more replicates would show."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from results.stats.effects.key_effects import Trend, ValueEffect
from results.stats.effects.searched_keys import SearchedKey, in_value_order, is_numeric
from results.stats.power import Precision

MOST_WORTH = 10
"""Replicates up to which more are proposed to decide a difference: more are not worth their time."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What more replicates would show of a difference."""

    size: float
    """The size of the difference, above 0."""
    of: ValueEffect | None
    """The undecided value with this difference; None of a difference that was asked for."""
    base: Any
    """The value that it is compared with."""
    needed: int | None
    """The fewest replicates with which it is found; None if `MAX_REPLICATES` do not suffice."""
    times_rows: float
    """How many times as many dev rows very many replicates need to find it; above 1, no number of replicates finds it
    on this dev set."""
    is_found: bool
    """Whether it is found with the present replicates."""


@dataclass(frozen=True, kw_only=True)
class KeyAnswer:
    """Facts about a key's listed values, compared with its base value by one score."""

    key: SearchedKey
    chosen: Any
    """The value to use: the base, unless another one is better. A base that was picked by its mean is to be used only
    where nothing is undecided."""
    better: tuple[ValueEffect, ...]
    """Significantly better values, the best first."""
    worse: tuple[ValueEffect, ...]
    """Significantly worse values, the worst first."""
    undecided: tuple[ValueEffect, ...]
    """Others that were compared, the best first."""
    same: tuple[ValueEffect, ...]
    """Values that trained the same as the base."""
    not_compared: tuple[ValueEffect, ...]
    """Values that no trial has with all else equal to a trial of the base."""
    trend: Trend | None
    """A significant trend, where no single difference shows it."""
    edge: str = ""
    """Where another value than the configured one is the one to use: whether it is the `largest` or `smallest` of three
    numbers or more; one beyond it may be better. Nothing is beyond 0."""

    @property
    def is_compared(self) -> bool:
        """Whether some value was compared with the base and trained otherwise."""
        return bool(self.better or self.worse or self.undecided)

    @property
    def is_decided(self) -> bool:
        """Whether a value is shown to be better than the base, or every other one to be worse."""
        all_worse = self.worse and not self.undecided
        return bool(self.better or all_worse or (self.trend and self.trend.is_better))

    @property
    def is_kept(self) -> bool:
        """Whether the base value is the one to use."""
        return bool(self.chosen == self.key.base)

    @property
    def bound(self) -> float | None:
        """No undecided value is better than the base by more, with the confidence of the intervals;
        None if there is none."""
        ends = [value.interval[1] for value in self.undecided if value.interval is not None]
        return max(0.0, *ends) if ends else None


def key_answer(key: SearchedKey, values: Sequence[ValueEffect], trend: Trend | None) -> KeyAnswer:
    """Returns the facts from the differences of a key's values and the trend over them."""
    by_value = {own.value: own for own in values}
    values = [by_value[value] for value in in_value_order(by_value)]
    found = [own for own in values if own.difference is not None]
    others = sorted((value for value in found if not value.is_same), key=lambda own: -(own.difference or 0.0))
    better = [value for value in others if value.is_significant and (value.difference or 0.0) > 0]
    worse = [value for value in others if value.is_significant and (value.difference or 0.0) < 0]
    shown = any(value.is_significant for value in found if trend is not None and value.value == trend.first)
    own_trend = None if shown else trend
    chosen = key.base
    if better:
        chosen = better[0].value
    elif own_trend is not None and own_trend.is_better:
        reaches = [value for value in others if is_beyond(value.value, own_trend)]
        chosen = reaches[0].value
    undecided = [value for value in others if not value.is_significant]
    is_advised = chosen != key.base or (key.is_picked and worse and not undecided)
    return KeyAnswer(
        key=key,
        chosen=chosen,
        better=tuple(better),
        worse=tuple(reversed(worse)),
        undecided=tuple(undecided),
        same=tuple(value for value in found if value.is_same),
        not_compared=tuple(value for value in values if value.difference is None and value.value != key.base),
        trend=own_trend,
        edge=edge_of(chosen, list(by_value)) if is_advised else "",
    )


def edge_of(chosen: Any, values: Sequence[Any]) -> str:
    """Returns whether a value is the `largest` or `smallest` of three numbers or more; empty if not, or of 0."""
    if len(values) < 3 or not all(map(is_numeric, values)):
        return ""
    ends = {min(values): "smallest", max(values): "largest"}
    return ends.get(chosen, "") if chosen != 0 else ""


def is_beyond(value: float, trend: Trend) -> bool:
    """Returns whether a value is at the first one at which a trend is significant, or farther from the base."""
    return value >= trend.first if trend.is_upward else value <= trend.first


def largest_undecided(answer: KeyAnswer) -> ValueEffect | None:
    """Returns the undecided value that more replicates are to decide; None where one is better, or the trend shows at
    least as much.

    It is the one with the largest difference from the base; from a base that was picked by its mean the next best.
    """
    trend = answer.trend
    if not answer.is_kept:
        return None
    found = [value for value in answer.undecided if value.interval is not None]
    if answer.key.is_picked:
        return found[0] if found else None  # the next best: that one decides which is the best
    if trend is not None:
        found = [value for value in found if not is_beyond(value.value, trend)]
    return max(found, key=lambda value: abs(value.difference or 0.0), default=None)


def forecast(
    answer: KeyAnswer, precision: Precision, most_replicates: int, difference: float | None = None
) -> Forecast | None:
    """Returns what more replicates would show: of a given difference, or of the largest undecided one;
    None if there is none.

    Args:
        answer: of the key.
        precision: of the key's differences.
        most_replicates: of a configuration; they have not decided the largest undecided difference.
        difference: above 0; None for the largest undecided one.
    """
    undecided, size = None, difference
    if size is None:
        undecided = largest_undecided(answer)
        if undecided is None:
            return None
        size, precision = abs(undecided.difference or 0.0), precision.of_value(undecided.value)
    needed = precision.replicates_needed(size)
    if undecided is not None and needed is not None:
        needed = max(needed, most_replicates + 1)
    is_found = needed is not None and needed <= precision.num_replicates
    times_rows = (precision.finest / size) ** 2 if size else math.inf  # errors fall with the root of the rows
    base = answer.key.base
    return Forecast(size=size, of=undecided, base=base, needed=needed, times_rows=times_rows, is_found=is_found)
