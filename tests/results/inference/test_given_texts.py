"""Frames, dictionaries and rows with names are read by the task's columns, whatever their order; all else by place."""

import csv
import io
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from results.inference.given_texts import ordered_texts
from tests.one_line_error import one_line_error

PAIR = ("left", "right")
SWAPPED = pd.DataFrame({"right": ["x", "y"], "id": [1, 2], "left": ["a", "b"]}, index=[7, 9])
Swapped = namedtuple("Swapped", ["right", "left"])
Other = namedtuple("Other", ["question", "answer"])


def read(texts: Any, columns: tuple[str, ...]) -> tuple[list[Any], list[Any] | None]:
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
    assert read(named(), PAIR)[0] == [("a", "x"), ("b", "y")]


def test_texts_without_names_of_the_task_are_read_by_place() -> None:
    for texts in ([("a", "x")], [["a", "x"]], np.array([["a", "x"]]), [Other("a", "x")], iter([("a", "x")])):
        assert read(texts, PAIR) == ([("a", "x")], None)


def test_index_of_frames_and_series_is_returned() -> None:
    frame = pd.DataFrame({"text": ["a", "b", "c"]}, index=["k", "l", "m"])
    kept = frame["text"] != "b"
    assert read(frame[kept], ("text",)) == ([("a",), ("c",)], ["k", "m"])
    assert read(frame["text"][kept], ("text",)) == (["a", "c"], ["k", "m"])
    assert read({"text": frame["text"]}, ("text",))[1] == ["k", "l", "m"]
    assert read(pd.Series([("a", "x")], index=[5]), PAIR) == ([("a", "x")], [5])
    assert read(frame[frame["text"] > "z"], ("text",)) == ([], [])
    assert read(["a", "b"], ("text",)) == (["a", "b"], None)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (pd.DataFrame({"review": ["a"]}), "texts must have the task's columns (text), each once, got review"),
        (pd.DataFrame([["a", "b"]], columns=["text", "text"]), "(text), each once, got text, text"),
        ({"review": ["a"]}, "texts must have the task's columns (text), each once, got review"),
        (dict.fromkeys(range(9), "a"), "each once, got 0, 1, 2, 3, 4 and 4 more"),
        ({"text": "a film"}, "column 'text' of texts must be a list of texts, got 'a film'"),
        ([{"text": "a"}, {"review": "b"}], "row 1 of texts must have the task's columns (text), each once, got review"),
        ({"a", "b"}, "texts must be a list of texts, or a frame with columns of texts, got {"),
        ([{"a", "b"}], "every row of texts must have an order, got a set in row 0"),
        ("a film", "texts must be a list of texts, or a frame with columns of texts, got 'a film'"),
        (np.array("a film"), "texts must be a list of texts, or a frame"),
        (None, "texts must be a list of texts, or a frame with columns of texts, got None"),
    ],
)
def test_texts_without_the_tasks_columns_or_without_an_order_are_refused(texts: Any, message: str) -> None:
    assert message in one_line_error(read, texts, ("text",))
