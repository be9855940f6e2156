"""What a key does to a score, in words: a key with listed values, or with a range."""

from collections.abc import Callable, Iterator, Sequence

from mtlib.runtime.command_line import counted
from results.answers.key_answer import MOST_WORTH, Forecast, KeyAnswer
from results.stats.effects.key_effects import ValueEffect
from results.stats.effects.qualitative_interactions import QualitativeInteraction
from results.stats.effects.range_effect import RangeEffect
from results.stats.effects.searched_keys import SearchedKey
from results.stats.effects.sweep_effects import ColumnEffects
from results.stats.power import MAX_REPLICATES
from results.stats.texts import change_text, named, short_numbers, value_text

MOST_BOUND = 0.5
"""A value that may be better by more is not known at all, and not to be advised against: scores but errors are at most
1."""
MOST_TIMES_ROWS = 100
"""Beyond this factor the number of rows is not named, as nobody labels so many."""


def value_words(answer: KeyAnswer, column: ColumnEffects) -> Iterator[str]:
    """Yields the facts in sentences: what to do first, then what is decided, worse values first."""
    key, base = answer.key.name, value_text(answer.key.base)
    same = ", ".join(value_text(value.value) for value in answer.same)
    if not answer.is_compared:
        if same and not answer.not_compared:
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
    if answer.not_compared and answer.is_compared:
        names = ", ".join(value_text(value.value) for value in answer.not_compared)
        yield f"Not compared with {base}, as nothing was trained with all else equal: {names}."


def qualitative_words(found: QualitativeInteraction, column: ColumnEffects) -> str:
    """Says that a value is better on one slice and worse on another."""
    gain, loss = (f"{column.value_of(size):+.3f}" for size in (found.gain, found.loss))
    value, base = map(value_text, (found.value, found.base))
    helped, hurt = (f"where {found.column} is {slice_value}" for slice_value in (found.better_on, found.worse_on))
    return (
        f"On {column.title}, {found.key} {value} helps {helped} ({gain} against {base}) and hurts {hurt} ({loss}): one "
        f"value is not best for both (p {p_text(found.p_value)} over all values, slices and tasks)."
    )


def choice_sentence(answer: KeyAnswer, column: ColumnEffects) -> str:
    """Returns which value to use, and how sure that is."""
    key, base, trend = answer.key.name, value_text(answer.key.base), answer.trend
    sure = f"95 %; {replicates_text(column)}"
    if answer.better:
        best = answer.better[0]
        is_earlier = best.decided_at is not None and best.decided_at < column.num_replicates[1]
        since = f", decided after {best.decided_at}" if is_earlier else ""
        difference = f"{amount(best.difference or 0.0)} {column.measure} ({bounds(best)}; {sure}{since})"
        return f"Take {key} {value_text(best.value)}: it is better than {base} by {difference}."
    if answer.key.is_picked:
        return best_mean_sentence(answer, column, sure)
    direction = "" if trend is None else "higher" if trend.is_upward else "lower"
    if trend is not None and trend.is_better:
        return (
            f"Take {key} {value_text(answer.chosen)}: the {direction} {key}, the better, a trend that is significant "
            f"from {value_text(trend.first)} on ({column.measure}, {sure})."
        )
    falls = "" if trend is None else f" The {direction} {key}, the worse, significantly from {trend.first:g} on."
    if answer.bound is None:
        return f"Keep {key} {base}: {every_other(answer)} is worse {column.measure} ({sure}).{falls}"
    if answer.bound > MOST_BOUND and not column.has_unbounded:
        return f"Not decided: any value tried may be better than {key} {base} {column.measure} ({sure})."
    which = "no value compared" if answer.not_compared else "no value tried"
    most = f"{which} is better by more than {amount(answer.bound)} {column.measure} ({sure})"
    return f"Keep {key} {base}: {most}.{falls}"


def every_other(answer: KeyAnswer) -> str:
    """Returns what the values are called that all are worse than the base."""
    compared = " that was compared" if answer.not_compared else ""
    return f"every other value{' that trained otherwise' if answer.same else compared}"


def best_mean_sentence(answer: KeyAnswer, column: ColumnEffects, sure: str) -> str:
    """Returns whether the value with the best mean is shown to be the best, where the base value was not trained."""
    key, best = answer.key.name, value_text(answer.key.base)
    if not answer.undecided:
        return f"Take {key} {best}: {every_other(answer)} is worse {column.measure} ({sure})."
    nearest = [
        f"by {amount(own.difference or 0.0)} than {value_text(own.value)} "
        f"({' to '.join(change_text(-bound) for bound in reversed(own.interval or ()))})"
        for own in answer.undecided
    ]
    return f"Not decided: {key} {best} has the best mean {column.measure}, better {named(nearest)} ({sure})."


def differences_text(values: Sequence[ValueEffect], what: str) -> str:
    """E.g. `3 is worse by .071 (.012 to .130), 1 by .050 (.010 to .090)`."""
    first, *others = values
    text = f"{value_text(first.value)} {what} by {amount(first.difference or 0.0)} ({bounds(first)})"
    return ", ".join([text, *(f"{value_text(v.value)} by {amount(v.difference or 0.0)} ({bounds(v)})" for v in others)])


def bounds(value: ValueEffect) -> str:
    """Returns the interval of the size of a significant difference: `.012 to .130`."""
    assert value.interval is not None
    low, high = sorted(map(abs, value.interval))
    return f"{amount(low)} to {amount(high)}"


def amount(difference: float) -> str:
    """Returns the size of a difference of scores: `.024`. The metric's values differ by as much."""
    return f"{abs(difference):.3f}".removeprefix("0")


def replicates_text(column: ColumnEffects) -> str:
    """E.g. `3 replicates`, or `2 to 3 replicates` where some trials do not count."""
    fewest, most = column.num_replicates
    return counted(most, "replicate") if fewest == most else f"{fewest} to {most} replicates"


def range_words(key: SearchedKey, curve: RangeEffect, column: ColumnEffects) -> str:
    """Returns whether a number matters, where its optimum is, and how far the fitted score varies.

    A line shows no optimum, only whether the score rises or falls.
    """
    sure = f"p {p_text(curve.p_value)}, {counted(column.num_distinct, 'configuration')}"
    hidden = "; an optimum inside it would not show" if curve.is_linear else ""
    worst = int(curve.means.argmin())
    if not curve.is_significant:
        what = "trend" if curve.is_linear else "effect"
        varies = f"The fitted score varies by {curve.means.max() - curve.means[worst]:.3f} over the range."
        return f"{key.name}: no {what} over the range was found ({sure}){hidden}. {varies}"
    numbers = (*curve.optimum_interval, curve.optimum, curve.points[worst])
    low, high, optimum, worst_at = short_numbers(list(map(float, numbers)))
    best_value, worst_value = column.value_of(curve.means.max()), column.value_of(curve.means[worst])
    extreme = "highest" if worst_value > best_value else "lowest"
    fitted = f"The fitted score is {best_value:.3f} there and {extreme}, {worst_value:.3f}, at {worst_at}."
    if curve.is_linear:
        return f"Take {key.name} towards {optimum} ({sure}){hidden}. {fitted}"
    advice = ""
    if curve.edge:
        beyond = ": extend the range" if curve.optimum != 0 else ""  # most settings end at 0
        advice = f" It is the {curve.edge} end of the range{beyond}."
    return f"Take {key.name} near {optimum} (95 %: {low} to {high}; {sure}).{advice} {fitted}"


def p_text(p_value: float) -> str:
    """E.g. `= 0.012` or `< 0.001`."""
    return "< 0.001" if p_value < 0.001 else f"= {p_value:.3f}"


def forecast_words(found: Forecast, cost: Callable[[int], str]) -> str:
    """Returns what more replicates would show of a difference;
    `cost` says what so many replicates cost, and the command."""
    if found.of is None:
        what, most = f"A difference of {found.size:.3g}", MAX_REPLICATES
    else:
        value = value_text(found.of.value)
        what, most = f"A difference as small as that of {value} ({amount(found.size)})", MOST_WORTH
    if found.times_rows > 1:
        times = f"{max(1.1, found.times_rows):.2g}"
        rows = f" (about {times} times as many rows would do)" if found.times_rows < MOST_TIMES_ROWS else ""
        of = "" if found.of is None else f", such as that of {value_text(found.of.value)}"
        return f"No number of replicates would show a difference of {amount(found.size)}{of}: dev is too small{rows}."
    if found.needed is None or found.needed > most:
        number = f"more than {MAX_REPLICATES}" if found.needed is None else found.needed
        worth = "" if found.of is None else ", which is seldom worth it"
        return f"{what} takes {number} replicates to find{worth}."
    if found.is_found and found.of is None:
        return f"{what} is found with the present replicates."
    if found.of is None:
        return f"{what} takes {found.needed} replicates to find: {cost(found.needed)}"
    pair = f"{value_text(found.of.value)} differs from {value_text(found.base)}"
    return f"{found.needed} replicates would tell whether {pair}: {cost(found.needed)}"
