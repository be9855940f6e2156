"""The answer to a sweep's question in sentences: what differs, how sure that is, and what to run next."""

import math
from collections.abc import Iterator, Sequence

from mtlib.runtime.command_line import counted
from mtlib.runtime.console import COMMAND_INDENT
from results.analysis.comparison.bootstrap import CONFIDENCE
from results.analysis.effects.detectable import MAX_REPLICATES, POWER, Precision
from results.analysis.effects.early_effects import EarlyEffects
from results.analysis.effects.key_effects import Trend, ValueEffect
from results.analysis.effects.range_effect import RangeEffect
from results.analysis.effects.searched_keys import NO_VALUE, SearchedKey
from results.analysis.effects.sweep_effects import ColumnEffects, SweepEffects
from results.analysis.ranking.next_commands import resume_command
from results.analysis.ranking.note import capitalized, named
from results.analysis.ranking.rank import RankedConfiguration, searched_names
from results.analysis.ranking.render import searched_values, short_numbers, value_text, why_unknown
from results.records.trials import OVERALL, UNFINISHED, TrialRecord

MORE_REPLICATES = 3
"""Replicates that are proposed where training was not repeated; where it was, so many times those that there are."""

MAX_NAMED = 3
"""Configurations of failed trials that are named, and keys whose effects could not be fitted."""


def answer_question(
    effects: SweepEffects,
    records: Sequence[TrialRecord],
    difference: float | None = None,
    *,
    early: EarlyEffects | str | None = None,
    ranked: Sequence[RankedConfiguration] = (),
    base_number: int | None = None,
) -> list[str]:
    """The sentences, a paragraph each: the question, the answer, how sure it is, and what was left out.

    Args:
        effects: of the sweep.
        records: its trials, from which the cost of more replicates is taken.
        difference: above 0; the answer says how many replicates would find it. None for the largest one that was
            observed where nothing is decided.
        early: effects on early scores, which a search that pruned trials shows where those on the final ones are not
            known; or why there are none.
        ranked: the configurations with a finished trial, compared among themselves, best first, of which a search
            names the best.
        base_number: of the base configuration, if the search has a trial of it.
    """
    if not effects.compared:
        return [effects.question, f"Not known yet: {effects.why_none}.", *left_out(effects, records)]
    return [
        effects.question,
        *(score_answers(effects, records, difference) if effects.metric in effects.columns else task_answers(effects)),
        *without_forecast(effects, difference),
        *untrained_bases(effects),
        *dropped(effects),
        *left_out(effects, records),
        *early_answers(effects, early),
        *best_found(effects, ranked, base_number),
    ]


def needs_early(effects: SweepEffects) -> bool:
    """Whether early scores may tell what the final ones do not: those of a search with too few finished trials."""
    column = effects.columns.get(effects.metric)
    return effects.search != "grid" and column is not None and not column.is_known


def early_answers(effects: SweepEffects, early: EarlyEffects | str | None) -> Iterator[str]:
    """The effects on early scores, where those on the final score are not known, but these are."""
    if early is None or not needs_early(effects):
        return
    if isinstance(early, str):
        yield f"Effects on early scores are not known either: {early}."
        return
    column = early.effects.columns.get(effects.metric)
    if column is None or not column.is_known:
        return
    yield (
        f"Effects on the scores after epoch {early.epoch}, which all {column.num_configurations} configurations have "
        "(they favour configurations that learn fast):"
    )
    yield from key_answers(early.effects, column)


def best_found(effects: SweepEffects, ranked: Sequence[RankedConfiguration], base_number: int | None) -> Iterator[str]:
    """Whether the best configuration that a search found is better than the base configuration, by overall score."""
    base = next((row for row in ranked if row.number == base_number), None)
    alike = [row for row in ranked if base is None or row.tasks == base.tasks]
    if base_number is None or not alike or effects.search == "grid" or effects.metric != OVERALL:
        return
    so_far = " so far" if is_open(effects) else ""
    best, name = alike[0], f"the base configuration, {base_number:04d}"
    values = searched_values(searched_names(ranked), best.params)
    found = f"the best configuration{so_far}, {best.number:04d} ({values}),"
    if base is None:
        yield f"{capitalized(found)} is not compared with {name}, of which no trial has finished."
    elif best is base:
        if len(alike) > 1:
            yield f"{capitalized(name)}, has the highest overall score{so_far}: the search found nothing better."
    elif base.below_best is None:
        if base.was_dropped:
            yield f"{capitalized(found)} is not compared with {name}, which has fewer trainings."
    elif base.margin is None:
        why = why_unknown(max(len(row.trials) for row in alike))
        yield (
            f"{capitalized(found)} is {base.below_best:+.3f} overall above {name}. Whether it is better is not known: "
            f"{why} (--replicates 3)."
        )
    else:
        undecided = "it is not decided whether " if base.may_be_best else ""
        size = f"{base.below_best:+.3f} overall above it, and {base.margin:.3f} would be significant"
        yield f"{capitalized(undecided + found)} is better than {name}: it is {size}."


def is_open(effects: SweepEffects) -> bool:
    """Whether some trials have not ended."""
    return any(status in effects.left_out for status in UNFINISHED)


def task_answers(effects: SweepEffects) -> Iterator[str]:
    """A paragraph for each task, where configurations were trained on different tasks."""
    yield f"{capitalized(effects.why_none)}. The effects on each task:"
    for column in effects.compared:
        reason = [f"not known: {why_uncertain(effects, column)}."]
        sentences = list(key_answers(effects, column)) if column.is_known else reason
        yield f"{column.title}: {' '.join(sentences)}"
    if effects.search == "grid" and not all(column.is_known for column in effects.compared):
        yield f"For an answer:\n{COMMAND_INDENT}{resume_command(effects.path)} --replicates {MORE_REPLICATES}"


def key_answers(effects: SweepEffects, column: ColumnEffects) -> Iterator[str]:
    """What each key does to one score."""
    for key in effects.keys:
        if key.name in column.curves:
            yield range_answer(key, column.curves[key.name], column)
        elif key.name in column.values:
            yield values_answer(key, column.values[key.name], column)


def score_answers(effects: SweepEffects, records: Sequence[TrialRecord], difference: float | None) -> Iterator[str]:
    """A paragraph for each key about the score that the search maximised, or why nothing is known."""
    (column,) = effects.compared
    if column.is_known:
        yield from answers(effects, column, records, difference)
    else:
        yield unknown(effects, column, records)


def without_forecast(effects: SweepEffects, difference: float | None) -> Iterator[str]:
    """A sentence where a difference is given and no number of replicates is forecast for it."""
    if difference is None:
        return
    if effects.search != "grid":
        yield "--difference is for grids: the curves of a search have bands instead (--effects)."
    elif effects.metric not in effects.columns or not any(effects.columns[effects.metric].precisions.values()):
        yield f"How many replicates would find a difference of {difference:.3g} cannot be said from these trials."


def untrained_bases(effects: SweepEffects) -> Iterator[str]:
    """A sentence for each key whose values are compared with the first one, as the base value was not trained."""
    for key in effects.keys:
        if key.range is None and key.values and key.base_title == "first value":
            own = "" if key.own_base is NO_VALUE else f", {value_text(key.own_base)},"
            what = f"The base value of {key.name}{own} is not among the values compared"
            yield f"{what}: differences are from the first value, {value_text(key.base)}."


def dropped(effects: SweepEffects) -> list[str]:
    """What it means that only the best configurations were trained again; empty if that was not so."""
    if effects.num_dropped == 0:
        return []
    if effects.search != "grid":
        return ["Only trainings that all configurations have count above; the best were trained again for the ranking."]
    return [
        f"Only the best configurations by their dev score were trained again and are compared. Nothing shows that the "
        f"other {effects.num_dropped}, which were dropped after fewer trainings, are worse. Differences are from "
        f"{effects.base_text}."
    ]


def unknown(effects: SweepEffects, column: ColumnEffects, records: Sequence[TrialRecord]) -> str:
    """Why there is no answer, and what would give one."""
    if column.num_distinct == 1:
        return f"All {column.num_configurations} finished configurations trained the same: no effect was found."
    reason = " ".join([*same_values(effects, column), f"Not known: {why_uncertain(effects, column)}."])
    if effects.search != "grid":
        if is_open(effects):
            return f"{reason} Some trials have not ended."
        more = max(1, sum(record.replicate == 0 for record in records))
        command = f"{resume_command(effects.path)} --extend {more}"
        return f"{reason} To double the number of configurations:\n{COMMAND_INDENT}{command}"
    return f"{reason} For an answer: {more_replicates(effects, column, records, MORE_REPLICATES)}"


def same_values(effects: SweepEffects, column: ColumnEffects) -> Iterator[str]:
    """A sentence for each key with values that trained the same as the base."""
    for key in effects.keys:
        same = same_text(column.values.get(key.name, ()))
        if same:
            yield f"{key.name}: {same} trained the same as {value_text(key.base)}."


def same_text(values: Sequence[ValueEffect]) -> str:
    """The values that trained the same as the base."""
    return ", ".join(value_text(value.value) for value in values if value.is_same)


def why_uncertain(effects: SweepEffects, column: ColumnEffects) -> str:
    """Why the variance of training is not known."""
    if effects.search == "grid":
        return why_unknown(column.num_replicates[1])
    names = [key.name for key in effects.keys]
    keys = " + ".join(names) if len(names) <= MAX_NAMED else f"{len(names)} keys"
    differ = "" if column.num_distinct == column.num_configurations else f", of which {column.num_distinct} differ,"
    return f"{column.num_configurations} finished configurations{differ} are too few to fit the effect of {keys}"


def answers(
    effects: SweepEffects, column: ColumnEffects, records: Sequence[TrialRecord], difference: float | None
) -> Iterator[str]:
    """A paragraph for each pair of keys whose effects depend on each other, then one for each key."""
    for pair in column.interactions:
        if pair.is_significant:
            first, second = pair.keys
            yield (
                f"The effect of {first} depends on {second} (p {p_text(pair.p_value)}): read the ranking for each "
                "combination. The differences below are means over the other key."
            )
    for key in effects.keys:
        if key.name in column.curves:
            yield range_answer(key, column.curves[key.name], column)
        elif key.name in column.values:
            values, precision = column.values[key.name], column.precisions.get(key.name)
            sentences = [values_answer(key, values, column)]
            compared = [value for value in values if value.difference is not None and not value.is_same]
            if precision is None and key.name in column.precisions and compared:
                sentences.append(few_trainings(effects, column, records))
            elif precision:
                sentences.append(power_sentence(precision, len(compared)))
                undecided = largest_undecided(values, column.trends.get(key.name))
                if difference:
                    name = f"A difference of {difference:.3g}"
                    sentences += needed_sentences(effects, column, records, precision, name, difference)
                elif undecided is not None:
                    own, size = precision.of_contrast(undecided.margin), abs(undecided.difference or 0.0)
                    name = f"A difference as large as that of {value_list([undecided], column)}"
                    sentences += needed_sentences(effects, column, records, own, name, size)
            yield " ".join(sentences)


def replicates_text(column: ColumnEffects) -> str:
    """E.g. `3 replicates`, or `2 to 3 replicates` where some trials do not count."""
    fewest, most = column.num_replicates
    return counted(most, "replicate") if fewest == most else f"{fewest} to {most} replicates"


def values_answer(key: SearchedKey, values: Sequence[ValueEffect], column: ColumnEffects) -> str:
    """Which listed values are better or worse than the base; first the trend over them where it shows more of these."""
    trend = column.trends.get(key.name)
    if trend is None or any(value.is_significant for value in values if value.value == trend.first):
        return comparison_with_base(key, values, column)
    more, end = "higher" if trend.is_upward else "lower", "better" if trend.is_better else "worse"
    shown = f"The {more} {key.name}, the {end}: a significant trend from {value_text(trend.first)} on."
    return f"{shown} {comparison_with_base(key, values, column, has_trend=True)}"


def comparison_with_base(
    key: SearchedKey, values: Sequence[ValueEffect], column: ColumnEffects, *, has_trend: bool = False
) -> str:
    """Which listed values differ from the base, each by its own interval; `has_trend` if a trend was named before."""
    base, replicates = value_text(key.base), replicates_text(column)
    found = [value for value in values if value.difference is not None]
    same = same_text(found)
    alike = f" Trained the same as {base}: {same}." if same else ""
    others = sorted((value for value in found if not value.is_same), key=lambda v: -(v.difference or 0.0))
    if not others:
        if found and len(found) == len(values) - 1:
            return f"{key.name} has no effect here.{alike}"
        which = "no other value" if same else "no value"
        return f"{key.name}: {which} was trained with all else equal to the {key.base_title}, {base}.{alike}"
    better = [value for value in others if value.is_significant and (value.difference or 0) > 0]
    worse = [value for value in others if value.is_significant and (value.difference or 0) < 0]
    if better:
        difference = interval_text(better[0], column)
        first = f"{key.name} {value_text(better[0].value)} is better than {base}: {difference}."
        also = f" Also better: {value_list(better[1:], column)}." if len(better) > 1 else ""
    elif len(worse) == len(others):
        which = "every value that trained otherwise" if same else "every other value"
        than = f"{which} ({column.title}, {replicates}): {value_list(worse, column)}"
        return f"{key.name} {base} is better than {than}.{alike}"
    else:
        closest = next(value for value in others if not value.is_significant)
        pair, also = f"{value_text(closest.value)} against {base}", ""
        undecided = f"On its own {pair} is not decided" if has_trend else f"{key.name}: not decided. {pair}"
        first = f"{undecided}: {interval_text(closest, column)}."
    return first + also + (f" Worse than {base}: {value_list(worse, column)}." if worse else "") + alike


def interval_text(value: ValueEffect, column: ColumnEffects) -> str:
    """E.g. `+0.004 overall (95 %: -0.006 to +0.014; 3 replicates)`."""
    assert value.difference is not None
    assert value.interval is not None
    shown = f"{column.value_of(value.difference):+.3f} {column.title}"
    return f"{shown} (95 %: {column.bounds_text(value.interval)}; {replicates_text(column)})"


def value_list(values: Sequence[ValueEffect], column: ColumnEffects) -> str:
    """E.g. `0.5 (+0.010), 0.7 (+0.008)`."""
    return ", ".join(f"{value_text(value.value)} ({column.value_of(value.difference or 0.0):+.3f})" for value in values)


def range_answer(key: SearchedKey, curve: RangeEffect, column: ColumnEffects) -> str:
    """Whether a number matters, where its optimum is, and how far the fitted score varies."""
    if curve.is_linear:
        return linear_answer(key, curve, column)
    how_many, lowest = counted(curve.num_configurations, "configuration"), int(curve.means.argmin())
    top, bottom = curve.means.max(), curve.means[lowest]
    if curve.p_value >= 1 - CONFIDENCE:
        varies = f"The fitted score varies by {top - bottom:.3f} over the range."
        return f"{key.name}: no effect was found (p {p_text(curve.p_value)}, {how_many}). {varies}"
    numbers = (*curve.optimum_interval, curve.optimum, curve.points[lowest])
    low, high, optimum, worst_at = short_numbers(list(map(float, numbers)))
    where = f"best at {'the ' + curve.edge + ' end of its range, ' if curve.edge else ''}{optimum}"
    advice = ": extend the range" if curve.edge and curve.optimum != 0 else ""  # most settings end at 0
    best, worst = column.value_of(top), column.value_of(bottom)
    extreme = "highest" if worst > best else "lowest"
    fitted = f"The fitted score is {best:.3f} there and {extreme}, {worst:.3f}, at {worst_at}."
    return (
        f"{key.name} matters (p {p_text(curve.p_value)}, {how_many}): {where} (95 %: {low} to {high}){advice}. {fitted}"
    )


def linear_answer(key: SearchedKey, curve: RangeEffect, column: ColumnEffects) -> str:
    """Whether the score rises or falls over the range: all that a line shows."""
    how_many, hidden = counted(curve.num_configurations, "configuration"), "an optimum inside it would not show"
    if curve.p_value >= 1 - CONFIDENCE:
        return f"{key.name}: no trend over the range was found (p {p_text(curve.p_value)}, {how_many}); {hidden}."
    first, last = (column.value_of(curve.means[end]) for end in (0, -1))
    start, end = short_numbers([float(curve.points[0]), float(curve.points[-1])])
    trend = "rises" if last > first else "falls"
    return (
        f"{key.name} matters (p {p_text(curve.p_value)}, {how_many}): the fitted score {trend} over the range, from "
        f"{first:.3f} at {start} to {last:.3f} at {end}; {hidden}."
    )


def p_text(p_value: float) -> str:
    """E.g. `= 0.012` or `< 0.001`."""
    return "< 0.001" if p_value < 0.001 else f"= {p_value:.3f}"


def left_out(effects: SweepEffects, records: Sequence[TrialRecord]) -> list[str]:
    """The trials that do not count, in a line, with what failed ones were trained with; empty if all count."""
    if not effects.left_out:
        return []
    by_number = {record.number: searched_text(record) for record in records if record.status == "failed"}
    failed = sorted(filter(None, by_number.values()))
    more = [f"and {len(failed) - MAX_NAMED} more"] if len(failed) > MAX_NAMED else []
    shown = {"failed": f" ({'; '.join([*failed[:MAX_NAMED], *more])})"} if failed else {}
    counts = ", ".join(f"{count} {status}{shown.get(status, '')}" for status, count in effects.left_out.items())
    return [f"Trials left out: {counts}."]


def searched_text(record: TrialRecord) -> str:
    """E.g. `smart.weight 0.45, smart.mode paper`; of many keys the first, and empty if nothing was searched."""
    return named([f"{key} {value_text(value)}" for key, value in record.params.items()])


def power_sentence(precision: Precision, num_compared: int) -> str:
    """The difference that would have been found, on average over the compared values, and with more replicates."""
    difference = "A true difference" if num_compared == 1 else "In the average comparison a true difference"
    now, more = precision.num_replicates, round(MORE_REPLICATES * precision.num_replicates)
    return (
        f"{difference} of {precision.detectable(now):.3f} would have been found with a probability of "
        f"{100 * POWER:.0f} %, with {more} replicates one of {precision.detectable(more):.3f}{finest_text(precision)}."
    )


def finest_text(precision: Precision) -> str:
    """What no number of replicates finds, where that is not negligible."""
    return (
        f", and with any number none below {precision.finest:.3f}, as dev is too small"
        if precision.finest >= 0.0005
        else ""
    )


def largest_undecided(values: Sequence[ValueEffect], trend: Trend | None = None) -> ValueEffect | None:
    """The value with the largest difference that is not significant, nor by the trend; None if some value is better."""
    found = [(value.difference, value) for value in values if value.difference is not None]
    if (trend and trend.is_better) or any(value.is_significant and difference > 0 for difference, value in found):
        return None
    smallest = math.inf if trend is None else min(abs(own) for own, value in found if value.value == trend.first)
    open_values = [(abs(own), value) for own, value in found if not value.is_significant and not value.is_same]
    undecided = [(own, value) for own, value in open_values if own < smallest]
    return max(undecided, key=lambda pair: pair[0])[1] if undecided else None


def few_trainings(effects: SweepEffects, column: ColumnEffects, records: Sequence[TrialRecord]) -> str:
    """What so few replicates show that nothing can be forecast, and how to train more."""
    more = more_replicates(effects, column, records, MORE_REPLICATES * column.num_replicates[1])
    shown = f"{replicates_text(column)} of {column.num_distinct} configurations show little of how far"
    return f"{shown} training again moves a score. For a firmer answer: {more}"


def needed_sentences(
    effects: SweepEffects,
    column: ColumnEffects,
    records: Sequence[TrialRecord],
    precision: Precision,
    name: str,
    size: float,
) -> list[str]:
    """How many replicates find a difference, given in words and its size, and their cost."""
    needed = precision.replicates_needed(size)
    if needed is None:
        is_too_small = size <= precision.finest
        reason = "found with no number of replicates, as dev is too small"
        return [f"{name} is {reason}." if is_too_small else f"{name} needs more than {MAX_REPLICATES} replicates."]
    if needed <= precision.num_replicates:
        return [f"{name} is found with the present replicates."]
    return [f"{name} needs {needed} replicates: {more_replicates(effects, column, records, needed)}"]


def more_replicates(
    effects: SweepEffects, column: ColumnEffects, records: Sequence[TrialRecord], num_replicates: int
) -> str:
    """The cost of so many replicates and, on a line of its own, the command."""
    missing = num_replicates * column.num_configurations - column.num_trials
    cost = f"{counted(missing, 'more trial')}{training_time(missing, records)}"
    return f"{cost}.\n{COMMAND_INDENT}{resume_command(effects.path)} --replicates {num_replicates}"


def training_time(num_trials: float, records: Sequence[TrialRecord]) -> str:
    """How long so many trials train one after the other, from those that have ended; empty if that is not known."""
    seconds = [record.wall_seconds for record in records if record.status == "complete" and record.wall_seconds > 0]
    if not seconds:
        return ""
    minutes = num_trials * sum(seconds) / len(seconds) / 60
    text = f"{minutes / 60:.1f} hours" if minutes >= 90 else counted(max(1, round(minutes)), "minute")
    return f", about {text} of training"
