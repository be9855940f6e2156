"""A trial survives its row of the table, and the sweep's description is read back; what does not fit is one line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from results.records.schemas import SCHEMA_VERSION
from results.records.trials import (
    OBJECTS,
    STATUSES,
    SWEEP_COPY,
    SWEEP_FILE,
    TrialRecord,
    best_trial,
    damage_of_sweep_file,
    read_sweep,
    record_from_row,
    row_from_record,
    write_sweep,
)
from tests.one_line_error import one_line_error

MakeRecord = Callable[..., TrialRecord]
TASK_NAMES = ("sst", "qqp", "sts")


@pytest.mark.parametrize("status", STATUSES)
def test_trial_survives_its_row(make_record: MakeRecord, status: str) -> None:
    params = {"smart.weight": 0.1, "smart.mode": "paper", "tasks.sst.batch_size": 8, "x": None, "y": [1, 2], "z": True}
    written = make_record(1, 2, status, params=params, best={"qqp": 0.1 + 0.2}, error="line one\nline two", host=None)
    found = record_from_row(row_from_record(written, TASK_NAMES), TASK_NAMES)
    assert found == written
    assert list(found.params) == list(params)


def test_another_status_is_refused(make_record: MakeRecord) -> None:
    with pytest.raises(ValueError, match=r"^status must be one of queued, .*, got done$"):
        make_record(0, status="done")


def test_description_is_read_back_with_its_version(tmp_path: Path) -> None:
    write_sweep(tmp_path / "sweep", {"name": "a", "packages": {"torch": "2"}})
    assert read_sweep(tmp_path / "sweep") == {"schema_version": SCHEMA_VERSION, "name": "a", "packages": {"torch": "2"}}


@pytest.mark.parametrize("damage", [b"", b"{", b"null"])
def test_damaged_description_is_read_from_its_copy(tmp_path: Path, damage: bytes) -> None:
    write_sweep(tmp_path, {"name": "a"})
    wanted = read_sweep(tmp_path)
    assert damage_of_sweep_file(tmp_path) is None
    (tmp_path / SWEEP_FILE).write_bytes(damage)
    assert read_sweep(tmp_path) == wanted
    assert str(damage_of_sweep_file(tmp_path)).startswith(f"{tmp_path / SWEEP_FILE}: ")
    (tmp_path / SWEEP_COPY).write_bytes(damage)
    assert one_line_error(read_sweep, tmp_path).startswith(f"{tmp_path / SWEEP_FILE}: ")


def test_changed_number_in_the_description_is_damage(tmp_path: Path) -> None:
    write_sweep(tmp_path, {"seed": 1})
    path = tmp_path / SWEEP_FILE
    path.write_text(path.read_text().replace('"seed": 1', '"seed": 3'))
    assert read_sweep(tmp_path)["seed"] == 1
    assert str(damage_of_sweep_file(tmp_path)).endswith("truncated or damaged: its checksum is wrong")


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
    assert str(caught.value) == f"{tmp_path / 'sweep.json'}: schema version must be {SCHEMA_VERSION}, got {got}"


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
