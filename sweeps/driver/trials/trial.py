"""Records of new trials, and which trials of a sweep are left to run, by the records of those that there are."""

from collections.abc import Mapping, Sequence
from typing import Any

from mtlib.config.trial import TrialConfig
from results.records.race import RaceRecord
from results.records.replicated_best import Replicates, by_configuration, choose_replicated, is_complete
from results.records.trials import COMPLETED, UNFINISHED, TrialRecord
from search_spaces.space import SearchSpace, trial_config
from sweeps.options import SweepOptions, SweepPlan


def trial_id_of(number: int, replicate: int) -> str:
    """Returns a trial's id, e.g. `0003-r0`."""
    return f"{number:04d}-r{replicate}"


def queued_record(number: int, replicate: int, params: Mapping[str, Any], config: TrialConfig) -> TrialRecord:
    """Returns the record of a trial that has not begun."""
    return TrialRecord(
        trial_id=trial_id_of(number, replicate),
        number=number,
        replicate=replicate,
        seed=config.seed,
        params=dict(params),
        config=config.to_json(),
        config_hash=config.content_hash,
    )


def make_trial(space: SearchSpace, number: int, replicate: int, params: Mapping[str, Any]) -> TrialRecord:
    """Returns a new trial of the configuration with these searched values."""
    return queued_record(number, replicate, params, trial_config(space, params).override({"replicate": replicate}))


def trial_of(space: SearchSpace, own: Replicates, replicate: int) -> TrialRecord:
    """Returns a trial of a configuration: as it is on record, which a space that has changed since does not change,
    or a new one."""
    known = next(iter(own.values()))
    return own.get(replicate) or make_trial(space, known.number, replicate, known.params)


def completed_trials(own: Replicates, replicates: int) -> list[TrialRecord]:
    """Returns the completed trials of a configuration among its first replicates, in order."""
    common = (own[one] for one in range(replicates) if one in own)
    return [record for record in common if record.status in COMPLETED]


def replicates_left(own: Replicates, replicates: int) -> list[int]:
    """Returns the replicates of a configuration that have not ended: those that have begun, and all of so many once the
    first is complete."""
    wanted = range(replicates) if is_complete(own) else [0]
    every = sorted({*wanted, *own})
    return [one for one in every if one not in own or own[one].status in UNFINISHED]


def num_left_to_run(plan: SweepPlan, records: Sequence[TrialRecord], race: RaceRecord | None) -> int:
    """Trials of known configurations that have not ended, and the configurations that have not been sampled."""
    known = by_configuration(records)
    return len(left_to_run(plan, known, race)) + plan.num_configurations - len(known)


def left_to_run(
    plan: SweepPlan, known: Mapping[int, Replicates], race: RaceRecord | None = None
) -> list[tuple[int, int]]:
    """Number and replicate of each trial of the known configurations that has not ended, running ones among them.

    Further replicates of the best configurations are among them once all other trials of the sweep have ended. In a
    race of a grid every complete configuration has some; one that has left has no more, and none has once it has ended.
    A trial that has begun is left to run whatever the race has decided since.
    """
    options, common = plan.options, plan.options.common_replicates
    found = [(number, again) for number, own in known.items() for again in replicates_left(own, common)]
    is_open = len(known) < plan.num_configurations or any(again < common for _, again in found)
    if is_open and options.replicate_best is not None:
        return found
    further = further_replicates(plan, known, race)
    return found + [(number, again) for number, again in further if again < most_replicates(options, race, number)]


def most_replicates(options: SweepOptions, race: RaceRecord | None, number: int) -> int:
    """Returns the replicates that a configuration gets at most, as far as a race has decided.

    A race about a claim trains its first two rounds, then one at a time: of two configurations a round that begins
    early is often in vain.
    """
    if race is None:
        return options.replicates
    if options.claim is not None and not race.end:
        return min(options.replicates, max(2, race.num_rounds + 1))
    return race.left_at.get(number, race.num_rounds if race.end else options.replicates)


def further_replicates(
    plan: SweepPlan, known: Mapping[int, Replicates], race: RaceRecord | None
) -> list[tuple[int, int]]:
    """Number and replicate of the trials that only the best configurations, or those of a race, get and lack."""
    options = plan.options
    if options.replicate_best is None and options.until_decided is None:
        return []
    records = [record for own in known.values() for record in own.values()]
    numbers = choose_replicated(plan.facts, records, race)
    replicates = range(options.common_replicates, options.replicates)
    return [(number, again) for again in replicates for number in numbers if again not in known[number]]
