"""Parquet files are read as the same rows are from CSV."""

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mtlib.data.file_readers import read_file
from mtlib.data.parquet_files import ClassNames, read_parquet_file
from tests.one_line_error import one_line_error

ROWS = pd.DataFrame({"id": [3, 1, 2], "text": [" a ", 'b "quoted", c', None], "extra": [1, 2, 3], "grade": [0.5, 1, 2]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    ROWS.to_parquet(tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


@pytest.mark.parametrize("columns", [("id", "text", "grade"), ("key", "grade", "text")])
def test_rows_are_those_of_a_csv_file_with_the_same_table(path: Path, columns: tuple[str, ...]) -> None:
    ROWS.to_csv(path.with_suffix(".csv"), index=False)
    expected = [cells for _, cells in read_file(path.with_suffix(".csv"), "csv", columns, numbered=True)]
    assert [cells for _, cells in read_parquet_file(path, columns, numbered=True)] == expected


def test_files_of_several_row_groups_and_types_are_read_whole(tmp_path: Path) -> None:
    texts, labels = pa.array(["x", "y"] * 500).dictionary_encode(), pa.array([1, 2] * 500, pa.int8())
    table = pa.table({"text": texts, "label": labels})
    pq.write_table(table, tmp_path / "many.parquet", row_group_size=70)
    rows = list(read_parquet_file(tmp_path / "many.parquet", ("id", "text", "label"), numbered=True))
    assert [cells for _, cells in rows] == [[str(n), "xy"[n % 2], str(1 + n % 2)] for n in range(1000)]
    assert rows[70][0] == "many.parquet: row 70"


def test_a_missing_column_is_named(path: Path) -> None:
    line = one_line_error(lambda: list(read_parquet_file(path, ("id", "txt", "grade"))))
    assert line.startswith("rows.parquet: column txt is missing; did you mean 'text'?")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.parquet").write_text("id,text\n")
    line = one_line_error(lambda: list(read_parquet_file(tmp_path / "no.parquet", ("id", "text"))))
    assert "no.parquet must be a Parquet file that can be read" in line
    line = one_line_error(lambda: list(read_parquet_file(tmp_path / "none.parquet", ("id", "text"))))
    assert "none.parquet must be a Parquet file that can be read" in line


def test_a_value_that_is_neither_text_nor_number_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "text": [["a", "b"]]}), tmp_path / "lists.parquet")
    line = one_line_error(lambda: list(read_parquet_file(tmp_path / "lists.parquet", ("id", "text"))))
    assert line.startswith("lists.parquet: row 0: column text must be text or a number")


def test_lists_are_read_in_the_column_that_may_hold_them_with_the_names_of_their_numbers(tmp_path: Path) -> None:
    names = {"info": {"features": {"tags": {"feature": {"names": ["red", "green"], "_type": "ClassLabel"}}}}}
    table = pa.table({"text": ["a", "b", "c"], "tags": [[1, 0], [], None]})
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(names)}), tmp_path / "tags.parquet")
    (tmp_path / "tags.jsonl").write_text('{"text": "a", "tags": ["green", "red"]}\n{"text": "b", "tags": []}\n')
    known = ClassNames(names=("red", "green"), mapping="labels")
    columns = ("", "text", "tags")
    rows = read_parquet_file(tmp_path / "tags.parquet", columns, numbered=True, class_names=known, list_column="tags")
    assert [cells[1:] for _, cells in rows] == [["a", '["green", "red"]'], ["b", "[]"], ["c", ""]]
    lines = read_file(tmp_path / "tags.jsonl", "jsonl", columns, numbered=True, list_column="tags")
    assert [cells[1:] for _, cells in lines] == [["a", '["green", "red"]'], ["b", "[]"]]
