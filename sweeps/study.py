"""The Optuna study of a sweep: its journal, its search domain, and configurations drawn from it one by one."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from search_spaces.domain import Choice, Float, Int, Key, Range, holds, key_title
from search_spaces.space import SearchSpace, search_domain, trial_params

JOURNAL_NAME = "optuna-journal.log"


@dataclass(frozen=True, kw_only=True)
class Draw:
    """A configuration that Optuna has given out."""

    trial: optuna.Trial
    params: dict[str, Any]
    """Searched values by dotted key, or name of the space's own; keys whose condition does not hold are not there."""

    @property
    def number(self) -> int:
        """Optuna's number of it, from 0."""
        return int(self.trial.number)


def open_study(folder: Path, name: str) -> optuna.Study:
    """A new study in the sweep's folder, which `optuna-dashboard` opens.

    Raises:
        ValueError: the folder's journal already holds a study of this name.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = JournalStorage(JournalFileBackend(str(folder / JOURNAL_NAME)))
    try:
        return optuna.create_study(study_name=name, storage=storage, direction="maximize")
    except optuna.exceptions.DuplicatedStudyError as error:
        raise ValueError(f"a sweep's name must be new in its folder, got '{name}' in {folder}") from error


def domain_of(space: SearchSpace, search: str) -> dict[Key, Range]:
    """What is drawn from: the grid's values for a grid, the ranges otherwise."""
    if search == "grid":
        return {key: Choice(values=tuple(values)) for key, values in space.grid.items()}
    return search_domain(space)


def enqueue_grid(study: optuna.Study, points: list[dict[str, Any]], domain: Mapping[Key, Range]) -> None:
    """Queues every grid point in the study, in order.

    Args:
        study: a new study.
        points: overrides of each point by dotted key.
        domain: what the grid varies.
    """
    for point in points:
        study.enqueue_trial({key_title(key): as_choice(value_at(point, key)) for key in domain})


def value_at(point: Mapping[str, Any], key: Key) -> Any:
    """The value of a searched key at a point: one, or a tuple of those that vary together."""
    return point[key] if isinstance(key, str) else tuple(point[part] for part in key)


def draw(study: optuna.Study, space: SearchSpace, search: str, seed: int) -> Draw:
    """Asks the study for its next configuration, key by key, without those whose condition does not hold.

    The sampler is seeded anew for each ask, by the sweep's seed and the number of trials before it, so that a sweep
    that goes on later does not repeat its first draws.
    """
    asked = sum(trial.state != optuna.trial.TrialState.WAITING for trial in study.get_trials(deepcopy=False))
    study.sampler = sampler_for(search, seed, asked)
    trial = study.ask()
    drawn: dict[Key, Any] = {}
    for key, item in domain_of(space, search).items():
        if holds(space.conditions.get(key), drawn):
            drawn[key] = decode(item, suggest(trial, key_title(key), item))
    return Draw(trial=trial, params=trial_params(drawn))


def sampler_for(search: str, seed: int, asked: int) -> BaseSampler:
    """The sampler of the ask that `asked` others came before; a grid's points are queued and need none."""
    digest = hashlib.sha256(f"{seed} {asked}".encode()).digest()
    sampler_seed = int.from_bytes(digest[:4], "big")
    return TPESampler(seed=sampler_seed) if search == "tpe" else RandomSampler(seed=sampler_seed)


def suggest(trial: optuna.Trial, title: str, item: Range) -> Any:
    """One key's value, as Optuna draws it."""
    if isinstance(item, Float):
        return trial.suggest_float(title, item.low, item.high, log=item.log)
    if isinstance(item, Int):
        return trial.suggest_int(title, item.low, item.high, log=item.log)
    return trial.suggest_categorical(title, [as_choice(value) for value in item.values])


def as_choice(value: Any) -> bool | int | float | str | None:
    """A value as Optuna keeps it: a scalar as it is, anything else as JSON."""
    return value if value is None or isinstance(value, bool | int | float | str) else json.dumps(value)


def decode(item: Range, drawn: Any) -> Any:
    """What `as_choice` stood for; numbers stay as they are."""
    if not isinstance(item, Choice):
        return drawn
    return item.values[[as_choice(value) for value in item.values].index(drawn)]
