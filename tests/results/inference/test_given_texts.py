"""Texts of Python programs are read by names or by place, in the order of a task's columns."""

import csv
import io
import math
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from results.inference.given_texts import listed_texts, names_of, num_texts_of, ordered_texts, text_rows
from tests.one_line_error import one_line_error

PAIR = ("left", "right")
SWAPPED = pd.DataFrame({"right": ["x", "y"], "id": [1, 2], "left": ["a", "b"]}, index=[7, 9])
Swapped = namedtuple("Swapped", ["right", "left"])
Other = namedtuple("Other", ["question", "answer"])


def test_rows_to_predict_have_the_texts_of_their_task() -> None:
    assert [row.texts for row in text_rows(["a ", ""], 1)] == [("a",), ("",)]
    assert [(row.id, row.texts) for row in text_rows([("a", "b")], 2)] == [("0", ("a", "b"))]
    assert list(text_rows([], 1)) == []
    missing: list[Any] = [None, math.nan, np.float32("nan"), pd.NA, pd.NaT, "", " "]
    assert [row.is_blank for row in text_rows(missing, 1)] == [True] * len(missing)
    pairs: list[Any] = [*missing[:5], *((text, "fine") for text in missing), ("fine", "good")]
    assert [row.is_blank for row in text_rows(pairs, 2)] == [True] * (len(pairs) - 1) + [False]
    words = ["null", "NA", "None", "nan"]
    assert [row.texts for row in text_rows(words, 1)] == [(word,) for word in words]
    for texts, num_texts, message in (
        (["a"], 2, r"every row of texts must be a tuple of 2 texts, got 'a' in row 0"),
        (["a", 5], 1, r"every row of texts must be a text, got 5 in row 1"),
        (["a", ("b", "c")], 1, r"every row of texts must be a text, got \('b', 'c'\) in row 1"),
        ([("a", 1)], 2, r"must be a tuple of 2 texts, got \('a', 1\) in row 0"),
        ([{"a"}], 1, r"every row of texts must be a text, got \{'a'\} in row 0"),
        ("a text", 1, r"texts must be a list of texts, got 'a text'"),
        (
            ["a", "half \ud83d"],
            1,
            r"row 1: a text must hold no unpaired surrogate, half of an emoji, got 'half \\ud83d'",
        ),
    ):
        with pytest.raises(ValueError, match=f"^.*{message}$"):
            list(text_rows(texts, num_texts))  # type: ignore[arg-type]


def read_ordered(texts: Any, columns: tuple[str, ...]) -> tuple[list[Any], list[Any] | None]:
    """Rows as tuples, and the index."""
    rows, index = ordered_texts(texts, columns)
    return [row if isinstance(row, str) else tuple(row) for row in rows], None if index is None else list(index)


@pytest.mark.parametrize(
    "named",
    [
        lambda: SWAPPED,
        lambda: SWAPPED.to_dict("list"),
        lambda: SWAPPED.to_dict("records"),
        lambda: pa.Table.from_pandas(SWAPPED, preserve_index=False),
        lambda: list(SWAPPED.itertuples()),
        lambda: (row for _, row in SWAPPED.iterrows()),
        lambda: SWAPPED.to_records(),
        lambda: csv.DictReader(io.StringIO(SWAPPED.to_csv())),
        lambda: [Swapped("x", "a"), Swapped("y", "b")],
    ],
    ids=["frame", "columns", "records", "arrow", "itertuples", "iterrows", "structured", "csv", "namedtuple"],
)
def test_texts_with_names_are_read_by_the_tasks_columns_in_its_order(named: Callable[[], Any]) -> None:
    assert read_ordered(named(), PAIR)[0] == [("a", "x"), ("b", "y")]


def test_texts_without_names_of_the_task_are_read_by_place() -> None:
    for texts in ([("a", "x")], [["a", "x"]], np.array([["a", "x"]]), [Other("a", "x")], iter([("a", "x")])):
        assert read_ordered(texts, PAIR) == ([("a", "x")], None)


def test_index_of_frames_and_series_is_returned() -> None:
    frame = pd.DataFrame({"text": ["a", "b", "c"]}, index=["k", "l", "m"])
    kept = frame["text"] != "b"
    assert read_ordered(frame[kept], ("text",)) == ([("a",), ("c",)], ["k", "m"])
    assert read_ordered(frame["text"][kept], ("text",)) == (["a", "c"], ["k", "m"])
    assert read_ordered(pd.Series([("a", "x")], index=[5]), PAIR) == ([("a", "x")], [5])
    assert read_ordered(frame[frame["text"] > "z"], ("text",)) == ([], [])
    assert read_ordered(["a", "b"], ("text",)) == (["a", "b"], None)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (pd.DataFrame({"review": ["a"]}), "texts must have the task's columns (text), each once, got review"),
        (pd.DataFrame([["a", "b"]], columns=["text", "text"]), "(text), each once, got text, text"),
        ({"review": ["a"]}, "texts must have the task's columns (text), each once, got review"),
        (dict.fromkeys(range(9), "a"), "each once, got 0, 1, 2, 3, 4 and 4 more"),
        ({"text": "a film"}, "columns of texts must be lists of texts, of one length, got {'text': 'a film'}"),
        ({"text": {0: "a", 1: "b"}}, "must be lists of texts, of one length, got {'text': {0: 'a', 1: 'b'}}"),
        ({"text": {"a"}}, "must be lists of texts, of one length, got {'text': {'a'}}"),
        ({"text": 5}, "must be lists of texts, of one length, got {'text': 5}"),
        ([{"text": "a"}, {"review": "b"}], "row 1 of texts must have the task's columns (text), each once, got review"),
        ({"a", "b"}, "texts must be a list of texts, or a frame with columns of texts, got {"),
        ("a film", "texts must be a list of texts, or a frame with columns of texts, got 'a film'"),
        (np.array("a film"), "texts must be a list of texts, or a frame"),
        (None, "texts must be a list of texts, or a frame with columns of texts, got None"),
    ],
)
def test_texts_without_the_tasks_columns_or_without_an_order_are_refused(texts: Any, message: str) -> None:
    assert message in one_line_error(read_ordered, texts, ("text",))


def test_names_of_columns_are_those_of_frames_or_of_the_first_row() -> None:
    named = (SWAPPED, SWAPPED.to_dict("list"), SWAPPED.to_dict("records"), pa.Table.from_pandas(SWAPPED))
    for texts in (*named, SWAPPED.to_records(), iter([Swapped("x", "a")])):
        assert {"left", "right"} <= set(names_of(listed_texts(texts), PAIR))
    assert names_of([Other("a", "x")], PAIR) == [], "rows whose names are no column's are read by place"
    for texts, number in ((["a"], 1), ([None, ("a", "x")], 2), (np.array([["a", "x"]]), 2), ([], None), ([None], None)):
        assert (names_of(listed_texts(texts), PAIR), num_texts_of(texts)) == ([], number)


def test_a_column_that_can_be_walked_through_once_is_read_whole() -> None:
    assert read_ordered({"text": map(str.strip, [" a ", "b"])}, ("text",)) == ([("a",), ("b",)], None)
