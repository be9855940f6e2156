"""The Optuna study of a sweep: its journal, its search domain, and configurations drawn from it one by one."""

import hashlib
import itertools
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from search_spaces.domain import Choice, Float, Int, Key, Range, holds, key_title
from search_spaces.space import SearchSpace, search_domain, trial_params

JOURNAL_NAME = "optuna-journal.log"
PARTIAL_NAME = f".{JOURNAL_NAME}.partial"
NUMBER = "configuration"
"""Attribute of a trial of the study: the configuration's number in the sweep."""


@dataclass(frozen=True, kw_only=True)
class Draw:
    """A configuration that Optuna has given out."""

    trial: optuna.Trial
    number: int
    """Of the configuration in its sweep, from 0: not Optuna's, which counts in the order of asking."""
    params: dict[str, Any]
    """Searched values by dotted key, or name of the space's own; keys whose condition does not hold are not there."""


def open_study(folder: Path, name: str) -> optuna.Study:
    """The study in the sweep's folder, which `optuna-dashboard` opens; a new one where there is none yet."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = JournalStorage(JournalFileBackend(str(folder / JOURNAL_NAME)))
    return optuna.create_study(study_name=name, storage=storage, direction="maximize", load_if_exists=True)


def mend_journal(folder: Path) -> str | None:
    """Drops what is damaged at the end of a sweep's journal, which nobody else may have open.

    A machine that goes off, or a full disk, may leave a line cut short: Optuna would glue the next one to it, and could
    then read neither. All before the first line that is damaged stays.

    Returns:
        What was dropped, in a line for people; None if nothing was.
    """
    path = folder / JOURNAL_NAME
    if not path.exists():
        return None
    content = path.read_bytes()
    lines = list(itertools.takewhile(is_entry, content.splitlines(keepends=True)))
    whole = b"".join(lines)
    num_dropped = len(content) - len(whole)
    if num_dropped == 0:
        return None
    partial = folder / PARTIAL_NAME
    partial.write_bytes(whole)
    partial.replace(path)
    return f"{path}: its last {num_dropped} bytes were damaged and are dropped; the records tell Optuna again"


def is_entry(line: bytes) -> bool:
    """Whether a line of a journal is whole."""
    try:
        return line.endswith(b"\n") and "op_code" in json.loads(line)
    except (ValueError, TypeError):
        return False


def recall(study: optuna.Study) -> dict[int, FrozenTrial]:
    """What the study knows, by number of the configuration: of one that was drawn again, the newest."""
    numbered = [(trial.user_attrs.get(NUMBER), trial) for trial in study.get_trials(deepcopy=False)]
    return {number: trial for number, trial in numbered if number is not None}


def is_whole(known: FrozenTrial, space: SearchSpace, search: str, params: Mapping[str, Any]) -> bool:
    """Whether the study knows all values of a configuration: the last ones may be lost with the journal's end."""
    return set(known.params) == {key_title(key) for key in domain_of(space, search) if is_set(params, key)}


def tidy(study: optuna.Study, numbers: Collection[int]) -> None:
    """Tells the study that what it has given out, or was about to, has failed, unless the sweep knows the number.

    A driver that is killed leaves such trials: they are queued, or were drawn and never came on record. Their numbers
    are free for others.
    """
    for known in study.get_trials(deepcopy=False):
        if known.state == TrialState.WAITING:
            study.tell(study.ask(), state=TrialState.FAIL)  # the queue's first, which no other way leads out
        elif known.state == TrialState.RUNNING and known.user_attrs.get(NUMBER) not in numbers:
            optuna.Trial(study, known._trial_id).set_user_attr(NUMBER, None)
            study.tell(known.number, state=TrialState.FAIL)


def take_back(study: optuna.Study, folder: Path, numbers: Collection[int], anew: Collection[int]) -> optuna.Study:
    """The study as if it had not been told yet how these configurations ended: their trials are running again.

    Optuna lets nobody change a trial that has ended, and a second one would count a configuration twice. So the journal
    is written anew without these ends, whole, and then renamed; nobody else may have it open for writing, and a
    dashboard that shows it must be started anew.

    Args:
        study: the study in `folder`.
        folder: the sweep's folder.
        numbers: of configurations that are tried again; those that have not ended, or are unknown, stay as they are.
        anew: those among them whose intermediate values are to be forgotten too.
    """
    ended = {number: trial._trial_id for number, trial in recall(study).items() if trial.state.is_finished()}
    ends = {ended[number] for number in numbers if number in ended}
    values = {ended[number] for number in anew if number in ended}
    if not ends:
        return study
    partial = folder / PARTIAL_NAME
    partial.unlink(missing_ok=True)
    entries = JournalFileBackend(str(folder / JOURNAL_NAME)).read_logs(0)
    JournalFileBackend(str(partial)).append_logs([entry for entry in entries if not tells(entry, ends, values)])
    partial.replace(folder / JOURNAL_NAME)
    return open_study(folder, study.study_name)


def tells(entry: Mapping[str, Any], ends: Collection[int], values: Collection[int]) -> bool:
    """Whether a journal's entry is the end of one of some trials, or an intermediate value of one of others."""
    trial = entry.get("trial_id")
    if "intermediate_value" in entry:
        return trial in values
    return trial in ends and "state" in entry and TrialState(entry["state"]).is_finished()


def reopen(study: optuna.Study, known: FrozenTrial, params: dict[str, Any], number: int) -> Draw:
    """A configuration that was given out before and has not been told of yet."""
    return Draw(trial=optuna.Trial(study, known._trial_id), number=number, params=params)


def domain_of(space: SearchSpace, search: str) -> dict[Key, Range]:
    """What is drawn from: the grid's values for a grid, the ranges otherwise."""
    if search == "grid":
        return {key: Choice(values=tuple(values)) for key, values in space.grid.items()}
    return search_domain(space)


def draw(study: optuna.Study, space: SearchSpace, search: str, seed: int, number: int) -> Draw:
    """Asks the study for a configuration, key by key, without those whose condition does not hold.

    The sampler is seeded anew for each ask, by the sweep's seed and the number of asks before it, so that a sweep that
    goes on later does not repeat its first draws.
    """
    study.sampler = sampler_for(search, seed, len(study.get_trials(deepcopy=False)))
    trial = study.ask()
    trial.set_user_attr(NUMBER, number)
    drawn: dict[Key, Any] = {}
    for key, item in domain_of(space, search).items():
        if holds(space.conditions.get(key), drawn):
            drawn[key] = decode(item, suggest(trial, key_title(key), item))
    return Draw(trial=trial, number=number, params=trial_params(drawn))


def draw_known(study: optuna.Study, space: SearchSpace, search: str, number: int, params: Mapping[str, Any]) -> Draw:
    """As `draw`, for a configuration whose values are known: a point of the grid, or one that is to be tried again."""
    domain = {key: item for key, item in domain_of(space, search).items() if is_set(params, key)}
    study.enqueue_trial({key_title(key): as_choice(value_at(params, key)) for key in domain})
    return draw(study, space, search, 0, number)


def is_set(params: Mapping[str, Any], key: Key) -> bool:
    """Whether a searched key has a value."""
    return key in params if isinstance(key, str) else key[0] in params


def value_at(point: Mapping[str, Any], key: Key) -> Any:
    """The value of a searched key at a point: one, or a tuple of those that vary together."""
    return point[key] if isinstance(key, str) else tuple(point[part] for part in key)


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
