"""What is known of a claim, in words: after each round, and as the answer."""

from collections.abc import Callable

from results.records.race import EXCLUDED, LAST_ROUND, SHOWN, ClaimEstimate, RaceRecord, RoundDecision
from results.stats.texts import capitalized, change_text
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
    if decision.end in (SHOWN, EXCLUDED, ""):
        return f"the claim is {decision.end}" if decision.end else ""
    if decision.end == LAST_ROUND:
        return "the claim is open and there are no more rounds (--replicates)"
    return "the claim is open and the remaining rounds (--replicates) are unlikely to decide it"


def limits_text(found: ClaimEstimate) -> str:
    """E.g. `difference +.012, at least +.001, at most +.023`, in score."""
    least, most = (change_text(found.difference + sign * found.margin) for sign in (-1, 1))
    return f"difference {change_text(found.difference)}, at least {least}, at most {most}"


def claim_answer(claim: Claim, race: RaceRecord, measure: str, cost: Callable[[int], str]) -> str:
    """Returns whether a claim is shown, excluded or open, by how much, and what would decide it.

    Args:
        claim: what is claimed.
        race: the decisions so far.
        measure: what is better or worse, as in `ColumnEffects.measure`.
        cost: says what so many replicates cost, and the command.
    """
    last = next((own for own in reversed(race.decisions) if own.claimed is not None), None)
    said = {SHOWN: f"Shown: {claim.text}.", EXCLUDED: f"Excluded: it is not true that {claim.text}."}
    verdict = said.get(race.verdict, f"Open: it is not decided whether {claim.text}.")
    if last is None or last.claimed is None:
        return f"{verdict} Both must have been trained twice."
    sure = f"each limit 95 %, however often you look; {last.num_rounds} replicates"
    found = f"{verdict} {capitalized(measure)}: {limits_text(last.claimed)} ({sure})."
    if race.is_final:
        return found
    needed = last.claimed.needed
    if needed is None:
        return f"{found} No number of replicates would decide it, if the difference stays: dev is too small."
    if not race.end:
        return f"{found} If the difference stays, about {needed} replicates decide it."
    return f"{found} If the difference stays, about {needed} replicates decide it: {cost(needed)}"
