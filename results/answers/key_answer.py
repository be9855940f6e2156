"""What a grid says about one key: which value to use, what is decided, and what more replicates would show."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mtlib.runtime.command_line import counted
from results.stats.key_effects import Trend, ValueEffect
from results.stats.power import Precision
from results.stats.searched_keys import SearchedKey, is_numeric
from results.stats.sweep_effects import ColumnEffects
from results.stats.texts import value_text

MOST_WORTH = 10
"""Replicates up to which more are proposed to decide a difference: more are not worth their time."""


@dataclass(frozen=True, kw_only=True)
class KeyAnswer:
    """Facts about a key's listed values, compared with its base value by one score."""

    key: SearchedKey
    chosen: Any
    """The value to use: the base, unless another one is better."""
    better: tuple[ValueEffect, ...]
    """Significantly better values, the best first."""
    worse: tuple[ValueEffect, ...]
    """Significantly worse values, the worst first."""
    undecided: tuple[ValueEffect, ...]
    """Others that were compared, the best first."""
    same: tuple[ValueEffect, ...]
    """Values that trained the same as the base."""
    are_all_compared: bool
    """Whether every value was trained with all else equal to the base."""
    trend: Trend | None
    """A significant trend, where no single difference shows it."""
    edge: str = ""
    """Whether another value than the base is the one to use, and the `largest` or `smallest` of three numbers or more:
    one beyond it may be better. Nothing is beyond 0."""

    @property
    def is_kept(self) -> bool:
        """Whether the base value is the one to use."""
        return bool(self.chosen == self.key.base)

    @property
    def bound(self) -> float | None:
        """No undecided value is better than the base by more, with the confidence of the intervals; None if there is
        none."""
        ends = [value.interval[1] for value in self.undecided if value.interval is not None]
        return max(0.0, *ends) if ends else None


def key_answer(key: SearchedKey, values: Sequence[ValueEffect], trend: Trend | None) -> KeyAnswer:
    """The facts from the differences of a key's values and the trend over them."""
    found = [value for value in values if value.difference is not None]
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
    return KeyAnswer(
        key=key,
        chosen=chosen,
        better=tuple(better),
        worse=tuple(reversed(worse)),
        undecided=tuple(value for value in others if not value.is_significant),
        same=tuple(value for value in found if value.is_same),
        are_all_compared=len(found) == len(values) - 1,
        trend=own_trend,
        edge="" if chosen == key.base else edge_of(chosen, [value.value for value in values]),
    )


def edge_of(chosen: Any, values: Sequence[Any]) -> str:
    """Whether a value is the `largest` or `smallest` of three numbers or more; empty if not, or of 0."""
    if len(values) < 3 or not all(map(is_numeric, values)):
        return ""
    ends = {min(values): "smallest", max(values): "largest"}
    return ends.get(chosen, "") if chosen != 0 else ""


def is_beyond(value: float, trend: Trend) -> bool:
    """Whether a value is at the first one at which a trend is significant, or farther from the base."""
    return value >= trend.first if trend.is_upward else value <= trend.first


def key_words(answer: KeyAnswer, column: ColumnEffects) -> Iterator[str]:
    """The facts in sentences: what to do first, then what is decided, worse values first."""
    key, base = answer.key.name, value_text(answer.key.base)
    same = ", ".join(value_text(value.value) for value in answer.same)
    if not (answer.better or answer.worse or answer.undecided):
        if answer.are_all_compared and same:
            yield f"{key} has no effect here."
        else:
            which = "no other value" if same else "no value"
            yield f"{key}: {which} was trained with all else equal to the {answer.key.base_title}, {base}."
    else:
        yield choice_sentence(answer, column)
    if answer.edge:
        yield f"It is the {answer.edge} value tried: try one beyond it."
    if answer.worse:
        yield f"{differences_text(answer.worse, 'is worse')}."
    if len(answer.better) > 1:
        yield f"{differences_text(answer.better[1:], 'is better too')}."
    if answer.undecided and (answer.better or answer.worse) and not answer.is_kept:
        names = ", ".join(value_text(value.value) for value in answer.undecided)
        yield f"Whether {names} differ{'s' * (len(answer.undecided) == 1)} from {base} is not decided."
    if same:
        yield f"Trained the same as {base}: {same}."


def choice_sentence(answer: KeyAnswer, column: ColumnEffects) -> str:
    """Which value to use, and how sure that is."""
    key, base, trend = answer.key.name, value_text(answer.key.base), answer.trend
    sure = f"95 %; {replicates_text(column)}"
    if answer.better:
        best = answer.better[0]
        difference = f"{amount(best.difference or 0.0)} {column.title} ({bounds(best)}; {sure})"
        return f"Take {key} {value_text(best.value)}: it is better than {base} by {difference}."
    direction = "" if trend is None else "higher" if trend.is_upward else "lower"
    if trend is not None and trend.is_better:
        return (
            f"Take {key} {value_text(answer.chosen)}: the {direction} {key}, the better, a trend that is significant "
            f"from {value_text(trend.first)} on ({column.title}, {sure})."
        )
    falls = "" if trend is None else f" The {direction} {key}, the worse, significantly from {trend.first:g} on."
    if answer.bound is None:
        which = "every other value that trained otherwise" if answer.same else "every other value"
        return f"Keep {key} {base}: {which} is worse {column.title} ({sure}).{falls}"
    most = f"no value tried is better by more than {amount(answer.bound)} {column.title} ({sure})"
    return f"Keep {key} {base}: {most}.{falls}"


def differences_text(values: Sequence[ValueEffect], what: str) -> str:
    """E.g. `3 is worse by .071 (.012 to .130), 1 by .050 (.010 to .090)`."""
    first, *others = values
    text = f"{value_text(first.value)} {what} by {amount(first.difference or 0.0)} ({bounds(first)})"
    return ", ".join([text, *(f"{value_text(v.value)} by {amount(v.difference or 0.0)} ({bounds(v)})" for v in others)])


def bounds(value: ValueEffect) -> str:
    """The interval of the size of a significant difference: `.012 to .130`."""
    assert value.interval is not None
    low, high = sorted(map(abs, value.interval))
    return f"{amount(low)} to {amount(high)}"


def amount(difference: float) -> str:
    """The size of a difference of scores, which is that of their metric's values: `.024`."""
    return f"{abs(difference):.3f}".removeprefix("0")


def replicates_text(column: ColumnEffects) -> str:
    """E.g. `3 replicates`, or `2 to 3 replicates` where some trials do not count."""
    fewest, most = column.num_replicates
    return counted(most, "replicate") if fewest == most else f"{fewest} to {most} replicates"


def largest_undecided(answer: KeyAnswer) -> ValueEffect | None:
    """The undecided value with the largest difference, which more replicates may decide; None where one is better, or
    the trend shows at least as much."""
    trend = answer.trend
    if not answer.is_kept:
        return None
    found = [value for value in answer.undecided if value.interval is not None]
    if trend is not None:
        found = [value for value in found if not is_beyond(value.value, trend)]
    return max(found, key=lambda value: abs(value.difference or 0.0), default=None)


def replicates_to_decide(value: ValueEffect, precision: Precision) -> int | None:
    """The fewest replicates with which a difference as large as a value's would be found; None if too many for any."""
    return precision.of_contrast(value.margin).replicates_needed(abs(value.difference or 0.0))


def not_worth_it(value: ValueEffect, precision: Precision) -> str:
    """A sentence where more replicates are not proposed."""
    size = abs(value.difference or 0.0)
    what = f"A difference as small as that of {value_text(value.value)} ({amount(size)})"
    if size <= precision.of_contrast(value.margin).finest:
        return f"{what} is found with no number of replicates on a dev set of this size."
    return f"{what} takes more than {MOST_WORTH} replicates to find, which is not worth it."
