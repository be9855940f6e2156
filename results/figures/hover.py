"""The texts of figures: names of scores, values and configurations, and what hovering a point shows."""

from collections.abc import Mapping, Sequence
from typing import Any

from mtlib.tasks import Task
from results.answers.ranking_table import direction_of
from results.records.trials import COMPLETED, TrialRecord
from results.stats.texts import value_text

MAX_NAMED_KEYS = 2
"""Searched keys by whose values configurations are named; where there are more, by their numbers."""
MAX_VALUES = 8
"""Searched values that a text has, a line each."""


def score_title(name: str, tasks: Mapping[str, Task]) -> str:
    """Returns a task's title, its metric, and whether lower is better: `STS, RMSE, lower is better`;
    `overall` stays."""
    if name not in tasks:
        return name
    task = tasks[name]
    return f"{task.title}, {task.metric_entry.title}{direction_of(task)}"


def values_lines(params: Mapping[str, Any]) -> list[str]:
    """Returns a line for each searched value, e.g. `smart.weight 0.45`."""
    lines = [f"{name} {value_text(value)}" for name, value in params.items()]
    return lines if len(lines) <= MAX_VALUES else [*lines[:MAX_VALUES], f"and {len(lines) - MAX_VALUES} more"]


def trial_text(record: TrialRecord, *scores: str) -> str:
    """Trial, searched values, and any scores, in lines."""
    status = [] if record.status in COMPLETED else [record.status]
    return "\n".join([record.trial_id, *values_lines(record.params), *status, *scores])


def short_values(params: Mapping[str, Any]) -> str:
    """Returns all searched values in a line, e.g. `smart.weight 0.45, smart.mode paper`."""
    return ", ".join(f"{name} {value_text(value)}" for name, value in params.items())


def short_names(configurations: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[int, str]:
    """Returns a short name for each configuration by its number:
    its values if they are few and differ, else its number."""
    keys = {key for _, params in configurations for key in params}
    by_number = {number: f"configuration {number:04d}" for number, _ in configurations}
    names = {number: short_values(params) or by_number[number] for number, params in configurations}
    return by_number if len(keys) > MAX_NAMED_KEYS or len(set(names.values())) < len(names) else names
