"""Tables of checked rows: unusable rows are counted, wrong labels refused with their place, content is hashed."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mtlib.data.row_labels import Layout
from mtlib.data.tables import (
    Table,
    check_folder,
    connecting_columns,
    content_fingerprint,
    make_table,
)
from mtlib.tasks import TASKS, DevFrom, Task, TaskFiles
from tests.one_line_error import one_line_error

SST, QQP, STS = (TASKS[name] for name in ("sst", "qqp", "sts"))


def table_of(rows: Sequence[Sequence[str]], task: Task = QQP, labels: tuple[str, ...] = (), **layout: Any) -> Table:
    """A table of rows of cells: id, texts, label."""
    columns = Layout(id_column="id", text_columns=task.text_columns, label_column="gold", labels=labels, **layout)
    return make_table(task, "train", columns, Path("f.csv"), [(f"f.csv:{n}", list(row)) for n, row in enumerate(rows)])


def labelled(*labels: str, mapping: tuple[str, ...] = (), task: Task = QQP, **layout: Any) -> Table:
    """A table of rows with these labels."""
    texts = ["a man"] * len(task.text_columns)
    return table_of([(f"id{row}", *texts, label) for row, label in enumerate(labels)], task, mapping, **layout)


def test_cells_become_columns_and_rows_with_blank_ones_are_reported_with_their_place() -> None:
    rows = [("007", "What?", "Why?", "1.0"), ("b", "What?", "", ""), ("c", "A", "B", ""), ("d", "Who?", "How?", "0")]
    table = table_of([*rows, ("", "", "", "")])
    assert (table.task, table.split, table.ids, table.num_own_rows) == ("qqp", "train", ["007", "d"], 2)
    assert (table.texts, table.places) == ((["What?", "Who?"], ["Why?", "How?"]), ["f.csv:0", "f.csv:3"])
    assert table.labels.dtype == np.float32
    assert table.labels.tolist() == [1, 0]
    assert table.skipped == (
        "f.csv:1: sentence2 and gold are blank",
        "f.csv:2: gold is blank",
        "f.csv:4: id and sentence1 and sentence2 and gold are blank",
    )


def test_a_table_needs_usable_rows() -> None:
    assert one_line_error(labelled, "", "").endswith("got 2 unusable, the first: f.csv:0: gold is blank")


def test_an_id_that_must_be_unique_is_refused_where_it_is_again() -> None:
    rows = [("a", "x", "y", "1"), ("a", "z", "y", "1")]
    assert table_of(rows).ids == ["a", "a"]
    message = one_line_error(table_of, rows, has_unique_ids=True)
    assert message == "f.csv:1: column id must hold each id once, got a of f.csv:0 again"


def test_the_fingerprint_depends_on_content_alone() -> None:
    rows = [("a", "x", "y", "0"), ("b", "z", "y", "1")]
    table = table_of(rows)
    tables = {("qqp", "train"): table, ("qqp", "dev"): table_of(rows[:1])}
    moved = {key: replace(one, path=Path("g.csv"), skipped=("x",)) for key, one in reversed(tables.items())}
    assert content_fingerprint(tables) == content_fingerprint(moved)
    others = [table_of([*rows[:1], row]) for row in (("c", *rows[1][1:]), ("b", "z", "yy", "1"), ("b", "z", "y", "0"))]
    others += [replace(table, num_own_rows=1), replace(table, task="snli")]
    prints = {content_fingerprint({("qqp", "train"): one}) for one in (table, *others)}
    prints |= {content_fingerprint({key: table}) for key in (("snli", "train"), ("qqp", "dev"))}
    assert len(prints) == 8


def test_a_missing_folder_is_named_with_a_near_one(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    message = one_line_error(check_folder, tmp_path / "dat", [])
    assert message == f"data must be a folder, got {tmp_path}/dat, which is missing; did you mean {tmp_path}/data?"


FURTHER: dict[str, Any] = {
    "dev_from": DevFrom(column="day", after="2024-06-01"),
    "group_columns": ("doc",),
    "slice_columns": ("source",),
}


def test_groups_and_slices_may_be_blank_and_a_date_must_not() -> None:
    rows = [
        ("a", "x", "y", "2024-06-02", "1", "web", "1"),
        ("b", "v", "w", "2024-05-02", "", "", "0"),
        ("c", "t", "", "", "", "", "0"),
    ]
    table = table_of(rows, **FURTHER)
    assert (table.ids, table.slices, table.skipped) == (
        ["a", "b"],
        {"source": ["web", ""]},
        ("f.csv:2: sentence2 and day are blank",),
    )
    assert table.is_later is not None
    assert table.is_later.tolist() == [True, False]
    first, second, groups = connecting_columns(table)
    assert (first, second) == (["x", "v"], ["y", "w"])
    assert (groups[0].startswith("\0"), groups[1]) == (True, "v"), "a row without a group has its own text there"
    plain = table_of([(*row[:3], row[-1]) for row in rows])
    assert (plain.groups, plain.slices, plain.is_later) == ((), {}, None)
    assert content_fingerprint({("qqp", "train"): table}) == content_fingerprint({("qqp", "train"): plain})


def test_a_cell_that_is_no_date_is_refused_with_its_place() -> None:
    message = one_line_error(table_of, [("a", "x", "y", "June", "1", "web", "1")], **FURTHER)
    assert message == "f.csv:0: column day must be a date or a number, as 2024-06-01 is, got 'June'"


def test_groups_of_columns_and_of_other_files_are_apart() -> None:
    files = [TaskFiles(train=name, dev=0.1) for name in ("a.csv", "a.csv", "b.csv")]
    rows = [("a", "x", "y", "5", "5", "1")]
    tables = [table_of(rows, replace(QQP, files=own), group_columns=("doc", "author")) for own in files]
    assert tables[0].groups == tables[1].groups
    assert len({group for table in tables for (group,) in table.groups}) == 4
