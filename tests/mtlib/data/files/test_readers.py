"""Readers of each format against csv, json and pandas; every mistake is one line with file, line and column."""

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mtlib.config.data import Format
from mtlib.data.files.json_files import read_json_stream
from mtlib.data.files.readers import Row, Wanted, read_stream, short_name
from tests.one_line_error import one_line_error

COLUMNS = ("id", "premise", "gold")
PARTS = ["plain", '"', '""', "'", ",", ", and", "; ", "`` quoted ''", "é", "\u2028", "\x85", "\x1c", "\\t", "#"]
LONG = "a word " * 30_000
"""More characters than the default field limit of `csv`, 131,072."""


def random_frame(parts: list[str], count: int = 200) -> pd.DataFrame:
    """Reordered columns, one extra column, and texts that need quoting."""
    stream = np.random.default_rng(0)
    texts = ["x" + "".join(stream.choice(parts, 4)) + "x" for _ in range(count)]
    gold = stream.choice(["entailment", "neutral", "1.0"], count)
    return pd.DataFrame({"gold": gold, "more": texts[::-1], "premise": texts, "id": [f"r{n}" for n in range(count)]})


def expected_cells(frame: pd.DataFrame) -> list[list[str]]:
    return [list(map(str, row)) for row in frame[list(COLUMNS)].to_numpy()]


def read(path: Path, form: Format, content: str | bytes, columns: Sequence[str] = COLUMNS, **options: Any) -> list[Row]:
    """The rows of a file with this content."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_path(path, form, columns, **options)


def read_path(path: Path, form: Format, columns: Sequence[str] = COLUMNS, **options: Any) -> list[Row]:
    """The rows of a file, which are numbered only if asked for."""
    with path.open("rb") as stream:
        wanted = Wanted(columns=columns, **{"is_numbered": False, **options})
        if form == "jsonl":
            return list(read_json_stream(stream, short_name(path), True, wanted))
        return list(read_stream(stream, short_name(path), form, wanted))


def cells_of(rows: Sequence[Row] | Iterator[Row]) -> list[list[str]]:
    return [cells for _, cells in rows]


@pytest.mark.parametrize("delimiter", ["\t", ","])
def test_csv_with_tabs_or_commas_matches_pandas_and_the_csv_module(tmp_path: Path, delimiter: str) -> None:
    frame, path = random_frame([*PARTS, "two\nlines"] if delimiter == "," else PARTS), tmp_path / "set.csv"
    frame.to_csv(path, sep=delimiter, index=False)
    found = cells_of(read_path(path, "csv"))
    assert found == expected_cells(frame)
    assert found == expected_cells(pd.read_csv(path, sep=delimiter, dtype=str, keep_default_na=False))
    with path.open(newline="") as file:
        assert found == [[row[column] for column in COLUMNS] for row in csv.DictReader(file, delimiter=delimiter)]
    long = pd.DataFrame({"id": ["a", "b"], "premise": [LONG.replace(" ", "\n").strip(), LONG.strip()], "gold": "1"})
    long.to_csv(path, sep=delimiter, index=False)
    assert cells_of(read_path(path, "csv")) == expected_cells(long)


def test_tsv_is_read_like_csv_without_quoting(tmp_path: Path) -> None:
    frame, path = random_frame([part for part in PARTS if part not in ("\x85", "\x1c", "\u2028")]), tmp_path / "t.tsv"
    lines = ["\t".join(frame.columns), *("\t".join(map(str, row)) for row in frame.to_numpy())]
    path.write_text("\n".join(lines) + "\n")
    found = cells_of(read_path(path, "tsv"))
    with path.open(newline="") as file:
        reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        assert found == [[row[column].strip() for column in COLUMNS] for row in reader]
    assert found == expected_cells(frame)
    assert any(text.startswith('x"') for _, text, _ in found)


@pytest.mark.parametrize("ascii_only", [True, False])
def test_json_lines_match_json_and_pandas(tmp_path: Path, ascii_only: bool) -> None:
    frame, path = random_frame([*PARTS, "two\nlines", "\t", "\U0001f600"]), tmp_path / "set.jsonl"
    lines = [json.dumps(row, ensure_ascii=ascii_only) for row in frame.to_dict("records")]
    found = read(path, "jsonl", "\n\n".join(lines))
    assert cells_of(found) == expected_cells(frame)
    assert [where for where, _ in found[:3]] == ["set.jsonl:1", "set.jsonl:3", "set.jsonl:5"]
    path.write_text("\n".join(lines))
    assert cells_of(found) == expected_cells(pd.read_json(path, lines=True, dtype=False))


def test_json_values_become_the_text_of_csv(tmp_path: Path) -> None:
    values = [7, 0, 1.5, True, False, None, float("nan"), " fine "]
    lines = [json.dumps({"id": 1, "premise": value, "gold": "x"}) for value in values]
    found = cells_of(read(tmp_path / "set.jsonl", "jsonl", "\n".join(lines)))
    assert [cells[1] for cells in found] == ["7", "0", "1.5", "true", "false", "", "", "fine"]
    listed = read(tmp_path / "set.jsonl", "jsonl", '{"id": 1, "premise": ["é", 2], "gold": ""}', list_column="premise")
    assert cells_of(listed) == [["1", '["é", "2"]', ""]]


FILES: dict[Format, str] = {
    "csv": "id,premise,gold\na,one\ttwo,1\nb,café,\n",
    "tsv": "id\t premise \tgold\na\tone, two\t1\nb\tcafé\n",
    "jsonl": '{"id": "a", "premise": "one", "gold": 1}\n{"id": "b", "premise": "café", "gold": null}\n',
}


@pytest.mark.parametrize("form", FILES)
def test_line_ends_and_a_byte_order_mark_do_not_matter(tmp_path: Path, form: Format) -> None:
    rows = read(tmp_path / "set", form, FILES[form])
    assert cells_of(rows)[1] == ["b", "café", ""]
    assert [where.rpartition(":")[2] for where, _ in rows] == (["1", "2"] if form == "jsonl" else ["2", "3"])
    for end in ("\r\n", "\r") if form == "csv" else ("\r\n",):
        content = FILES[form].replace("\n", end)
        assert read(tmp_path / "set", form, content.encode("utf-8-sig")) == rows
        assert read(tmp_path / "set", form, content.removesuffix(end)) == rows


@pytest.mark.parametrize(
    "content",
    [
        'id\tpremise\tgold\na\tfine\t3\nb\t"never closed\t3\n' + "c\tfine\t3\n" * 50,
        'id\tpremise\tgold\na\tfine\t3\nb\t"opened\t3\nc\tfine\t3\nd\tclosed"\t3\ne\tgood\t4\n',
        f'id,premise,gold\na,"{LONG}",1\nb,"{LONG},1\nc,fine,0\n',
    ],
)
def test_an_unclosed_quotation_mark_is_named_with_its_line(tmp_path: Path, content: str) -> None:
    message = one_line_error(read, tmp_path / "set.csv", "csv", content)
    assert message.startswith("set.csv:3: a quotation mark must be closed where its text ends")


def test_a_broken_tsv_line_gives_rows_with_blank_cells(tmp_path: Path) -> None:
    """As in GLUE's QQP."""
    (tmp_path / "QQP").mkdir()
    content = "id\tpremise\tgold\na\tfine\t1\nb\tbroken\n in two\t0\nc\tgood\t0\n"
    assert read(tmp_path / "QQP" / "train.tsv", "tsv", content)[1:] == [
        ("QQP/train.tsv:3", ["b", "broken", ""]),
        ("QQP/train.tsv:4", ["in two", "0", ""]),
        ("QQP/train.tsv:5", ["c", "good", "0"]),
    ]


CSV, JSON = "id,premise,gold\n", '{"id": "a", "premise": "x", "gold": 1}\n\n'
REFUSED: list[tuple[Format, str | bytes, str]] = [
    ("csv", "", "1: a file must start with a header line, got an empty file"),
    ("csv", "\n" + "id,premise,gold\n", "1: a file must start with a header line, got a blank one"),
    ("csv", "id;premise;gold\n", "1: columns must be separated by tabs or commas, got 'id;premise;gold'"),
    ("csv", "id,premise,gld\n", "1: column gold is missing; did you mean 'gld'?"),
    ("csv", "id,gold,premise,gold\n", "1: column gold must be there once, got 2"),
    ("csv", CSV + "a,one, two,1\n", "2: a line must have 3 cells, got 4, column gold must be the last"),
    ("csv", CSV + "a,one\n", "2: a line must have 3 cells, got 2, no column gold"),
    ("csv", (CSV + "a,café,1\n").encode("latin-1"), "2: a file must be UTF-8 text, got byte 0xe9"),
    ("csv", (CSV + "a,x,1\n").encode("utf-16-le"), "1: a file must be UTF-8 text, got a zero byte"),
    ("jsonl", JSON + "[1, 2]", "3: a line must be a JSON object, got [1, 2]"),
    ("jsonl", JSON + '{"id": "b", "premis": 1, "gold": 1}', "3: key premise is missing; did you mean 'premis'?"),
    ("jsonl", JSON.replace('"x"', '["x"]'), "1: column premise must be text or a number, got ['x']"),
    (
        "jsonl",
        JSON.replace("x", r"\udc00"),
        r"1: column premise must hold no unpaired surrogate, half of an emoji, got",
    ),
]


@pytest.mark.parametrize(("form", "content", "message"), REFUSED, ids=[entry[2] for entry in REFUSED])
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, form: Format, content: str | bytes, message: str) -> None:
    found = one_line_error(read, tmp_path / "set.csv", form, content, is_numbered=form == "jsonl")
    assert found.startswith(f"set.csv:{message}")


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("csv", ",premise,gold\n7,fine,1\n8,,\n\n9,good,0\n"),  # as pandas writes its index
        ("tsv", "\tpremise\tgold\n7\tfine\t1\n8\t\t\n9\tgood\t0\n"),
        ("jsonl", '{"premise": "fine", "gold": 1}\n{"premise": "", "gold": null}\n\n{"premise": "good", "gold": 0}\n'),
    ],
)
def test_rows_without_ids_are_numbered_from_zero_with_blank_ones(tmp_path: Path, form: Format, content: str) -> None:
    numbered = [["0", "fine", "1"], ["1", "", ""], ["2", "good", "0"]]
    assert cells_of(read(tmp_path / "set", form, content, is_numbered=True)) == numbered
    assert cells_of(read(tmp_path / "set", form, content, ("", *COLUMNS[1:]), is_numbered=True)) == numbered
    assert "id is missing" in one_line_error(read, tmp_path / "set", form, content)


@pytest.mark.parametrize(("form", "mark"), [("csv", ","), ("tsv", "\t")])
def test_given_names_stand_for_a_missing_header_line(tmp_path: Path, form: Format, mark: str) -> None:
    header = ("source", "gold", "premise")

    def found(*lines: Sequence[str], headers: Sequence[Sequence[str]] = (header,)) -> list[Row]:
        content = "\n".join(map(mark.join, lines))
        return read(tmp_path / "set.csv", form, content, is_numbered=True, headers=headers)

    rows = [("set.csv:1", ["0", "fine", "1"]), ("set.csv:2", ["1", "good", "0"])]
    assert found(("s", "1", "fine"), ("s", "0", "good")) == rows
    assert found(("1", "fine"), ("0", "good"), headers=(header, header[1:])) == rows, "the names of the same number"
    assert found(("gold", "premise"), ("1", "fine")) == [("set.csv:2", ["0", "fine", "1"])], "it has a header line"
    assert one_line_error(found, ("s", "1", "fine", "more")).startswith("set.csv:1: a line must have 3 cells, got 4")
