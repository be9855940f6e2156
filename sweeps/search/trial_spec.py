"""Trials to be run: new ones of a configuration, further ones of the best, and unfinished ones of a resumed sweep."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mtlib.config.trial import TrialConfig
from results.records.trials import COMPLETED, UNFINISHED, TrialRecord
from search_spaces.space import SearchSpace, trial_config
from sweeps.options import SweepOptions, SweepPlan

NOT_REPLICATED = ("pruned", "failed")
"""Statuses of a configuration's first trial after which no replicates begin."""


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
        return trial_id_of(self.number, self.replicate)

    def describe(self) -> dict[str, Any]:
        """The trial as plain data, for the channel and for `trial.json`."""
        values = ", ".join(f"{key}={value}" for key, value in self.params.items())
        return {
            "trial_id": self.trial_id,
            "number": self.number,
            "replicate": self.replicate,
            "seed": self.config.seed,
            "params": dict(self.params),
            "config": self.config.to_json(),
            "config_hash": self.config.content_hash,
            "title": f"{self.trial_id} {values}",
        }


def trial_id_of(number: int, replicate: int) -> str:
    """A trial's id, e.g. `0003-r0`."""
    return f"{number:04d}-r{replicate}"


def make_spec(space: SearchSpace, number: int, replicate: int, params: dict[str, Any]) -> TrialSpec:
    """A trial of the configuration with these searched values."""
    config = trial_config(space, params).override({"replicate": replicate})
    return TrialSpec(number=number, replicate=replicate, params=params, config=config)


@dataclass(frozen=True, kw_only=True)
class CompletedTrial:
    """A trial that reached its last epoch."""

    number: int
    replicate: int
    params: dict[str, Any]
    best: float
    """Its best score, by the searched metric."""
    scores: Mapping[str, float]
    """Its best score of each task and overall."""

    @property
    def trial_id(self) -> str:
        return trial_id_of(self.number, self.replicate)


def completed_trials(plan: SweepPlan, records: Sequence[TrialRecord]) -> list[CompletedTrial]:
    """The completed ones of a sweep's trials."""
    return [
        CompletedTrial(
            number=record.number,
            replicate=record.replicate,
            params=dict(record.params),
            best=record.best[plan.space.metric],
            scores=record.best,
        )
        for record in records
        if record.status in COMPLETED
    ]


def further_specs(plan: SweepPlan, completed: Iterable[CompletedTrial], known: Collection[str]) -> list[TrialSpec]:
    """The replicates that only the best configurations get, by the trainings that every configuration gets.

    A configuration whose first training failed gets none, though a replicate may have completed. The choice does not
    depend on the further replicates, so it is the same after a kill.

    Args:
        plan: of a sweep with `replicate_best`, all of whose configurations have ended their common trainings.
        completed: its completed trials.
        known: ids of trials that are on record or queued.
    """
    options = plan.options
    scores: dict[int, list[float]] = {}
    params = {}
    for trial in sorted(completed, key=lambda trial: (trial.number, trial.replicate)):
        if trial.replicate == 0 or (trial.number in scores and trial.replicate < options.common_replicates):
            scores.setdefault(trial.number, []).append(trial.best)
            params[trial.number] = trial.params
    best = sorted(scores, key=lambda number: (-sum(scores[number]) / len(scores[number]), number))
    specs = [
        make_spec(plan.space, number, replicate, params[number])
        for replicate in range(options.common_replicates, options.replicates)
        for number in best[: options.replicate_best]
    ]
    return [spec for spec in specs if spec.trial_id not in known]


def num_expected_trials(options: SweepOptions, num_configurations: int, records: Sequence[TrialRecord]) -> int:
    """The number of trials that a sweep will have had at its end, by what is on record.

    After a first trial that was pruned or failed no replicates begin; those that had begun before count.
    """
    alone = {record.number for record in records if record.replicate == 0 and record.status in NOT_REPLICATED}
    num_begun = sum(record.number in alone and 0 < record.replicate < options.common_replicates for record in records)
    return options.num_trials(num_configurations, len(alone)) + num_begun


def unfinished_specs(plan: SweepPlan, records: Sequence[TrialRecord]) -> list[TrialSpec]:
    """The trials of a configuration that have not ended, first replicate first, by the records of all that exist.

    Those of `further_specs` are among them only if they are on record.
    """
    by_replicate = {record.replicate: record for record in records}
    is_complete = 0 in by_replicate and by_replicate[0].status in COMPLETED
    wanted = range(plan.options.common_replicates) if is_complete else [0]
    return [
        spec_of_record(plan.space, records[0], by_replicate.get(replicate), replicate)
        for replicate in sorted({*wanted, *by_replicate})
        if replicate not in by_replicate or by_replicate[replicate].status in UNFINISHED
    ]


def spec_of_record(space: SearchSpace, first: TrialRecord, own: TrialRecord | None, replicate: int) -> TrialSpec:
    """A trial by its own record, or without one by that of its configuration's first trial."""
    if own is None:
        return make_spec(space, first.number, replicate, dict(first.params))
    config = TrialConfig.from_json(own.config)
    return TrialSpec(number=own.number, replicate=replicate, params=dict(own.params), config=config)
