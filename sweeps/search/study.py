"""The Optuna study of a sweep: its journal, its search domain, and configurations sampled from it one by one."""

import hashlib
import itertools
import json
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from search_spaces.domain import Choice, Float, Int, Range, SearchKey, holds, key_title
from search_spaces.space import SearchSpace, search_domain, trial_params
from sweeps.lanes.messages import BEST_PREFIX
from sweeps.search.optuna_internals import (
    is_attribute_entry,
    is_end_entry,
    is_journal_entry,
    is_report_entry,
    reopen_trial,
    storage_id,
)
from sweeps.search.trial_spec import trial_id_of

JOURNAL_NAME = "optuna-journal.log"
PARTIAL_NAME = f".{JOURNAL_NAME}.partial"
NUMBER_ATTRIBUTE = "configuration"
"""Attribute of a trial of the study: the configuration's number in the sweep."""
TRIALS_ATTRIBUTE = "trials"
"""The ids of the sweep's trials that count, e.g. `0003-r0 0003-r1`: until its end the first."""


def open_study(folder: Path, name: str) -> optuna.Study:
    """The study in the sweep's folder, which `optuna-dashboard` opens; a new one where there is none yet."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = JournalStorage(JournalFileBackend(str(folder / JOURNAL_NAME)))
    return optuna.create_study(study_name=name, storage=storage, direction="maximize", load_if_exists=True)


def name_metric(study: optuna.Study, metric: str) -> None:
    """Names the study's values in dashboards, in the study of an earlier version too."""
    if study.metric_names != [metric]:
        with warnings.catch_warnings(action="ignore", category=ExperimentalWarning):
            study.set_metric_names([metric])


def describe_end(trial: optuna.Trial, trial_ids: Sequence[str], scores: Sequence[Mapping[str, float]]) -> None:
    """Sets what a dashboard shows of a configuration that is about to end.

    Args:
        trial: Optuna's, which is running.
        trial_ids: of its trials that count.
        scores: of each that is scored the highest of each task and overall; their means are shown.
    """
    trial.set_user_attr(TRIALS_ATTRIBUTE, " ".join(trial_ids))
    for name in scores[0] if scores else ():
        found = [own[name] for own in scores if name in own]
        trial.set_user_attr(f"{BEST_PREFIX}{name}", sum(found) / len(found))


def repair_journal(folder: Path) -> str | None:
    """Drops everything from the first damaged line of a sweep's journal, which no other process may have open.

    A power cut or a full disk may leave a line incomplete. Optuna would append the next entry to it and could then read
    neither.

    Returns:
        A note on what was dropped; None if nothing was.
    """
    path = folder / JOURNAL_NAME
    if not path.exists():
        return None
    content = path.read_bytes()
    lines = list(itertools.takewhile(is_journal_entry, content.splitlines(keepends=True)))
    whole = b"".join(lines)
    num_dropped = len(content) - len(whole)
    if num_dropped == 0:
        return None
    partial = folder / PARTIAL_NAME
    partial.write_bytes(whole)
    partial.replace(path)
    restored = "Optuna's study is restored from the sweep's records"
    return f"{path}: its last {num_dropped} bytes were damaged and are dropped; {restored}"


def newest_trials(study: optuna.Study) -> dict[int, FrozenTrial]:
    """The newest trial of the study for each configuration, by number; one may have been asked for again."""
    numbered = [(trial.user_attrs.get(NUMBER_ATTRIBUTE), trial) for trial in study.get_trials(deepcopy=False)]
    return {number: trial for number, trial in numbered if number is not None}


def has_all_params(trial: FrozenTrial, space: SearchSpace, search: str, params: Mapping[str, Any]) -> bool:
    """Whether the study has all values of a configuration: a damaged journal may have lost the last ones."""
    return set(trial.params) == {key_title(key) for key in domain_of(space, search) if is_set(params, key)}


def fail_unknown(study: optuna.Study, numbers: Collection[int]) -> None:
    """Marks queued and running trials of the study as failed, except running ones with one of these numbers.

    A driver that is killed leaves trials that are queued, or that were asked for and never recorded. Their
    configuration numbers are used again.
    """
    for trial in study.get_trials(deepcopy=False):
        if trial.state == TrialState.WAITING:
            study.tell(study.ask(), state=TrialState.FAIL)  # only asking takes a trial, the oldest, off the queue
        elif trial.state == TrialState.RUNNING and trial.user_attrs.get(NUMBER_ATTRIBUTE) not in numbers:
            reopen_trial(study, trial).set_user_attr(NUMBER_ATTRIBUTE, None)
            study.tell(trial.number, state=TrialState.FAIL)


def reopen_ended(
    study: optuna.Study, folder: Path, numbers: Collection[int], restarted: Collection[int]
) -> optuna.Study:
    """The study with the trials of these configurations running again instead of ended.

    Optuna does not change a trial that has ended, and a second one would count the configuration twice. So the journal
    is rewritten without these ends. No other process may have it open for writing, and a dashboard that shows it must
    be restarted.

    Args:
        study: the study in the sweep's `folder`.
        numbers: of the configurations to reopen; those that have not ended, or are unknown, do not change.
        restarted: the reopened configurations that start over; their intermediate values and scores are removed too.
    """
    ended = {number: storage_id(trial) for number, trial in newest_trials(study).items() if trial.state.is_finished()}
    ends = {ended[number] for number in numbers if number in ended}
    values = {ended[number] for number in restarted if number in ended}
    if not ends:
        return study
    partial = folder / PARTIAL_NAME
    partial.unlink(missing_ok=True)
    entries = JournalFileBackend(str(folder / JOURNAL_NAME)).read_logs(0)
    kept = [
        entry
        for entry in entries
        if not (
            is_end_entry(entry, ends)
            or is_report_entry(entry, values)
            or is_attribute_entry(entry, values, BEST_PREFIX)
        )
    ]
    JournalFileBackend(str(partial)).append_logs(kept)
    partial.replace(folder / JOURNAL_NAME)
    return open_study(folder, study.study_name)


def domain_of(space: SearchSpace, search: str) -> dict[SearchKey, Range]:
    """What is sampled from: the grid's values for a grid, the ranges otherwise."""
    if search == "grid":
        return {key: Choice(values=tuple(values)) for key, values in space.grid.items()}
    return search_domain(space)


def ask_new(
    study: optuna.Study, space: SearchSpace, search: str, seed: int, number: int
) -> tuple[optuna.Trial, dict[str, Any]]:
    """Asks the study for a configuration, key by key, without those whose condition does not hold.

    Each ask has a sampler with a seed of its own, from the sweep's seed and the number of asks before it, so that a
    resumed sweep does not repeat its first samples.

    Returns:
        Optuna's trial, numbered in the order of asking, and the searched values for `trial_config`.
    """
    study.sampler = sampler_for(search, seed, len(study.get_trials(deepcopy=False)))
    trial = study.ask()
    trial.set_user_attr(NUMBER_ATTRIBUTE, number)
    trial.set_user_attr(TRIALS_ATTRIBUTE, trial_id_of(number, 0))
    sampled: dict[SearchKey, Any] = {}
    for key, item in domain_of(space, search).items():
        if holds(space.conditions.get(key), sampled):
            sampled[key] = suggest_value(trial, key_title(key), item)
    return trial, trial_params(sampled)


def ask_known(
    study: optuna.Study, space: SearchSpace, search: str, number: int, params: Mapping[str, Any]
) -> optuna.Trial:
    """As `ask_new`, for a configuration whose values are known: a point of the grid, or one that is run again."""
    domain = {key: item for key, item in domain_of(space, search).items() if is_set(params, key)}
    study.enqueue_trial({key_title(key): as_choice(value_at(params, key)) for key in domain})
    return ask_new(study, space, search, 0, number)[0]


def is_set(params: Mapping[str, Any], key: SearchKey) -> bool:
    """Whether a searched key has a value."""
    return key in params if isinstance(key, str) else key[0] in params


def value_at(params: Mapping[str, Any], key: SearchKey) -> Any:
    """The value of a searched key: one, or a tuple of those that vary together."""
    return params[key] if isinstance(key, str) else tuple(params[part] for part in key)


def sampler_for(search: str, seed: int, num_asked: int) -> BaseSampler:
    """The sampler of one ask, after `num_asked` others. For a grid, whose points are enqueued, any will do."""
    digest = hashlib.sha256(f"{seed} {num_asked}".encode()).digest()
    sampler_seed = int.from_bytes(digest[:4], "big")
    return TPESampler(seed=sampler_seed) if search == "tpe" else RandomSampler(seed=sampler_seed)


def suggest_value(trial: optuna.Trial, title: str, item: Range) -> Any:
    """One key's value, sampled by Optuna."""
    if isinstance(item, Float):
        return trial.suggest_float(title, item.low, item.high, log=item.log)
    if isinstance(item, Int):
        return trial.suggest_int(title, item.low, item.high, log=item.log)
    choices = [as_choice(value) for value in item.values]
    return item.values[choices.index(trial.suggest_categorical(title, choices))]


def as_choice(value: Any) -> bool | int | float | str | None:
    """A value as a categorical choice in Optuna: a scalar as it is, anything else as JSON."""
    return value if value is None or isinstance(value, bool | int | float | str) else json.dumps(value)
