"""Texts and embeddings of dev come from the sweep's data and its best kept model."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mtlib.tasks import TASKS
from results.inference.models import load_models
from results.page.models import best_kept_trial, embed_dev, texts_reader
from results.sweep import load_sweep
from tests.one_line_error import one_line_error
from tests.results.page.recorded_sweep import write_recorded_sweep
from tests.results.records.changed_epochs import change_predictions, lose


def test_best_kept_trial_has_weights(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine")
    best = best_kept_trial(sweep)
    others = [replace(record, checkpoint=None) if record == best else record for record in sweep.records]
    assert best_kept_trial(replace(sweep, records=tuple(others))) != best
    gone = tuple(replace(record, checkpoint=None) for record in sweep.records)
    with pytest.raises(ValueError, match="must have kept its weights"):
        best_kept_trial(replace(sweep, records=gone))


def test_missing_data_folder_is_one_line(tmp_path: Path) -> None:
    sweep = write_recorded_sweep(tmp_path / "mine")
    with pytest.raises(ValueError, match="--data"):
        texts_reader(sweep)("sst", ["sst-dev-0"])


def test_dev_rows_of_a_task_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def read(_sweep: object, task: str, _data: object) -> object:
        calls.append(task)
        return SimpleNamespace(task=task, path="file", ids=["a", "b"], texts=[["first", "second"]])

    monkeypatch.setattr("results.page.models.read_dev_table", read)
    reader = texts_reader(write_recorded_sweep(tmp_path / "mine"))
    assert reader("sst", ["b"]) == (("second",),)
    assert reader("sst", ["a", "b"]) == (("first",), ("second",))
    assert reader("qqp", ["a"]) == (("first",),)
    assert calls == ["sst", "qqp"]
    with pytest.raises(ValueError, match="none with the id c"):
        reader("sst", ["c"])


def read_texts(task: str, ids: Sequence[str]) -> list[tuple[str, ...]]:
    return [("a fine film",) if len(TASKS[task].text_columns) == 1 else ("a film", "a movie") for _ in ids]


def test_embeddings_are_what_the_heads_of_a_trained_model_receive(
    trained_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[object] = []

    def load_once(*arguments: Any) -> Any:
        loaded.append(arguments)
        return load_models(*arguments)

    monkeypatch.setattr("results.page.models.load_models", load_once)
    sweep = load_sweep(trained_folder)
    announced = {}
    pair = embed_dev(sweep, read_texts, on_task=lambda task, count: announced.update({task.name: count}), device="cpu")
    trial, found = pair
    assert announced == {name: len(embedded.ids) for name, embedded in found.items()}
    assert trial in [record.trial_id for record in sweep.records]
    assert set(found) <= set(TASKS)
    assert len(loaded) == 1 < len(found)
    assert sweep.plot.embeddings(*pair).layout.title.text
    for embedded in found.values():
        assert embedded.vectors.shape[0] == len(embedded.ids) == len(embedded.labels)
        assert np.allclose(embedded.vectors, embedded.vectors[0], atol=1e-5)  # equal texts
        assert np.abs(embedded.vectors[0]).sum() > 0


def test_lost_predictions_are_one_line(trained_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(trained_folder, tmp_path / "lost")
    change_predictions(tmp_path / "lost", "qqp", lose)
    line = one_line_error(embed_dev, load_sweep(tmp_path / "lost"), read_texts, device="cpu")
    assert "predictions of trial" in line
