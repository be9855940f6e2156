"""Texts and embeddings of dev come from the sweep's data and its best kept model."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mtlib.tasks import TASKS
from results.analysis.sweep import load_sweep
from results.page.models import best_kept_trial, embed_dev, texts_reader
from tests.results.page.recorded_sweep import write_recorded_sweep


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


def test_embeddings_are_what_the_heads_of_a_trained_model_receive(
    trained_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(_sweep: object, task: str, ids: list[str], _data: object) -> list[tuple[str, ...]]:
        return [("a fine film",) if len(TASKS[task].text_columns) == 1 else ("a film", "a movie") for _ in ids]

    monkeypatch.setattr("results.page.models.read_dev_texts", read)
    sweep = load_sweep(trained_folder)
    trial, found = embed_dev(sweep, device="cpu")
    assert trial in [record.trial_id for record in sweep.records]
    assert set(found) <= set(TASKS)
    for embedded in found.values():
        assert embedded.vectors.shape[0] == len(embedded.ids) == len(embedded.labels)
        assert np.allclose(embedded.vectors, embedded.vectors[0], atol=1e-5)  # equal texts
        assert np.abs(embedded.vectors[0]).sum() > 0
