"""A selection is read back as written; anything invalid in its file is one line that names it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mtlib.config.schema import set_in_tree, to_dict
from mtlib.runtime.storage import join_location, open_folder
from results.records.files import read_json
from results.records.selection import (
    OWN_SWEEP,
    SELECTION_FILE,
    HeldOutScores,
    Member,
    MethodScore,
    RecordedSearch,
    Selection,
    TaskSelection,
    read_selection,
    write_selection,
)
from tests.one_line_error import one_line_error

EVALUATION = HeldOutScores(
    time="2024-05-02T10:00:00.000+00:00",
    scores={"sst": 0.5},
    intervals={"sst": (0.4, 0.6)},
    num_examples={"sst": 120},
)


def build_score(name: str, cross_fitted: float = 0.5, **changes: Any) -> MethodScore:
    values = {"in_sample": 0.6, "standard_error": 0.01, "interval": (0.4, 0.6), "num_models": 2, "lead": 0.0}
    return MethodScore(**{"name": name, "cross_fitted": cross_fitted, "lead_interval": (0.0, 0.0), **values, **changes})


def build_task(**changes: Any) -> TaskSelection:
    values: dict[str, Any] = {
        "method": "topk",
        "members": (Member(sweep="s3://mine", trial="0001-r0", epoch=2, weight=1.0),),
        "methods": (build_score("single"), build_score("topk", 0.55)),
        "num_examples": 400,
        "num_candidates": 12,
        "num_trials": 4,
    }
    return TaskSelection(**{**values, **changes})


def build_selection(**changes: Any) -> Selection:
    """One task with a named method, and one selected automatically; two evaluations."""
    both = tuple(
        Member(sweep="/sweeps/mine", trial=f"000{n}-r0", epoch=n, weight=weight) for n, weight in ((1, 0.7), (2, 0.3))
    )
    values: dict[str, Any] = {
        "created": "2024-05-01T10:00:00.000+00:00",
        "command": "python results/selector.py mine",
        "sweeps": {"/sweeps/mine": "fingerprint", "s3://mine": "fingerprint"},
        "num_folds": 5,
        "num_repeats": 2,
        "seed": 3,
        "max_models": 10,
        "tasks": {"sst": build_task(), "sts": build_task(members=both, automatic=build_score("auto", 0.52))},
        "evaluations": (EVALUATION, replace(EVALUATION, scores={"sst": 0.25})),
    }
    return Selection(**{**values, **changes})


def reading_error(folder: Path) -> str:
    """The error of reading a selection, without the file's name, with which it begins."""
    message, name = one_line_error(read_selection, folder), f"{folder}/{SELECTION_FILE}: "
    assert message.startswith(name)
    return message.removeprefix(name)


@pytest.mark.parametrize("selection", [build_selection(), build_selection(evaluations=(), tasks={})])
def test_selection_is_read_back_as_written_and_replaced(selection: Selection, tmp_path: Path) -> None:
    write_selection(tmp_path / "new", build_selection(seed=4))
    write_selection(tmp_path / "new", selection)
    assert read_selection(tmp_path / "new") == selection
    assert read_selection((tmp_path / "new").as_uri()) == selection
    assert [path.name for path in (tmp_path / "new").iterdir()] == [SELECTION_FILE]


@pytest.mark.parametrize("name", ["mine", "größer", 'a "b"', "mine+1"])
def test_written_file_names_nothing_of_its_own_sweep_by_its_place(name: str, tmp_path: Path) -> None:
    own, beside = str(tmp_path / name), str(tmp_path / f"{name}-students")
    members = tuple(Member(sweep=sweep, trial="0001-r0", epoch=2, weight=0.5) for sweep in (own, beside))
    lost = {f"trial 0003-r0 of {own}": f"{own}/trials/0003-r0/epochs/0001.parquet: damaged"}
    search = RecordedSearch(search="grid", scheduler="none", num_configurations=2)
    selection = build_selection(
        command=f"python results/selector.py {own} {beside}",
        sweeps={own: "a", beside: "b"},
        searches={own: search, beside: search},
        tasks={"sst": build_task(members=members, lost=lost)},
    )
    for folder in (tmp_path / name, (tmp_path / name).as_uri()):
        write_selection(folder, selection)
        tree = json.loads((tmp_path / name / SELECTION_FILE).read_text())
        assert list(tree["sweeps"]) == list(tree["searches"]) == [OWN_SWEEP, beside]
        assert [member["sweep"] for member in tree["tasks"]["sst"]["members"]] == [OWN_SWEEP, beside]
        lines = {"trial 0003-r0 of .": "./trials/0003-r0/epochs/0001.parquet: damaged"}
        assert (tree["tasks"]["sst"]["lost"], tree["command"]) == (lines, selection.command), "a command is as typed"
        assert replace(read_selection(folder), tasks={}) == replace(selection, tasks={})
    now = (tmp_path / name).rename(tmp_path / "renamed")
    found = read_selection(now)
    assert list(found.sweeps) == list(found.searches) == [str(now), beside]
    assert [member.sweep for member in found.tasks["sst"].members] == [str(now), beside]


def test_sweep_in_a_bucket_is_not_named_by_its_uri(bucket: str) -> None:
    own, other = join_location(bucket, "mine"), join_location(bucket, "mine-2")
    write_selection(own, build_selection(sweeps={own: "a", other: "b"}))
    assert OWN_SWEEP in read_json(open_folder(own), SELECTION_FILE)["sweeps"]
    assert list(read_selection(own).sweeps) == [own, other]


def test_folder_without_a_selection_names_the_command(tmp_path: Path) -> None:
    for folder, reason in ((tmp_path, "it has no sweep.json"), (tmp_path / "gone", "it does not exist")):
        message = one_line_error(read_selection, folder)
        assert message.startswith(f"{folder} must hold selection.json (make one with python results/selector.py)")
        assert message.endswith(reason)
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"version": 2', "truncated or damaged: "),
        ('{"version": 4, "new": []}', "version must be 3 (make it again with python results/selector.py), got 4"),
        ("{}", "version must be 3 (make it again with python results/selector.py), got none"),
    ],
)
def test_damaged_file_or_another_version_is_named(text: str, line: str, tmp_path: Path) -> None:
    (tmp_path / SELECTION_FILE).write_text(text)
    assert reading_error(tmp_path).startswith(line)


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("tasks.stz", to_dict(build_task()), "unknown task 'stz'; did you mean 'sts'? known: sts, sst, qqp"),
        ("tasks.sst.method", "topkk", "tasks.sst: unknown method 'topkk'; did you mean 'topk'? known: topk, single"),
        ("tasks.sst.members", [], "tasks.sst: a selection must have members, got none"),
        ("tasks.sst.members.0.weight", float("nan"), "tasks.sst.members.0.weight must be finite, got nan"),
        ("tasks.sts.automatic.lead", "x", "tasks.sts.automatic.lead must be a number, got 'x'"),
        ("evaluations.1.scores.sst", "x", "evaluations.1.scores.sst must be a number, got 'x'"),
    ],
)
def test_invalid_value_is_named_with_its_path(key: str, value: Any, line: str, tmp_path: Path) -> None:
    tree = json.loads(json.dumps(to_dict(build_selection())))
    set_in_tree(tree, key, value, open_groups=("tasks",))
    (tmp_path / SELECTION_FILE).write_text(json.dumps(tree))
    assert reading_error(tmp_path) == line


@pytest.mark.parametrize(
    ("interval", "is_significant"),
    [((0.001, 0.1), True), ((-0.1, -0.001), True), ((0.0, 0.1), False), ((-0.1, 0.0), False)],
)
def test_lead_is_significant_where_its_interval_excludes_0(interval: tuple[float, float], is_significant: bool) -> None:
    assert build_score("topk", lead_interval=interval).is_significant is is_significant
