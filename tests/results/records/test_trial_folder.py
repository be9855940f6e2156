"""A trial's folder says what it is, how far it came and how it ended; damage is named and costs only what follows."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mtlib.runtime.storage import open_folder
from mtlib.tasks import TASKS
from mtlib.training.epoch_report import EpochReport
from results.records.epochs import write_epoch
from results.records.trial_folder import (
    END_FILE,
    TRIAL_FILE,
    TrialEnd,
    TrialStart,
    delete_end,
    read_end,
    read_start,
    read_trial,
    record_of,
    trial_path,
    write_end,
    write_start,
)
from results.records.trials import TrialRecord
from tests.one_line_error import one_line_error

MakeReport = Callable[..., EpochReport]
Kill = Callable[[int, bool], type[BaseException]]

TRIAL = "0003-r1"
START = TrialStart(
    trial_id=TRIAL,
    number=3,
    replicate=1,
    seed=7,
    params={"smart.weight": 0.1 + 0.2, "smart.tasks": ["sst"], "smart.mode": None},
    config='{"seed": 7}',
    config_hash="ab",
    started="2026-05-01T10:00:00.000+00:00",
    host="laptop",
    shared_steps=4,
    shared_seconds=0.5,
    taken_from="first/0000-r0",
    environments=({"device": "cpu", "threads": 1}, {"device": "cuda", "threads": 1}),
    notes=("the environment changed",),
)
END = TrialEnd(how="complete", time=5.0, wall_seconds=2.5, peak_memory_bytes=9, key="ab" * 32)


@pytest.fixture
def folder(tmp_path: Path, make_report: MakeReport) -> Path:
    """A sweep's folder with a trial of three epochs, the second of which is the best."""
    write_start(open_folder(tmp_path), START)
    for epoch, skill in ((1, 0.5), (2, 2.0), (3, 1.0)):
        facts = {"wall_seconds": 1.0 * epoch, "peak_memory_bytes": 7}
        write_epoch(tmp_path, TRIAL, make_report(epoch, skill=skill), facts)
    return tmp_path


def record(folder: Path, num_workers: int = 1) -> TrialRecord:
    return record_of(read_trial(open_folder(folder), TRIAL), TASKS, num_workers)


def test_start_and_end_are_read_back_as_written(tmp_path: Path) -> None:
    root = open_folder(tmp_path)
    assert (read_start(root, TRIAL), read_end(root, TRIAL)) == (None, None)
    write_start(root, START)
    write_end(root, TRIAL, END)
    assert (read_start(root, TRIAL), read_end(root, TRIAL)) == (START, END)
    for _ in range(2):
        delete_end(root, TRIAL)
        assert read_end(root, TRIAL) is None


@pytest.mark.parametrize("name", [TRIAL_FILE, END_FILE])
def test_changed_digit_is_detected(tmp_path: Path, name: str) -> None:
    root = open_folder(tmp_path)
    write_start(root, START)
    write_end(root, TRIAL, END)
    path = tmp_path / trial_path(TRIAL, name)
    text = path.read_text()
    places = [place for place, letter in enumerate(text) if letter.isdigit()]
    for place in places[:: len(places) // 3]:
        path.write_text(f"{text[:place]}{(int(text[place]) + 1) % 10}{text[place + 1 :]}")
        message = one_line_error(read_start if name == TRIAL_FILE else read_end, root, TRIAL)
        assert message.startswith(f"{path}: truncated or damaged")


def test_record_follows_from_the_folder(folder: Path, make_report: MakeReport) -> None:
    write_end(open_folder(folder), TRIAL, END)
    found = record(folder, num_workers=2)
    assert (found.trial_id, found.number, found.replicate, found.seed) == (TRIAL, 3, 1, 7)
    assert (found.params, found.config, found.taken_from) == (START.params, START.config, START.taken_from)
    assert (found.status, found.error, found.epochs, found.steps) == ("complete", None, 3, 30)
    assert (found.shared_steps, found.device_seconds) == (4, 2 * (3.0 - 0.5))
    assert (found.wall_seconds, found.peak_memory_bytes) == (2.5, 9)
    assert found.best_epoch["overall"] == 2
    assert found.best["overall"] == make_report(2, skill=2.0).overall
    assert found.last["overall"] == make_report(3, skill=1.0).overall
    assert found.best.keys() == {"sst", "qqp", "sts", "overall"}


@pytest.mark.parametrize(("how", "epochs"), [("pruned", 1), ("complete", 3)])
def test_epochs_after_a_pruning_do_not_count(folder: Path, how: str, epochs: int) -> None:
    write_end(open_folder(folder), TRIAL, TrialEnd(how=how, epochs=1))
    found = record(folder)
    assert (found.status, found.epochs, found.steps) == (how, epochs, 10 * epochs)
    assert found.best_epoch["overall"] == min(epochs, 2)


def test_damaged_files_are_named_and_count_as_missing(folder: Path) -> None:
    root = open_folder(folder)
    epoch, end, start = (folder / trial_path(TRIAL, name) for name in ("epochs/0002.parquet", END_FILE, TRIAL_FILE))
    epoch.write_bytes(epoch.read_bytes()[:50])
    end.write_text("{")
    assert (record(folder).status, record(folder).epochs) == ("interrupted", 1)
    damaged = read_trial(root, TRIAL).damage
    assert [line.split(": ")[:2] for line in damaged] == [[str(path), "truncated or damaged"] for path in (epoch, end)]
    start.write_text("{}")
    assert read_trial(root, TRIAL).start is None
    assert str(start) in read_trial(root, TRIAL).damage[1]
    start.unlink()
    assert (read_trial(root, TRIAL).start, len(read_trial(root, TRIAL).epochs)) == (None, 1)


@pytest.mark.parametrize("is_before", [True, False])
def test_kill_while_the_end_is_written_leaves_all_or_nothing(
    folder: Path, kill_at_rename: Kill, is_before: bool
) -> None:
    with pytest.raises(kill_at_rename(1, is_before)):
        write_end(open_folder(folder), TRIAL, END)
    assert read_end(open_folder(folder), TRIAL) == (None if is_before else END)


def test_complete_trial_that_lacks_an_epoch_is_damaged(folder: Path) -> None:
    write_end(open_folder(folder), TRIAL, replace(END, epochs=3))
    assert read_trial(open_folder(folder), TRIAL).damage == ()
    (folder / trial_path(TRIAL, "epochs/0003.parquet")).unlink()
    (line,) = read_trial(open_folder(folder), TRIAL).damage
    assert line.endswith("epochs/0003.parquet is missing")
    write_end(open_folder(folder), TRIAL, replace(END, how="pruned", epochs=3))
    assert read_trial(open_folder(folder), TRIAL).damage == ()
