"""What is known of a claim, in words: after each round, and as the answer."""

from collections.abc import Callable

from results.records.race import (
    EXCLUDED_CLAIM,
    LAST_ROUND,
    OPEN_CLAIM,
    SHOWN_CLAIM,
    ClaimEstimate,
    RaceRecord,
    RoundDecision,
)
from results.stats.power import MAX_REPLICATES
from results.stats.texts import capitalized
from search_spaces.claim import Claim


def claim_decision_words(decision: RoundDecision) -> str:
    """E.g. `Round 3: the claim is open: difference +.012, at least +.001, at most +.023; expected to be decided after
    round 5`."""
    assert decision.claimed is not None
    going = f"; expected to be decided after round {max(decision.expected_rounds)}" if not decision.end else ""
    state = claim_ending(decision) or "the claim is open"
    return f"Round {decision.num_rounds}: {state}: {limits_text(decision.claimed)}{going}"


def claim_ending(decision: RoundDecision) -> str:
    """Returns why the race about a claim ends after a round; empty if it goes on."""
    if decision.end in (SHOWN_CLAIM, EXCLUDED_CLAIM, ""):
        return f"the claim is {decision.end}" if decision.end else ""
    if decision.end == LAST_ROUND:
        return "the claim is open and there are no more rounds (--replicates)"
    return "the claim is open and the remaining rounds (--replicates) are unlikely to decide it"


def limits_text(found: ClaimEstimate) -> str:
    """E.g. `difference +.0120, at least +.0010, at most +.0230`, in score."""
    if found.difference is None or found.limits is None:
        return "the two have no trainings in common that ended well"
    size, least, most = (f"{number:+.4f}".replace("0.", ".", 1) for number in (found.difference, *found.limits))
    return f"difference {size}, at least {least}, at most {most}"


def claim_answer(claim: Claim, race: RaceRecord, measure: str, cost: Callable[[int], str]) -> str:
    """Returns whether a claim is shown, excluded or open, by how much, and what would decide it.

    Args:
        claim: what is claimed.
        race: the decisions so far.
        measure: what is better or worse, as in `ColumnEffects.measure`.
        cost: says what so many replicates cost, and the command.
    """
    said = {
        SHOWN_CLAIM: f"Shown: {claim.text}.",
        EXCLUDED_CLAIM: f"Excluded: it is not true that {claim.text}.",
        OPEN_CLAIM: f"Open: it is not decided whether {claim.text}.",
    }
    known = [(own.num_rounds, own.claimed) for own in race.decisions if own.claimed and own.claimed.limits]
    if not known:
        return f"{said[race.verdict]} Both must have been trained twice, and ended well."
    num_rounds, found = known[-1]
    sure = f"each limit 95 %, however often you look; {num_rounds} replicates"
    text = f"{said[race.verdict]} {capitalized(measure)}: {limits_text(found)} ({sure})."
    if race.is_final:
        return text
    if found.needed is None:
        return f"{text} If the difference stays, not even {MAX_REPLICATES} replicates decide it."
    more = f": {cost(found.needed)}" if race.end else "."
    return f"{text} If the difference stays, about {found.needed} replicates decide it{more}"
