"""Tables of checked rows: unusable rows are counted, wrong labels refused with their place, content is hashed."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mtlib.data.row_labels import MAX_LISTED_LABELS, Layout, UnknownLabelsError
from mtlib.data.tables import (
    Table,
    check_folder,
    content_fingerprint,
    make_table,
    prefixed_table,
)
from mtlib.tasks import TASKS, Task, TaskFiles
from tests.one_line_error import one_line_error
from tests.task_tables import read_folder

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
    assert one_line_error(labelled) == "f.csv: there must be usable rows, got none"
    assert one_line_error(labelled, "", "").endswith("got 2 unusable, the first: f.csv:0: gold is blank")
    assert "got f.csv: 2 rows have gold 1, which" in one_line_error(labelled, "1", "1", mapping=("0:1",))


def test_an_id_that_must_be_unique_is_refused_where_it_is_again() -> None:
    rows = [("a", "x", "y", "1"), ("a", "z", "y", "1")]
    assert table_of(rows).ids == ["a", "a"]
    message = one_line_error(table_of, rows, has_unique_ids=True)
    assert message == "f.csv:1: column id must hold each id once, got a of f.csv:0 again"


@pytest.mark.parametrize(
    ("task", "label"),
    [(SST, "0"), (SST, "4.0"), (STS, "0.0"), (STS, "5"), (STS, "4.57142857142857"), (STS, str(5 * (1 + 2.0**-25)))],
)
def test_labels_up_to_the_ends_of_their_range_are_read(task: Task, label: str) -> None:
    assert labelled(label, task=task).labels.tolist() == [np.float32(label)]


@pytest.mark.parametrize(
    ("task", "label"),
    [(SST, "5"), (SST, "-1"), (SST, "2.5"), (QQP, "inf"), (STS, "5.0001"), (STS, "-0.1"), (STS, "nan"), (STS, "1_0")],
)
def test_a_wrong_label_is_refused_with_its_place(task: Task, label: str) -> None:
    low, high = task.label_range
    rule = f"must be a {'' if task.is_regression else 'whole '}number from {low:g} to {high:g}"
    assert one_line_error(labelled, "1", label, task=task) == f"f.csv:1: column gold {rule}, got '{label}'"


def test_a_label_in_words_of_own_files_may_get_a_name() -> None:
    own, hint = replace(QQP, files=TaskFiles(train="a.csv", dev="b.csv")), "; labels can be named: labels = [...]"
    assert hint in one_line_error(labelled, "true", task=own)
    assert hint not in one_line_error(labelled, "2", task=own)
    assert hint not in one_line_error(labelled, "true", task=QQP)


def test_all_unknown_labels_are_counted_and_the_first_is_shown_with_near_ones() -> None:
    mapping, task = ("good:1", "bad:0"), replace(QQP, labels=("bad", "good"))
    with pytest.raises(UnknownLabelsError) as caught:
        labelled("good", "goood", "x", "x", mapping=mapping, task=task, has_all_labels=True)
    assert str(caught.value) == (
        "unknown label in column gold of f.csv:1 'goood' ('python -m mtlib.data DIR' lists all 2 unknown labels); "
        "did you mean 'good'? known: good, bad"
    )
    assert (caught.value.counts, caught.value.known) == ({"goood": 1, "x": 2}, ("bad", "good"))


def test_mapped_labels_drop_other_rows_and_count_them_per_label() -> None:
    table = labelled("0", "1", "2", "1", "-1", "0.0", "", mapping=("0:1", " 2 : 0"))
    assert (table.ids, table.labels.tolist()) == (["id0", "id2", "id5"], [1, 0, 1])
    assert table.left_out == (
        "f.csv: 2 rows have gold 1, which labels does not name",
        "f.csv: 1 row has gold -1, which labels does not name",
    )
    assert (table.skipped, table.num_own_rows) == (("f.csv:6: gold is blank",), 3)


def test_words_are_mapped_literally_and_may_hold_colons() -> None:
    table = labelled("entailment", "a:b", "Entailment", "nan", mapping=("entailment:1", "a:b:0"))
    assert (table.labels.tolist(), len(table.left_out)) == ([1, 0], 2)


def test_a_wrong_mapping_is_refused() -> None:
    message = one_line_error(labelled, "1", "2", mapping=("1:1", "2:0.5"))
    assert message == "f.csv:1: column gold must be a whole number from 0 to 1, got '0.5'"
    message = one_line_error(labelled, "0", mapping=("0:1", "0.0:0"))
    assert message == "labels must name each value once, got 0:1, 0.0:0"


@pytest.mark.parametrize("more", [0, 3])
def test_dropped_labels_beyond_the_most_frequent_are_counted_together(more: int) -> None:
    others = [str(label) for label in range(1, MAX_LISTED_LABELS + more + 1)]
    left_out = labelled("0", *others, "1", mapping=("0:1",)).left_out
    assert left_out[0] == "f.csv: 2 rows have gold 1, which labels does not name"
    rest = [f"f.csv: {more} rows have another gold that labels does not name"] if more else []
    assert list(left_out[MAX_LISTED_LABELS:]) == rest


def test_several_labels_are_a_list_in_json_or_texts_with_commas() -> None:
    task = replace(QQP, kind="multilabel", label_range=(0, 2), labels=("red", "green", "blue, or cyan"), metric="")
    mapping = ("red:0", "green:1", "blue, or cyan:2", "0:0", "1:1", "2:2")
    found = labelled('["blue, or cyan", "red"]', "[]", "red, green", "2,0", "[1]", mapping=mapping, task=task)
    assert found.labels.dtype == np.float32
    assert found.labels.tolist() == [[1, 0, 1], [0, 0, 0], [1, 1, 0], [1, 0, 1], [0, 1, 0]]
    for cell in ("[red]", '[["red"]]'):
        assert "f.csv:0: a list of labels must be JSON" in one_line_error(labelled, cell, mapping=mapping, task=task)
    found = labelled("red", "red, pink", mapping=mapping, task=task)  # an extra source: other labels are left out
    assert found.left_out == ("f.csv: 1 row has gold pink, which labels does not name",)


def test_a_prefix_is_before_each_text() -> None:
    table = table_of([("a", "x", "y", "1")])
    assert prefixed_table(table, "q: ").texts == (["q: x"], ["q: y"])
    assert prefixed_table(table, "") is table


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


def test_a_missing_folder_or_file_is_named_before_any_is_read(tmp_path: Path) -> None:
    (tmp_path / "ids-sst-train.csv").write_text("wrong")
    (tmp_path / "sst-dev.csv").write_text("")
    assert one_line_error(read_folder, tmp_path, ["sst", "qqp"]) == (
        f"data folder {tmp_path} lacks ids-sst-dev.csv, quora-dev.csv, quora-train.csv; "
        "did you mean 'sst-dev.csv' for ids-sst-dev.csv? the folder holds ids-sst-train.csv, sst-dev.csv"
    )
    assert "lacks a.csv (tasks.a.dev); " in one_line_error(check_folder, tmp_path, ["a.csv"], {"a.csv": "tasks.a.dev"})
    (tmp_path / "data").mkdir()
    message = one_line_error(check_folder, tmp_path / "dat", [])
    assert message == f"data must be a folder, got {tmp_path}/dat, which is missing; did you mean {tmp_path}/data?"
    assert one_line_error(check_folder, tmp_path / "sst-dev.csv", []).endswith("which is a file")
