"""How many trials a sweep will have had at its end, by what is on record."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from mtlib.runtime.command_line import counted
from results.records.race import RaceRecord, race_of
from results.records.replicated_best import (
    by_configuration,
    choose_replicated,
    common_replicates,
    recorded_configurations,
)
from results.records.trials import UNFINISHED, TrialRecord

NOT_REPLICATED = ("pruned", "failed")
"""Statuses of a configuration's first trial after which no replicates begin."""


def status_counts(
    info: Mapping[str, Any], records: Collection[TrialRecord], race: RaceRecord | None = None
) -> Counter[str]:
    """Returns the trials by status; those that are not on record yet are queued. Arguments as of `expected_trials`."""
    counts = Counter(record.status for record in records)
    return counts + Counter(queued=expected_trials(info, records, race) - len(records))


def describe_ended(info: Mapping[str, Any], records: Collection[TrialRecord]) -> str:
    """Returns e.g. `8 of at most 60 trials ended`; arguments as of `expected_trials`."""
    counts, options, race = status_counts(info, records), info.get("options") or {}, race_of(info)
    num_left = sum(counts[status] for status in UNFINISHED)
    may_be_fewer = options.get("scheduler", "none") != "none" or race is not None
    bound = ("about " if race and race.decisions else "at most ") if may_be_fewer and num_left else ""
    return f"{counts.total() - num_left} of {bound}{counted(counts.total(), 'trial')} ended"


def expected_trials(info: Mapping[str, Any], records: Collection[TrialRecord], race: RaceRecord | None = None) -> int:
    """Returns the number of trials that a sweep will have had at its end, with those on record.

    After a first trial that was pruned or failed no replicates begin; those that had begun before count. The rounds of
    a race are those that its last decision expects, and at most before its first one; configurations that have joined
    since the last decision catch up with it.

    Args:
        info: the content of `sweep.json`, of which the options that decide the number of trials count.
        records: of its trials.
        race: its decisions; None for those on record, if it is a race.
    """
    race, options = race_of(info) if race is None else race, info.get("options") or {}
    most, num_best, shared = options.get("replicates", 1), options.get("replicate_best"), common_replicates(options)
    num_configurations, trials = recorded_configurations(info), by_configuration(records)
    chosen, has_decided = choose_replicated(info, records, race), race is not None and bool(race.decisions)
    in_race = {} if race is None else dict.fromkeys(chosen, race.num_rounds) | race.expected_at
    common = most if num_best is None and not has_decided else shared
    total = common * max(0, num_configurations - len(trials))
    for number, own in trials.items():
        if 0 in own and own[0].status in NOT_REPLICATED:
            wanted = 1
        elif has_decided:
            wanted = in_race.get(number, common)
        else:
            wanted = most if number in chosen else common
        total += max(len(own), wanted)
    if num_best is not None and not chosen and not has_decided:
        alone = sum(0 in own and own[0].status in NOT_REPLICATED for own in trials.values())
        begun = sum(again >= shared for own in trials.values() for again in own)
        total += max(0, min(num_best, num_configurations - alone) * (most - shared) - begun)
    return total
