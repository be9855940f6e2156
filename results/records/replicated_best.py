"""Decides which configurations get further replicates: the best of a sweep (`--replicate-best`), or all in a race.

The best are chosen by the dev scores of the trainings that all configurations have. Among themselves they are compared
with all their trainings: in simulations this calls equally good ones different no more often than replicates of all
configurations do, as the choice makes the scores that it uses more alike. The others are not compared: they were
dropped for low scores, which a second training would raise.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from results.records.race import RACE_KEY, RaceRecord, race_of
from results.records.trials import COMPLETED, OVERALL, UNFINISHED, TrialRecord

Replicates = Mapping[int, TrialRecord]
"""The trials of one configuration by replicate, at least one."""


def is_complete(own: Replicates) -> bool:
    """Returns whether the first trial of a configuration has reached its last epoch."""
    return 0 in own and own[0].status in COMPLETED


def replicated_best(info: Mapping[str, Any], records: Sequence[TrialRecord]) -> set[int] | None:
    """Numbers of the configurations that alone have further replicates, or are raced; None if none are, or all.

    Args:
        info: the content of `sweep.json`.
        records: the sweep's trials.
    """
    options, race = info.get("options") or {}, race_of(info)
    if options.get("replicate_best") is None:
        return None
    numbers = {record.number for record in records if record.replicate >= options["chosen_by"]}
    if race is not None:
        numbers |= further_replicated(info, records, race)
    if not numbers or numbers == {record.number for record in records}:
        return None
    return numbers


def further_replicated(info: Mapping[str, Any], records: Iterable[TrialRecord], race: RaceRecord) -> set[int]:
    """Returns the configurations of `choose_replicated` as a set; `race` has no decisions if the sweep is none."""
    return set(choose_replicated(info, records, race if RACE_KEY in info else None))


def choose_replicated(info: Mapping[str, Any], records: Iterable[TrialRecord], race: RaceRecord | None) -> list[int]:
    """Numbers of the configurations that get further replicates, those with the best first trainings first.

    They are chosen once all configurations have the trainings that each gets, so the choice is the same after a kill;
    without `--replicate-best` all are, each as soon as its first training is complete. One that is raced stays so when
    others are added to the sweep later. One whose first training did not complete gets no further replicates, though a
    replicate of it may have completed.

    Args:
        info: the content of `sweep.json`.
        records: of the sweep's trials.
        race: its decisions; None if it is no race.
    """
    trials, options = by_configuration(records), info.get("options") or {}
    chosen_by, num_best = common_replicates(options), options.get("replicate_best")
    metric = (info.get("space") or {}).get("metric", OVERALL)
    scores = {
        number: mean_score([own[again] for again in range(chosen_by) if again in own], metric)
        for number, own in trials.items()
        if is_complete(own)
    }
    best = sorted(scores, key=lambda number: (-scores[number], number))
    if num_best is None:
        return best
    chosen = set[int]()
    if race is not None:
        chosen |= race.raced | {number for number, own in trials.items() if max(own) >= chosen_by}
    if have_common_trainings(trials, recorded_configurations(info), chosen_by):
        chosen |= set(best[:num_best])
    return [number for number in best if number in chosen]


def recorded_configurations(info: Mapping[str, Any]) -> int:
    """Returns the number of configurations of the whole sweep by its `sweep.json`, `info`; 0 if it is not recorded."""
    return int(info.get("num_configurations") or (info.get("options") or {}).get("trials") or 0)


def common_replicates(options: Mapping[str, Any]) -> int:
    """Returns the trainings that every configuration gets, unless its first one is pruned or fails, by a sweep's
    options."""
    if options.get("replicate_best") is not None:
        return int(options["chosen_by"])
    return 1 if options.get("until_decided") is not None else int(options.get("replicates", 1))


def have_common_trainings(trials: Mapping[int, Replicates], num_configurations: int, chosen_by: int) -> bool:
    """Returns whether the trainings that every configuration gets have ended.

    Args:
        trials: the sweep's, by configuration and replicate.
        num_configurations: of the whole sweep.
        chosen_by: trainings that every configuration gets; one whose first does not complete gets that one alone, and
            those that had begun before it ended.
    """
    if len(trials) < num_configurations:
        return False
    for own in trials.values():
        wanted = range(chosen_by) if is_complete(own) else {0, *(again for again in own if again < chosen_by)}
        if any(again not in own or own[again].status in UNFINISHED for again in wanted):
            return False
    return True


def by_configuration(records: Iterable[TrialRecord]) -> dict[int, dict[int, TrialRecord]]:
    """Trials by configuration and replicate."""
    found: dict[int, dict[int, TrialRecord]] = {}
    for record in records:
        found.setdefault(record.number, {})[record.replicate] = record
    return found


def mean_score(records: Iterable[TrialRecord], metric: str) -> float:
    """Averages the best scores of the trials that are complete; -inf if none is."""
    scores = [record.best.get(metric, -math.inf) for record in records if record.status in COMPLETED]
    return sum(scores) / len(scores)
