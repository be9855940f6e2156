"""How far a sweep is when it is looked at: its complete rounds, and the look that was declared at its start.

In a round of a grid each configuration is trained once more, by one replicate. A round counts once all its trials have
ended, so what is claimed does not depend on which trials happen to be done at the moment. A search has no rounds:
configurations come and go, so its trainings are counted instead, and all that have ended count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from results.records.replicated_best import replicated_best
from results.records.trials import COMPLETED, FIRST_LOOK, UNFINISHED, TrialRecord
from results.stats.error_spending import Look


@dataclass(frozen=True, kw_only=True)
class Looks:
    """The looks at a sweep up to now."""

    is_by_round: bool
    """Whether it is a grid."""
    num_rounds: int
    """Complete ones; of a search, trainings that have ended."""
    declared: int
    """Those of the declared look."""

    @property
    def now(self) -> Look:
        """The present look."""
        return look_after(self.num_rounds, self.declared)

    @property
    def kept(self) -> tuple[Look, ...]:
        """The looks whose claims hold now, the present one last: the declared one is among them once it is past."""
        is_past = self.is_by_round and 2 <= self.declared < self.num_rounds
        return (look_after(self.declared, self.declared), self.now) if is_past else (self.now,)

    def has(self, replicate: int, look: Look | None = None) -> bool:
        """Whether trials of a replicate, from 0, count at a look, by default the present one."""
        num_rounds = max(1, self.num_rounds) if look is None else look.num_rounds
        return not self.is_by_round or replicate < num_rounds


def look_after(num_rounds: int, declared: int) -> Look:
    """The look after so many rounds; before the second there is nothing to claim."""
    return Look(num_rounds=max(2, num_rounds), declared=max(2, declared))


def looks_at(info: Mapping[str, Any], records: Sequence[TrialRecord]) -> Looks:
    """The looks at a sweep; without a declared one on record, the present one is it.

    Args:
        info: the content of `sweep.json`.
        records: the sweep's trials.
    """
    is_grid = info.get("search") == "grid"
    first, options = info.get(FIRST_LOOK), info.get("options") or {}
    if is_grid:
        num_rounds = complete_rounds(info, records)
        declared = first["replicates"] if first else options.get("replicates", num_rounds)
    else:
        num_rounds = ended_trainings(records, options)
        declared = first["configurations"] * first["replicates"] if first else num_rounds
    return Looks(is_by_round=is_grid, num_rounds=num_rounds, declared=declared)


def complete_rounds(info: Mapping[str, Any], records: Sequence[TrialRecord]) -> int:
    """How many replicates, from the first on, all configurations have that should have them."""
    ended = {(record.number, record.replicate) for record in records if record.status not in UNFINISHED}
    numbers = {record.number for record in records}
    if len({number for number, replicate in ended if replicate == 0}) < max(
        len(numbers), info.get("num_configurations") or 0
    ):
        return 0
    repeated = {record.number for record in records if record.replicate == 0 and record.status in COMPLETED}
    best = replicated_best(info, records)
    num_rounds = 1
    while True:
        wanted = repeated if best is None or num_rounds < best.chosen_by else repeated & best.numbers
        if not wanted or any((number, num_rounds) not in ended for number in wanted):
            return num_rounds
        num_rounds += 1


def ended_trainings(records: Sequence[TrialRecord], options: Mapping[str, Any]) -> int:
    """Trials that have ended; one that stopped its configuration counts as all that this would have had."""
    replicates = options.get("replicates", 1) if options.get("replicate_best") is None else options["chosen_by"]
    ended = [record for record in records if record.status not in UNFINISHED]
    return sum(1 if own.replicate or own.status in COMPLETED else replicates for own in ended)
