"""Trials to be run: new ones of a configuration, and the unfinished ones of a resumed sweep."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mtlib.config.trial import TrialConfig
from results.records.trials import UNFINISHED, TrialRecord
from search_spaces.space import SearchSpace, trial_config
from sweeps.options import SweepPlan

COMPLETED = ("complete", "reused")
"""Statuses of trials that reached their last epoch."""


@dataclass(frozen=True, kw_only=True)
class TrialSpec:
    """A trial to be run."""

    number: int
    """Of its configuration."""
    replicate: int
    params: dict[str, Any]
    """Searched values by dotted key, or name of the space's own."""
    config: TrialConfig

    @property
    def trial_id(self) -> str:
        return f"{self.number:04d}-r{self.replicate}"


def make_spec(space: SearchSpace, number: int, replicate: int, params: dict[str, Any]) -> TrialSpec:
    """A trial of the configuration with these searched values."""
    config = trial_config(space, params).override({"replicate": replicate})
    return TrialSpec(number=number, replicate=replicate, params=params, config=config)


def unfinished_specs(plan: SweepPlan, records: Sequence[TrialRecord]) -> list[TrialSpec]:
    """The trials of a configuration that have not ended, first replicate first, by the records of all that exist."""
    by_replicate = {record.replicate: record for record in records}
    is_complete = 0 in by_replicate and by_replicate[0].status in COMPLETED
    return [
        spec_of_record(plan.space, records[0], by_replicate.get(replicate), replicate)
        for replicate in range(plan.options.replicates if is_complete else 1)
        if replicate not in by_replicate or by_replicate[replicate].status in UNFINISHED
    ]


def spec_of_record(space: SearchSpace, first: TrialRecord, own: TrialRecord | None, replicate: int) -> TrialSpec:
    """A trial by its own record, or without one by that of its configuration's first trial."""
    if own is None:
        return make_spec(space, first.number, replicate, dict(first.params))
    config = TrialConfig.from_json(own.config)
    return TrialSpec(number=own.number, replicate=replicate, params=dict(own.params), config=config)
