"""Finds the base configuration, which others are compared with, among the trials of sweeps.

Where it was not trained, a grid has the configuration of the first values in its place, as in the effects of its keys.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from mtlib.config.trial import TrialConfig
from mtlib.runtime.errors import require, require_name
from mtlib.runtime.storage import Location
from results.ensembles.methods import BASE, FIRST_VALUES
from results.records.files import folder_name
from results.records.tables import read_trials
from results.records.trials import COMPLETED, read_sweep
from results.stats.effects.searched_keys import first_number, searched_keys

ConfigurationKey = tuple[str, int]
"""Folder or URI of a sweep, and the number of a configuration in it."""


@dataclass(frozen=True, kw_only=True)
class BaseConfiguration:
    """What selection methods are compared with."""

    name: str = BASE
    """`BASE`, or `FIRST_VALUES`."""
    places: frozenset[ConfigurationKey] = frozenset()
    """Where it was trained; empty where no trial has it, as in a random search."""


NO_BASE = BaseConfiguration()

SEED_FIELDS = {"seed": 0, "replicate": 0}
"""Fields in which trainings of one configuration differ."""


def find_base(sweeps: Sequence[Location], trial: str | None = None) -> BaseConfiguration:
    """Finds the trials of sweeps that have the base configuration.

    Args:
        sweeps: at least one.
        trial: a trial or a configuration, e.g. `0003-r0` or `0003` of the first sweep, or `mine/0003` of another one.
            None for the base that `sweep.json` of the first sweep records.

    Returns:
        It, or where no trial has it the configuration of the first values, if the first sweep is a grid.

    Raises:
        ValueError: no sweep has that name, the sweep has no such trial, or it has failed.
    """
    if trial is None:
        base = read_sweep(sweeps[0]).get("base")
        places = frozenset() if base is None else find_alike(sweeps, json.dumps(base))
        return BaseConfiguration(places=places) if places else find_first_values(sweeps)
    name, _, own = trial.rpartition("/")
    by_name = {folder_name(sweep): sweep for sweep in reversed(sweeps)}
    if name:
        require_name(name, by_name, "sweep for --base")
    sweep = by_name[name] if name else sweeps[0]
    records = {record.trial_id: record for record in read_trials(sweep)}
    known = {**{f"{record.number:04d}": record for record in reversed(records.values())}, **records}
    require_name(own, known if own in known else records, f"trial of {sweep} for --base")
    require(known[own].status != "failed", "--base must name a trial that has not failed", trial)
    places = find_alike(sweeps, known[own].config)
    return BaseConfiguration(places=places | {(str(sweep), known[own].number)})


def find_first_values(sweeps: Sequence[Location]) -> BaseConfiguration:
    """Returns the configuration with the first value of each key of a grid, or the base's where that was trained."""
    info, records = read_sweep(sweeps[0]), [one for one in read_trials(sweeps[0]) if one.status in COMPLETED]
    try:
        keys = searched_keys(info, records) if info.get("search") == "grid" else None
    except ValueError:  # what was searched is not recorded
        keys = None
    number = None if keys is None else first_number({key.name: key.base for key in keys}, keys, records)
    config = next((one.config for one in records if one.number == number), None)
    return NO_BASE if config is None else BaseConfiguration(name=FIRST_VALUES, places=find_alike(sweeps, config))


def find_alike(sweeps: Sequence[Location], config: str) -> frozenset[ConfigurationKey]:
    """Returns the configurations of sweeps that are equal to one, given as JSON, except for the seed."""
    base = hash_without_seed(config)
    records = ((str(sweep), record) for sweep in sweeps for record in read_trials(sweep))
    return frozenset(
        (sweep, one.number) for sweep, one in records if base is not None and hash_without_seed(one.config) == base
    )


def hash_without_seed(config: str) -> str | None:
    """Hash of a configuration from its JSON, at seed 0 and replicate 0; None for one of another version."""
    try:
        return TrialConfig.from_json(config).override(SEED_FIELDS).content_hash
    except ValueError:
        return None
