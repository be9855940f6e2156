"""Readers of delimited text and of lines against csv and pandas; every mistake is one line with file and line."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mtlib.config.data import Format
from mtlib.data.files.readers import Row, SourceFindings, Wanted, read_stream, short_name
from mtlib.tasks import FileFormat
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


FILES: dict[Format, str] = {
    "csv": "id,premise,gold\na,one\ttwo,1\nb,café,\n",
    "tsv": "id\t premise \tgold\na\tone, two\t1\nb\tcafé\n",
}


@pytest.mark.parametrize("form", FILES)
def test_line_ends_and_a_byte_order_mark_do_not_matter(tmp_path: Path, form: Format) -> None:
    rows = read(tmp_path / "set", form, FILES[form])
    assert cells_of(rows)[1] == ["b", "café", ""]
    assert [where.rpartition(":")[2] for where, _ in rows] == ["2", "3"]
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


CSV = "id,premise,gold\n"
REFUSED: list[tuple[Format, str | bytes, str]] = [
    ("csv", "", "1: a file must start with a header line, got an empty file"),
    ("csv", "\n" + "id,premise,gold\n", "1: a file must start with a header line, got a blank one"),
    ("csv", "id;premise;gold\n", "1: columns must be separated by tabs or commas, got 'id;premise;gold'"),
    ("csv", "id,premise,gld\n", "1: column gold is missing; did you mean 'gld'?"),
    ("csv", "id,gold,premise,gold\n", "1: column gold must be there once, got 2"),
    ("csv", CSV + "a,one, two,1\n", "2: a line must have 3 cells, got 4, column gold must be the last"),
    ("csv", CSV + "a,one\n", "2: a line must have 3 cells, got 2, no column gold"),
    (
        "csv",
        (CSV + "a,café,1\n").encode("latin-1"),
        "2: a file must be UTF-8 text, got byte 0xe9; perhaps it is latin-1: "
        'encoding = "latin-1" of a task in tasks.toml',
    ),
    (
        "csv",
        (CSV + "a,café,1\nb,it\u2019s,0").encode("cp1252"),
        "2: a file must be UTF-8 text, got byte 0xe9; perhaps it is cp1252: "
        'encoding = "cp1252" of a task in tasks.toml',
    ),
    (
        "csv",
        (CSV + "a,x,1\n").encode("utf-16"),
        "1: a file must be UTF-8 text, got byte 0xff; perhaps it is utf-16: "
        'encoding = "utf-16" of a task in tasks.toml',
    ),
    ("csv", (CSV + "a,x,1\n").encode("utf-16-le"), "1: a file must be UTF-8 text, got a zero byte"),
]


@pytest.mark.parametrize(("form", "content", "message"), REFUSED, ids=[entry[2] for entry in REFUSED])
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, form: Format, content: str | bytes, message: str) -> None:
    found = one_line_error(read, tmp_path / "set.csv", form, content)
    assert found.startswith(f"set.csv:{message}")


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("csv", ",premise,gold\n7,fine,1\n8,,\n\n9,good,0\n"),  # as pandas writes its index
        ("tsv", "\tpremise\tgold\n7\tfine\t1\n8\t\t\n9\tgood\t0\n"),
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


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("form", FILES)
def test_a_given_encoding_is_read(tmp_path: Path, form: Format, encoding: str) -> None:
    rows = read(tmp_path / "set", form, FILES[form])
    encoded = FILES[form].encode(encoding)
    assert read(tmp_path / "set", form, encoded, format=FileFormat(encoding=encoding)) == rows
    marked = FILES[form].encode("utf-8-sig")
    assert read(tmp_path / "set", form, marked, format=FileFormat(encoding="UTF-8")) == rows


def test_text_that_is_not_in_the_given_encoding_is_refused(tmp_path: Path) -> None:
    for encoding, wanted in {
        "ascii": "set.csv:2: a file must be ascii text, got byte 0xe9",
        "utf-16": "set.csv must be text in the encoding utf-16, got: truncated data",
    }.items():
        content = f"{CSV}a,é,1\n".encode("latin-1") if encoding == "ascii" else "\ufeffabc".encode("utf-16-le")[:-1]
        assert one_line_error(
            read, tmp_path / "set.csv", "csv", content, format=FileFormat(encoding=encoding)
        ).startswith(wanted)


@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_a_given_separator_stands_between_cells(tmp_path: Path, form: Format) -> None:
    rows = read(tmp_path / "set.csv", form, "id;premise;gold\na;one, two\tthree;1\n", format=FileFormat(separator=";"))
    assert rows == [("set.csv:2", ["a", "one, two\tthree", "1"])]


def test_a_quoted_tsv_may_hold_tabs_and_line_feeds_in_cells(tmp_path: Path) -> None:
    content = 'id\tpremise\tgold\na\t"one\ttwo\nthree ""x"""\t1\nb\tshort\n'
    found = read(tmp_path / "t.tsv", "tsv", content, format=FileFormat(quoting="standard"))
    assert cells_of(found) == [["a", 'one\ttwo\nthree "x"', "1"], ["b", "short", ""]]


LINES = ("", "text", "gold")


def test_a_pattern_gives_columns_to_lines(tmp_path: Path) -> None:
    pattern = FileFormat(pattern=r"(?P<gold>\w+):(?P<fine>\w+)? (?P<text>.*)")
    found = read(tmp_path / "set", "lines", "A:b one : two\r\n\nC: three\n", LINES, is_numbered=True, format=pattern)
    assert found == [("set:1", ["0", "one : two", "A"]), ("set:3", ["1", "three", "C"])]
    message = one_line_error(read, tmp_path / "set", "lines", "A:b x\nno", LINES, is_numbered=True, format=pattern)
    assert message == f"set:2: a line must match the pattern {pattern.pattern}, got 'no'"


def test_lines_of_fasttext_have_labels_before_their_text(tmp_path: Path) -> None:
    content = "__label__a __label__b  two  labels __label__c\n\n none\n__label__c\n"
    found = read(tmp_path / "set", "fasttext", content, LINES, is_numbered=True)
    assert cells_of(found) == [
        ["0", "two  labels __label__c", '["a", "b"]'],
        ["1", "none", "[]"],
        ["2", "", '["c"]'],
    ]
    assert cells_of(read(tmp_path / "set", "fasttext", content, LINES[:2], is_numbered=True))[1] == ["1", "none"]


def test_plain_lines_keep_tabs_and_marks_and_blank_ones_are_rows(tmp_path: Path) -> None:
    found = read(tmp_path / "set", "lines", 'a\t"b \n\n\x85c\u2028d', LINES[:2])
    assert found == [("set:1", ["0", 'a\t"b']), ("set:2", ["1", ""]), ("set:3", ["2", "c\u2028d"])]


def test_a_column_that_says_the_split_is_counted(tmp_path: Path) -> None:
    findings = SourceFindings()
    content = "id,part,premise,gold\na,,x,1\nb, TEST ,test,0\nc,train,y,1\n"
    read(tmp_path / "set.csv", "csv", content, findings=findings)
    assert findings.split_values == {"part": {"": 1, "TEST": 1, "train": 1}}
    read(tmp_path / "set.csv", "csv", content, findings=findings, split="")
    assert findings.split_values["part"].total() == 3


def test_a_file_that_is_utf_8_is_read_so_where_others_of_the_task_are_not(tmp_path: Path) -> None:
    given = FileFormat(encoding="latin-1")
    for encoding in ("latin-1", "utf-8", "utf-8-sig"):
        found = read(tmp_path / "set.csv", "csv", f"{CSV}a,café,1\n".encode(encoding), format=given)
        assert cells_of(found) == [["a", "café", "1"]]
    for wide in ("utf-16", "utf-16-le", "utf-32"):
        text = f"{CSV}a,x,1\n"
        found = read(tmp_path / "set.csv", "csv", text.encode(wide), format=FileFormat(encoding=wide))
        assert found == read(tmp_path / "set.csv", "csv", text, format=FileFormat(encoding=wide))
    japanese = f"{CSV}a,\u65e5\u672c,1\n".encode("iso-2022-jp")  # in bytes of ASCII
    found = read(tmp_path / "set.csv", "csv", japanese, format=FileFormat(encoding="iso-2022-jp"))
    assert cells_of(found) == [["a", "\u65e5\u672c", "1"]]
