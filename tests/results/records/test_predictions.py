"""Predictions are found in parts and tables, the newest of each epoch once, and are aligned between trials."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from results.records import predictions
from results.records.files import open_atomic, open_folder, parquet_writer, write_group, write_parquet
from results.records.predictions import (
    PredictionPart,
    compacted_path,
    iter_predictions,
    list_parts,
    open_groups,
    prediction_table,
    stack_predictions,
)
from results.records.schemas import PREDICTIONS

IDS = ["a", "b", "c"]
LABELS = [0.0, 1.0, float("nan")]


def table_of(trial: str, epoch: int, fill: float, width: int = 2, ids: list[str] = IDS) -> pa.Table:
    return prediction_table(trial, epoch, ids, LABELS[: len(ids)], np.full((len(ids), width), fill))


def write_part(folder: Path, trial: str, epoch: int, fill: float, **changes: Any) -> PredictionPart:
    part = PredictionPart(trial=trial, epoch=epoch, task="sst", split="dev")
    write_parquet(open_folder(folder), part.path, table_of(trial, epoch, fill, **changes))
    return part


def write_groups(folder: Path, *groups: pa.Table) -> None:
    with (
        open_atomic(open_folder(folder), compacted_path("sst", "dev")) as stream,
        parquet_writer(stream, PREDICTIONS) as writer,
    ):
        for group in groups:
            write_group(writer, group)


def first_logits(folder: Path, *wanted: tuple[str, int]) -> dict[tuple[str, int], float]:
    """First logit of each epoch that is read."""
    tables = iter_predictions(open_folder(folder), "sst", "dev", wanted)
    return {key: table["logits"][0].as_py()[0] for key, table in tables}


def test_one_epoch_is_a_table_of_the_declared_schema() -> None:
    table = prediction_table("0001-r0", 3, IDS, np.array([0, 1, 2]), np.arange(6).reshape(3, 2))
    assert table.schema.equals(PREDICTIONS, check_metadata=True)
    assert table.to_pylist()[1] == {"id": "b", "trial": "0001-r0", "epoch": 3, "label": 1.0, "logits": [2.0, 3.0]}


def test_parts_are_listed_for_any_task_name(tmp_path: Path) -> None:
    parts = [
        PredictionPart(trial="0000-r0", epoch=12345, task="new-task", split="dev"),
        PredictionPart(trial="0001-r1", epoch=2, task="sst", split="train"),
    ]
    for part in parts:
        write_parquet(open_folder(tmp_path), part.path, table_of(part.trial, part.epoch, 0))
    for other in ("curves.parquet", "predictions/.sst-dev-0001.parquet.1.tmp", "predictions/notes.txt"):
        (tmp_path / "trials/0000-r0" / other).write_text("")
    assert list_parts(open_folder(tmp_path)) == parts
    assert parts[1].path == "trials/0001-r1/predictions/sst-train-0002.parquet"


def test_every_row_group_has_its_trial_and_epoch(tmp_path: Path) -> None:
    write_groups(tmp_path, table_of("b", 1, 0), table_of("a", 2, 0), table_of("a", 1, 0))
    file, groups = open_groups(open_folder(tmp_path), "sst", "dev")
    assert groups == {("b", 1): 0, ("a", 2): 1, ("a", 1): 2}
    assert file.read_row_group(1)["epoch"].to_pylist() == [2, 2, 2]


def test_predictions_come_in_the_requested_order_from_parts_and_table(tmp_path: Path) -> None:
    write_groups(tmp_path, table_of("a", 1, 0.5), table_of("b", 1, 1.5))
    write_part(tmp_path, "c", 1, 2.5)
    found = first_logits(tmp_path, ("c", 1), ("b", 1), ("missing", 1), ("a", 1))
    assert list(found.items()) == [(("c", 1), 2.5), (("b", 1), 1.5), (("a", 1), 0.5)]


def test_part_is_newer_than_the_table(tmp_path: Path) -> None:
    write_groups(tmp_path, table_of("a", 1, 0.5), table_of("a", 2, 1.5))
    write_part(tmp_path, "a", 2, 7)
    assert first_logits(tmp_path, ("a", 1), ("a", 2)) == {("a", 1): 0.5, ("a", 2): 7}


def test_part_compacted_while_reading_is_found_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [PredictionPart(trial="a", epoch=1, task="sst", split="dev")]
    tables: Iterator[tuple[Any, dict[tuple[str, int], int]]] = iter([(None, {})])  # no table at the first listing
    look_again = predictions.open_groups
    monkeypatch.setattr(predictions, "list_parts", lambda _root: listed)
    monkeypatch.setattr(predictions, "open_groups", lambda *place: next(tables, None) or look_again(*place))
    write_groups(tmp_path, table_of("a", 1, 0.5))
    assert first_logits(tmp_path, ("a", 1)) == {("a", 1): 0.5}


def test_stacked_predictions_have_an_axis_for_trials(tmp_path: Path) -> None:
    write_groups(tmp_path, table_of("a", 1, 0.5), table_of("b", 3, 1.5))
    ids, labels, logits = stack_predictions(open_folder(tmp_path), "sst", "dev", [("b", 3), ("a", 1)])
    assert ids == ["a", "b", "c"]
    np.testing.assert_array_equal(labels, np.array(LABELS, dtype=np.float32))
    np.testing.assert_array_equal(logits, np.stack([np.full((3, 2), 1.5), np.full((3, 2), 0.5)]))


def test_missing_predictions_are_named(tmp_path: Path) -> None:
    write_part(tmp_path, "a", 1, 0.5)
    with pytest.raises(ValueError, match=r"sst-dev.parquet: predictions of trial a at epoch 2 are missing$"):
        stack_predictions(open_folder(tmp_path), "sst", "dev", [("a", 1), ("a", 2)])


@pytest.mark.parametrize("ids", [["a", "c", "b"], ["a", "b"]])
def test_trials_scored_on_other_examples_are_not_compared(tmp_path: Path, ids: list[str]) -> None:
    write_part(tmp_path, "a", 1, 0.5)
    write_part(tmp_path, "b", 1, 0.5, ids=ids)
    with pytest.raises(ValueError, match=r"trial b at epoch 1 was not scored on the examples of a$"):
        stack_predictions(open_folder(tmp_path), "sst", "dev", [("a", 1), ("b", 1)])


def test_damaged_part_is_named(tmp_path: Path) -> None:
    path = tmp_path / write_part(tmp_path, "a", 1, 0.5).path
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ValueError, match=f"^{path}: truncated or damaged: "):
        first_logits(tmp_path, ("a", 1))
