"""The answer to a sweep's question in sentences: what to do, how sure that is, and what to run next."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mtlib.runtime.command_line import counted
from mtlib.runtime.console import COMMAND_INDENT
from results.answers.amount_words import amount_lines
from results.answers.claim_words import claim_answer
from results.answers.group_words import few_groups_words
from results.answers.key_answer import MOST_WORTH, Forecast, KeyAnswer, forecast, key_answer
from results.answers.key_words import (
    forecast_words,
    p_text,
    qualitative_words,
    range_words,
    replicates_text,
    value_words,
)
from results.answers.next_commands import resume_command
from results.answers.race_words import race_answer
from results.answers.ranking_table import searched_values, why_not_compared, why_unknown
from results.records.trials import COMPLETED, OVERALL, UNFINISHED, TrialRecord
from results.stats.effects.searched_keys import NO_VALUE, SearchedKey
from results.stats.effects.sweep_effects import ColumnEffects, SweepEffects
from results.stats.power import MAX_REPLICATES
from results.stats.ranking import RankedConfiguration, searched_names
from results.stats.texts import capitalized, named, searched_text, value_text

MORE_REPLICATES = 3
"""Replicates that are proposed where training was not repeated; where it was, so many times as many."""

MOST_REPLICATED = 8
"""Configurations of a search that are proposed to be trained again."""

MAX_NAMED = 3
"""Configurations of failed trials that are named, and keys whose effects could not be fitted."""


@dataclass(frozen=True, kw_only=True)
class SweepAnswer:
    """The answer to a sweep's question, a paragraph each."""

    question: str
    found: Sequence[str]
    """What to do first, how sure that is, and what would show more."""
    conditions: Sequence[str] = ()
    """How the trials were trained, what differences are from, and what was left out."""

    @property
    def paragraphs(self) -> list[str]:
        """All of it, the question first."""
        return [self.question, *self.found, *self.conditions]


def answer_question(
    effects: SweepEffects,
    records: Sequence[TrialRecord],
    difference: float | None = None,
    *,
    ranked: Sequence[RankedConfiguration] = (),
    base_number: int | None = None,
) -> SweepAnswer:
    """Returns the question, the answer, how sure it is, and what was left out.

    Args:
        effects: of the sweep.
        records: its trials, from which the cost of more replicates is taken.
        difference: above 0; the answer says how many replicates would find it. None for the largest one that was
            observed where nothing is decided.
        ranked: the configurations with a finished trial, compared among themselves, best first, of which a search
            names the best.
        base_number: of the base configuration, if the search has a trial of it.
    """
    if not effects.compared:
        of_claim = "" if effects.claim is None else f"Open: it is not decided whether {effects.claim.text}. "
        not_known = f"{of_claim}Not known yet: {effects.why_none}."
        return SweepAnswer(question=effects.question, found=[not_known], conditions=left_out(effects, records))
    is_one = effects.metric in effects.columns
    main = list(score_answer(effects, records, difference) if is_one else task_answers(effects))
    column = effects.columns.get(effects.metric)
    are_unknown = effects.search != "grid" and column is not None and not column.is_known
    main += [qualitative_words(one, effects.columns[one.task]) for one in effects.qualitative]
    found = list(best_found(effects, ranked, base_number))
    decided = race_answer(effects.race, records)
    return SweepAnswer(
        question=effects.question,
        found=[*found, *main] if are_unknown else [*main, *found],  # what is known first
        conditions=[
            *([decided] if decided else []),
            *training_line(effects, records),
            *remarks(effects, difference),
            *left_out(effects, records),
        ],
    )


def score_answer(effects: SweepEffects, records: Sequence[TrialRecord], difference: float | None) -> Iterator[str]:
    """Yields a paragraph for each key about the score that the search maximised, or why nothing is known."""
    (column,) = effects.compared
    if effects.claim is not None:
        cost = partial(more_replicates, effects, column, records)
        yield claim_answer(effects.claim, effects.race, column.measure, cost)
        return
    if not column.is_known:
        yield unknown(effects, column, records)
        return
    for pair in column.interactions:
        if pair.is_significant:
            first, second = pair.keys
            yield (
                f"The effect of {first} depends on {second} (p {p_text(pair.p_value)}): read the ranking for each "
                "combination. The differences below are means over the other key."
            )
    found = key_paragraphs(effects, column)
    if not found:
        yield "Nothing is compared: all finished configurations have the same values of the searched keys."
    for key, words in found.items():
        of_task = effects.columns.get(key.task)  # a key of one task is asked about for that task
        if of_task is not None and of_task is not column and of_task.is_known:
            found_there = key_paragraphs(effects, of_task)
            if key in found_there:
                yield f"{of_task.title}: {found_there[key]}"
        yield words
    if effects.race.decisions and difference is None:
        return  # which says what more replicates would show
    answers = [answer_of(key, column) for key in found if key.name in column.values]
    more = what_more_shows(effects, column, records, answers, difference)
    if more:
        yield more


def task_answers(effects: SweepEffects) -> Iterator[str]:
    """Yields a paragraph for each task, where configurations were trained on different tasks."""
    yield f"{capitalized(effects.why_none)}. The effects on each task:"
    for column in effects.compared:
        words = " ".join(key_paragraphs(effects, column).values())
        reason = f"not known: {why_uncertain(effects, column)}."
        yield f"{column.title}: {words if column.is_known else reason}"
    yield from amount_lines(effects.amounts, next(iter(effects.columns.values())).tasks)
    if effects.search == "grid" and not all(column.is_known or column.few_groups for column in effects.compared):
        yield f"For an answer:\n{COMMAND_INDENT}{resume_command(effects.path)} --replicates {MORE_REPLICATES}"


def key_paragraphs(effects: SweepEffects, column: ColumnEffects) -> dict[SearchedKey, str]:
    """Returns what each key does to one score, in words; first those that say which value to take, or to keep because
    every other one is worse."""
    decided, others = dict[SearchedKey, str](), dict[SearchedKey, str]()
    for key in effects.keys:
        if key.name in column.curves:
            curve = column.curves[key.name]
            (decided if curve.is_significant else others)[key] = range_words(key, curve, column)
        elif key.name in column.values:
            answer = answer_of(key, column)
            (decided if answer.is_decided else others)[key] = " ".join(value_words(answer, column))
    return decided | others


def answer_of(key: SearchedKey, column: ColumnEffects) -> KeyAnswer:
    """Returns the facts about a key's listed values, by one score."""
    return key_answer(column.key_of(key), column.values[key.name], column.trends.get(key.name))


def what_more_shows(
    effects: SweepEffects,
    column: ColumnEffects,
    records: Sequence[TrialRecord],
    answers: Sequence[KeyAnswer],
    difference: float | None,
) -> str:
    """At most one sentence on what more replicates would show of a grid's keys: of the undecided difference, or of the
    given one, that takes the most replicates which are worth it."""
    cost = partial(more_replicates, effects, column, records)
    found = [one for _, one in forecasts(column, answers, difference)]
    if found:
        most = MOST_WORTH if difference is None else MAX_REPLICATES
        worth = [one for one in found if one.needed is not None and one.needed <= most]
        return forecast_words(max(worth, key=lambda one: one.needed or 0) if worth else found[0], cost)
    is_unsure = any(answer.key.name in column.precisions and answer.is_compared for answer in answers)
    if not is_unsure or any(column.precisions.values()):
        return ""
    few = f"With {replicates_text(column)} of {column.num_distinct} configurations the variance of training is hardly"
    return f"{few} known. For a firmer answer: {cost(MORE_REPLICATES * column.num_replicates[1])}"


def forecasts(
    column: ColumnEffects, answers: Sequence[KeyAnswer], difference: float | None = None
) -> list[tuple[KeyAnswer, Forecast]]:
    """Returns what more replicates would show of each key whose precision is known, and that has something to show."""
    found = []
    for answer in answers:
        precision = column.precisions.get(answer.key.name)
        if precision is not None:
            found.append((answer, forecast(answer, precision, column.num_replicates[1], difference)))
    return [(answer, one) for answer, one in found if one is not None]


def unknown(effects: SweepEffects, column: ColumnEffects, records: Sequence[TrialRecord]) -> str:
    """Returns why there is no answer, and what would give one."""
    if column.num_distinct == 1:
        return f"All {column.num_configurations} finished configurations trained the same: no effect was found."
    lines = []
    for key in effects.keys:
        same = [value_text(value.value) for value in column.values.get(key.name, ()) if value.is_same]
        if same:
            base = value_text(column.key_of(key).base)
            lines.append(f"{key.name}: {', '.join(same)} trained the same as {base}.")
    lines.append(f"Not known: {why_uncertain(effects, column)}.")
    if column.few_groups:
        lines.append("More replicates do not change that: dev needs rows of more groups.")
    elif is_open(effects):
        lines.append("Some trials have not ended.")
    elif effects.search == "grid":
        lines.append(f"For an answer: {more_replicates(effects, column, records, MORE_REPLICATES)}")
    else:
        more = max(1, sum(record.replicate == 0 for record in records))
        command = f"{resume_command(effects.path)} --extend {more}"
        lines.append(f"To double the number of configurations:\n{COMMAND_INDENT}{command}")
    return " ".join(lines)


def why_uncertain(effects: SweepEffects, column: ColumnEffects) -> str:
    """Returns why the variance of training, or over examples, is not known."""
    if column.few_groups:
        return few_groups_words(column.few_groups)
    if effects.search == "grid":
        is_early = effects.num_early > 0 and column.num_replicates[1] == 1
        return "not all configurations were trained twice yet" if is_early else why_unknown(column.num_replicates[1])
    names = [key.name for key in effects.keys]
    keys = " + ".join(names) if len(names) <= MAX_NAMED else f"{len(names)} keys"
    differ = "" if column.num_distinct == column.num_configurations else f", of which {column.num_distinct} differ,"
    return f"{column.num_configurations} finished configurations{differ} are too few to fit the effect of {keys}"


def is_open(effects: SweepEffects) -> bool:
    """Returns whether some trials have not ended."""
    return any(status in effects.left_out for status in UNFINISHED)


def more_replicates(
    effects: SweepEffects, column: ColumnEffects, records: Sequence[TrialRecord], num_replicates: int
) -> str:
    """Returns the cost of so many replicates and, on a line of its own, the command."""
    finished = sum(record.status in COMPLETED for record in records) or column.num_trials
    configurations = len({record.number for record in records}) or column.num_configurations
    missing = max(1, num_replicates * configurations - finished)
    cost = f"{counted(missing, 'more trial')}{training_time(missing, records)}"
    return f"{cost}.\n{COMMAND_INDENT}{resume_command(effects.path)} --replicates {num_replicates}"


def training_time(num_trials: float, records: Sequence[TrialRecord]) -> str:
    """Returns how long so many trials train one after the other, from those that have ended;
    empty if that is not known."""
    seconds = [record.wall_seconds for record in records if record.status == "complete" and record.wall_seconds > 0]
    if not seconds:
        return ""
    minutes = num_trials * sum(seconds) / len(seconds) / 60
    text = f"{minutes / 60:.1f} hours" if minutes >= 90 else counted(max(1, round(minutes)), "minute")
    return f", about {text} of training"


def training_line(effects: SweepEffects, records: Sequence[TrialRecord]) -> Iterator[str]:
    """Yields how the trials were trained that the answer is about,
    and whether most of several epochs were still improving."""
    finished = [record for record in records if record.status in COMPLETED and record.best_epoch]
    if not finished:
        return
    bases = ", ".join(text for key in effects.keys if (text := base_text(key)))
    base = f"; base: {bases}" if bases else ""
    steps, epochs = (sorted({getattr(own, name) for own in finished}) for name in ("steps", "epochs"))
    sizes = sorted({batch_text(own) for own in finished})
    size = sizes[0] if len(sizes) == 1 else ""
    stages = {own.config: json.loads(own.config).get("stages", ()) for own in finished}
    several = [own for own in finished if OVERALL in own.best_epoch and num_scored(stages[own.config]) > 1]
    late, all_of_them = sum(own.best_epoch[OVERALL] == own.epochs for own in several), counted(len(several), "trial")
    improving = f" {late} of {all_of_them} were still improving when they ended: longer training may differ."
    has_patience = any(stage.get("patience") for found in stages.values() for stage in found)
    may_end = "up to " if has_patience and len(epochs) == 1 else ""
    how = f"{range_text(steps, 'step')} in {may_end}{range_text(epochs, 'epoch')}"
    yield f"Trained {how}{size}{base}.{improving if 2 * late > len(several) else ''}"


def num_scored(stages: Sequence[Mapping[str, Any]]) -> int:
    """How many epochs have an overall score by these stages, of a configuration of any version: dev is scored, and
    every task has been active."""
    counts = [math.ceil(stage["epochs"] / stage.get("score_every", 1)) for stage in stages]
    num_active = [len({task for stage in stages[: at + 1] for task in stage["tasks"]}) for at in range(len(stages))]
    return sum(count for count, number in zip(counts, num_active, strict=True) if number == num_active[-1])


def base_text(key: SearchedKey) -> str:
    """E.g. `smart.weight 0`, or `smart.weight 0.5 (not trained)`; empty where the base has no single value."""
    if key.base is not NO_VALUE:
        return f"{key.name} {value_text(key.base)}"
    return "" if key.own_base is NO_VALUE else f"{key.name} {value_text(key.own_base)} (not trained)"


def range_text(numbers: Sequence[int], what: str) -> str:
    """E.g. `60 steps`, or `30 to 90 steps` of sorted numbers that differ."""
    least = f"{numbers[0]:,} to " if len(numbers) > 1 else ""
    return f"{least}{counted(numbers[-1], what)}"


def batch_text(record: TrialRecord) -> str:
    """Returns the batch sizes of a trial's tasks: `, batches of 32`, or `, batches of 16 (sst), 32 (qqp)`."""
    settings = json.loads(record.config).get("tasks", {})
    sizes = {name: settings[name].get("batch_size") for name in record.best if name in settings}
    if len(set(sizes.values())) < 2:
        return "".join(f", batches of {size}" for size in set(sizes.values()))
    return f", batches of {', '.join(f'{size} ({name})' for name, size in sizes.items())}"


def remarks(effects: SweepEffects, difference: float | None) -> Iterator[str]:
    """Yields what else to know: no forecast for a given difference, bases that were not trained,
    dropped configurations."""
    is_grid, main = effects.search == "grid", effects.columns.get(effects.metric)
    titles = {title for own in effects.compared for title in own.few_groups} if effects.claim is None else set()
    for column in effects.columns.values():
        if column.few_groups and column.task != OVERALL and not column.few_groups.keys() <= titles:
            yield f"{capitalized(few_groups_words(column.few_groups))}."
    if difference is not None and not is_grid:
        yield "--difference is for grids: the curves of a search have bands instead (--effects)."
    elif difference is not None and (main is None or not any(main.precisions.values())):
        yield f"How many replicates would find a difference of {difference:.3g} cannot be said from these trials."
    picked = [key.name for key in effects.keys if key.range is None and key.values and key.base is NO_VALUE]
    if picked and any(column.is_known for column in effects.columns.values()):
        yield (
            f"The base value of {named(picked)} was not trained: differences are from the value with the best mean, "
            "and their intervals allow for its having been picked (all pairs)."
        )
    if effects.num_dropped and not is_grid:
        yield "Only trainings that all configurations have count above; the best were trained again for the ranking."
    elif effects.num_dropped:
        yield (
            f"Only the best configurations by their dev score were trained again and are compared. Nothing shows that "
            f"the other {effects.num_dropped}, which were dropped after fewer trainings, are worse. Differences are "
            f"from {effects.base_text}."
        )


def left_out(effects: SweepEffects, records: Sequence[TrialRecord]) -> list[str]:
    """Returns the trials that do not count, or not yet, in lines, with what failed ones were trained with."""
    lines = []
    if effects.num_early:
        own, is_one = counted(effects.num_early, "finished trial"), effects.num_early == 1
        which = "configurations that are still compared" if effects.race.decisions else "configurations"
        if effects.race.end:
            not_counted = "does not count: it" if is_one else "do not count: they"
            lines.append(f"{own} {not_counted} began before the race had ended.")
        else:
            lines.append(f"{own} {'counts' if is_one else 'count'} once all {which} have as many replicates.")
    if not effects.left_out:
        return lines
    by_number = {record.number: searched_text(record.params) for record in records if record.status == "failed"}
    failed = sorted(filter(None, by_number.values()))
    more = [f"and {len(failed) - MAX_NAMED} more"] if len(failed) > MAX_NAMED else []
    shown = {"failed": f" ({'; '.join([*failed[:MAX_NAMED], *more])})"} if failed else {}
    counts = ", ".join(f"{count} {status}{shown.get(status, '')}" for status, count in effects.left_out.items())
    return [*lines, f"Trials left out: {counts}."]


def best_found(effects: SweepEffects, ranked: Sequence[RankedConfiguration], base_number: int | None) -> Iterator[str]:
    """Yields whether a search found a better configuration than the base configuration, by overall score."""
    base = next((row for row in ranked if row.number == base_number), None)
    alike = [row for row in ranked if base is None or row.tasks == base.tasks]
    if not alike or effects.search == "grid" or effects.metric != OVERALL:
        return
    so_far = " so far" if is_open(effects) else ""
    best, name = alike[0], f"the base configuration, {base_number or 0:04d}"
    values = searched_values(searched_names(ranked), best.params)
    found = f"the best configuration{so_far}, {best.number:04d} ({values}),"
    if base_number is None:
        yield f"{capitalized(found)} has the highest overall score{so_far}; the base configuration was not trained."
    elif base is None:
        yield f"{capitalized(found)} is not compared with {name}, of which no trial has finished."
    elif best is base:
        if len(alike) > 1:
            yield f"{capitalized(name)}, has the highest overall score{so_far}: the search found nothing better."
    elif base.below_best is None:
        if base.was_dropped:
            yield f"{capitalized(found)} is not compared with {name}, which has fewer trainings."
    elif base.margin is None and base.may_be_best:
        why = why_not_compared(alike, f"--replicates {MORE_REPLICATES} --replicate-best {MOST_REPLICATED}")
        yield (
            f"{capitalized(found)} is {base.below_best:+.3f} overall above {name}. Whether it is better is not known: "
            f"{why}."
        )
    else:
        undecided, shows = ("it is not decided whether ", "would show") if base.may_be_best else ("", "shows")
        size = f"{base.below_best:+.3f} overall above it"
        if base.margin is not None and (base.below_best <= base.margin) == base.may_be_best:  # not of an earlier look
            size += f", and {base.margin:.3f} {shows} that"
        yield f"{capitalized(undecided + 'the search')} found a better one than {name}: {found} is {size}."
