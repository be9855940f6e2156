"""Trials to be run: new ones of a configuration, and those that a sweep which goes on has left."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mtlib.config.trial import TrialConfig
from results.records.trials import TrialRecord
from search_spaces.space import SearchSpace, trial_config
from sweeps.options import SweepPlan

ENDED_WELL = ("complete", "reused")
ENDED = (*ENDED_WELL, "pruned", "failed")


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


def left_of(plan: SweepPlan, records: Sequence[TrialRecord]) -> list[TrialSpec]:
    """The trials of a configuration that have not ended, from the records of its known ones, the first one first."""
    by_replicate = {record.replicate: record for record in records}
    is_complete = 0 in by_replicate and by_replicate[0].status in ENDED_WELL
    wanted = range(plan.replicates if is_complete else 1)
    left = [again for again in wanted if again not in by_replicate or by_replicate[again].status not in ENDED]
    return [spec_again(plan.space, records[0], by_replicate.get(again), again) for again in left]


def spec_again(space: SearchSpace, first: TrialRecord, own: TrialRecord | None, replicate: int) -> TrialSpec:
    """A trial as its record describes it; as that of its configuration's first trial if it has none of its own."""
    if own is None:
        return make_spec(space, first.number, replicate, dict(first.params))
    config = TrialConfig.from_json(own.config)
    return TrialSpec(number=own.number, replicate=replicate, params=dict(own.params), config=config)
