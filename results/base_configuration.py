"""Which configurations of sweeps are the base configuration, that others are compared with."""

import json
from collections.abc import Sequence

from mtlib.config import TrialConfig
from mtlib.schema import require_name
from results.pool import Pool
from results.records import read_sweep, read_trials
from results.storage import Location

Configuration = tuple[str, int]
"""Folder or URI of a sweep, and the number of a configuration in it."""

LEFT_TO_CHANCE = {"seed": 0, "replicate": 0}
"""In these the trainings of one configuration differ."""


def find_base(sweeps: Sequence[Location], trial: str | None = None) -> frozenset[Configuration]:
    """The base configuration of the first sweep, wherever it is among the sweeps' trials.

    Args:
        sweeps: folders or URIs; at least one.
        trial: a trial of the first sweep whose configuration stands for the base; None for what `sweep.json` calls so.

    Returns:
        None where no trial has it, as where a search has drawn every configuration.

    Raises:
        ValueError: the first sweep has no such trial.
    """
    if trial is not None:
        numbers = {record.trial_id: record.number for record in read_trials(sweeps[0])}
        require_name(trial, numbers, f"trial of {sweeps[0]} for --base")
        return frozenset({(str(sweeps[0]), numbers[trial])})
    tree = read_sweep(sweeps[0]).get("base")
    if tree is None:
        return frozenset()
    base = without_chance(json.dumps(tree))
    return frozenset(
        (str(sweep), record.number)
        for sweep in sweeps
        for record in read_trials(sweep)
        if without_chance(record.config) == base
    )


def without_chance(config: str) -> TrialConfig:
    """A configuration from its JSON, as if of the first training with seed 0."""
    return TrialConfig.from_json(config).override(LEFT_TO_CHANCE)


def only_base(pool: Pool, base: frozenset[Configuration]) -> Pool:
    """The candidates of the base configuration alone; there may be none."""
    of_base = [number for number, one in enumerate(pool.candidates) if (one.sweep, one.number) in base]
    return pool.only(of_base)
