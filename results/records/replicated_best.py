"""Sweeps in which only the best configurations were trained again (`--replicate-best`): which these are.

They were chosen by the dev scores of the trainings that all configurations have. Among themselves they are compared
with all their trainings: in simulations this calls equally good ones different no more often than replicates of all
configurations do, as the choice makes the scores that it uses more alike. The others are not compared: they were
dropped for low scores, which a second training would raise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from results.records.trials import TrialRecord


@dataclass(frozen=True, kw_only=True)
class ReplicatedBest:
    """The best configurations of a sweep, which alone have further replicates."""

    numbers: frozenset[int]
    chosen_by: int
    """Trainings that every configuration has; the further ones have this replicate number or a higher one."""


def replicated_best(info: Mapping[str, Any], records: Sequence[TrialRecord]) -> ReplicatedBest | None:
    """The configurations that alone have further replicates; None if there are none, or all have them.

    Args:
        info: the content of `sweep.json`.
        records: the sweep's trials.
    """
    options = info.get("options") or {}
    if options.get("replicate_best") is None:
        return None
    chosen_by = options["chosen_by"]
    numbers = frozenset(record.number for record in records if record.replicate >= chosen_by)
    if not numbers or numbers == {record.number for record in records}:
        return None
    return ReplicatedBest(numbers=numbers, chosen_by=chosen_by)
