"""What libraries write for texts that need quoting or escaping is read as the same rows, in every format."""

import csv
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from mtlib.data.files.read_file import read_one_file
from mtlib.data.files.readers import Wanted

TEXTS = [
    "plain",
    'She said "no"',
    '"all of it"',
    '"starts',
    'ends"',
    '""',
    '"',
    "a\ttab",
    "two\nlines",
    'a "quoted\n\nline"',
    "Windows\r\nends",
    "commas, and, more",
    "semi; colons | bars",
    " blanks at both ends  ",
    "NA",
    "null",
    "nan",
    "None",
    "true",
    "1.0",
    "0012",
    "[1, 2]",
    '{"a": "b"}',
    "line\u2028and\u2029separators\x85",
    "back\\slash \\n \\t \\u0041 \\",
    "caf\u00e9 \U0001f600 \u4e2d",
    "it's",
    "# no comment",
    "<b>&amp;</b>",
]
FRAME = pd.DataFrame(
    {
        "more": TEXTS[::-1],
        "text": TEXTS,
        "label": ["no", "yes", '"maybe"'] * 9 + ["no", "yes"],
        "id": [f"r{number}" for number in range(len(TEXTS))],
    }
)
EXPECTED = [[str(row.id), str(row.text).strip(), str(row.label)] for row in FRAME.itertuples()]

Write = Callable[[pd.DataFrame, Path], object]


def write_csv_module(frame: pd.DataFrame, path: Path, **options: Any) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, **options)
        writer.writerow(frame.columns)
        writer.writerows(frame.itertuples(index=False))


def write_arrow_csv(frame: pd.DataFrame, path: Path) -> None:
    pyarrow.csv.write_csv(pa.Table.from_pandas(frame), path)


def write_arrow_tsv(frame: pd.DataFrame, path: Path) -> None:
    pyarrow.csv.write_csv(pa.Table.from_pandas(frame), path, pyarrow.csv.WriteOptions(delimiter="\t"))


def write_arrow_parquet(frame: pd.DataFrame, path: Path) -> None:
    pyarrow.parquet.write_table(pa.Table.from_pandas(frame), path, compression="zstd")


def write_datasets(frame: pd.DataFrame, path: Path, form: str, **options: Any) -> None:
    getattr(datasets.Dataset.from_pandas(frame), f"to_{form}")(path, **options)


def write_pandas_json(frame: pd.DataFrame, path: Path, **options: Any) -> None:
    frame.to_json(path, **options)


def write_polars(frame: pd.DataFrame, path: Path, form: str, **options: Any) -> None:
    polars = pytest.importorskip("polars")
    getattr(polars.DataFrame(frame.to_dict("list")), f"write_{form}")(path, **options)


def write_duckdb(frame: pd.DataFrame, path: Path, options: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("frame", frame)
    connection.execute(f"COPY frame TO '{path}' ({options})")


WRITERS: dict[str, tuple[str, Write]] = {
    "pandas, CSV": ("rows.csv", lambda frame, path: frame.to_csv(path, index=False)),
    "pandas, CSV with an index": ("rows.csv", lambda frame, path: frame.to_csv(path)),
    "pandas, CSV in gzip": ("rows.csv.gz", lambda frame, path: frame.to_csv(path, index=False)),
    "pandas, CSV in ZIP": ("rows.csv.zip", lambda frame, path: frame.to_csv(path, index=False)),
    "pandas, CSV in UTF-8 with a mark": (
        "rows.csv",
        lambda frame, path: frame.to_csv(path, index=False, encoding="utf-8-sig"),
    ),
    "pandas, TSV": ("rows.tsv", lambda frame, path: frame.to_csv(path, sep="\t", index=False)),
    "pandas, TSV in gzip": ("rows.tsv.gz", lambda frame, path: frame.to_csv(path, sep="\t", index=False)),
    "pandas, Parquet": ("rows.parquet", lambda frame, path: frame.to_parquet(path)),
    "pandas, JSON lines": ("rows.jsonl", partial(write_pandas_json, orient="records", lines=True)),
    **{
        f"pandas, JSON of {orient}": ("rows.json", partial(write_pandas_json, orient=orient))
        for orient in ("records", "columns", "index", "split", "table", "values")
    },
    "pyarrow, CSV": ("rows.csv", write_arrow_csv),
    "pyarrow, TSV": ("rows.tsv", write_arrow_tsv),
    "pyarrow, Parquet": ("rows.parquet", write_arrow_parquet),
    "datasets, CSV": ("rows.csv", partial(write_datasets, form="csv")),
    "datasets, TSV": ("rows.tsv", partial(write_datasets, form="csv", sep="\t")),
    "datasets, JSON lines": ("rows.jsonl", partial(write_datasets, form="json")),
    "datasets, JSON": ("rows.json", partial(write_datasets, form="json", lines=False, orient="records")),
    "datasets, Parquet": ("rows.parquet", partial(write_datasets, form="parquet")),
    "csv, every cell quoted": ("rows.csv", partial(write_csv_module, quoting=csv.QUOTE_ALL)),
    "csv, as few as possible": ("rows.csv", partial(write_csv_module, quoting=csv.QUOTE_MINIMAL)),
    "csv, tabs": ("rows.tsv", partial(write_csv_module, dialect="excel-tab")),
    "csv, tabs, every cell quoted": ("rows.tsv", partial(write_csv_module, delimiter="\t", quoting=csv.QUOTE_ALL)),
    "polars, CSV": ("rows.csv", partial(write_polars, form="csv")),
    "polars, TSV": ("rows.tsv", partial(write_polars, form="csv", separator="\t")),
    "polars, JSON": ("rows.json", partial(write_polars, form="json")),
    "polars, JSON lines": ("rows.jsonl", partial(write_polars, form="ndjson")),
    "polars, Parquet": ("rows.parquet", partial(write_polars, form="parquet")),
    "duckdb, CSV": ("rows.csv", partial(write_duckdb, options="FORMAT csv, HEADER")),
    "duckdb, TSV": ("rows.tsv", partial(write_duckdb, options="FORMAT csv, HEADER, DELIMITER '\t'")),
    "duckdb, JSON lines": ("rows.jsonl", partial(write_duckdb, options="FORMAT json")),
    "duckdb, JSON": ("rows.json", partial(write_duckdb, options="FORMAT json, ARRAY true")),
    "duckdb, Parquet": ("rows.parquet", partial(write_duckdb, options="FORMAT parquet")),
}


def read_cells_of(path: Path) -> list[list[str]]:
    """Returns id, text and label of each row of a file."""
    wanted = Wanted(columns=("id", "text", "label"), headers=[list(FRAME.columns)])
    return [cells for _, cells in read_one_file(path, wanted)]


@pytest.mark.parametrize("library", WRITERS)
def test_what_a_library_writes_is_read_as_the_same_rows(library: str, tmp_path: Path) -> None:
    name, write = WRITERS[library]
    write(FRAME, tmp_path / name)
    assert read_cells_of(tmp_path / name) == EXPECTED


def test_what_pandas_writes_for_excel_is_read_as_the_same_rows(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    FRAME.to_excel(tmp_path / "rows.xlsx", index=False)
    bare_feeds = [[cell.replace("\r\n", "\n") for cell in row] for row in EXPECTED]  # XML has no others
    assert read_cells_of(tmp_path / "rows.xlsx") == bare_feeds
