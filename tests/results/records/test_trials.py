"""Trials and the sweep's description are read back as written; anything that does not fit is one line."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]

from results.records import trials as records
from results.records.schemas import CURVES, PREDICTIONS
from results.records.tables import read_trials, write_trials
from results.records.trials import (
    OBJECTS,
    STATUSES,
    TRIALS_BACKUP_FILE,
    TrialRecord,
    best_trial,
    read_sweep,
    trials_schema,
    write_sweep,
)
from tests.one_line_error import one_line_error

MakeRecord = Callable[..., TrialRecord]
Kill = Callable[[int, bool], type[BaseException]]
TASK_NAMES = ("sst", "qqp", "sts")


def test_tables_have_these_columns() -> None:
    assert trials_schema(("sst", "new")).names == [
        *("trial", "number", "config_hash", "replicate", "seed", "status", "params", "config"),
        *("best_sst", "best_new", "best_overall", "last_sst", "last_new", "last_overall"),
        *("best_epoch_sst", "best_epoch_new", "best_epoch_overall", "epochs", "steps", "shared_steps"),
        *("device_seconds", "wall_seconds", "peak_memory_bytes", "checkpoint", "taken_from", "error", "host"),
        "started",
    ]
    assert CURVES.names == ["trial", "step", "epoch", "task", "split", "metric", "value", "seconds"]
    assert PREDICTIONS.names == ["id", "trial", "epoch", "label", "logits"]
    assert PREDICTIONS.field("logits").type == pa.list_(pa.float32())
    versions = {schema.metadata[b"schema_version"] for schema in (trials_schema(()), CURVES, PREDICTIONS)}
    assert versions == {b"2"}


def test_trials_are_read_back_as_written(tmp_path: Path, make_record: MakeRecord) -> None:
    params = {"smart.weight": 0.1, "smart.mode": "paper", "tasks.sst.batch_size": 8, "x": None, "y": [1, 2], "z": True}
    nothing: dict[str, Any] = {
        "best": {},
        "last": {},
        "best_epoch": {},
        "checkpoint": None,
        "host": None,
        "started": None,
    }
    written = [
        make_record(0),
        make_record(1, 2, "failed", params=params, error="line one\nline two"),
        make_record(2, status="queued", **nothing),
        make_record(3, best={"qqp": 0.1 + 0.2}, last={"qqp": 0.3}, best_epoch={"qqp": 1}),
        make_record(4, status="reused", taken_from="earlier/0007-r1", shared_steps=30),
    ]
    write_trials(tmp_path, written, TASK_NAMES)
    assert read_trials(tmp_path) == written
    assert list(read_trials(tmp_path)[1].params) == list(params)


@pytest.mark.parametrize("status", STATUSES)
def test_every_status_can_be_written(tmp_path: Path, make_record: MakeRecord, status: str) -> None:
    write_trials(tmp_path, [make_record(0, status=status)], TASK_NAMES)
    assert read_trials(tmp_path)[0].status == status


def test_another_status_is_refused(make_record: MakeRecord) -> None:
    with pytest.raises(ValueError, match=r"^status must be one of queued, .*, got done$"):
        make_record(0, status="done")


def test_trials_can_be_read_by_pandas_alone(tmp_path: Path, make_record: MakeRecord) -> None:
    write_trials(tmp_path, [make_record(0), make_record(1, best={"qqp": 0.5})], TASK_NAMES)
    frame = pd.read_parquet(tmp_path / "trials.parquet")
    assert frame["best_qqp"].tolist() == [0.75, 0.5]
    assert frame["best_sst"].isna().tolist() == [False, True]


def test_score_of_a_task_without_columns_is_an_assertion_error(tmp_path: Path, make_record: MakeRecord) -> None:
    with pytest.raises(AssertionError, match="0000-r0 has best of"):
        write_trials(tmp_path, [make_record(0)], ("sst",))


def test_sweep_without_trials_file_has_none(tmp_path: Path) -> None:
    assert read_trials(tmp_path) == []


def test_trials_of_another_version_are_refused_by_name(
    tmp_path: Path, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "SCHEMA_VERSION", 3)
    write_trials(tmp_path, [make_record(0)], TASK_NAMES)
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"trials.parquet: schema version must be 2, got 3$"):
        read_trials(tmp_path)


def test_previous_trials_are_kept(tmp_path: Path, make_record: MakeRecord) -> None:
    written = [[make_record(number) for number in range(count)] for count in (1, 2, 3)]
    write_trials(tmp_path, written[0], TASK_NAMES)
    assert read_trials(tmp_path, TRIALS_BACKUP_FILE) == []
    for before, newest in pairwise(written):
        write_trials(tmp_path, newest, TASK_NAMES)
        assert read_trials(tmp_path) == newest
        assert read_trials(tmp_path, TRIALS_BACKUP_FILE) == before


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("renames", [1, 2])
def test_kill_while_trials_are_written_leaves_two_whole_files(
    tmp_path: Path, make_record: MakeRecord, kill_at_rename: Kill, renames: int, is_before: bool
) -> None:
    first, second, third = ([make_record(number) for number in range(count)] for count in (1, 2, 3))
    write_trials(tmp_path, first, TASK_NAMES)
    write_trials(tmp_path, second, TASK_NAMES)
    with pytest.raises(kill_at_rename(renames, is_before)):
        write_trials(tmp_path, third, TASK_NAMES)
    is_done, is_kept = (renames, is_before) == (2, False), (renames, is_before) != (1, True)
    assert read_trials(tmp_path) == (third if is_done else second)
    assert read_trials(tmp_path, TRIALS_BACKUP_FILE) == (second if is_kept else first)


def test_only_a_local_folder_keeps_previous_trials(
    tmp_path: Path, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = fs.SubTreeFileSystem(str(tmp_path), fs.PyFileSystem(fs.FSSpecHandler(LocalFileSystem())))
    monkeypatch.setattr(records, "open_folder", lambda _: bucket)
    for count in (1, 2):
        write_trials("a bucket", [make_record(number) for number in range(count)], TASK_NAMES)
    assert [path.name for path in tmp_path.iterdir()] == ["trials.parquet"]
    assert len(read_trials("a bucket")) == 2


def test_truncated_trials_are_named(tmp_path: Path, make_record: MakeRecord) -> None:
    write_trials(tmp_path, [make_record(0)], TASK_NAMES)
    path = tmp_path / "trials.parquet"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"trials.parquet: truncated or damaged"):
        read_trials(tmp_path)


def test_foreign_table_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"trial": ["a"]}), tmp_path / "trials.parquet")
    with pytest.raises(ValueError, match=r"trials.parquet: table must be trials, got none$"):
        read_trials(tmp_path)


def test_description_is_read_back_with_its_version(tmp_path: Path) -> None:
    write_sweep(tmp_path / "sweep", {"name": "a", "packages": {"torch": "2"}})
    assert read_sweep(tmp_path / "sweep") == {"schema_version": 2, "name": "a", "packages": {"torch": "2"}}


def test_folder_without_a_description_is_no_sweep(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, reason in (
        (tmp_path, "it has no sweep.json"),
        (tmp_path / "file", "it has no sweep.json"),
        (tmp_path / "missing", "it does not exist"),
        ((tmp_path / "missing").as_uri(), "it does not exist"),
    ):
        assert one_line_error(read_sweep, path) == f"{path} is no sweep folder: {reason}"


def test_folder_of_sweeps_is_not_one_of_them(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write_sweep(tmp_path / name, {"name": name})
    for path in (tmp_path, tmp_path.as_uri(), f"{tmp_path}/"):
        place = str(path).rstrip("/")
        reason = f"it holds sweeps, one of which must be named, e.g. {place}/a"
        assert one_line_error(read_sweep, path) == f"{path} is no sweep folder: {reason}"


def test_sweep_of_nearly_this_name_is_suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write_sweep(tmp_path / "multitask-sweeps" / "mine", {"name": "mine"})
    (tmp_path / "empty" / "mine").mkdir(parents=True)
    hint = "(did you mean ~/multitask-sweeps/mine?)"
    assert one_line_error(read_sweep, "mine") == f"mine is no sweep folder: it does not exist {hint}"
    assert one_line_error(read_sweep, tmp_path / "empty" / "mine").endswith(f"it has no sweep.json {hint}")
    assert one_line_error(read_sweep, "other") == "other is no sweep folder: it does not exist"
    assert one_line_error(read_sweep, "mien").endswith(f"it does not exist {hint}")


def test_sweep_of_nearly_this_name_beside_the_folder_is_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    write_sweep(tmp_path / "losses_10", {"name": "losses_10"})
    write_sweep(tmp_path / "home" / "multitask-sweeps" / "losses", {"name": "losses"})
    for path in (tmp_path / "loses_10", (tmp_path / "loses_10").as_uri()):
        hint = f"(did you mean {str(path).removesuffix('loses_10')}losses_10?)"
        assert one_line_error(read_sweep, path) == f"{path} is no sweep folder: it does not exist {hint}"
    monkeypatch.chdir(tmp_path)
    assert one_line_error(read_sweep, "loses_10").endswith("(did you mean ./losses_10?)")
    assert one_line_error(read_sweep, "losses").endswith("(did you mean ~/multitask-sweeps/losses?)")
    assert one_line_error(read_sweep, "LOSSES_1").endswith("(did you mean ./losses_10?)")
    for place in ("/loses_10", "file:///loses_10"):  # the working directory is not searched
        assert one_line_error(read_sweep, place).endswith("does not exist (did you mean ~/multitask-sweeps/losses?)")


@pytest.mark.parametrize(("text", "got"), [("{}", "none"), ('{"schema_version": 1}', "1")])
def test_description_of_another_version_is_refused(tmp_path: Path, text: str, got: str) -> None:
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(ValueError) as caught:
        read_sweep(tmp_path)
    assert str(caught.value) == f"{tmp_path / 'sweep.json'}: schema version must be 2, got {got}"


@pytest.mark.parametrize("name", OBJECTS)
def test_description_with_another_type_than_an_object_is_refused(name: str, tmp_path: Path) -> None:
    nothing: tuple[dict[str, Any], ...] = ({}, {name: None}, {name: {}})
    for info in nothing:
        write_sweep(tmp_path, info)
        read_sweep(tmp_path)
    for wrong in ("text", ["a"], 1):
        write_sweep(tmp_path, {name: wrong})
        with pytest.raises(ValueError) as caught:
            read_sweep(tmp_path)
        assert str(caught.value).startswith(f"{tmp_path / 'sweep.json'}: {name} must be a JSON object, got ")


def test_best_trial_has_the_highest_score_and_has_not_failed(make_record: MakeRecord) -> None:
    low, high, other = (make_record(number, best={"overall": score}) for number, score in enumerate((0.5, 0.7, 0.7)))
    failed = make_record(3, best={"overall": 0.9}, status="failed")
    unscored = make_record(4, best={})
    assert best_trial([low, high, other, failed, unscored]) == high  # the first of equals
    assert best_trial([failed, unscored]) is None
    assert best_trial([]) is None
    of_task = make_record(5, best={"sst": 0.4, "overall": 0.1})
    assert best_trial([high, of_task], "sst") == of_task
