"""Predictions are found by trial and epoch, and are aligned between trials."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mtlib.runtime.storage import open_folder
from mtlib.tasks import TASKS
from mtlib.training.evaluation import Predictions
from results.records.epochs import epoch_path, epoch_rows, write_epoch
from results.records.predictions import (
    find_lost,
    has_same_examples,
    labels_array,
    read_predictions,
    stack_predictions,
)
from tests.one_line_error import one_line_error
from tests.results.conftest import build_report

IDS = ["a", "b", "c"]
LABELS = np.array([0.0, 1.0, float("nan")], np.float32)
ALL = [(f"000{number}-r0", epoch) for number in range(3) for epoch in (1, 2)]


def write_sst(folder: Path, trial: str, epoch: int, fill: float, ids: list[str] = IDS) -> None:
    """Writes an epoch whose predictions on SST dev are all `fill`."""
    logits = np.full((len(ids), 2), fill, np.float32)
    own = Predictions(task="sst", split="dev", ids=ids, labels=LABELS[: len(ids)], logits=logits)
    write_epoch(folder, trial, replace(build_report(epoch, tasks=("sst",)), predictions=(own,)))


def test_predictions_can_be_filtered_by_trial_and_epoch(sweep_folder: Path) -> None:
    def seen(**which: Any) -> list[tuple[str, int]]:
        table = read_predictions(sweep_folder, "qqp", "dev", **which)
        return list(dict.fromkeys(zip(table["trial"].to_pylist(), table["epoch"].to_pylist(), strict=True)))

    assert seen() == ALL
    assert seen(trial="0001-r0", epoch=2) == [("0001-r0", 2)]
    assert seen(epoch=1) == ALL[::2]
    assert seen(trial="0009-r0") == []
    assert read_predictions(sweep_folder, "sts", "train").num_rows == 0


def test_predictions_that_are_missing_or_damaged_are_found(sweep_folder: Path) -> None:
    dev, train = [(task, "dev") for task in TASKS], [("sst", "train")]
    wanted = [(*part, *key) for part in (*dev, *train) for key in ALL]
    assert find_lost(sweep_folder, wanted) == {}
    (sweep_folder / epoch_path("0001-r0", 1)).write_bytes(b"PAR1")
    lost = find_lost(sweep_folder, [*wanted, ("sst", "test", "0002-r0", 2)])
    assert lost.keys() == {"0001-r0", "0002-r0"}
    assert "0001.parquet: truncated or damaged" in lost["0001-r0"]
    assert "sst-test at epoch 2" in lost["0002-r0"]


@pytest.mark.parametrize("ids", [["a", "c", "b"], ["a", "b"]])
def test_trials_scored_on_other_examples_are_not_compared(tmp_path: Path, ids: list[str]) -> None:
    root = open_folder(tmp_path)
    write_sst(tmp_path, "a", 1, 0.5)
    write_sst(tmp_path, "b", 1, 0.5, ids)
    message = one_line_error(stack_predictions, root, "sst", "dev", [("a", 1), ("b", 1)])
    assert message.endswith("trial b at epoch 1 was not scored on the examples of a")
    message = one_line_error(stack_predictions, root, "sst", "dev", [("a", 1), ("a", 2)])
    assert message.startswith(f"{tmp_path / epoch_path('a', 2)}: ")


def test_several_labels_are_kept_as_their_numbers() -> None:
    labels, logits = np.array([[1, 0, 1], [0, 0, 0]], dtype=np.float32), np.zeros((2, 3))
    table = epoch_rows("sst", "dev", ["a", "b"], labels, logits)
    assert table["labels"].to_pylist() == [[0, 2], []]
    assert np.isnan(table["label"].to_numpy()).all()
    np.testing.assert_array_equal(labels_array(table), labels)
    assert not has_same_examples(table, epoch_rows("sst", "dev", ["a", "b"], labels[::-1], logits))
    single = epoch_rows("sst", "dev", ["a", "b"], [3.0, np.nan], logits)
    assert single["labels"].null_count == 2
    np.testing.assert_array_equal(labels_array(single), [3, np.nan])
