"""Which weights of a model belong to the tasks that have been active so far: only these can have been trained."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from mtlib.config.trial import TrialConfig

Weight = TypeVar("Weight")

OWN_GROUPS = ("heads", "pals", "log_variances", "label_scales")
"""Groups of a model that hold a part per task."""
KEY_PREFIX = "task-"
"""Begins the key of a task's part where the task's name alone cannot be one, as `mtlib.model.task_parts` says. No name
of a task has a hyphen."""
ADAPTER_MARK = ".lora_"
"""What `peft` puts into the names of an adapter's weights, and `transformers` into no other."""


def part_of_weight(name: str) -> str:
    """Returns the part that a weight belongs to, by its name in a model: `heads.<task>` and the like, or its group."""
    group, _, rest = name.partition(".")
    return f"{group}.{rest.partition('.')[0].removeprefix(KEY_PREFIX)}" if group in OWN_GROUPS else group


def active_parts(config: TrialConfig, tasks: Iterable[str]) -> frozenset[str]:
    """Returns the parts of a model that steps of `tasks` may change:
    the encoder, parts of these tasks, and shared layers."""
    active = set(tasks)
    parts = {"encoder", *(f"{group}.{task}" for group in OWN_GROUPS for task in active)}
    shared = {"relational": config.relational_tasks, "projection": config.simcse.tasks if config.simcse.weight else ()}
    return frozenset(parts | {name for name, users in shared.items() if active & set(users)})


def is_of_adapter(name: str) -> bool:
    """Returns whether a weight of a model belongs to an adapter of its encoder; a task may be called `lora_a`, too."""
    return name.startswith("encoder.") and ADAPTER_MARK in name


def active_weights(config: TrialConfig, tasks: Iterable[str], weights: Mapping[str, Weight]) -> dict[str, Weight]:
    """Selects the entries that belong to the parts of active tasks, from weights or other values by weight name.

    Those of a frozen encoder are left out: a trial finds them where it found the encoder.
    """
    parts = active_parts(config, tasks)
    found = {name: value for name, value in weights.items() if part_of_weight(name) in parts}
    if not config.has_frozen_encoder:
        return found
    return {name: own for name, own in found.items() if is_of_adapter(name) or not name.startswith("encoder.")}
