"""Predictions are found by trial and epoch, and are aligned between trials."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mtlib.runtime.storage import open_folder
from mtlib.training.evaluation import Predictions
from results.records.epochs import epoch_path, write_epoch
from results.records.predictions import (
    iter_predictions,
    read_predictions,
    reported_epochs,
    stack_predictions,
    write_all_predictions,
)
from results.records.tables import read_curves
from tests.results.conftest import build_report

IDS = ["a", "b", "c"]
LABELS = np.array([0.0, 1.0, float("nan")], np.float32)


def write_sst(folder: Path, trial: str, epoch: int, fill: float, ids: list[str] = IDS) -> None:
    """Writes an epoch whose predictions on SST dev are all `fill`."""
    logits = np.full((len(ids), 2), fill, np.float32)
    own = Predictions(task="sst", split="dev", ids=ids, labels=LABELS[: len(ids)], logits=logits)
    write_epoch(folder, trial, replace(build_report(epoch, tasks=("sst",)), predictions=(own,)))


def test_predictions_can_be_filtered_by_trial_and_epoch(sweep_folder: Path) -> None:
    def seen(**which: Any) -> list[tuple[str, int]]:
        table = read_predictions(sweep_folder, "qqp", "dev", **which)
        pairs = zip(table["trial"].to_pylist(), table["epoch"].to_pylist(), strict=True)
        return list(dict.fromkeys(pairs))

    assert seen() == [(f"000{number}-r0", epoch) for number in range(3) for epoch in (1, 2)]
    assert seen(trial="0001-r0", epoch=2) == [("0001-r0", 2)]
    assert seen(epoch=1) == [(f"000{number}-r0", 1) for number in range(3)]
    assert seen(trial="0009-r0") == []
    assert read_predictions(sweep_folder, "sts", "train").num_rows == 0


def test_reported_epochs_are_those_of_the_curves(sweep_folder: Path) -> None:
    expected = [(f"000{number}-r0", epoch) for number in range(3) for epoch in (1, 2)]
    assert reported_epochs(read_curves(sweep_folder)) == expected


def test_predictions_come_in_the_requested_order(tmp_path: Path) -> None:
    for number, trial in enumerate("abc"):
        write_sst(tmp_path, trial, 1, number + 0.5)
    wanted = [("c", 1), ("b", 1), ("missing", 1), ("a", 1)]
    found = iter_predictions(open_folder(tmp_path), "sst", "dev", wanted)
    assert [(key, table["logits"][0].as_py()[0]) for key, table in found] == [
        (("c", 1), 2.5),
        (("b", 1), 1.5),
        (("a", 1), 0.5),
    ]


def test_stacked_predictions_have_an_axis_for_trials(tmp_path: Path) -> None:
    write_sst(tmp_path, "a", 1, 0.5)
    write_sst(tmp_path, "b", 3, 1.5)
    ids, labels, logits = stack_predictions(open_folder(tmp_path), "sst", "dev", [("b", 3), ("a", 1)])
    assert ids == IDS
    np.testing.assert_array_equal(labels, LABELS)
    np.testing.assert_array_equal(logits, np.stack([np.full((3, 2), 1.5), np.full((3, 2), 0.5)]))


def test_missing_predictions_are_named(tmp_path: Path) -> None:
    write_sst(tmp_path, "a", 1, 0.5)
    with pytest.raises(ValueError, match=f"^{tmp_path / epoch_path('a', 2)}: .*missing"):
        stack_predictions(open_folder(tmp_path), "sst", "dev", [("a", 1), ("a", 2)])


@pytest.mark.parametrize("ids", [["a", "c", "b"], ["a", "b"]])
def test_trials_scored_on_other_examples_are_not_compared(tmp_path: Path, ids: list[str]) -> None:
    write_sst(tmp_path, "a", 1, 0.5)
    write_sst(tmp_path, "b", 1, 0.5, ids)
    with pytest.raises(ValueError, match=r"trial b at epoch 1 was not scored on the examples of a$"):
        stack_predictions(open_folder(tmp_path), "sst", "dev", [("a", 1), ("b", 1)])


def test_all_predictions_are_written_as_one_table(sweep_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "new" / "all.parquet"
    num_rows = write_all_predictions(sweep_folder, path)
    written = pd.read_parquet(path)
    assert len(written) == num_rows > 0
    for (task, split), rows in written.groupby(["task", "split"]):
        expected = read_predictions(sweep_folder, str(task), str(split)).to_pandas()
        found = rows.drop(columns=["task", "split"]).reset_index(drop=True)
        pd.testing.assert_frame_equal(found, expected)
    assert set(written["trial"]) == {path.name for path in (sweep_folder / "trials").iterdir()}


def test_no_table_is_left_where_an_epoch_is_damaged(sweep_folder: Path, tmp_path: Path) -> None:
    trial = min(path.name for path in (sweep_folder / "trials").iterdir())
    (sweep_folder / epoch_path(trial, 1)).write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=rf"{trial}/epochs/0001\.parquet"):
        write_all_predictions(sweep_folder, tmp_path / "all.parquet")
    assert not [path for path in tmp_path.iterdir() if "all.parquet" in path.name]
