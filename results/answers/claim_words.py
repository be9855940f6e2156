"""What is known of a claim, in words: after each round, and as the answer."""

import re
from collections.abc import Callable

from results.records.race import (
    EXCLUDED_CLAIM,
    FEW_GROUPS,
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

NOT_COMPARED = "two trainings of each, in the same rounds, must have ended well"
"""Why no difference is known yet."""
TOO_FEW_GROUPS = "dev rows are in too few groups for any difference to be claimed"
"""Why none will be."""


def claim_decision_words(decision: RoundDecision) -> str:
    """E.g. `Round 3: the claim is open: better by +.0120, at least by +.0010, at most by +.0230; expected to be decided
    by round 5`."""
    assert decision.claimed is not None
    state, found = claim_ending(decision) or "the claim is open", limits_text(decision.claimed)
    if not found:
        return f"Round {decision.num_rounds}: {state}"
    needed, most = decision.claimed.needed, max(decision.expected_rounds, default=0)
    is_expected = needed is not None and needed <= most
    going = "" if decision.end else f"; {'' if is_expected else 'not '}expected to be decided by round {most}"
    return f"Round {decision.num_rounds}: {state}: {found}{going}"


def claim_ending(decision: RoundDecision) -> str:
    """Returns why the race about a claim ends after a round; empty if it goes on."""
    if decision.end in (SHOWN_CLAIM, EXCLUDED_CLAIM, ""):
        return f"the claim is {decision.end}" if decision.end else ""
    if decision.end == FEW_GROUPS:
        return f"the claim is open: {TOO_FEW_GROUPS}"
    if decision.claimed is not None and decision.claimed.limits is None:
        return f"the claim is open: {NOT_COMPARED} (--retry-failed)"
    if decision.end == LAST_ROUND:
        return "the claim is open and there are no more rounds (--replicates)"
    return "the claim is open and the remaining rounds (--replicates) are unlikely to decide it"


def limits_text(found: ClaimEstimate) -> str:
    """E.g. `better by +.0120, at least by +.0010, at most by +.0230`, in score; empty where no difference is known."""
    if found.difference is None or found.limits is None:
        return ""
    numbers = (found.difference, *found.limits)
    size, least, most = (re.sub(r"^([+-])0\.", r"\1.", f"{number:+.4f}") for number in numbers)
    return f"better by {size}, at least by {least}, at most by {most}"


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
    last = race.estimated
    if last is None or last.claimed is None:
        return f"{said[race.verdict]} {capitalized(TOO_FEW_GROUPS if race.end == FEW_GROUPS else NOT_COMPARED)}."
    sure = f"each limit 95 %, however often you look; {last.num_rounds} replicates"
    text = f"{said[race.verdict]} {capitalized(measure)}: {limits_text(last.claimed)} ({sure})."
    if race.is_final:
        return text
    needed = last.claimed.needed
    if needed is None:
        return f"{text} If the difference stays, not even {MAX_REPLICATES} replicates decide it."
    more = f": {cost(needed)}" if race.end else "."
    return f"{text} If the difference stays, about {needed} replicates decide it{more}"
