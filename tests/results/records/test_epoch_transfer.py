"""Epochs transferred to another trial read like its own, and are transferred whole or not at all."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from results.records.epoch_transfer import copy_epochs, delete_epochs, import_epochs, list_epoch_files

from mtlib.training.epoch_report import EpochReport
from results.records.epochs import compact, curves_path, write_epoch
from results.records.predictions import read_predictions
from results.records.tables import read_curves

MakeReport = Callable[..., EpochReport]
Kill = Callable[[int, bool], type[BaseException]]

SPLITS = [("sst", "dev"), ("sst", "train"), ("qqp", "dev"), ("sts", "dev")]
SOURCE, TRIAL = "0001-r0", "0005-r0"
NAMES = ["curves.parquet", *(f"predictions/{task}-{split}-0001.parquet" for task, split in sorted(SPLITS))]


def read_first_epochs(folder: Path, trial: str, epochs: int = 9) -> list[list[dict[str, object]]]:
    """All that a reader gets of a trial's first epochs, without its name."""
    tables = [read_curves(folder), *(read_predictions(folder, task, split) for task, split in SPLITS)]
    rows: list[list[dict[str, object]]] = [table.to_pylist() for table in tables]
    return [
        [{**row, "trial": None} for row in found if row["trial"] == trial and int(str(row["epoch"])) <= epochs]
        for found in rows
    ]


def export_to_folder(folder: Path, trial: str, epochs: int, target: Path) -> Path:
    """A plain folder with a trial's files, as a store keeps them."""
    for name, path in list_epoch_files(folder, trial, epochs).items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / name)
    return target


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_copied_epochs_read_like_those_of_the_source(
    sweep_folder: Path, tmp_path: Path, is_compacted: bool, is_elsewhere: bool, epochs: int
) -> None:
    if is_compacted:
        compact(sweep_folder)
    target = tmp_path / "other" if is_elsewhere else sweep_folder
    before = read_first_epochs(sweep_folder, SOURCE)
    copy_epochs(sweep_folder, SOURCE, target, TRIAL, epochs)
    assert read_first_epochs(target, TRIAL) == read_first_epochs(sweep_folder, SOURCE, epochs)
    assert read_first_epochs(sweep_folder, SOURCE) == before
    assert all(before)
    compact(target)
    assert read_first_epochs(target, TRIAL) == read_first_epochs(sweep_folder, SOURCE, epochs)


@pytest.mark.parametrize("epochs", [1, 2])
def test_placed_epochs_read_like_those_of_the_source(
    sweep_folder: Path, tmp_path: Path, make_report: MakeReport, epochs: int
) -> None:
    write_epoch(sweep_folder, SOURCE, make_report(3))
    kept = export_to_folder(sweep_folder, SOURCE, epochs, tmp_path / "kept")
    import_epochs(kept, tmp_path / "other", TRIAL)
    assert read_first_epochs(tmp_path / "other", TRIAL) == read_first_epochs(sweep_folder, SOURCE, epochs)
    write_epoch(tmp_path / "other", TRIAL, make_report(epochs + 1))
    assert {row["epoch"] for row in read_first_epochs(tmp_path / "other", TRIAL)[0]} == set(range(1, epochs + 2))


def test_an_epoch_without_scores_is_transferred_between_two_that_have_them(
    sweep_folder: Path, tmp_path: Path, make_report: MakeReport
) -> None:
    unscored, scored = make_report(3), make_report(4)
    losses = tuple(point for point in unscored.points if point.metric == "loss")
    for report in (replace(unscored, points=losses, predictions=()), scored):
        write_epoch(sweep_folder, SOURCE, report)
    kept = export_to_folder(sweep_folder, SOURCE, 4, tmp_path / "kept")
    import_epochs(kept, tmp_path / "other", TRIAL)
    copy_epochs(sweep_folder, SOURCE, tmp_path / "third", TRIAL, 4)
    curves, predictions, *_ = before = read_first_epochs(sweep_folder, SOURCE)
    assert read_first_epochs(tmp_path / "other", TRIAL) == read_first_epochs(tmp_path / "third", TRIAL) == before
    assert {row["epoch"] for row in curves} == {1, 2, 3, 4}
    assert {row["epoch"] for row in predictions} == {1, 2, 4}


def test_files_of_an_epoch_are_the_curves_and_all_predictions(sweep_folder: Path) -> None:
    files = list_epoch_files(sweep_folder, SOURCE, 1)
    assert list(files) == NAMES
    assert all(path == sweep_folder / "trials" / SOURCE / name for name, path in files.items())
    assert all(path.is_file() for path in files.values())
    assert len(list_epoch_files(sweep_folder, SOURCE, 2)) == 1 + 2 * len(SPLITS)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_existing_epochs_are_replaced(
    sweep_folder: Path, tmp_path: Path, make_report: MakeReport, is_compacted: bool
) -> None:
    for epoch in (1, 2, 3):
        write_epoch(sweep_folder, "0002-r0", make_report(epoch, seed=8))
    if is_compacted:
        compact(sweep_folder)
    write_epoch(tmp_path / "other", "0000-r0", make_report(1, tasks=("qqp", "sts")))
    kept = export_to_folder(tmp_path / "other", "0000-r0", 1, tmp_path / "kept")
    others = read_first_epochs(sweep_folder, SOURCE)
    import_epochs(kept, sweep_folder, "0002-r0")
    curves, _, _, *predictions = read_first_epochs(sweep_folder, "0002-r0")
    assert [curves, *predictions] == [read_first_epochs(tmp_path / "other", "0000-r0")[number] for number in (0, 3, 4)]
    assert read_first_epochs(sweep_folder, SOURCE) == others
    assert len(list_epoch_files(sweep_folder, "0002-r0", 1)) == 3


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("renames", range(1, 3 + 2 * len(SPLITS)))
def test_kill_leaves_all_epochs_or_none(
    sweep_folder: Path, make_report: MakeReport, kill_at_rename: Kill, renames: int, is_before: bool
) -> None:
    write_epoch(sweep_folder, TRIAL, make_report(1, seed=9))
    old, new = read_first_epochs(sweep_folder, TRIAL), read_first_epochs(sweep_folder, SOURCE)
    with pytest.raises(kill_at_rename(renames, is_before)):
        copy_epochs(sweep_folder, SOURCE, sweep_folder, TRIAL, 2)
    is_untouched, is_done = (renames, is_before) == (1, True), (renames, is_before) == (2 + 2 * len(SPLITS), False)
    assert read_first_epochs(sweep_folder, TRIAL) == (old if is_untouched else new if is_done else [[]] * 5)
    copy_epochs(sweep_folder, SOURCE, sweep_folder, TRIAL, 2)
    assert read_first_epochs(sweep_folder, TRIAL) == new


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_dropping_epochs_leaves_none(
    sweep_folder: Path, make_report: MakeReport, is_compacted: bool, is_damaged: bool
) -> None:
    others = read_first_epochs(sweep_folder, SOURCE)
    if is_compacted:
        compact(sweep_folder)
    for trial in (SOURCE, "0002-r0") if is_compacted else ("0002-r0",):
        if is_damaged:
            (sweep_folder / curves_path(trial)).write_text("")
        delete_epochs(sweep_folder, trial)
        assert read_first_epochs(sweep_folder, trial) == [[]] * 5
        assert not list((sweep_folder / "trials" / trial).glob("predictions/*"))
        write_epoch(sweep_folder, trial, make_report(1))
        assert {row["epoch"] for row in read_first_epochs(sweep_folder, trial)[0]} == {1}
    assert is_compacted or read_first_epochs(sweep_folder, SOURCE) == others


def test_nothing_is_written_for_a_trial_without_epochs(sweep_folder: Path) -> None:
    delete_epochs(sweep_folder, TRIAL)
    assert not (sweep_folder / "trials" / TRIAL).exists()


@pytest.mark.parametrize(("epochs", "rule"), [(3, "must have 3 epochs of its own, got 2"), (0, "at least 1, got 0")])
def test_missing_epochs_are_refused(sweep_folder: Path, tmp_path: Path, epochs: int, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        copy_epochs(sweep_folder, SOURCE, tmp_path / "other", TRIAL, epochs)
    with pytest.raises(ValueError, match=rule):
        list_epoch_files(sweep_folder, SOURCE, epochs)
    assert not (tmp_path / "other").exists()


def test_unknown_or_compacted_trial_has_no_files_of_its_own(sweep_folder: Path) -> None:
    compact(sweep_folder)
    for trial in (SOURCE, "0099-r0"):
        with pytest.raises(ValueError, match=f"trial {trial} of .* must have 1 epochs of its own, got 0"):
            list_epoch_files(sweep_folder, trial, 1)
    with pytest.raises(ValueError, match="must have 1 epochs of its own, got 0"):
        copy_epochs(sweep_folder, "0099-r0", sweep_folder, TRIAL, 1)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_source_is_refused_and_leaves_no_epoch(sweep_folder: Path, tmp_path: Path, name: str) -> None:
    kept = export_to_folder(sweep_folder, SOURCE, 2, tmp_path / "kept")
    for path in (kept / name, sweep_folder / "trials" / SOURCE / name):
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="truncated or damaged"):
        copy_epochs(sweep_folder, SOURCE, tmp_path / "other", TRIAL, 1)
    with pytest.raises(ValueError, match=f"^{kept / name}: truncated or damaged"):
        import_epochs(kept, tmp_path / "other", TRIAL)
    assert read_first_epochs(tmp_path / "other", TRIAL) == [[]] * 5


@pytest.mark.parametrize("name", [name for name in NAMES if "-dev-" in name])
def test_missing_predictions_are_refused_by_name(sweep_folder: Path, tmp_path: Path, name: str) -> None:
    kept = export_to_folder(sweep_folder, SOURCE, 2, tmp_path / "kept")
    (kept / name).unlink()
    (sweep_folder / "trials" / SOURCE / name).unlink()
    rule = rf"has no predictions of {name.split('/')[1].split('-')[0]}-dev at epoch 1$"
    with pytest.raises(ValueError, match=rule):
        copy_epochs(sweep_folder, SOURCE, tmp_path / "other", TRIAL, 1)
    with pytest.raises(ValueError, match=rule):
        list_epoch_files(sweep_folder, SOURCE, 1)
    with pytest.raises(ValueError, match=rule):
        import_epochs(kept, tmp_path / "other", TRIAL)
    assert read_first_epochs(tmp_path / "other", TRIAL) == [[]] * 5


def test_folder_without_predictions_is_refused(sweep_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(sweep_folder / "trials" / SOURCE, tmp_path / "kept")
    shutil.rmtree(tmp_path / "kept" / "predictions")
    with pytest.raises(ValueError, match=r"epochs of .*kept must be at least 1, got 0$"):
        import_epochs(tmp_path / "kept", tmp_path / "other", TRIAL)


def test_folder_without_curves_is_named(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    with pytest.raises(FileNotFoundError):
        import_epochs(tmp_path / "kept", tmp_path / "other", TRIAL)


def test_new_trial_id_is_in_every_row(sweep_folder: Path) -> None:
    copy_epochs(sweep_folder, SOURCE, sweep_folder, TRIAL, 2)
    files = list_epoch_files(sweep_folder, TRIAL, 2)
    assert len(files) == 1 + 2 * len(SPLITS)
    for path in files.values():
        table = pa.parquet.read_table(path)
        assert set(table["trial"].to_pylist()) == {TRIAL}
    assert (sweep_folder / curves_path(SOURCE)).is_file()
