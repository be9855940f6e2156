"""Parquet files are read as the same rows are from CSV, and labels by the names that files carry."""

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mtlib.data.files.parquet_files import read_parquet_stream
from mtlib.data.files.readers import ClassNames, Row, Wanted, read_stream
from tests.one_line_error import one_line_error

ROWS = pd.DataFrame({"id": [3, 1, 2], "text": [" a ", 'b "quoted", c', None], "extra": [1, 2, 3], "grade": [0.5, 1, 2]})
COLUMNS = ("", "text", "label")


def read(path: Path, table: pa.Table, columns: Sequence[str] = COLUMNS, **options: Any) -> list[list[str]]:
    """The cells of a file with this table, the numbers of rows first."""
    pq.write_table(table, path)
    return [cells for _, cells in read_path(path, columns, **options)]


def read_path(path: Path, columns: Sequence[str] = COLUMNS, **options: Any) -> list[Row]:
    with path.open("rb") as stream:
        return list(read_parquet_stream(stream, path.name, Wanted(columns=columns, **options)))


@pytest.mark.parametrize("columns", [("id", "text", "grade"), ("key", "grade", "text")])
def test_rows_are_those_of_a_csv_file_with_the_same_table(tmp_path: Path, columns: tuple[str, ...]) -> None:
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    with (tmp_path / "rows.csv").open("rb") as stream:
        expected = [cells for _, cells in read_stream(stream, "rows.csv", "csv", Wanted(columns=columns))]
    assert read(tmp_path / "rows.parquet", pa.Table.from_pandas(ROWS), columns) == expected


def test_files_of_several_row_groups_are_read_whole(tmp_path: Path) -> None:
    table = pa.table({"text": ["x", "y"] * 500, "label": [1, 2] * 500})
    pq.write_table(table, tmp_path / "many.parquet", row_group_size=70)
    rows = read_path(tmp_path / "many.parquet")
    assert [cells for _, cells in rows] == [[str(n), "xy"[n % 2], str(1 + n % 2)] for n in range(1000)]
    assert rows[70][0] == "many.parquet: row 70"


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array([2.9, None, float("nan")], pa.float32()), ["2.9", "", ""]),
        (pa.array(np.array([2.5, 0.1], np.float16)), ["2.5", "0.1"]),
        (
            pa.ExtensionArray.from_storage(pa.json_(), pa.array(['"a film"', "7", "plain", None])),
            ["a film", "7", "plain", ""],
        ),
        (pa.array([Decimal("2.50"), Decimal("0.10")]), ["2.50", "0.10"]),
        (pa.array(["null", "NA", None]).dictionary_encode(), ["null", "NA", ""]),
    ],
)
def test_values_of_every_type_are_read_as_they_were_written(values: pa.Array, texts: list[str], tmp_path: Path) -> None:
    rows = read(tmp_path / "rows.parquet", pa.table({"text": values, "label": [1.0] * len(values)}))
    assert [cells[1] for cells in rows] == texts


def test_mistakes_are_named_with_row_and_column(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    message = one_line_error(read, path, pa.table({"txt": ["a"], "label": [1]}))
    assert message.startswith("rows.parquet: column text is missing; did you mean 'txt'?")
    message = one_line_error(read, path, pa.table({"text": ["a", "b"], "label": [[1.0], [2.0] * 999]}))
    assert message.startswith("rows.parquet: row 0: column label must be text or a number, got [1.0]")
    path.write_text("id,text\n")
    message = one_line_error(read_path, path)
    assert message.startswith("rows.parquet must be a Parquet file that can be read")


def named(labels: pa.Array, feature: dict[str, Any]) -> pa.Table:
    """A table whose labels have names, as the library `datasets` notes them."""
    table = pa.table({"text": ["a", "b", "c"], "label": labels})
    return table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": {"label": feature}}})})


def class_names(*names: str) -> ClassNames:
    return ClassNames(names=names, mapping="labels = {...}")


def test_labels_are_called_as_the_file_calls_them(tmp_path: Path) -> None:
    table = named(pa.array([1, 0, -1]), {"names": ["neg", "pos"]})
    for names in (class_names("neg", "pos"), class_names()):
        rows = read(tmp_path / "rows.parquet", table, class_names=names)
        assert [cells[2] for cells in rows] == ["pos", "neg", ""]
    assert [cells[2] for cells in read(tmp_path / "rows.parquet", table)] == ["1", "0", "-1"], "numbers are asked for"
    message = one_line_error(read, tmp_path / "rows.parquet", table, class_names=class_names("pos", "neg"))
    assert "labels must be neg, pos as in the data" in message
