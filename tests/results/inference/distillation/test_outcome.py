"""What contenders score and cost, against the selection's own held-out scores and the models by hand."""

import shutil
from pathlib import Path

import pytest

from mtlib.tasks import TASKS
from results.inference.dev_texts import read_dev_table
from results.inference.distillation.outcome import (
    Deployable,
    cross_fitted_cells,
    ensemble_members,
    measure_cost,
    score_contender,
)
from results.inference.models import load_models
from results.records.trials import OVERALL
from results.selection.hold_out_score import read_held_out_tables, score_held_out
from tests.results.inference.trained_sweep import hold_out_rows, select_pairs, source_of


@pytest.fixture
def folder(trained_folder: Path, tiny_folder: Path, tmp_path: Path) -> Path:
    """A trained sweep with held-out rows and a selection of both its trials for every task."""
    copy = shutil.copytree(trained_folder, tmp_path / "mine")
    hold_out_rows(copy, tiny_folder)
    return copy


def test_ensembles_score_on_held_out_rows_as_their_selection_does(folder: Path, tiny_folder: Path) -> None:
    selection, source = select_pairs(folder), source_of(folder)
    contender = Deployable(title="ensembles", replicates=(ensemble_members(selection),) * 2)
    tables = read_held_out_tables(selection, source, tiny_folder)
    found = score_contender(contender, TASKS, tables, source)
    wanted = score_held_out(selection, source, tiny_folder)
    for name in TASKS:
        assert found.scores[name].tolist() == [wanted.scores[name]] * 2
    assert set(found.scores) == {*TASKS, OVERALL}


def test_a_model_of_several_ensembles_counts_once(folder: Path, tiny_folder: Path) -> None:
    selection, source = select_pairs(folder), source_of(folder)
    contender = Deployable(title="ensembles", replicates=(ensemble_members(selection),))
    tables = {name: read_dev_table(str(folder), name, tiny_folder) for name in TASKS}
    cost = measure_cost(contender, TASKS, tables, source)
    members = {member for own in ensemble_members(selection).values() for member in own}
    distinct = {(member.trial, member.epoch) for member in members}
    sizes = {
        (member.trial, member.epoch): sum(part.numel() for part in loaded.model.parameters())
        for task in TASKS
        for member, loaded in zip(
            selection.tasks[task].members, load_models(selection.tasks[task].members, task, source), strict=True
        )
    }
    assert (cost.num_models, cost.num_parameters) == (len(distinct), sum(sizes.values()))
    assert cost.rows_per_second > 0


def test_the_overall_cross_fitted_score_has_the_error_of_independent_tasks(folder: Path) -> None:
    selection = select_pairs(folder)
    cells = cross_fitted_cells(selection, TASKS)
    errors = {name: cells[name][1] for name in TASKS}
    expected = sum(((0.5 if name == "sts" else 1) / 3 * error) ** 2 for name, error in errors.items()) ** 0.5
    assert cells[OVERALL][1] == pytest.approx(expected)
