"""A copy behind a URI reads like the sweep itself, and follows its changes."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from results.records.mirror import copy_order, update_mirror

from mtlib.tasks import TASKS
from mtlib.training.epoch_report import EpochReport
from results.records.epochs import compact, write_epoch
from results.records.predictions import read_predictions
from results.records.tables import read_curves, read_trials, write_trials
from results.records.trials import CURVES_BACKUP_FILE, TRIALS_BACKUP_FILE, TrialRecord, read_sweep


def age(folder: Path, seconds: float) -> None:
    """Makes every file of a folder look older."""
    for path in folder.glob("**/*"):
        if path.is_file():
            os.utime(path, (time.time() - seconds,) * 2)


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.glob("**/*") if path.is_file()}


def assert_same(folder: Path, uri: str) -> None:
    assert read_sweep(uri) == read_sweep(folder)
    assert read_trials(uri) == read_trials(folder)
    assert read_curves(uri) == read_curves(folder)
    assert read_predictions(uri, "sst", "dev") == read_predictions(folder, "sst", "dev")


def test_copy_reads_like_the_sweep(sweep_folder: Path, tmp_path: Path) -> None:
    uri = (tmp_path / "bucket" / "copy").as_uri()
    assert update_mirror(sweep_folder, uri) == len(files_in(sweep_folder))
    assert files_in(tmp_path / "bucket" / "copy") == files_in(sweep_folder)
    assert_same(sweep_folder, uri)


def test_unchanged_files_are_not_copied_again(sweep_folder: Path, tmp_path: Path) -> None:
    age(sweep_folder, 3600)
    uri = (tmp_path / "copy").as_uri()
    assert update_mirror(sweep_folder, uri) > 0
    assert update_mirror(sweep_folder, uri) == 0


def test_copy_follows_new_epochs_and_compaction(
    sweep_folder: Path,
    tmp_path: Path,
    make_report: Callable[..., EpochReport],
    make_record: Callable[..., TrialRecord],
) -> None:
    age(sweep_folder, 3600)
    uri = (tmp_path / "copy").as_uri()
    update_mirror(sweep_folder, uri)
    write_epoch(sweep_folder, "0002-r0", make_report(3))
    write_trials(sweep_folder, [make_record(number) for number in range(3)], tuple(TASKS))
    compact(sweep_folder)
    update_mirror(sweep_folder, uri)
    assert_same(sweep_folder, uri)
    assert files_in(sweep_folder) - files_in(tmp_path / "copy") == {TRIALS_BACKUP_FILE, CURVES_BACKUP_FILE}
    assert files_in(tmp_path / "copy") < files_in(sweep_folder)


def test_weights_are_copied_and_states_journals_and_temporary_files_are_not(sweep_folder: Path, tmp_path: Path) -> None:
    checkpoint = "trials/0000-r0/checkpoint"
    kept = {f"{checkpoint}/best.json", f"{checkpoint}/weights/epoch-0002.safetensors"}
    left_out = {
        *(f"{checkpoint}/state-000000010/state.json", f"{checkpoint}/.state-000000020.partial/state.json"),
        *("journal.log", "trials/0000-r0/.curves.parquet.1.tmp", "sweep.out"),
    }
    for name in kept | left_out:
        (sweep_folder / name).parent.mkdir(parents=True, exist_ok=True)
        (sweep_folder / name).write_text(name)
    update_mirror(sweep_folder, tmp_path / "copy")
    assert kept <= files_in(tmp_path / "copy") == files_in(sweep_folder) - left_out


def test_foreign_files_at_the_copys_place_are_left_alone(sweep_folder: Path, tmp_path: Path) -> None:
    others = {"notes.md", "data.parquet", "trials/notes.md"}
    for name in others:
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "copy" / name).write_text(name)
    update_mirror(sweep_folder, tmp_path / "copy")
    assert others <= files_in(tmp_path / "copy")


def test_description_is_copied_last(
    sweep_folder: Path, tmp_path: Path, kill_at_rename: Callable[[int, bool], type[BaseException]]
) -> None:
    names = sorted(files_in(sweep_folder))
    with pytest.raises(kill_at_rename(len(names), True)):
        update_mirror(sweep_folder, tmp_path / "copy")
    assert sorted([*files_in(tmp_path / "copy"), "sweep.json"]) == names


def test_files_that_refer_to_others_are_copied_after_them() -> None:
    paths = ["sweep.json", "curves.parquet", "trials.parquet", "trials/a/curves.parquet", "predictions/sst-dev.parquet"]
    assert sorted([*paths, "trials/a/predictions/sst-dev-0001.parquet"], key=copy_order) == [
        "predictions/sst-dev.parquet",
        "trials/a/predictions/sst-dev-0001.parquet",
        "curves.parquet",
        "trials/a/curves.parquet",
        "trials.parquet",
        "sweep.json",
    ]
