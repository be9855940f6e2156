"""Teachers that have not seen what they teach: the ensembles' models, trained again on either half of the train rows.

A model that was trained on a row says of it little more than its label. So each half of a task's train rows is taught
by models that were trained on the other half (cross-fitting; Wolpert 1992, "Stacked generalization", for ensembles).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mtlib.config.schema import leaf_keys, to_dict
from mtlib.config.trial import TrialConfig
from mtlib.data.hold_out import hold_out_texts, label_strata, share_text
from mtlib.data.tables import Table
from mtlib.runtime.errors import require
from mtlib.tasks import Task
from results.inference.distillation.taught_rows import (
    TEACHERS_FOLDER,
    Lesson,
    TaughtRows,
    source_settings,
    table_of,
    train_rows,
    write_once,
)
from results.inference.models import ModelSource, find_trials
from results.records.selection import Member, Selection
from results.records.trials import COMPLETED, TrialRecord
from search_spaces.domain import SearchKey
from search_spaces.space import NamedOverrides, SearchSpace, value_in

MEMBER_KEY, HALF_KEY = "configuration", "half"
"""The searched names."""
HALVES = ("first", "second")
"""The names of the halves of each task's train rows."""
OWN_SETTINGS = {"data.hold_out": 0, "seed": 0, "replicate": 0}
"""The files of halves lack the rows that were held out; seed and replicate are the teachers' own."""


@dataclass(frozen=True, kw_only=True)
class TrainHalves:
    """The train rows of a task in two halves that share no text, and a file of each."""

    rows: tuple[TaughtRows, TaughtRows]
    settings: tuple[Mapping[str, Any], Mapping[str, Any]]
    """By dotted key: a model that has them is trained on that half alone."""


def halve(task: Task, table: Table, home: Path) -> TrainHalves:
    """Writes the halves of a task's own train rows, unless they are there.

    Rows that share a text are in one half, and both have each label as often, as near as that goes.

    Args:
        task: whose rows they are.
        table: its train rows.
        home: the folder of the sweep that teaches.
    """
    rows, own = train_rows(table), slice(table.num_own_rows)
    columns, labels = [column[own] for column in table.texts], table.labels[own]
    is_second = share_text(columns, hold_out_texts(columns, 0.5, label_strata(labels, task.is_regression, 0.5)))
    first, second = (rows.pick(np.flatnonzero(chosen)) for chosen in (~is_second, is_second))
    rule = f"the train rows of {task.name} must fall into halves that share no text"
    require(bool(first.ids and second.ids), rule, f"{len(rows.ids)} rows that texts connect")
    return TrainHalves(
        rows=(first, second), settings=(half_settings(task, first, home), half_settings(task, second, home))
    )


def half_settings(task: Task, rows: TaughtRows, home: Path) -> Mapping[str, Any]:
    """Returns what makes a model learn from half of a task's train rows, by dotted key; writes their file."""
    path = home / TEACHERS_FOLDER / f"{task.name}-half-{rows.key[:12]}.parquet"
    write_once(path, lambda: table_of(task, rows))
    return source_settings(f"half_{task.name}", task, path, "train", has_logits=False)


def teacher_space(selection: Selection, source: ModelSource, halves: Mapping[str, TrainHalves]) -> SearchSpace:
    """Returns the trainings of the teachers: each configuration that an ensemble has, on either half.

    Args:
        selection: the ensembles. Replicates of a configuration are one teacher.
        source: where the sweeps of their models are.
        halves: of the train rows by task.
    """
    configs = teacher_configs(selection, source)
    by_half = {
        half: {key: value for own in halves.values() for key, value in own.settings[number].items()}
        for number, half in enumerate(HALVES)
    }
    unscored = {f"tasks.{name}.scored_train_rows": 0 for name in halves}  # the halves have other train rows
    own = [config.override({**OWN_SETTINGS, **unscored, **by_half[HALVES[0]]}) for config in configs.values()]
    first = own[0]
    members = {name: changes_between(first, config) for name, config in zip(configs, own, strict=True)}
    question = "What do the models of the ensembles predict for rows on which they were not trained?"
    grid: dict[SearchKey, NamedOverrides] = {MEMBER_KEY: members, HALF_KEY: by_half}
    return SearchSpace(name="teachers", question=question, base=first, grid=grid)


def teacher_configs(selection: Selection, source: ModelSource) -> dict[str, TrialConfig]:
    """Returns the configurations that the ensembles have, each once, by the names that teachers have."""
    found = {own.content_hash: own for name in selection.tasks for own in member_configs(selection, name, source)}
    return {f"model_{number}": config for number, config in enumerate(found.values(), start=1)}


def member_configs(selection: Selection, name: str, source: ModelSource) -> list[TrialConfig]:
    """Returns the configuration of each member of a task's ensemble, without its seed and replicate."""
    trials = find_trials(selection.tasks[name].members, name, source)
    return [config.override({"seed": 0, "replicate": 0}) for _, config in trials]


def changes_between(base: TrialConfig, config: TrialConfig) -> dict[str, Any]:
    """Returns what makes a configuration of a base, by dotted key; a group that has other keys is there as a whole."""
    before, now = to_dict(base), to_dict(config)
    changes: dict[str, Any] = {}
    for group in (group for group in now if now[group] != before[group]):
        keys = list(leaf_keys({group: now[group]}))
        if keys == list(leaf_keys({group: before[group]})):
            values = {key: value_in(config, key) for key in keys}
            changes |= {key: value for key, value in values.items() if value != value_in(base, key)}
        else:
            changes[group] = now[group]
    return changes


def two_fold_lessons(
    selection: Selection,
    source: ModelSource,
    halves: Mapping[str, TrainHalves],
    teachers: str,
    records: Sequence[TrialRecord],
) -> dict[str, list[Lesson]]:
    """Returns by task what the trained teachers are to predict: each half by the models that were trained on the other.

    A teacher predicts with the weights of its own best epoch for the task; its weight in the ensemble is the
    member's. Members that are one teacher are one model, with the sum of their weights.

    Args:
        selection, source, halves: as in `teacher_space`.
        teachers: the sweep of teachers.
        records: its trials.

    Raises:
        ValueError: a teacher has not finished.
    """
    names = {config.content_hash: name for name, config in teacher_configs(selection, source).items()}
    trained = {(own.params[MEMBER_KEY], own.params[HALF_KEY]): own for own in records if own.status in COMPLETED}

    def taught_by(task: str, half: str) -> tuple[Member, ...]:
        wanted = [names[config.content_hash] for config in member_configs(selection, task, source)]
        missing = [name for name in wanted if (name, half) not in trained]
        rule = f"teachers in {teachers} must have been trained on the {half} half"
        require(not missing, rule, f"not {', '.join(dict.fromkeys(missing))}")
        weights = dict[Member, float]()
        for name, member in zip(wanted, selection.tasks[task].members, strict=True):
            trial, epoch = trained[name, half].trial_id, trained[name, half].best_epoch[task]
            own = replace(member, sweep=teachers, trial=trial, epoch=epoch, weight=0.0)
            weights[own] = weights.get(own, 0.0) + member.weight
        return tuple(replace(own, weight=weight) for own, weight in weights.items())

    first, second = HALVES
    return {
        task: [
            Lesson(members=taught_by(task, second), rows=own.rows[0]),
            Lesson(members=taught_by(task, first), rows=own.rows[1]),
        ]
        for task, own in halves.items()
    }
