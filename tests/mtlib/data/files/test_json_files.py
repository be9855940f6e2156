"""JSON lines and JSON files against json and pandas; every mistake is one line with file, line or row, and key."""

import json
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import pandas as pd
import pytest

from mtlib.data.files.json_files import read_json_stream
from mtlib.data.files.readers import Row, SourceFindings, Wanted
from mtlib.tasks import FileFormat
from tests.one_line_error import one_line_error

COLUMNS = ("id", "text", "label")
ROWS: list[dict[str, Any]] = [{"id": "a", "text": "one", "label": 1}, {"id": "b", "text": "caf\u00e9", "label": None}]
CELLS = [["a", "one", "1"], ["b", "caf\u00e9", ""]]


def read(content: object, is_lines: bool = False, columns: Sequence[str] = COLUMNS, **options: Any) -> list[Row]:
    """The rows of a file with this content: bytes, text, or what is written as JSON."""
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    stream = BytesIO(text if isinstance(text, bytes) else text.encode())
    return list(read_json_stream(stream, "set.json", is_lines, Wanted(columns=columns, **options)))


def cells_of(rows: Sequence[Row]) -> list[list[str]]:
    return [cells for _, cells in rows]


@pytest.mark.parametrize("is_ascii", [True, False])
def test_json_lines_match_json_and_pandas(is_ascii: bool) -> None:
    texts = ["\u2028", "\x85 x", "two\nlines", "\t", "\U0001f600", '"', "[1]"]
    rows = [{"label": "x", "text": text, "more": {}, "id": f"r{at}"} for at, text in enumerate(texts)]
    lines = [json.dumps(row, ensure_ascii=is_ascii) for row in rows]
    found = read("\n\n".join(lines), is_lines=True)
    assert cells_of(found) == [[str(row["id"]), str(row["text"]).strip(), "x"] for row in rows]
    assert [where for where, _ in found[:3]] == ["set.json:1", "set.json:3", "set.json:5"]
    frame = pd.read_json(BytesIO("\n".join(lines).encode()), lines=True, dtype=False)
    assert [cells[1] for _, cells in found] == [text.strip() for text in frame["text"]]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_line_ends_and_encodings_do_not_matter(end: str, encoding: str) -> None:
    content = end.join(json.dumps(row, ensure_ascii=False) for row in ROWS).encode(encoding)
    given = FileFormat(encoding="" if encoding.startswith("utf-8") else encoding)
    assert cells_of(read(content, is_lines=True, format=given)) == CELLS
    array = json.dumps(ROWS, ensure_ascii=False, indent=1).replace("\n", end).encode(encoding)
    assert cells_of(read(array, format=given)) == CELLS


def test_values_become_the_text_of_csv() -> None:
    values = [7, 0, 1.5, True, False, None, float("nan"), " fine "]
    found = cells_of(read([{"id": 1, "text": value, "label": "x"} for value in values]))
    assert [cells[1] for cells in found] == ["7", "0", "1.5", "true", "false", "", "", "fine"]
    listed = read([{"id": 1, "text": ["\u00e9", 2], "label": ""}], list_column="text")
    assert cells_of(listed) == [["1", '["\u00e9", "2"]', ""]]


@pytest.mark.parametrize(
    "content",
    [
        ROWS,
        {"train": ROWS, "test": []},
        {"data": ROWS},
        {"columns": ["label", "id", "text"], "index": [0, 1], "data": [[1, "a", "one"], [None, "b", "caf\u00e9"]]},
        {"id": ["a", "b"], "text": ["one", "caf\u00e9"], "label": [1, None]},
        {"id": {"0": "a", "1": "b"}, "text": {"0": "one", "1": "caf\u00e9"}, "label": {"0": 1, "1": None}},
        {"0": ROWS[0], "1": ROWS[1]},
        "\n".join(map(json.dumps, ROWS)),
    ],
    ids=["array", "splits", "data", "split", "columns", "columns by row", "rows by name", "lines under another name"],
)
def test_arrays_and_objects_of_arrays_are_rows(content: object) -> None:
    assert cells_of(read(content)) == CELLS


def test_a_file_of_a_single_object_is_one_row() -> None:
    assert cells_of(read(ROWS[0])) == CELLS[:1]


@pytest.mark.parametrize(
    ("split", "keys"),
    [("train", ["train", "training"]), ("dev", ["dev", "val", "valid", "validation", "eval", "trial"])],
)
def test_an_object_may_have_an_array_for_each_split(split: str, keys: list[str]) -> None:
    for key in keys:
        findings = SourceFindings()
        content = {key: ROWS[:1], "test": ROWS, "oos_train": ROWS, "version": 2}
        assert cells_of(read(content, split=split, findings=findings)) == CELLS[:1]
        assert findings.left_out == {"oos_train is for no split": 2}


def test_rows_may_be_lists_where_columns_are_named() -> None:
    rows = [["one", 1, "a"], ["caf\u00e9", None, "b"]]
    assert cells_of(read(rows, headers=[["text", "label", "id"]])) == CELLS
    message = one_line_error(read, rows)
    assert message == "set.json: row 0 is a list: columns must name its 3 values in tasks.toml, got none"


def test_keys_with_dots_lead_into_inner_objects() -> None:
    rows = [{"data": {"text": "one", "inner": {"id": "a"}}, "gold.label": 1}]
    found = read(rows, columns=("data.inner.id", "data.text", "gold.label"))
    assert cells_of(found) == [["a", "one", "1"]]


def test_keys_of_many_levels_are_not_looked_at() -> None:
    deep = '{"a": ' * 900 + "1" + "}" * 900
    assert cells_of(read(f'[{{"id": 1, "text": "one", "label": "x", "more": {deep}}}]')) == [["1", "one", "x"]]


def test_names_of_columns_that_are_no_list_are_refused_in_one_line() -> None:
    message = one_line_error(read, {"data": [[1, "x"]], "columns": 3})
    assert message == "set.json: row 0 is a list: columns must name its 2 values in tasks.toml, got none"


def test_rows_without_ids_are_numbered_from_zero() -> None:
    rows = [{"text": "fine", "label": 1}, {"text": "", "label": None}]
    numbered = [["0", "fine", "1"], ["1", "", ""]]
    assert cells_of(read(rows)) == cells_of(read(rows, columns=("", "text", "label"))) == numbered
    assert "key id is missing" in one_line_error(read, rows, is_numbered=False)


def test_a_key_that_says_the_split_is_counted() -> None:
    findings = SourceFindings()
    parts = ("none", "train", "dev", "train")
    rows = [{**ROWS[0], "part": part, "meta": {"own": {"split": part}, "text": part}} for part in parts]
    read([*rows, ROWS[1]], findings=findings)
    counts = {"none": 1, "train": 2, "dev": 1, "": 1}
    assert findings.split_values == {"part": counts, "meta.own.split": counts}  # `text` is wanted


REFUSED = [
    ("[1, 2", "set.json must be JSON, got: Expecting ',' delimiter"),
    ("", "set.json must be JSON, got: Expecting value"),
    ("3", "set.json must be an array of objects, or an object that has one for train, got 3"),
    (["x"], "set.json: row 0 must be an object, got x"),
    ({"id": ["a"], "text": ["one", "two"], "label": [1]}, "set.json must be an array of objects, or an object that"),
    (
        {"id": {"0": "a", "1": "b"}, "text": {"1": "one", "0": "two"}, "label": {"0": 1, "1": 2}},
        "set.json must be an array of objects, or an object that has one for train",
    ),
    ([ROWS[0], {"id": "b", "txt": "x", "label": 1}], "set.json: row 1: key text is missing; did you mean 'txt'?"),
    ([{**ROWS[0], "text": ["x"]}], "set.json: row 0: column text must be text or a number, got ['x']"),
    (
        '[{"id": 1, "label": 1, "text": "\\udc00"}]',
        "set.json: row 0: column text must hold no unpaired surrogate, half of an emoji",
    ),
]


@pytest.mark.parametrize(("content", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_a_mistake_is_one_line_with_its_row(content: object, message: str) -> None:
    assert one_line_error(read, content).startswith(message)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1, 2]", "set.json:2: a line must be a JSON object, got [1, 2]"),
        ('{"id": ', 'set.json:2: a line must be a JSON object, got {"id":'),
        ('{"id": "b", "txt": 1, "label": 1}', "set.json:2: key text is missing; did you mean 'txt'?"),
        ('{"id": "b", "text": {"a": 1}, "label": 1}', "set.json:2: column text must be text or a number, got {'a': 1}"),
    ],
)
def test_a_mistake_in_json_lines_is_one_line_with_its_place(line: str, message: str) -> None:
    assert one_line_error(read, f"{json.dumps(ROWS[0])}\n{line}\n", is_lines=True).startswith(message)
