"""An epoch's file holds the epoch whole, by itself, and a kill or damage costs no earlier epoch."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from mtlib.runtime.storage import open_folder
from mtlib.training.epoch_report import EpochReport
from results.records.epochs import (
    check_epoch,
    delete_epochs,
    epoch_path,
    list_epochs,
    read_epoch,
    read_epochs,
    read_part,
    read_trial_curves,
    trial_epochs,
    write_epoch,
)
from results.records.schemas import CURVES, PREDICTIONS

MakeReport = Callable[..., EpochReport]
Kill = Callable[[int, bool], type[BaseException]]

TRIAL = "0000-r0"


def write(folder: Path, make_report: MakeReport, *epochs: int) -> None:
    for epoch in epochs:
        write_epoch(folder, TRIAL, make_report(epoch))


def test_epoch_is_read_back_as_reported(tmp_path: Path, make_report: MakeReport) -> None:
    report, root = make_report(3), open_folder(tmp_path)
    write_epoch(tmp_path, TRIAL, report, {"wall_seconds": 1.5})
    found = read_epoch(root, TRIAL, 3)
    assert found.points == tuple(vars(point) for point in report.points)
    assert found.facts == {"wall_seconds": 1.5}
    assert found.parts == (("sst", "dev"), ("qqp", "dev"), ("sts", "dev"), ("sst", "train"))
    for part in report.predictions:
        table = read_part(root, TRIAL, 3, part.task, part.split)
        assert table is not None
        assert table.schema.equals(PREDICTIONS, check_metadata=True)
        assert table["id"].to_pylist() == part.ids
        assert set(zip(table["trial"].to_pylist(), table["epoch"].to_pylist(), strict=True)) == {(TRIAL, 3)}
        np.testing.assert_array_equal(table["label"].to_numpy(), part.labels)
        np.testing.assert_array_equal(np.array(table["logits"].to_pylist(), dtype=np.float32), part.logits)
    assert read_part(root, TRIAL, 3, "sst", "test") is None
    assert read_part(root, TRIAL, 2, "sst", "dev") is None


def test_each_row_of_a_file_says_its_task_and_split(tmp_path: Path, make_report: MakeReport) -> None:
    write(tmp_path, make_report, 1)
    rows = pd.read_parquet(tmp_path / epoch_path(TRIAL, 1)).groupby(["task", "split"], observed=True)["id"].agg(list)
    assert rows.to_dict() == {(part.task, part.split): part.ids for part in make_report(1).predictions}


def test_files_without_these_columns_are_read_as_before(tmp_path: Path, make_report: MakeReport) -> None:
    write(tmp_path, make_report, 1)
    root, path = open_folder(tmp_path), tmp_path / epoch_path(TRIAL, 1)
    expected = read_epoch(root, TRIAL, 1), read_part(root, TRIAL, 1, "sst", "train")
    file = pq.ParquetFile(path)
    groups = [file.read_row_group(group).drop_columns(["task", "split"]) for group in range(file.num_row_groups)]
    with pq.ParquetWriter(path, groups[0].schema) as writer:
        for group in groups:
            writer.write_table(group)
    assert (read_epoch(root, TRIAL, 1), read_part(root, TRIAL, 1, "sst", "train")) == expected


def test_curves_have_the_points_of_all_epochs(tmp_path: Path, make_report: MakeReport) -> None:
    write(tmp_path, make_report, 1, 2)
    curves = read_trial_curves(open_folder(tmp_path), TRIAL)
    assert curves.schema.equals(CURVES, check_metadata=True)
    points = [point for epoch in (1, 2) for point in make_report(epoch).points]
    assert curves.to_pylist() == [{"trial": TRIAL, **vars(point)} for point in points]
    assert read_trial_curves(open_folder(tmp_path), "0001-r0").num_rows == 0


def test_epoch_that_is_trained_again_drops_later_ones(tmp_path: Path, make_report: MakeReport) -> None:
    write(tmp_path, make_report, 1, 2, 3)
    again = make_report(2, seed=5)
    write_epoch(tmp_path, TRIAL, again)
    root = open_folder(tmp_path)
    assert trial_epochs(root, TRIAL) == [1, 2]
    assert read_epoch(root, TRIAL, 2).points[0]["value"] == again.points[0].value


@pytest.mark.parametrize("is_before", [True, False])
def test_kill_while_an_epoch_is_written_leaves_whole_epochs(
    tmp_path: Path, make_report: MakeReport, kill_at_rename: Kill, is_before: bool
) -> None:
    write(tmp_path, make_report, 1)
    with pytest.raises(kill_at_rename(1, is_before)):
        write(tmp_path, make_report, 2)
    root, done = open_folder(tmp_path), [1] if is_before else [1, 2]
    assert trial_epochs(root, TRIAL) == done
    for epoch in done:
        check_epoch(root, epoch_path(TRIAL, epoch))


def test_epochs_after_a_missing_one_do_not_count(tmp_path: Path, make_report: MakeReport) -> None:
    write(tmp_path, make_report, 1, 2, 3)
    (tmp_path / epoch_path(TRIAL, 2)).unlink()
    root = open_folder(tmp_path)
    assert trial_epochs(root, TRIAL) == [1]
    assert trial_epochs(root, "0001-r0") == []
    delete_epochs(root, TRIAL, after=1)
    assert list_epochs(root) == {TRIAL: [1]}


def test_epochs_are_read_up_to_a_truncated_one_which_is_named(tmp_path: Path, make_report: MakeReport) -> None:
    write(tmp_path, make_report, 1, 2, 3)
    path = tmp_path / epoch_path(TRIAL, 2)
    path.write_bytes(path.read_bytes()[:-9])
    found, damage = read_epochs(open_folder(tmp_path), TRIAL)
    assert [epoch.points[0]["epoch"] for epoch in found] == [1]
    (line,) = damage
    assert line.startswith(f"{path}: truncated or damaged")


def test_every_changed_bit_is_found_or_harmless(tmp_path: Path, make_report: MakeReport) -> None:
    write(tmp_path, make_report, 1)
    path, root = tmp_path / epoch_path(TRIAL, 1), open_folder(tmp_path)

    def read() -> object:
        check_epoch(root, epoch_path(TRIAL, 1))
        return read_epoch(root, TRIAL, 1), read_part(root, TRIAL, 1, "sst", "dev")

    expected, content, num_found = read(), path.read_bytes(), 0
    for place in range(0, len(content), 11):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            assert read() == expected, place
        except ValueError as error:
            num_found += 1
            if not str(error).startswith(f"{path}: "):
                raise
    assert num_found > 0
