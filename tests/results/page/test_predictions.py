"""Predictions of the best model and the ensemble, and the tables of examples."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mtlib.tasks import TASKS
from results.ensembles.candidates import read_pool
from results.ensembles.ensemble import ensemble_outputs
from results.figures.predictions import Predicted
from results.inference.predictor import ensemble_of
from results.page.predictions import (
    MAX_TEXT,
    error_tables,
    label_text,
    members_table,
    predict_alike,
    selected_model,
    texts_reader,
)
from results.records.selection import Member, Selection
from results.sweep import Sweep
from tests.one_line_error import one_line_error
from tests.results.ensembles.simulated_pools import SEVERAL
from tests.results.records.changed_epochs import change_predictions
from tests.results.records.test_selection import build_selection, build_task


def selection_of_two(sweep: Sweep, **changes: object) -> Selection:
    place = str(sweep.path)
    members = tuple(
        Member(sweep=place, trial=trial, epoch=epoch, weight=weight)
        for trial, epoch, weight in (("0001-r0", 2, 0.75), ("0002-r1", 1, 0.25))
    )
    tasks = {task: build_task(members=members, **changes) for task in TASKS}
    return build_selection(sweeps={place: "fingerprint"}, tasks=tasks, evaluations=())


@pytest.mark.parametrize("task", TASKS)
def test_ensemble_predicts_what_the_selector_scored(recorded_sweep: Sweep, task: str) -> None:
    selection = selection_of_two(recorded_sweep)
    single = single_of(recorded_sweep, task)
    ensemble = selected_model(recorded_sweep, selection, single)
    assert single.name.startswith("best single model, ")
    assert ensemble.name == "selected ensemble of 2"
    pool = read_pool([str(recorded_sweep.path)], TASKS[task])
    names = [(candidate.trial, candidate.epoch) for candidate in pool.candidates]
    numbers = (names.index(("0001-r0", 2)), names.index(("0002-r1", 1)))
    chosen = replace(ensemble_of(selection.tasks[task].members), members=numbers)
    outputs = ensemble_outputs(pool, chosen, np.arange(len(pool.labels)))
    assert ensemble.predictions.tolist() == pytest.approx(TASKS[task].kind_entry.predict(outputs).tolist(), abs=1e-6)
    assert list(ensemble.ids) == list(pool.ids)


def single_of(sweep: Sweep, task: str = "sst") -> Predicted:
    return sweep.plot.predicted(task)


def test_selected_single_model_is_named_with_its_epoch(recorded_sweep: Sweep) -> None:
    both = selection_of_two(recorded_sweep)
    member = replace(both.tasks["sst"].members[0], weight=1.0)
    alone = replace(both, tasks={"sst": replace(both.tasks["sst"], members=(member,))})
    found = selected_model(recorded_sweep, alone, single_of(recorded_sweep))
    assert found.name == "selected single model, 0001-r0 at epoch 2"


def test_models_with_other_probabilities_do_not_predict_alike(recorded_sweep: Sweep) -> None:
    single, scores = single_of(recorded_sweep), single_of(recorded_sweep, "sts")
    assert single.probs is not None
    assert predict_alike(single, replace(single, name="again"))
    assert not predict_alike(single, replace(single, probs=np.flip(single.probs, axis=0)))
    assert not predict_alike(single, replace(single, predictions=single.predictions[::-1]))
    assert predict_alike(scores, scores)
    assert not predict_alike(scores, replace(scores, predictions=scores.predictions + 0.1))


def reordered(sweep: Sweep, folder: Path, change: Callable[[pa.Table], pa.Table]) -> Path:
    """A copy of a sweep, whose dev predictions of SST are changed in each epoch of each trial."""
    shutil.copytree(str(sweep.path), folder)
    change_predictions(folder, "sst", change)
    return folder


def pooled(sweep: Sweep, other: Path) -> Selection:
    """A selection of two members, the second of another sweep."""
    selection, places = selection_of_two(sweep), (str(sweep.path), str(other))
    first, second = selection.tasks["sst"].members
    chosen = replace(selection.tasks["sst"], members=(first, replace(second, sweep=places[1])))
    return replace(selection, sweeps=dict.fromkeys(places, "fingerprint"), tasks={"sst": chosen})


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.take(list(range(len(table)))[::-1]),
        lambda table: table.set_column(3, "label", pc.subtract(4.0, table["label"])),
    ],
)
def test_members_with_other_examples_or_labels_are_refused(
    change: Callable[[pa.Table], pa.Table], recorded_sweep: Sweep, tmp_path: Path
) -> None:
    other = reordered(recorded_sweep, tmp_path / "other", lambda table: change(table).cast(table.schema))
    line = one_line_error(selected_model, recorded_sweep, pooled(recorded_sweep, other), single_of(recorded_sweep))
    assert "other examples or labels by trial 0002-r1 of" in line


def test_error_table_shows_the_surest_errors() -> None:
    probs = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.3, 0.7]])
    model = Predicted(
        name="m",
        task=TASKS["qqp"],
        ids=["a", "b", "c", "d"],
        labels=np.array([1.0, 1.0, 0.0, 1.0]),
        predictions=np.array([0.0, 0.0, 1.0, 1.0]),
        probs=probs,
    )
    (table,) = error_tables(model, lambda _, ids: [(f"text {name}", "") for name in ids])
    assert [[cell.strip() for cell in row] for row in table.rows] == [
        ["text a", "1", "0 (0.90)"],
        ["text c", "0", "1 (0.80)"],
        ["text b", "1", "0 (0.60)"],
    ]
    (long,) = error_tables(model, lambda _, ids: [("x" * (MAX_TEXT + 1), "y")] * len(ids))
    assert long.rows[0][0] == "x" * MAX_TEXT + " …\ny"
    right = replace(model, predictions=model.labels)
    assert not list(error_tables(right, lambda _, ids: [("",)] * len(ids)))


def test_members_are_listed_with_their_weights(recorded_sweep: Sweep) -> None:
    table = members_table(selection_of_two(recorded_sweep))
    assert table.columns == ["task", "method", "trial", "epoch", "weight"]
    assert table.rows[0] == ["SST", "mean of the best k", "0001-r0", "2", "0.750"]
    assert len(table.rows) == 6


def test_members_of_several_sweeps_have_their_sweep(recorded_sweep: Sweep, tmp_path: Path) -> None:
    table = members_table(pooled(recorded_sweep, tmp_path / "other"))
    assert table.columns == ["task", "method", "sweep", "trial", "epoch", "weight"]
    assert table.rows[1] == ["SST", "mean of the best k", "other", "0002-r1", "1", "0.250"]
    assert table.num_text_columns == 4
    same = members_table(pooled(recorded_sweep, tmp_path / "another" / "mine"))
    assert same.rows[1][2] == f"{tmp_path}/another/mine"  # both are called mine


def test_missing_data_folder_is_one_line(recorded_sweep: Sweep) -> None:
    assert "--data" in one_line_error(texts_reader(recorded_sweep), "sst", ["sst-dev-0"])


def test_dev_rows_of_a_task_are_read_once(recorded_sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def read(_sweep: object, task: str, _data: object) -> object:
        calls.append(task)
        return SimpleNamespace(task=task, path="file", ids=["a", "b"], texts=[["first", "second"]])

    monkeypatch.setattr("results.page.predictions.read_dev_table", read)
    reader = texts_reader(recorded_sweep)
    assert reader("sst", ["b"]) == (("second",),)
    assert reader("sst", ["a", "b"]) == (("first",), ("second",))
    assert reader("qqp", ["a"]) == (("first",),)
    assert calls == ["sst", "qqp"]
    assert "none with the id c" in one_line_error(reader, "sst", ["c"])


def test_several_labels_are_named() -> None:
    assert [label_text(SEVERAL, np.array(row)) for row in ([1, 0, 1], [0, 0, 0])] == ["red, blue", "none"]


def test_errors_of_several_labels_are_the_surest_wrong_ones() -> None:
    model = Predicted(
        name="m",
        task=SEVERAL,
        ids=["a", "b", "c"],
        labels=np.array([[1.0, 0, 0], [1, 0, 0], [0, 0, 1]]),
        predictions=np.array([[1.0, 0, 0], [0, 0, 0], [0, 1, 1]]),
        probs=np.array([[0.9, 0.1, 0.1], [0.3, 0.1, 0.1], [0.2, 0.8, 0.9]]),
    )
    (table,) = error_tables(model, lambda _, ids: [(f"text {name}",) for name in ids])
    assert table.rows == [["text c", "blue", "green, blue (0.80)"], ["text b", "red", "none (0.70)"]]
