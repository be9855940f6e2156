"""A trial survives its row of the table, and the sweep's description is read back; what does not fit is one line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from results.records.trials import (
    STATUSES,
    SWEEP_COPY,
    SWEEP_FILE,
    TrialRecord,
    best_by_tasks,
    best_trial,
    damage_of_sweep_file,
    read_sweep,
    record_from_row,
    require_trial,
    row_from_record,
    write_sweep,
)
from tests.one_line_error import one_line_error

MakeRecord = Callable[..., TrialRecord]
TASK_NAMES = ("sst", "qqp", "sts")


def test_trial_survives_its_row(make_record: MakeRecord) -> None:
    params = {"smart.weight": 0.1, "smart.mode": "paper", "tasks.sst.batch_size": 8, "x": None, "y": [1, 2], "z": True}
    changes = {"params": params, "best": {"qqp": 0.1 + 0.2}, "error": "line one\nline two", "host": None}
    for status in STATUSES:
        written = make_record(1, 2, status, **changes)
        found = record_from_row(row_from_record(written, TASK_NAMES), TASK_NAMES)
        assert found == written
        assert list(found.params) == list(params)
    message = one_line_error(make_record, 0, status="done")
    assert message.startswith("status must be one of queued, ")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda _: "{", "truncated or damaged"),
        (lambda _: "null", "must be a JSON object"),
        (lambda text: text.replace('"seed": 1', '"seed": 3'), "truncated or damaged: its checksum is wrong"),
    ],
)
def test_damaged_description_is_read_from_its_copy(tmp_path: Path, damage: Callable[[str], str], reason: str) -> None:
    write_sweep(tmp_path, {"seed": 1})
    wanted = read_sweep(tmp_path)
    assert damage_of_sweep_file(tmp_path) is None
    path, copy = tmp_path / SWEEP_FILE, tmp_path / SWEEP_COPY
    path.write_text(damage(path.read_text()))
    assert read_sweep(tmp_path) == wanted
    assert str(damage_of_sweep_file(tmp_path)).startswith(f"{path}: {reason}")
    write_sweep(tmp_path, read_sweep(tmp_path))
    assert damage_of_sweep_file(tmp_path) is None
    for name in (path, copy):
        name.write_text(damage(name.read_text()))
    assert one_line_error(read_sweep, tmp_path).startswith(f"{path}: {reason}")


def test_folder_that_is_no_sweep_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    write_sweep(tmp_path / "sweeps" / "b", {})
    write_sweep(tmp_path / "sweeps" / "a", {})
    for path, reason in (
        (tmp_path, "it has no sweep.json"),
        (tmp_path / "file", "it has no sweep.json"),
        ((tmp_path / "missing").as_uri(), "it does not exist"),
        (f"{tmp_path}/sweeps/", f"it holds sweeps, one of which must be named, e.g. {tmp_path}/sweeps/a"),
    ):
        assert one_line_error(read_sweep, path) == f"{path} is no sweep folder: {reason}"


def test_sweep_of_nearly_this_name_is_suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    write_sweep(tmp_path / "losses_10", {})
    write_sweep(tmp_path / "home" / "multitask-sweeps" / "losses", {})
    (tmp_path / "empty" / "losses").mkdir(parents=True)
    for path, near in (
        (tmp_path / "loses_10", f"{tmp_path}/losses_10"),
        ((tmp_path / "loses_10").as_uri(), f"{tmp_path.as_uri()}/losses_10"),
        ("loses_10", "./losses_10"),
        ("losses", "~/multitask-sweeps/losses"),
        (tmp_path / "empty" / "losses", "~/multitask-sweeps/losses"),
        ("/loses_10", "~/multitask-sweeps/losses"),  # the working directory is not searched
    ):
        assert one_line_error(read_sweep, path).endswith(f"(did you mean {near}?)")
    assert one_line_error(read_sweep, "other") == "other is no sweep folder: it does not exist"
    (tmp_path / "losses_1").mkdir()  # it is there: another name was hardly meant
    assert one_line_error(read_sweep, "losses_1") == "losses_1 is no sweep folder: it has no sweep.json"


def test_best_trial_has_the_highest_score_and_has_not_failed(make_record: MakeRecord) -> None:
    low, high, other = (make_record(number, best={"overall": score}) for number, score in enumerate((0.5, 0.7, 0.7)))
    failed = make_record(3, best={"overall": 0.9}, status="failed")
    unscored = make_record(4, best={})
    assert best_trial([low, high, other, failed, unscored]) == high  # the first of equals
    assert best_trial([failed, unscored]) is None
    assert best_trial([]) is None
    of_task = make_record(5, best={"sst": 0.4, "overall": 0.1})
    assert best_trial([high, of_task], "sst") == of_task


def test_an_unknown_trial_is_refused_with_the_nearest_name() -> None:
    require_trial("0001-r0", ["0000-r0", "0001-r0"])
    assert one_line_error(require_trial, "0001-r", ["0000-r0", "0001-r0"]).startswith("unknown trial '0001-r'; did you")
    assert one_line_error(require_trial, 1, ["0001-r0"]).endswith("got int")


def test_overall_scores_are_compared_among_trials_of_the_same_tasks(make_record: MakeRecord) -> None:
    alone = make_record(0, best={"sst": 0.9, "overall": 0.9})
    both, worse = (
        make_record(number, best={"sst": 0.5, "qqp": 0.5, "overall": 0.6 - number / 10}) for number in (1, 2)
    )
    assert best_by_tasks([alone, worse, both]) == [both, alone]
    assert best_trial([alone, worse, both]) == both
    assert best_by_tasks([alone, worse, both], "sst") == [alone]
