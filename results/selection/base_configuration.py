"""Finds the base configuration, which selection methods are compared with, among the trials of sweeps."""

import json
from collections.abc import Sequence

from mtlib.config.trial import TrialConfig
from mtlib.runtime.errors import require, require_name
from mtlib.runtime.method_file import UntrustedCodeError
from mtlib.runtime.storage import Location
from results.records.files import folder_name
from results.records.tables import read_trials
from results.records.trials import read_sweep

ConfigurationKey = tuple[str, int]
"""Folder or URI of a sweep, and the number of a configuration in it."""


SEED_FIELDS = {"seed": 0, "replicate": 0}
"""Fields in which trainings of one configuration differ."""


def find_base(sweeps: Sequence[Location], trial: str | None = None) -> frozenset[ConfigurationKey]:
    """Finds the trials of sweeps that have the base configuration.

    Args:
        sweeps: at least one.
        trial: a trial or a configuration, e.g. `0003-r0` or `0003` of the first sweep, or `mine/0003` of another one.
            None for the base that `sweep.json` of the first sweep records.

    Returns:
        Where it was trained; empty where no trial has it.

    Raises:
        ValueError: no sweep has that name, the sweep has no such trial, or it has failed.
    """
    if trial is None:
        base = read_sweep(sweeps[0]).get("base")
        return frozenset() if base is None else find_alike(sweeps, json.dumps(base))
    name, _, own = trial.rpartition("/")
    by_name = {folder_name(sweep): sweep for sweep in reversed(sweeps)}
    if name:
        require_name(name, by_name, "sweep for --base")
    sweep = by_name[name] if name else sweeps[0]
    records = {record.trial_id: record for record in read_trials(sweep)}
    known = {**{f"{record.number:04d}": record for record in reversed(records.values())}, **records}
    require_name(own, known if own in known else records, f"trial of {sweep} for --base")
    require(known[own].status != "failed", "--base must name a trial that has not failed", trial)
    return find_alike(sweeps, known[own].config) | {(str(sweep), known[own].number)}


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
    except UntrustedCodeError:
        raise
    except ValueError:
        return None
