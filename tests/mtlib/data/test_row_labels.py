"""Labels of rows from their cells, and columns of 0 and 1 in every format."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mtlib.data.__main__ import config_of
from mtlib.data.load import data_tasks, read_data
from mtlib.data.row_labels import MAX_LISTED_LABELS, LabelReader, Layout
from mtlib.tasks import Task, TaskFiles
from tests.mtlib.data.test_tables import QQP, SST, STS, labelled
from tests.one_line_error import one_line_error

COLUMNS = ("toxic", "insult", "threat")
TASK = Task(
    name="tone",
    title="Tone",
    kind="multilabel",
    label_range=(0, 2),
    labels=COLUMNS,
    text_columns=("text",),
    label_column="",
    indicator_columns=COLUMNS,
)
TASK_FILE = """
[tasks.tone]
kind = "multilabel"
texts = ["text"]
label = ["toxic", "insult", "threat"]
train = "train.{suffix}"
dev = "dev.{suffix}"
"""


def read_one(*cells: str) -> Sequence[float]:
    """The label in the cells of a row."""
    layout = Layout(id_column="", text_columns=("text",), indicator_columns=COLUMNS)
    label = LabelReader(TASK, layout).read("f.csv:7", cells)
    assert isinstance(label, np.ndarray)
    found: Sequence[float] = label.tolist()
    return found


def test_an_indicator_is_0_or_1_in_any_spelling() -> None:
    assert read_one("0", "1", "1.0") == [0, 1, 1]
    assert read_one("true", "False", "TRUE") == [1, 0, 1]
    for wrong in ("2", "-1", "0.5", "yes"):
        message = one_line_error(read_one, "0", "1", wrong)
        assert message == f"f.csv:7: column threat must be 0 or 1, got {wrong}"


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_columns_of_0_and_1_are_several_labels(suffix: str, tmp_path: Path) -> None:
    labels = np.array([[0, 0, 1], [1, 1, 0], [0, 0, 0]])
    table = pd.DataFrame({"text": ["a", "b", "c"], **dict(zip(COLUMNS, labels.T, strict=True)), "other": 5})
    table = table[["insult", "text", "other", "threat", "toxic"]]
    for split in ("train", "dev"):
        path = tmp_path / f"{split}.{suffix}"
        if suffix == "parquet":
            table.to_parquet(path)
        elif suffix == "jsonl":
            path.write_text("".join(f"{json.dumps(row)}\n" for row in table.astype(object).to_dict("records")))
        else:
            table.to_csv(path, sep="\t" if suffix == "tsv" else ",", index=False)
    (tmp_path / "tasks.toml").write_text(TASK_FILE.format(suffix=suffix))
    task = data_tasks(tmp_path)["tone"]
    assert (task.class_names, task.num_logits) == (COLUMNS, 3)
    found = read_data(config_of(data_tasks(tmp_path)), tmp_path)["tone", "train"]
    np.testing.assert_array_equal(found.labels, labels)


def test_a_row_with_a_blank_indicator_is_skipped_and_named(tmp_path: Path) -> None:
    (tmp_path / "tasks.toml").write_text(TASK_FILE.format(suffix="csv"))
    for split in ("train", "dev"):
        (tmp_path / f"{split}.csv").write_text("text,toxic,insult,threat\na,1,,0\nb,0,0,0\n")
    found = read_data(config_of(data_tasks(tmp_path)), tmp_path)["tone", "dev"]
    assert (found.texts, found.skipped) == ((["b"],), ("dev.csv:2: insult is blank",))


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


def test_an_unknown_label_is_shown_with_near_ones() -> None:
    mapping, task = ("good:1", "bad:0"), replace(QQP, labels=("bad", "good"))
    message = one_line_error(labelled, "good", "goood", mapping=mapping, task=task, has_all_labels=True)
    assert message == "unknown label in column gold of f.csv:1 'goood'; did you mean 'good'? known: good, bad"


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


def test_lists_with_a_0_or_a_1_for_every_label_are_indicators() -> None:
    task = replace(QQP, kind="multilabel", label_range=(0, 2), labels=("red", "green", "blue"), metric="")
    mapping = ("red:0", "green:1", "blue:2", "0:0", "1:1", "2:2")
    found = labelled("[0, 1, 0]", "[1, 1.0, 0]", "[0, 0, 0]", mapping=mapping, task=task)
    assert found.labels.tolist() == [[0, 1, 0], [1, 1, 0], [0, 0, 0]]
    found = labelled("[0, 1, 2]", "[1, 0]", mapping=mapping, task=task)
    assert found.labels.tolist() == [[1, 1, 1], [1, 1, 0]]
    for cells in (("[0, 1, 0]", "[1]"), ("[2, 2]",), ("red, red",)):
        message = one_line_error(labelled, *cells, mapping=mapping, task=task)
        rule = "f.csv:0: a list of labels must name each label once, or in all rows have a 0 or a 1 for each label"
        assert message == f"{rule}, got {cells[0]}"


def test_lists_of_two_labels_are_indicators_unless_they_are_all_the_same() -> None:
    task = replace(QQP, kind="multilabel", label_range=(0, 1), labels=("red", "green"), metric="")
    mapping = ("red:0", "green:1", "0:0", "1:1")
    assert labelled("[0, 1]", "[1, 1]", mapping=mapping, task=task).labels.tolist() == [[0, 1], [1, 1]]
    assert labelled("[0, 1]", "[1]", mapping=mapping, task=task).labels.tolist() == [[1, 1], [0, 1]]
    message = one_line_error(labelled, "[0, 1]", "[0, 1]", mapping=mapping, task=task)
    assert message.startswith("f.csv: column gold must have lists of names")


def test_the_choices_of_label_studio_are_a_list() -> None:
    task = replace(QQP, kind="multilabel", label_range=(0, 1), labels=("red", "green"), metric="")
    found = labelled('{"choices": ["green"]}', "red", mapping=("red:0", "green:1"), task=task)
    assert found.labels.tolist() == [[0, 1], [1, 0]]


def test_a_list_of_one_is_a_single_label() -> None:
    assert labelled('["1"]', "0", "[1]").labels.tolist() == [1, 0, 1]
    assert "got '[0, 1]'" in one_line_error(labelled, "[0, 1]")


def left_out_by(*leave_out: str) -> Layout:
    layout = Layout(id_column="", text_columns=("text",), label_column="gold", leave_out=leave_out)
    return replace(layout, labels=("0:0", "1:1"), has_all_labels=True)


def test_labels_to_leave_out_are_no_mistake_and_are_counted() -> None:
    reader = LabelReader(QQP, left_out_by("-", "2"))
    assert [reader.read("f.csv:1", [cell]) for cell in ("-", "0", "2.0", "-")] == [None, 0, None, None]
    assert reader.unnamed == {"-": 2, "2.0": 1}
    assert "unknown label in column gold of f.csv:1 '3'" in one_line_error(reader.read, "f.csv:1", ["3"])


def test_labels_that_begin_at_1_get_what_to_paste() -> None:
    task = replace(QQP, files=TaskFiles(train="a.csv", dev=0.1), labels=("no", "yes"))
    layout = replace(left_out_by(), labels=("no:0", "yes:1"))
    message = one_line_error(LabelReader(task, layout).read, "f.csv:1", ["2"])
    assert message.endswith('; if labels begin at 1: labels = {1 = "no", 2 = "yes"}')
    assert "begin at 1" not in one_line_error(LabelReader(task, layout).read, "f.csv:1", ["3"])
