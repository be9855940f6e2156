"""A trial, and which trials of a sweep are left to run, by the records of those that there are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mtlib.config.trial import TrialConfig
from results.records.race import RaceRecord
from results.records.replicated_best import choose_replicated
from results.records.trials import COMPLETED, UNFINISHED, TrialRecord
from search_spaces.space import SearchSpace, grid_trials, trial_config
from sweeps.options import SweepOptions, SweepPlan


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One training of a configuration."""

    number: int
    """The number of its configuration."""
    replicate: int
    params: Mapping[str, Any]
    """Searched values by dotted key, or name of the space's own."""
    config: TrialConfig

    @property
    def trial_id(self) -> str:
        return trial_id_of(self.number, self.replicate)

    def describe(self) -> dict[str, Any]:
        """Returns the trial as plain data, for Tune, lanes, `trial.json` and its record."""
        return {
            "trial_id": self.trial_id,
            "number": self.number,
            "replicate": self.replicate,
            "seed": self.config.seed,
            "params": dict(self.params),
            "config": self.config.to_json(),
            "config_hash": self.config.content_hash,
        }


def trial_id_of(number: int, replicate: int) -> str:
    """Returns a trial's id, e.g. `0003-r0`."""
    return f"{number:04d}-r{replicate}"


def make_trial(space: SearchSpace, number: int, replicate: int, params: Mapping[str, Any]) -> Trial:
    """Returns a trial of the configuration with these searched values."""
    config = trial_config(space, params).override({"replicate": replicate})
    return Trial(number=number, replicate=replicate, params=dict(params), config=config)


def queued_record(trial: Trial) -> TrialRecord:
    """Returns the record of a trial that has not begun."""
    return TrialRecord(**trial.describe())


@dataclass(kw_only=True)
class KnownConfiguration:
    """What is known of the trials of one configuration."""

    number: int
    params: Mapping[str, Any]
    records: dict[int, TrialRecord]
    """The records of its trials, by replicate."""

    @property
    def is_complete(self) -> bool:
        """Whether its first trial has reached its last epoch."""
        return 0 in self.records and self.records[0].status in COMPLETED

    def completed(self, replicates: int) -> list[TrialRecord]:
        """Its completed trials among the first replicates, in order."""
        common = (self.records[one] for one in range(replicates) if one in self.records)
        return [record for record in common if record.status in COMPLETED]

    def left(self, replicates: int) -> list[int]:
        """Its replicates that have not ended: those that have begun, and all of so many once the first is complete."""
        wanted = range(replicates) if self.is_complete else [0]
        every = sorted({*wanted, *self.records})
        return [one for one in every if one not in self.records or self.records[one].status in UNFINISHED]

    def make_trial(self, space: SearchSpace, replicate: int) -> Trial:
        """Returns one of its trials: as it is on record, which a space that has changed since does not change,
        or a new one."""
        own = self.records.get(replicate)
        if own is None:
            return make_trial(space, self.number, replicate, self.params)
        return Trial(
            number=self.number, replicate=replicate, params=self.params, config=TrialConfig.from_json(own.config)
        )


def known_configurations(plan: SweepPlan, records: Iterable[TrialRecord]) -> dict[int, KnownConfiguration]:
    """Returns the configurations of a grid, and of any other sweep those on record, by number and in its order."""
    points = grid_trials(plan.space) if plan.options.search == "grid" else []
    found = {
        number: KnownConfiguration(number=number, params=params, records={}) for number, params in enumerate(points)
    }
    for record in records:
        known = KnownConfiguration(number=record.number, params=dict(record.params), records={})
        found.setdefault(record.number, known).records[record.replicate] = record
    return dict(sorted(found.items()))


def num_left_to_run(plan: SweepPlan, records: Sequence[TrialRecord], race: RaceRecord | None) -> int:
    """Trials of known configurations that have not ended, and the configurations that have not been sampled."""
    known = known_configurations(plan, records)
    return len(left_to_run(plan, known, race)) + plan.num_configurations - len(known)


def left_to_run(
    plan: SweepPlan, known: Mapping[int, KnownConfiguration], race: RaceRecord | None = None
) -> list[tuple[int, int]]:
    """Number and replicate of each trial of the known configurations that has not ended, running ones among them.

    Further replicates of the best configurations are among them once all other trials of the sweep have ended. In a
    race of a grid every complete configuration has some; one that has left has no more, and none has once it has ended.
    A trial that has begun is left to run whatever the race has decided since.
    """
    options = plan.options
    found = [(number, again) for number, one in known.items() for again in one.left(options.common_replicates)]
    is_open = len(known) < plan.num_configurations or any(again < options.common_replicates for _, again in found)
    if is_open and options.replicate_best is not None:
        return found
    further = further_replicates(plan, known, race)
    return found + [(number, again) for number, again in further if again < most_replicates(options, race, number)]


def most_replicates(options: SweepOptions, race: RaceRecord | None, number: int) -> int:
    """Returns the replicates that a configuration gets at most."""
    if race is None:
        return options.replicates
    return race.left_at.get(number, race.num_rounds if race.end else options.replicates)


def further_replicates(
    plan: SweepPlan, known: Mapping[int, KnownConfiguration], race: RaceRecord | None
) -> list[tuple[int, int]]:
    """Number and replicate of the trials that only the best configurations, or those of a race, get and lack."""
    options = plan.options
    if options.replicate_best is None and options.until_decided is None:
        return []
    records = [record for one in known.values() for record in one.records.values()]
    numbers = choose_replicated(plan.facts, records, race)
    replicates = range(options.common_replicates, options.replicates)
    return [(number, again) for again in replicates for number in numbers if again not in known[number].records]
