"""New texts are read in every format, with ids and places, and never ahead; `tests/mtlib/data` tests the formats."""

import dataclasses
import gzip
import io
import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from mtlib.tasks import TASKS, FileFormat, TaskFiles
from results.inference.readers import (
    InputFormat,
    TextRow,
    find_format,
    name_input,
    new_text_format,
    open_input,
    read_texts,
)
from tests.mtlib.data.files.test_readers import PARTS, random_frame
from tests.one_line_error import one_line_error

PAIR = ("sentence1", "sentence2")


def read(content: str, form: InputFormat, columns: Sequence[str] = PAIR) -> list[TextRow]:
    return list(read_texts(io.BytesIO(content.encode()), "x", form, columns))


def fields_of(rows: Sequence[TextRow]) -> list[tuple[str, ...]]:
    return [(row.id, *row.texts) for row in rows]


def test_tables_are_read_as_pandas_writes_them() -> None:
    frame = random_frame(PARTS)
    wanted = list(frame[["id", "premise", "more"]].itertuples(index=False, name=None))
    for form, content in (
        ("csv", frame.to_csv(index=False)),
        ("csv", frame.to_csv(sep="\t", index=False)),
        ("jsonl", frame.to_json(orient="records", lines=True)),
    ):
        assert fields_of(read(content, form, ("premise", "more"))) == wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("csv", "sentence2,sentence1\nb,a\n,c\n"),
        ("tsv", "sentence1\tsentence2\na\tb\nc\n"),
        ("jsonl", '{"sentence1": "a", "sentence2": "b"}\n{"id": 7, "sentence1": "c", "sentence2": null}\n'),
        ("lines", "a\tb\n c \t\n"),
    ],
)
def test_rows_without_ids_are_numbered_and_blank_texts_keep_their_place(form: InputFormat, content: str) -> None:
    rows = read(content, form)
    assert fields_of(rows) == [("0", "a", "b"), ("1", "c", "")]
    assert [row.is_blank for row in rows] == [False, True]
    first = 1 if form in ("jsonl", "lines") else 2
    assert [row.where for row in rows] == [f"x:{first}", f"x:{first + 1}"]


def test_mistakes_are_named_with_their_line() -> None:
    assert one_line_error(read, "id,sentence1,sentence2\na,b,c\nd,e\n", "csv").startswith("x:3: ")
    assert one_line_error(read, "id,text\na,b\n", "csv").startswith("x:1: column sentence1 is missing")
    for line, count in (("only one", 1), ("a\tb\tc", 3)):
        message = one_line_error(read, f"a\tb\n{line}\n", "lines")
        assert message == f"x:2: a line must hold two texts with a tab between, got {count}"
    for half in ("\ud83d", "\ude00", "\ude00\ud83d"):  # of an emoji; the last has both, in the wrong order
        assert one_line_error(TextRow, where="row 3", id="", texts=("fine", half)).startswith("row 3: a text must hold")
    assert TextRow(where="", id="", texts=("\U0001f600",)).texts


class Endless(io.RawIOBase):
    """A file that repeats one line forever and counts the bytes read."""

    def __init__(self, first: bytes, line: bytes) -> None:
        super().__init__()
        self.rest, self.line, self.taken = first, line, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        while len(self.rest) < len(buffer):
            self.rest += self.line
        buffer[:] = self.rest[: len(buffer)]
        self.rest = self.rest[len(buffer) :]
        self.taken += len(buffer)
        return len(buffer)


@pytest.mark.parametrize(
    ("form", "first", "line"),
    [
        ("csv", b"sentence\n", b'"a fine\nfilm"\n'),
        ("jsonl", b"", b'{"sentence": "a fine film"}\n'),
        ("lines", b"", b"a fine film\n"),
    ],
)
def test_reading_is_lazy(form: InputFormat, first: bytes, line: bytes) -> None:
    endless = Endless(first, line)
    rows = read_texts(io.BufferedReader(endless, 4096), "x", form, ("sentence",))
    for number in range(1000):
        assert next(rows).id == str(number)
        assert endless.taken <= len(first) + (number + 1) * len(line) + 4096


def test_unreadable_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").touch()
    (tmp_path / "readme.md").touch()
    for place, why in (
        (tmp_path / "text.csv", f"{tmp_path} holds texts.csv"),
        (tmp_path, "Is a directory"),
    ):
        message = one_line_error(open_input(str(place)).__enter__)
        assert message.startswith(f"--input must be a readable file, got {place}: ")
        assert message.endswith(why)


def test_standard_input_is_read_as_bytes_and_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    standard = io.TextIOWrapper(io.BytesIO("é\n".encode()), encoding="ascii")
    monkeypatch.setattr("sys.stdin", standard)
    with open_input("-") as stream:
        assert fields_of(list(read_texts(stream, "standard input", "lines", ("sentence",)))) == [("0", "é")]
    assert not standard.closed


def test_parquet_is_read_like_other_tables_but_not_through_a_pipe(tmp_path: Path) -> None:
    frame = pd.DataFrame({"key": ["a", "b"], "sentence": [" A fine film ", None], "other": [1, 2]})
    frame.to_parquet(tmp_path / "new.parquet")
    assert find_format("new.parquet") == "parquet"
    with open_input(str(tmp_path / "new.parquet")) as stream:
        rows = list(read_texts(stream, "new.parquet", "parquet", ("sentence",), "key"))
        assert [(row.id, row.texts, row.is_blank) for row in rows] == [
            ("a", ("A fine film",), False),
            ("b", ("",), True),
        ]
        assert [row.id for row in read_texts(stream, "new.parquet", "parquet", ("sentence",))] == ["0", "1"]
    reading, writing = os.pipe()
    os.close(writing)
    with open(reading, "rb") as pipe:  # noqa: PTH123 - a descriptor has no path
        message = one_line_error(lambda: list(read_texts(pipe, "standard input", "parquet", ("sentence",))))
    assert message == "--input must be a file where it is Parquet or Excel, got standard input"


@pytest.mark.parametrize("name", ["new.csv.gz", "new.csv.zip", "new.xlsx", "new.json.zst"])
def test_compressed_files_and_excel_files_are_read(name: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"sentence": ["A fine film", "A dull one"]})
    path = tmp_path / name
    if name.endswith(".xlsx"):
        frame.to_excel(path, index=False)
    elif ".json" in name:
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(frame.to_json(orient="records").encode())
    else:
        frame.to_csv(path, index=False)
    with open_input(str(path)) as opened:
        rows = list(read_texts(opened, name, find_format(name), ("sentence",)))
    assert [row.texts for row in rows] == [("A fine film",), ("A dull one",)]


def test_a_damaged_compressed_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "new.csv.gz"
    path.write_bytes(gzip.compress(b"sentence\n" + os.urandom(5000).hex().encode(), mtime=0)[:-100])
    with open_input(str(path)) as stream:
        message = one_line_error(lambda: list(read_texts(stream, "new.csv.gz", "csv", ("sentence",))))
    assert message.startswith("new.csv.gz must be a readable file, got: Compressed file ended")


def test_new_text_through_a_pipe_is_read_once() -> None:
    reading, writing = os.pipe()
    os.write(writing, b'sentence\nso\n"fine"\n')
    os.close(writing)
    place = f"/dev/fd/{reading}"
    given = new_text_format(TASKS["sst"], place, "tsv")
    with open_input(place) as stream:
        rows = list(read_texts(stream, "new.tsv", "tsv", ("sentence",), given=given))
    os.close(reading)
    assert [row.texts for row in rows] == [("so",), ('"fine"',)]


def test_new_tsv_is_read_like_the_tasks_own_or_as_it_shows(tmp_path: Path) -> None:
    path = tmp_path / "new.tsv"
    path.write_text('sentence\tid\nplain\t1\n"one ""two"" three"\t2\n')
    files = TaskFiles(train="a.tsv", dev="b.tsv", format=FileFormat(quoting="none", encoding="latin-1"))
    own = dataclasses.replace(TASKS["sst"], files=files)
    assert new_text_format(own, str(path), "tsv") == FileFormat(quoting="none", encoding="latin-1")
    assert new_text_format(own, "-", "tsv") == FileFormat(quoting="none")
    assert new_text_format(TASKS["sst"], str(path), "tsv").quoting == "standard"
    unclear = dataclasses.replace(own, files=TaskFiles(train="a.tsv", dev=0.1, format=FileFormat(quoting="unclear")))
    assert new_text_format(unclear, str(path), "tsv").quoting == "standard"
    parted = dataclasses.replace(own, files=TaskFiles(train="a.csv", dev=0.1, format=FileFormat(separator=";")))
    assert new_text_format(parted, str(path), "tsv") == FileFormat(quoting="standard")
    assert new_text_format(parted, "b.csv", "csv") == FileFormat(separator=";")
    assert new_text_format(TASKS["sst"], "-", "tsv") == new_text_format(TASKS["sst"], "a.csv", "csv") == FileFormat()


def test_an_input_is_named_by_its_file_or_as_what_it_is() -> None:
    assert (name_input("-"), name_input("a/new.csv")) == ("standard input", "new.csv")


@pytest.mark.parametrize("name", ["new.csv", "new.tsv", "new.jsonl", "new.json", "new.parquet", "new.xlsx", "new.txt"])
def test_further_columns_are_read_as_far_as_the_input_has_them(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"source": ["web", ""], "sentence": ["a", "b"], "doc": [7, 8]})
    path = tmp_path / name
    match name.partition(".")[2]:
        case "parquet":
            frame.to_parquet(path)
        case "xlsx":
            frame.to_excel(path, index=False)
        case "txt":
            path.write_text("a\nb\n")
        case "jsonl" | "json" as form:
            frame.to_json(path, orient="records", lines=form == "jsonl")
        case form:
            frame.to_csv(path, index=False, sep="\t" if form == "tsv" else ",")
    with open_input(str(path)) as stream:
        carried = ["doc", "author", "source"]
        rows = list(read_texts(stream, name, find_format(name), ("sentence",), carried=carried))
    assert fields_of(rows) == [("0", "a"), ("1", "b")]
    expected = [{"doc": "7", "source": "web"}, {"doc": "8", "source": ""}]
    assert [dict(row.carried) for row in rows] == ([{}, {}] if name == "new.txt" else expected)


def test_a_further_key_that_only_some_lines_have_is_blank_in_the_others() -> None:
    stream = io.BytesIO(b'{"sentence": "a", "doc": 1}\n{"sentence": "b"}\n{"sentence": "c", "doc": null}\n')
    rows = list(read_texts(stream, "x", "jsonl", ("sentence",), carried=["doc"]))
    assert [dict(row.carried) for row in rows] == [{"doc": "1"}, {"doc": ""}, {"doc": ""}]
