"""The Optuna study of a sweep: its journal, its search domain, and configurations sampled from it one by one."""

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import TrialState

from mtlib.runtime.storage import local_path, open_folder, write_bytes
from search_spaces.domain import NUM_STARTUP_TRIALS, Choice, Float, Int, Range, SearchKey, holds, key_title
from search_spaces.space import SearchSpace, search_domain, trial_params

JOURNAL_NAME = "optuna-journal.log"
LOCK_SUFFIX = ".lock"
"""With which Optuna names the lock of a journal."""
NUMBER_ATTRIBUTE = "configuration"
"""Attribute of a trial of the study: the configuration's number in the sweep."""
SAMPLERS: Mapping[str, Callable[..., BaseSampler]] = {
    "tpe": partial(
        TPESampler,
        n_startup_trials=NUM_STARTUP_TRIALS,
        n_ei_candidates=24,
        multivariate=True,
        group=False,
        constant_liar=True,
    ),
    "gp": partial(
        GPSampler, n_startup_trials=NUM_STARTUP_TRIALS, deterministic_objective=False, warn_independent_sampling=False
    ),
}
"""Samplers of the searches that learn, given a seed. The arguments whose defaults have changed between versions of
Optuna are named; why these: `docs/measurements/sweeps.md`."""


def open_study(journal: Path, name: str, metric: str) -> optuna.Study:
    """Returns a new study with a journal, a file on this machine, which `optuna-dashboard` opens.

    An earlier journal is replaced: what it knew, the folders of the trials know better. So is the lock that a kill may
    have left, for which Optuna would wait half a minute.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for path in (journal, journal.with_name(f"{journal.name}{LOCK_SUFFIX}")):
        path.unlink(missing_ok=True)
    lock = JournalFileOpenLock(str(journal))  # a file: some disks, such as FAT, have no links
    storage = JournalStorage(JournalFileBackend(str(journal), lock))
    study = optuna.create_study(study_name=name, storage=storage, direction="maximize")
    with warnings.catch_warnings(action="ignore", category=ExperimentalWarning):
        study.set_metric_names([metric])
    return study


def journal_path(folder: str, scratch: Path) -> Path:
    """Returns the journal of a sweep: in its folder, or in the driver's `scratch` where the folder is in a bucket.

    From there `save_journal` copies it.
    """
    return (local_path(folder) or scratch) / JOURNAL_NAME


def save_journal(folder: str, journal: Path) -> None:
    """Copies a journal that is not in the sweep's folder into it, whole."""
    if local_path(folder) is None and journal.exists():
        write_bytes(open_folder(folder), JOURNAL_NAME, journal.read_bytes())


def add_ended(
    study: optuna.Study,
    space: SearchSpace,
    search: str,
    number: int,
    params: Mapping[str, Any],
    *,
    state: TrialState,
    value: float | None,
    reports: Sequence[tuple[int, float]],
) -> None:
    """Adds a configuration that ended before the sweep was resumed.

    Args:
        study: of the sweep.
        space, search: of the sweep.
        number: of the configuration.
        params: its searched values.
        state, value: how it ended, and with which score if it completed; a pruned one has its last report, as when
            Optuna is told of it.
        reports: scored epochs of its first trial, and its best score so far at each.
    """
    domain, known = domain_of(space, search), known_values(space, search, params)
    if state == TrialState.PRUNED and reports:
        value = reports[-1][1]
    study.add_trial(
        optuna.trial.create_trial(
            state=state,
            value=value,
            params=known,
            distributions={key_title(key): distribution_of(domain[key]) for key in domain if key_title(key) in known},
            intermediate_values=dict(reports),
            user_attrs={NUMBER_ATTRIBUTE: number},
        )
    )


def distribution_of(item: Range) -> BaseDistribution:
    """Returns what Optuna knows of a searched range."""
    if isinstance(item, Float):
        return FloatDistribution(item.low, item.high, log=item.log)
    if isinstance(item, Int):
        return IntDistribution(item.low, item.high, log=item.log)
    return CategoricalDistribution([as_choice(value) for value in item.values])


def domain_of(space: SearchSpace, search: str) -> dict[SearchKey, Range]:
    """Returns what is sampled from: the grid's values for a grid, the ranges otherwise."""
    if search == "grid":
        return {key: Choice(values=tuple(values)) for key, values in space.grid.items()}
    return search_domain(space)


def ask_new(
    study: optuna.Study, space: SearchSpace, search: str, seed: int, number: int
) -> tuple[optuna.Trial, dict[str, Any]]:
    """Asks the study for a configuration, key by key, without those whose condition does not hold.

    Each ask has a sampler with a seed of its own, from the sweep's seed and the configuration's number, so that a
    resumed sweep repeats no samples, though it may not know all configurations that were asked for before.

    Returns:
        Optuna's trial, numbered in the order of asking, and the searched values for `trial_config`.
    """
    study.sampler = sampler_for(search, seed, number)
    trial = study.ask()
    trial.set_user_attr(NUMBER_ATTRIBUTE, number)
    sampled: dict[SearchKey, Any] = {}
    for key, item in domain_of(space, search).items():
        if holds(space.conditions.get(key), sampled):
            sampled[key] = suggest_value(trial, key_title(key), item)
    return trial, trial_params(sampled)


def ask_known(
    study: optuna.Study, space: SearchSpace, search: str, number: int, params: Mapping[str, Any]
) -> optuna.Trial:
    """As `ask_new`, for a configuration whose values are known: a point of the grid, or one that is run again."""
    study.enqueue_trial(known_values(space, search, params))
    return ask_new(study, space, search, 0, number)[0]


def known_values(space: SearchSpace, search: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a configuration as Optuna has them, by title; of keys that vary together they are one."""
    values: dict[str, Any] = {}
    for key in domain_of(space, search):
        parts = (key,) if isinstance(key, str) else key
        if parts[0] in params:
            value = params[key] if isinstance(key, str) else tuple(params[part] for part in parts)
            values[key_title(key)] = as_choice(value)
    return values


def sampler_for(search: str, seed: int, number: int) -> BaseSampler:
    """Returns the sampler of one configuration. For a grid, whose points are enqueued, any will do."""
    own_seed = int.from_bytes(hashlib.sha256(f"{seed} {number}".encode()).digest()[:4], "big")
    return SAMPLERS.get(search, RandomSampler)(seed=own_seed)


def suggest_value(trial: optuna.Trial, title: str, item: Range) -> Any:
    """Returns one key's value, sampled by Optuna."""
    if isinstance(item, Float):
        return trial.suggest_float(title, item.low, item.high, log=item.log)
    if isinstance(item, Int):
        return trial.suggest_int(title, item.low, item.high, log=item.log)
    choices = [as_choice(value) for value in item.values]
    return item.values[choices.index(trial.suggest_categorical(title, choices))]


def as_choice(value: Any) -> bool | int | float | str | None:
    """Returns a value as a categorical choice in Optuna: a scalar as it is, anything else as JSON."""
    return value if value is None or isinstance(value, bool | int | float | str) else json.dumps(value)
