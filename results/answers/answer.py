"""The answer to a sweep's question in sentences: what differs, how sure that is, and what to run next."""

import json
from collections.abc import Iterator, Sequence

from mtlib.runtime.command_line import counted
from mtlib.runtime.console import COMMAND_INDENT
from results.answers.key_answer import (
    MOST_WORTH,
    KeyAnswer,
    key_answer,
    key_words,
    largest_undecided,
    not_worth_it,
    replicates_text,
    replicates_to_decide,
)
from results.answers.next_commands import resume_command
from results.answers.ranking_table import searched_values, why_unknown
from results.records.trials import COMPLETED, OVERALL, UNFINISHED, TrialRecord
from results.stats.key_effects import ValueEffect
from results.stats.power import MAX_REPLICATES, Precision
from results.stats.range_effect import RangeEffect
from results.stats.ranking import RankedConfiguration, searched_names
from results.stats.resampling import CONFIDENCE
from results.stats.searched_keys import NO_VALUE, SearchedKey
from results.stats.sweep_effects import ColumnEffects, SweepEffects
from results.stats.texts import capitalized, named, short_numbers, value_text

MORE_REPLICATES = 3
"""Replicates that are proposed where training was not repeated; where it was, so many times those that there are."""

MOST_REPLICATED = 8
"""Configurations of a search that are proposed to be trained again."""

MAX_NAMED = 3
"""Configurations of failed trials that are named, and keys whose effects could not be fitted."""


def answer_question(
    effects: SweepEffects,
    records: Sequence[TrialRecord],
    difference: float | None = None,
    *,
    early: tuple[int, SweepEffects] | str | None = None,
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


def early_answers(effects: SweepEffects, early: tuple[int, SweepEffects] | str | None) -> Iterator[str]:
    """The effects on early scores, where those on the final score are not known, but these are."""
    if early is None or not needs_early(effects):
        return
    if isinstance(early, str):
        yield f"Effects on early scores are not known either: {early}."
        return
    epoch, found = early
    column = found.columns.get(effects.metric)
    if column is None or not column.is_known:
        return
    yield (
        f"Effects on the scores after epoch {epoch}, which all {column.num_configurations} configurations have "
        "(they favour configurations that learn fast):"
    )
    yield from key_answers(found, column)


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
            f"{why} (--replicates {MORE_REPLICATES} --replicate-best {MOST_REPLICATED})."
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
            yield " ".join(key_words(key_answer(key, column.values[key.name], column.trends.get(key.name)), column))


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
            answer = key_answer(key, column.values[key.name], column.trends.get(key.name))
            more = what_more_shows(effects, column, records, answer, difference)
            yield " ".join([*key_words(answer, column), *more])
    yield from base_training_lines(effects, records)


def what_more_shows(
    effects: SweepEffects,
    column: ColumnEffects,
    records: Sequence[TrialRecord],
    answer: KeyAnswer,
    difference: float | None,
) -> Iterator[str]:
    """At most one sentence on what more replicates would show of a grid's key: of the largest undecided difference, or
    of a given one."""
    name, undecided = answer.key.name, largest_undecided(answer)
    precision = column.precisions.get(name)
    compared = answer.better or answer.worse or answer.undecided
    if precision is None:
        if name in column.precisions and compared and effects.search == "grid":
            yield few_trainings(effects, column, records)
    elif difference:
        yield needed_sentence(effects, column, records, precision, difference)
    elif undecided is not None:
        needed = replicates_to_decide(undecided, precision)
        if needed is None or needed > MOST_WORTH:
            yield not_worth_it(undecided, precision)
        else:
            needed = max(needed, column.num_replicates[1] + 1)
            found = f"{needed} replicates would tell whether {value_text(undecided.value)} differs"
            yield f"{found}: {more_replicates(effects, column, records, needed)}"


def base_training_lines(effects: SweepEffects, records: Sequence[TrialRecord]) -> Iterator[str]:
    """How the trials were trained that the answer is about, and whether they were still improving."""
    finished = [record for record in records if record.status in COMPLETED and record.best_epoch]
    if not finished:
        return
    longest = max(finished, key=lambda record: record.steps)
    bases = ", ".join(f"{key.name} {value_text(key.base)}" for key in effects.keys if key.range is None)
    base = f"; base: {bases}" if bases else ""
    how = f"{counted(longest.steps, 'step')} in {counted(longest.epochs, 'epoch')}"
    yield f"Trained {how}{batch_text(longest)}{base}.{improving_text(finished)}"


def batch_text(record: TrialRecord) -> str:
    """The batch sizes of a trial's tasks: `, batches of 32`, or `, batches of 16 (sst), 32 (qqp)`; empty if its record
    is of a version that has none."""
    settings = json.loads(record.config).get("tasks", {})
    sizes = {name: settings[name].get("batch_size") for name in record.best if name in settings}
    if len(set(sizes.values())) < 2:
        return "".join(f", batches of {size}" for size in set(sizes.values()))
    return f", batches of {', '.join(f'{size} ({name})' for name, size in sizes.items())}"


def improving_text(records: Sequence[TrialRecord]) -> str:
    """A sentence where most trials were best at their last epoch; else empty."""
    long = [record for record in records if OVERALL in record.best_epoch and record.epochs > 1]
    late = sum(record.best_epoch[OVERALL] == record.epochs for record in long)
    if 2 * late <= len(long):
        return ""
    return f" {late} of {counted(len(long), 'trial')} were still improving when they ended: longer training may differ."


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


def few_trainings(effects: SweepEffects, column: ColumnEffects, records: Sequence[TrialRecord]) -> str:
    """What so few replicates show that nothing can be forecast, and how to train more."""
    more = more_replicates(effects, column, records, MORE_REPLICATES * column.num_replicates[1])
    shown = f"{replicates_text(column)} of {column.num_distinct} configurations show little of how far"
    return f"{shown} training again moves a score. For a firmer answer: {more}"


def needed_sentence(
    effects: SweepEffects, column: ColumnEffects, records: Sequence[TrialRecord], precision: Precision, size: float
) -> str:
    """How many replicates find a difference of this size, and their cost."""
    name, needed = f"A difference of {size:.3g}", precision.replicates_needed(size)
    if needed is None:
        is_too_small = size <= precision.finest
        reason = "found with no number of replicates, as dev is too small"
        return f"{name} is {reason}." if is_too_small else f"{name} needs more than {MAX_REPLICATES} replicates."
    if needed <= precision.num_replicates:
        return f"{name} is found with the present replicates."
    return f"{name} needs {needed} replicates: {more_replicates(effects, column, records, needed)}"


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
