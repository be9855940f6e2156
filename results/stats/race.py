"""Decides, round by round, which configurations of a sweep need further replicates (`--until-decided`).

After each complete round a configuration leaves the race if it is shown not to be the best, as some other one is above
it by more than their margin, if it is significantly worse than the base, or if it is shown to be at most a margin below
the best. The race ends when one configuration is left, or when no number
of rounds that it may still have is likely to distinguish any of the others from the best. A race about a claim compares
two configurations, and ends once the claim is shown or excluded. Its claims hold at 95 % over
all rounds together, whenever it ends (`results.stats.error_spending`): ending early because nothing can be decided
makes no claim.

A decision depends on the trials of complete rounds alone, so it is the same after a kill, and no matter what
else has been trained meanwhile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mtlib.runtime.errors import require
from results.records.race import (
    DECIDED,
    EXCLUDED_CLAIM,
    FEW_GROUPS,
    LAST_ROUND,
    SHOWN_CLAIM,
    UNDECIDABLE,
    ClaimEstimate,
    RaceRecord,
    RoundDecision,
    claim_of,
    race_of,
)
from results.records.replicated_best import further_replicated
from results.records.trials import COMPLETED, OVERALL, TrialRecord
from results.stats.configuration_means import ConfigurationMeans, ModelScores, configuration_means
from results.stats.error_spending import Look, rounds_looked_at
from results.stats.looks import look_after, looks_at, round_to_decide
from results.stats.margins import Mask, Pairs, best_set, compare_pairs, margins_control
from results.stats.power import MAX_REPLICATES
from results.stats.resampling import Floats, Numbers
from results.stats.trial_scores import TrialScores, group_by_configuration
from search_spaces.claim import BETTER, WORSE

HOPE = 1.0
"""Standard errors by which a difference may still move in the hoped direction before the race may end: the chance that
it moves further is a sixth."""
FEWEST_ROUNDS = 4
"""Before the race may end because no more rounds are likely to decide: differences after fewer say little."""


@dataclass(frozen=True, kw_only=True)
class RaceRules:
    """What a race is for, and what it may cost."""

    margin: float = 0.0
    """A configuration leaves when it is shown to be at most so much below the best, in score."""
    most_rounds: int
    """Rounds after which it ends at the latest."""
    base: int | None = None
    """Number of the configuration that others are compared with; None if there is none."""
    claim: float | None = None
    """By more than how much `BETTER` is claimed to score higher than `WORSE`; None of a race that is about no claim."""


def decide_round(
    models: ModelScores, numbers: Sequence[int], race: RaceRecord, look: Look, rules: RaceRules
) -> RoundDecision:
    """Returns the decision after a complete round.

    Args:
        models: scores of the trials that count at this look, also of configurations that have left before.
        numbers: of the configurations, in the order of `models`.
        race: the decisions after earlier rounds.
        look: with the number of rounds.
        rules: of the race.
    """
    numbered = np.asarray(numbers)
    among = ~np.isin(numbered, list(race.left_at))
    if not models.degrees:
        claimed, left = None if rules.claim is None else ClaimEstimate(), tuple(sorted(numbered[among].tolist()))
        return RoundDecision(num_rounds=look.num_rounds, open=left, claimed=claimed, end=FEW_GROUPS)
    if rules.claim is not None:
        return decide_claim(models, numbers, look, rules)
    means = configuration_means(models)
    found = best_set(means, among, look=look)
    is_worse = among & ~found.is_left
    is_below_base = among & ~is_worse & below_base(means, np.flatnonzero(numbered == rules.base), look)
    may_be_best = among & ~is_worse & ~is_below_base
    is_best = np.arange(len(among)) == np.where(may_be_best, means.means, -np.inf).argmax()
    is_equal = may_be_best & ~is_best & (found.at_most_below <= rules.margin)
    left = may_be_best & ~is_equal
    is_early = look.num_rounds < min(FEWEST_ROUNDS, rules.most_rounds)
    at_most = dict.fromkeys(np.flatnonzero(left).tolist(), rules.most_rounds) if is_early else {}
    pairs = found.pairs if (left == among).all() else None  # those of fewer are compared anew
    needed = rounds_needed(means, left, look, rules, pairs) or at_most
    end = ""
    if left.sum() == 1:
        end = DECIDED
    elif look.num_rounds >= rules.most_rounds:
        end = LAST_ROUND
    elif not needed:
        end = UNDECIDABLE

    expected = [] if end else [needed.get(place, max(needed.values())) for place in np.flatnonzero(left).tolist()]

    def chosen(mask: Mask) -> tuple[int, ...]:
        return tuple(numbered[mask].tolist())

    return RoundDecision(
        num_rounds=look.num_rounds,
        open=chosen(left),
        worse=chosen(is_worse),
        worse_than_base=chosen(is_below_base),
        equal=chosen(is_equal),
        expected_rounds=tuple(expected),
        end=end,
    )


def decide_claim(models: ModelScores, numbers: Sequence[int], look: Look, rules: RaceRules) -> RoundDecision:
    """Returns whether a claim is shown or excluded after a complete round.

    At most one of these is false, so each may be with 5 % probability. Arguments as of `decide_round`.
    """
    assert rules.claim is not None
    means, most = configuration_means(models), rules.most_rounds
    own = RoundDecision(num_rounds=look.num_rounds, open=tuple(sorted(numbers)), claimed=ClaimEstimate())
    is_last = look.num_rounds >= most
    if len(numbers) < 2:  # the other one has no training that ended well
        return replace(own, end=UNDECIDABLE)
    if not means.has_replicates:  # as some have failed
        return replace(own, end=LAST_ROUND) if is_last else replace(own, expected_rounds=(most, most))
    places = np.array([numbers.index(WORSE), numbers.index(BETTER)])
    pairs, above = compare_pairs(means, places), float(means.means[places[1]] - means.means[places[0]])
    margin, forecast = float(pairs.limits(look)[0, 1]), ClaimForecast()
    if above - margin > rules.claim:
        end = SHOWN_CLAIM
    elif above + margin <= rules.claim:  # also where both trained the same
        end = EXCLUDED_CLAIM
    else:
        forecast = rounds_to_decide(pairs, above - rules.claim, look, most)
        may_go_on = look.num_rounds < FEWEST_ROUNDS or (forecast.possible or np.inf) <= most
        end = LAST_ROUND if is_last else "" if may_go_on else UNDECIDABLE
    rounds = () if end else (min(forecast.expected or most, most),) * len(places)
    estimate = ClaimEstimate(difference=above, margin=margin, needed=forecast.expected)
    return replace(own, end=end, expected_rounds=rounds, claimed=estimate)


@dataclass(frozen=True, kw_only=True)
class ClaimForecast:
    """Rounds after which a claim may be decided; None where no number that is tried is enough."""

    expected: int | None = None
    """If the difference stays as it is."""
    possible: int | None = None
    """If it moves by `HOPE` standard errors."""


def rounds_to_decide(pairs: Pairs, beyond: float, look: Look, most_rounds: int) -> ClaimForecast:
    """Returns how many rounds may decide a claim.

    Args:
        pairs: the comparison of two configurations.
        beyond: by how much the difference is above what is claimed; below it where it is negative.
        look: at the last complete round.
        most_rounds: of the race, tried in any case; beyond 20 rounds not every number up to `MAX_REPLICATES` is.
    """
    possible, (error,) = None, pairs.compared.training_errors
    tried = {*rounds_looked_at(MAX_REPLICATES, None), most_rounds}
    for number in sorted(own for own in tried if own > look.num_rounds):
        limit = pairs.limits(look.at(number), number / look.num_rounds)[0, 1]
        move = HOPE * np.sqrt(1 - look.num_rounds / number) * error
        if possible is None and abs(beyond) + move > limit:
            possible = number
        if abs(beyond) > limit:
            return ClaimForecast(expected=number, possible=possible)
    return ClaimForecast(expected=None, possible=possible)


def below_base(means: ConfigurationMeans, base: Numbers, look: Look | None = None) -> Mask:
    """(configurations,): which are significantly worse than the base, given by its place, if there is one.

    The margins are those of the intervals that the effects have (`results.stats.effects.key_effects`). `look` is None
    for the only one.
    """
    found = np.zeros(len(means.means), np.bool_)
    if len(base) and len(found) > 1:
        others, one = np.delete(np.arange(len(found)), base), np.eye(len(found))
        to_base = one[others] - one[base]
        found[others] = means.estimate(to_base) < -margins_control(means, to_base, look=look).widths
    return found


def rounds_needed(
    means: ConfigurationMeans, left: Mask, look: Look, rules: RaceRules, pairs: Pairs | None = None
) -> dict[int, int]:
    """Returns the rounds after which each configuration but the best is expected to be decided, by its place.

    Left out are those that even a difference which moves by `HOPE` standard errors would not decide within the rounds
    of the race.

    Args:
        means: of the configurations.
        left: (configurations,): which may be the best.
        look: at the last complete round.
        rules: of the race.
        pairs: the comparisons of all that may be the best; None if they are yet to be made.
    """
    places = np.flatnonzero(left)
    best = places[means.means[places].argmax()] if len(places) else None
    others = np.flatnonzero(places != best)  # among the places
    later = range(look.num_rounds + 1, rules.most_rounds + 1)
    if not later or not len(others):
        return {}
    if not means.total_degrees:
        return {int(place): later[0] for place in places[others]}
    pairs = compare_pairs(means, places) if pairs is None else pairs
    above = means.means[places] - means.means[places][:, None]  # (first, second): by which the second is above
    errors = np.zeros_like(above)
    errors[pairs.first, pairs.second] = errors[pairs.second, pairs.first] = pairs.compared.training_errors
    is_expected, is_possible = np.zeros((2, len(later), len(places)), np.bool_)
    for row, number in enumerate(later):
        limits = pairs.limits(look.at(number), number / look.num_rounds)
        moves = HOPE * np.sqrt(1 - look.num_rounds / number) * errors
        is_expected[row] = are_decided(above, above, limits, rules.margin)
        is_possible[row] = are_decided(above + moves, above - moves, limits, rules.margin)
    return {
        int(places[at]): later[int(is_expected[:, at].argmax())] if is_expected[:, at].any() else rules.most_rounds
        for at in others
        if is_possible[:, at].any()
    }


def are_decided(high: Floats, low: Floats, limits: Floats, margin: float) -> Mask:
    """(configurations,): which some other one is above by more than the limit, or which no other one is above by more
    than a margin.

    Args:
        high: (first, second) by which the second may be above the first, for the one claim.
        low: likewise, for the other claim.
        limits: of `Pairs.limits`, nan for one itself.
        margin: within which configurations are equal.
    """
    with np.errstate(invalid="ignore"):
        is_worse = (high > limits).any(axis=1)
    farthest = np.nanmax(np.maximum(low, 0.0) + limits.T, axis=1)
    return np.asarray(is_worse | (farthest <= margin))


def decide_complete_rounds(
    info: Mapping[str, Any], records: Sequence[TrialRecord], scores: TrialScores, base: int | None
) -> RaceRecord:
    """Returns the decisions of a race up to its last complete round, those on record first.

    Args:
        info: the content of `sweep.json`.
        records: the sweep's trials.
        scores: of these trials.
        base: number of the configuration that others are compared with, if there is one.

    Raises:
        ValueError: the configurations have different tasks, so that their overall scores cannot be compared.
    """
    race, options = race_of(info) or RaceRecord(), info["options"]
    claim = claim_of(info)
    rules = RaceRules(
        margin=options["until_decided"],
        most_rounds=options["replicates"],
        base=base,
        claim=None if claim is None else claim.margin,
    )
    metric = info["space"]["metric"]
    finished = [record for record in records if record.status in COMPLETED and record.trial_id in scores.epochs]
    while (num_rounds := round_to_decide(info, records, race)) is not None:
        numbers, looks = further_replicated(info, records, race), looks_at(info, records, race)
        look = look_after(num_rounds, looks.declared)
        raced = [own for own in finished if own.number in numbers and looks.has(own.number, own.replicate, look)]
        groups = group_by_configuration(raced)
        tasks = compared_tasks(groups, scores) if metric == OVERALL else [metric]
        models = scores.of_models((metric, "dev"), tasks, groups)
        decision = decide_round(models, [group[0].number for group in groups], race, look, rules)
        race = RaceRecord(decisions=(*race.decisions, decision))
        if not numbers <= race.raced:
            break  # one that is complete has no overall score: it would be waited for again and again
    return race


def compared_tasks(groups: Sequence[Sequence[TrialRecord]], scores: TrialScores) -> list[str]:
    """Returns the tasks of all configurations; ValueError if some have others."""
    found = {
        tuple(task for task in scores.tasks if group[0].trial_id in scores.values.get((task, "dev"), {}))
        for group in groups
    }
    require(
        len(found) == 1, "--until-decided must compare configurations of the same tasks", f"{len(found)} sets of tasks"
    )
    return list(found.pop())
