"""What a race has decided, in words: after each round, in progress, and below the answer."""

from collections.abc import Mapping, Sequence

from mtlib.runtime.command_line import counted
from results.answers.claim_words import TOO_FEW_GROUPS, claim_decision_words, claim_ending
from results.records.race import DECIDED, FEW_GROUPS, LAST_ROUND, RaceRecord, RoundDecision
from results.records.trials import COMPLETED, TrialRecord
from results.stats.texts import capitalized, named, searched_text


def decision_lines(race: RaceRecord, num_known: int) -> list[str]:
    """Returns a line for each decision but the first `num_known`, which were shown before.

    A round that is decided once more, as configurations have joined the race, says so.
    """
    rounds = [own.num_rounds for own in race.decisions]
    return [
        decision_line(own, is_repeated=own.num_rounds in rounds[:place])
        for place, own in enumerate(race.decisions)
        if place >= num_known
    ]


def decision_line(decision: RoundDecision, *, is_repeated: bool) -> str:
    """E.g. `Round 3: 0004, 0005 are not the best; 5 go on`."""
    if decision.claimed is not None:
        return claim_decision_words(decision)
    whys = (
        (decision.worse, "not the best"),
        (decision.worse_than_base, "worse than the base"),
        (decision.equal, "equal to the best within the margin"),
    )
    left = [([f"{number:04d}" for number in own], why) for own, why in whys if own]
    parts = [f"{named(numbers)} {'is' if len(numbers) == 1 else 'are'} {why}" for numbers, why in left]
    going = f"{len(decision.open)} go on, expected to be decided after round {max(decision.expected_rounds, default=0)}"
    name = f"Round {decision.num_rounds}{', with the configurations that have joined' * is_repeated}"
    return f"{name}: {'; '.join([*(parts or ['none leaves']), ending_words(decision) or going])}"


def ending_words(decision: RoundDecision, names: Mapping[int, str] | None = None) -> str:
    """Returns why the race ends after a round; empty if it goes on. What has no name is shown by its number."""
    left = named([(names or {}).get(number, f"{number:04d}") for number in decision.open])
    if not decision.end:
        return ""
    if decision.end == DECIDED:
        return f"decided: {left} is left"
    if decision.end == LAST_ROUND:
        return f"there are no more rounds to show which of {left} is the best"
    if decision.end == FEW_GROUPS:
        return TOO_FEW_GROUPS
    return f"the remaining rounds (--replicates) are unlikely to show which of {left} is the best"


def progress_words(race: RaceRecord) -> str:
    """E.g. `3 of 7 decided after round 4`; empty before the first decision."""
    if not race.decisions:
        return ""
    num_open = len(race.decisions[-1].open)
    if race.decisions[-1].claimed is not None:
        return f"claim {race.verdict} after round {race.num_rounds}"
    return f"{len(race.left_at)} of {len(race.left_at) + num_open} decided after round {race.num_rounds}"


def race_answer(race: RaceRecord, records: Sequence[TrialRecord]) -> str:
    """Returns how the race stands, or ended, and what it cost against training all configurations alike;
    empty before."""
    if not race.decisions:
        return ""
    last = race.decisions[-1]
    raced = {*race.left_at, *last.open}
    cost = sum(record.number in raced and record.status in COMPLETED for record in records)
    rounds = f"{counted(race.num_rounds, 'round')} of {counted(len(raced), 'configuration')}"
    if last.claimed is not None:
        why = "" if race.is_final or not last.end else f"{capitalized(claim_ending(last))}. "
        limits = " The limits of a claim are one-sided, and narrower than the intervals of effects, which are not."
        return f"{why}{rounds}, {counted(cost, 'training')}.{limits if race.estimated else ''}"
    alike = len(raced) * race.num_rounds
    names = {own.number: f"{own.number:04d} ({searched_text(own.params)})" for own in records}
    state = ending_words(last, names) or progress_words(race)
    return f"{capitalized(state)}: {rounds}, {counted(cost, 'training')} ({alike} with equal replicates)."
