"""Records of examples: held-out rows are complete and detect other rows; groups are those that texts connect."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mtlib.data.tables import Table
from mtlib.tasks import TASKS
from results.records.examples import (
    HOLD_OUT_FILE,
    HoldOutRecord,
    check_held_out_rows,
    held_out_rows,
    read_groups,
    read_hold_out,
    read_slices,
    slices_path,
    write_groups,
)
from results.records.schemas import SCHEMA_VERSION
from results.stats.groups import text_groups_of
from tests.one_line_error import one_line_error


def table_of(task: str, *ids: str) -> Table:
    return Table(
        task=task,
        split="held",
        path=Path("x.csv"),
        ids=list(ids),
        places=[f"train:{row}" for row in range(len(ids))],
        texts=([f"text {name}" for name in ids],),
        labels=np.zeros(len(ids), dtype=np.float32),
        num_own_rows=len(ids),
        skipped=(),
    )


HELD = {"sst": table_of("sst", "a", "007", "1e5"), "sts": table_of("sts", "é")}
RECORD = HoldOutRecord(share=0.1, tasks=held_out_rows(HELD))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "truncated or damaged"),
        ('{"schema_version": 1, "share": 0.1, "tasks": {}}', f"schema version must be {SCHEMA_VERSION}, got 1"),
        (f'{{"schema_version": {SCHEMA_VERSION}, "tasks": {{}}}}', "share is missing"),
        (
            f'{{"schema_version": {SCHEMA_VERSION}, "share": 0.1, "tasks": {{"a": {{"ids": [1]}}}}}}',
            "tasks.a.ids.0 must be text",
        ),
    ],
)
def test_missing_or_damaged_record_is_named_with_its_fault(tmp_path: Path, text: str, fault: str) -> None:
    message = one_line_error(read_hold_out, tmp_path)
    assert message.startswith("a sweep must have been run with --hold-out F")
    (tmp_path / HOLD_OUT_FILE).write_text(text)
    assert one_line_error(read_hold_out, tmp_path).startswith(f"{tmp_path}/hold_out.json: {fault}")


@pytest.mark.parametrize(
    "changes",
    [
        {"ids": ["a", "7", "1e5"]},
        {"texts": (["text a", "text 007", "Text 1e5"],)},
        {"labels": np.array([0, 0, 1], dtype=np.float32)},
    ],
)
def test_other_rows_are_refused_by_task(changes: dict[str, Any]) -> None:
    check_held_out_rows(RECORD, HELD)
    check_held_out_rows(RECORD, {"sts": HELD["sts"]})
    changed = dataclasses.replace(HELD["sst"], **changes)
    message = one_line_error(check_held_out_rows, RECORD, {**HELD, "sst": changed, "qqp": table_of("qqp", "a")})
    assert message.endswith("got others of sst, qqp")


def pair_table(pairs: Sequence[tuple[str, str]], ids: Sequence[str] = ()) -> Table:
    """Dev rows of two texts each."""
    table = table_of("qqp", *(ids or map(str, range(len(pairs)))))
    return dataclasses.replace(table, split="dev", texts=tuple(map(list, zip(*pairs, strict=True))))


def partition(groups: Sequence[int]) -> set[frozenset[int]]:
    """Groups as sets of rows."""
    return {frozenset(row for row, own in enumerate(groups) if own == group) for group in groups}


def connected(pairs: Sequence[tuple[str, str]]) -> set[frozenset[int]]:
    """Sets of rows, merged as long as two of them have a text in common."""
    found = [frozenset({row}) for row in range(len(pairs))]
    while True:
        texts = [{text for row in rows for text in pairs[row]} for rows in found]
        hits = [(i, j) for i in range(len(found)) for j in range(i) if texts[i] & texts[j]]
        if not hits:
            return set(found)
        i, j = hits[0]
        found = [rows for place, rows in enumerate(found) if place not in (i, j)] + [found[i] | found[j]]


@pytest.mark.parametrize("num_texts", [4, 40, 80])
def test_groups_are_what_shared_texts_connect(num_texts: int, tmp_path: Path) -> None:
    drawn = np.random.default_rng(num_texts).integers(num_texts, size=(40, 2))
    pairs = [(f"text {first}", f"text {second}") for first, second in drawn]
    write_groups(tmp_path, {"qqp": pair_table(pairs)})
    groups = read_groups(tmp_path, TASKS["qqp"], list(map(str, range(40))))
    assert groups is not None
    assert partition(groups.tolist()) == connected(pairs)


def test_case_space_and_equal_ids_connect_and_ids_name_rows_in_any_order(tmp_path: Path) -> None:
    pairs = [("A b", "c"), ("d", "a  B"), ("e", "f"), ("g", "h"), ("id", "i")]
    write_groups(tmp_path, {"qqp": pair_table(pairs, ["x", "y", "id", "x", "X"])})
    groups = read_groups(f"file://{tmp_path}", TASKS["qqp"], ["X", "id", "y", "x"])
    assert groups is not None
    assert partition(groups.tolist()) == {frozenset({0}), frozenset({1}), frozenset({2, 3})}


def test_unrecorded_examples_have_no_groups(tmp_path: Path) -> None:
    assert read_groups(tmp_path, TASKS["qqp"], ["0"]) is None
    write_groups(tmp_path, {"qqp": pair_table([("a", "b"), ("c", "d")])})
    assert read_groups(tmp_path, TASKS["qqp"], ["0"]) is not None
    assert read_groups(tmp_path, TASKS["qqp"], ["0", "2"]) is None
    assert read_groups(tmp_path, TASKS["sts"], ["0"]) is None


def test_groups_of_the_data_connect_rows_and_rows_of_their_own_change_nothing(tmp_path: Path) -> None:
    pairs = [("a", "b"), ("b", "c"), ("d", "e"), ("f", "g"), ("h", "i")]
    ids, table = list(map(str, range(5))), pair_table(pairs)
    write_groups(tmp_path, {"qqp": table})
    before = read_groups(tmp_path, TASKS["qqp"], ids)
    for groups, expected in (
        ([f"\0{row}" for row in range(5)], [{0, 1}, {2}, {3}, {4}]),
        (["\0x", "", "\0x", "", ""], [{0, 1, 2}, {3}, {4}]),
    ):
        grouped = dataclasses.replace(table, groups=(groups,))
        write_groups(tmp_path, {"qqp": grouped})
        found = read_groups(tmp_path, TASKS["qqp"], ids)
        assert found is not None
        assert partition(found.tolist()) == set(map(frozenset, expected))
        assert partition(text_groups_of(grouped).tolist()) == set(map(frozenset, expected))
        assert "x" in "".join(groups) or np.array_equal(found, before if before is not None else ())


def test_slices_are_read_by_ids_and_the_first_of_equal_ids_counts(tmp_path: Path) -> None:
    table = dataclasses.replace(
        table_of("sst", "a", "b", "a"), slices={"source": ["web", "", "tv"], "é": ["1", "2", "3"]}
    )
    write_groups(tmp_path, {"sst": table, "sts": table_of("sts", "a")})
    assert read_slices(tmp_path, "sst", ["b", "a", "a"]) == {"source": ["", "web", "web"], "é": ["2", "1", "1"]}
    assert read_slices(tmp_path, "sst", []) == {"source": [], "é": []}
    assert read_slices(tmp_path, "sst", ["a", "c"]) is None
    assert read_slices(tmp_path, "sts", ["a"]) is None
    path = tmp_path / slices_path("sst")
    path.write_bytes(path.read_bytes()[:-9])
    assert one_line_error(read_slices, tmp_path, "sst", ["a"]).startswith(f"{path}: truncated or damaged")
    path.write_bytes((tmp_path / "examples" / "sst-dev.parquet").read_bytes())
    assert one_line_error(read_slices, tmp_path, "sst", ["a"]).startswith(f"{path}: table must be slices, got examples")
