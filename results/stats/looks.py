"""How far a sweep is when it is looked at: its complete rounds, and the look that was declared at its start.

In a round of a grid each configuration is trained once more, by one replicate. A round counts once all its trials have
ended, so what is claimed does not depend on which trials happen to be done at the moment. In a race
(`results.stats.race`) configurations leave after a round, and later rounds are those of the others. A search has no
rounds: configurations come and go, so its trainings are counted instead, and all that have ended count.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from results.records.race import RaceRecord, race_of
from results.records.replicated_best import by_configuration, further_replicated, have_common_trainings
from results.records.trials import COMPLETED, FIRST_LOOK, UNFINISHED, TrialRecord
from results.stats.error_spending import Look


@dataclass(frozen=True, kw_only=True)
class Looks:
    """The looks at a sweep up to now."""

    is_by_round: bool
    """Whether it is a grid, or a race between the best of a search."""
    num_rounds: int
    """Complete ones; of a search, trainings that have ended."""
    declared: int | None
    """The rounds of the declared look; None in a race, where each round is a look."""
    race: RaceRecord = field(default_factory=RaceRecord)
    """What left a race, and when."""

    @property
    def now(self) -> Look:
        """The present look."""
        return look_after(self.num_rounds, self.declared)

    @property
    def kept(self) -> tuple[Look, ...]:
        """The looks whose claims hold now, the present one last: the declared one, and those after which some left."""
        rounds = {self.declared, *self.race.left_at.values()} if self.is_by_round else set()
        past = sorted(number for number in rounds if number is not None and 2 <= number < self.num_rounds)
        return (*(look_after(number, self.declared) for number in past), self.now)

    def has(self, number: int, replicate: int, look: Look | None = None) -> bool:
        """Returns whether the trial of a configuration's replicate, from 0, counts at a look,
        by default the present one."""
        num_rounds = max(1, self.num_rounds) if look is None else look.num_rounds
        return not self.is_by_round or replicate < min(num_rounds, self.race.left_at.get(number, num_rounds))


def look_after(num_rounds: int, declared: int | None) -> Look:
    """Returns the look after so many rounds; before the second there is nothing to claim."""
    return Look(num_rounds=max(2, num_rounds), declared=None if declared is None else max(2, declared))


def looks_at(info: Mapping[str, Any], records: Sequence[TrialRecord], race: RaceRecord | None = None) -> Looks:
    """Returns the looks at a sweep; without a declared one on record, the present one is it.

    Args:
        info: the content of `sweep.json`.
        records: the sweep's trials.
        race: its decisions; None for those on record, if it is a race.
    """
    race = race_of(info) if race is None else race
    is_by_round = info.get("search") == "grid" or race is not None
    first, options = info.get(FIRST_LOOK), info.get("options") or {}
    if is_by_round:
        num_rounds = complete_rounds(info, records, race or RaceRecord())
        declared = first["replicates"] if first else options.get("replicates", num_rounds)
    else:
        replicates = options.get("replicates", 1) if options.get("replicate_best") is None else options["chosen_by"]
        ended = [record for record in records if record.status not in UNFINISHED]
        # One that stopped its configuration counts as all trainings that this would have had.
        num_rounds = sum(1 if own.replicate or own.status in COMPLETED else replicates for own in ended)
        declared = first["configurations"] * first["replicates"] if first else num_rounds
    return Looks(is_by_round=is_by_round, num_rounds=num_rounds, declared=declared, race=race or RaceRecord())


def complete_rounds(info: Mapping[str, Any], records: Sequence[TrialRecord], race: RaceRecord) -> int:
    """Returns how many replicates, from the first on,
    all configurations have that should have them by a race's decisions."""
    ended = {(record.number, record.replicate) for record in records if record.status not in UNFINISHED}
    numbers = {record.number for record in records}
    expected = max(len(numbers), info.get("num_configurations") or 0)
    if len({number for number, replicate in ended if replicate == 0}) < expected:
        return 0
    repeated = {record.number for record in records if record.replicate == 0 and record.status in COMPLETED}
    options, left_at, num_rounds = info.get("options") or {}, race.left_at, 1
    is_chosen = options.get("replicate_best") is not None
    further = further_replicated(info, records, race) if is_chosen else repeated
    most = math.inf  # rounds of which the configurations are known
    if is_chosen and not have_common_trainings(by_configuration(records), expected, options["chosen_by"]):
        most = options["chosen_by"] - 1
    while num_rounds < most:
        wanted = further if is_chosen and num_rounds >= options["chosen_by"] else repeated
        wanted = {number for number in wanted if left_at.get(number, num_rounds + 1) > num_rounds}
        if not wanted or any((number, num_rounds) not in ended for number in wanted):
            return num_rounds
        num_rounds += 1
    return num_rounds


def round_to_decide(info: Mapping[str, Any], records: Sequence[TrialRecord], race: RaceRecord) -> int | None:
    """Returns the complete round that a race must decide on next;
    None if it has ended, or its next round is not complete.

    If configurations have joined the race since its last decision, by `--extend` or `--retry-failed`, the round of that
    decision is decided once more, with the new ones among those compared.
    """
    has_joined = bool(race.decisions) and not further_replicated(info, records, race) <= race.raced
    if race.end and not has_joined:
        return None
    options = info["options"]
    first = 2 if options.get("replicate_best") is None else max(2, options["chosen_by"])
    wanted = race.num_rounds if has_joined else max(first, race.num_rounds + 1)
    return wanted if complete_rounds(info, records, race) >= wanted else None
