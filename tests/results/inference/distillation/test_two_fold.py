"""Teachers on halves: no model teaches a text that it has learned, and all rows are taught."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mtlib.config.trial import TrialConfig
from mtlib.data.hold_out import normalise
from mtlib.data.load import read_data
from mtlib.tasks import TASKS
from results.inference.distillation.two_fold import (
    HALF_KEY,
    HALVES,
    TrainHalves,
    changes_between,
    halve,
    teacher_space,
    two_fold_lessons,
)
from results.inference.models import ModelSource
from results.records.selection import read_selection
from results.records.tables import read_trials
from search_spaces.space import grid_configs, grid_trials
from tests.one_line_error import one_line_error
from tests.results.conftest import build_record


def halves_of(folder: Path, data: Path, home: Path) -> dict[str, TrainHalves]:
    """The halves of each task's train rows."""
    tables = read_data(TrialConfig.from_json(read_trials(folder)[0].config), data)
    return {name: halve(task, tables[name, "train"], home) for name, task in TASKS.items()}


def source_of(folder: Path) -> ModelSource:
    return ModelSource(places={str(folder): folder}, device="cpu")


def texts_of(texts: object) -> set[str]:
    return {normalise(text) for row in texts for text in row}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", TASKS)
def test_halves_share_no_text_and_are_all_rows(
    name: str, trained_folder: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    first, second = halves_of(trained_folder, tiny_folder, tmp_path)[name].rows
    table = read_data(TrialConfig.from_json(read_trials(trained_folder)[0].config), tiny_folder)[name, "train"]
    assert not texts_of(first.texts) & texts_of(second.texts)
    assert sorted([*first.ids, *second.ids]) == sorted(table.ids)
    assert abs(len(first.ids) - len(second.ids)) <= 0.3 * len(table.ids)
    labels = dict(zip(table.ids, table.labels, strict=True))
    for half in (first, second):
        assert half.labels is not None
        np.testing.assert_array_equal(half.labels, [labels[row] for row in half.ids])


def test_each_half_is_taught_by_models_that_have_not_learned_it(
    trained_folder: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    selection, source = read_selection(trained_folder), source_of(trained_folder)
    halves = halves_of(trained_folder, tiny_folder, tmp_path)
    space = teacher_space(selection, source, halves)
    configs, params = grid_configs(space), grid_trials(space)
    assert len(configs) == 2 * len(HALVES)
    all_rows = read_data(configs[0].override({"data.sources": {}}), tiny_folder)
    records = [
        build_record(number, config=own.to_json(), params=values, best_epoch=dict.fromkeys(TASKS, 2))
        for number, (own, values) in enumerate(zip(configs, params, strict=True))
    ]
    by_trial = {record.trial_id: TrialConfig.from_json(record.config) for record in records}
    by_task = two_fold_lessons(selection, source, halves, "teachers", records)
    for name in TASKS:
        lessons = by_task[name]
        taught = [row for lesson in lessons for row in lesson.rows.ids]
        assert sorted(taught) == sorted(all_rows[name, "train"].ids)
        for lesson in lessons:
            assert [own.weight for own in lesson.members] == [0.75, 0.25]
            assert {own.sweep for own in lesson.members} == {"teachers"}
            for member in lesson.members:
                table = read_data(by_trial[member.trial], tiny_folder)[name, "train"]
                assert not texts_of(zip(*table.texts, strict=True)) & texts_of(lesson.rows.texts)
    half = [record for record in records if record.params[HALF_KEY] == "first"]
    message = one_line_error(two_fold_lessons, selection, source, halves, "teachers", half)
    assert message.startswith("teachers in teachers must have been trained on the second half")


def test_teachers_are_the_configurations_of_the_members(
    trained_folder: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    """But for data, seed, replicate and scored train rows; replicates of one are one teacher."""
    selection, source = read_selection(trained_folder), source_of(trained_folder)
    space = teacher_space(selection, source, halves_of(trained_folder, tiny_folder, tmp_path))
    plain: dict[str, object] = {"data.sources": {}, "data.hold_out": 0, "seed": 0, "replicate": 0}
    plain |= {f"tasks.{name}.scored_train_rows": 0 for name in TASKS}
    wanted = [TrialConfig.from_json(record.config).override(plain) for record in read_trials(trained_folder)[:2]]
    found = [config.override(plain) for config in grid_configs(space)]
    assert found == [wanted[0], wanted[0], wanted[1], wanted[1]]
    assert {own.scored_train_rows for config in grid_configs(space) for own in config.tasks.values()} == {0}
    one = selection.tasks["sst"].members[0]
    again = replace(selection, tasks={"sst": replace(selection.tasks["sst"], members=(one, one))})
    halves = {"sst": halves_of(trained_folder, tiny_folder, tmp_path)["sst"]}
    space = teacher_space(again, source, halves)
    assert len(grid_configs(space)) == len(HALVES)
    records = [
        build_record(number, params=params, best_epoch={"sst": 2}) for number, params in enumerate(grid_trials(space))
    ]
    for lesson in two_fold_lessons(again, source, halves, "teachers", records)["sst"]:
        assert [own.weight for own in lesson.members] == [2 * one.weight]


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer.learning_rate": 0.3, "tasks.sst.pooling": "mean"},
        {"stages": [{"tasks": ["sst"], "order": "uniform", "epochs": 1}], "smart.weight": 0},
    ],
)
def test_changes_make_one_configuration_of_another(changes: dict[str, object], tiny_config: TrialConfig) -> None:
    other = tiny_config.override(changes)
    assert tiny_config.override(changes_between(tiny_config, other)) == other
