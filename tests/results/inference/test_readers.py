"""Texts are read as by csv, json and pandas, with precise errors, and never ahead."""

import io
import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from mtlib.data import file_readers
from mtlib.data.file_readers import Format, read_file
from results.inference.readers import TextRow, find_format, open_input, read_texts
from tests.mtlib.data.test_file_readers import PARTS, random_frame
from tests.one_line_error import one_line_error

PAIR = ("sentence1", "sentence2")


def read(content: str | bytes, form: Format, columns: Sequence[str] = PAIR, name: str = "x") -> list[TextRow]:
    data = content if isinstance(content, bytes) else content.encode()
    return list(read_texts(io.BytesIO(data), name, form, columns))


def fields_of(rows: Sequence[TextRow]) -> list[tuple[str, ...]]:
    return [(row.id, *row.texts) for row in rows]


@pytest.mark.parametrize("delimiter", ["\t", ","])
def test_csv_is_read_as_pandas_writes_it(delimiter: str) -> None:
    frame = random_frame([*PARTS, "two\nlines"] if delimiter == "," else PARTS)
    rows = read(frame.to_csv(sep=delimiter, index=False), "csv", ("premise", "more"))
    assert fields_of(rows) == list(frame[["id", "premise", "more"]].itertuples(index=False, name=None))


def test_json_lines_are_read_as_pandas_writes_them() -> None:
    frame = random_frame([*PARTS, "two\nlines", "\t"])
    rows = read(frame.to_json(orient="records", lines=True), "jsonl", ("premise", "more"))
    assert fields_of(rows) == list(frame[["id", "premise", "more"]].itertuples(index=False, name=None))


def test_tsv_has_no_quoting_and_short_lines_end_in_blanks() -> None:
    rows = read('id\tsentence1\tsentence2\r\nr0\t"a\tb"\r\nr1\tonly\r\n\r\nr2\tc\td', "tsv")
    assert fields_of(rows) == [("r0", '"a', 'b"'), ("r1", "only", ""), ("r2", "c", "d")]
    assert [row.where for row in rows] == ["x:2", "x:3", "x:5"]
    assert [row.is_blank for row in rows] == [False, True, False]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_plain_lines_are_rows_including_blank_ones(end: str) -> None:
    content = end.join(["one, two", "", ' "three"\tfour ', "five"])
    wanted = [("0", "one, two"), ("1", ""), ("2", '"three"\tfour'), ("3", "five")]
    assert fields_of(read(content, "lines", ("sentence",))) == wanted
    assert fields_of(read(content + end, "lines", ("sentence",))) == wanted


def test_tab_separates_two_texts_on_a_plain_line() -> None:
    assert fields_of(read("a\tb\n\nc \t d\n\te\n", "lines")) == [
        ("0", "a", "b"),
        ("1", "", ""),
        ("2", "c", "d"),
        ("3", "", "e"),
    ]
    for line, count in (("only one", 1), ("a\tb\tc", 3)):
        message = one_line_error(read, f"a\tb\n{line}\n", "lines")
        assert message == f"x:2: a line must hold two texts with a tab between, got {count}"


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("csv", "sentence2,sentence1\nb,a\n\nd,c\n"),
        ("csv", "sentence1\tsentence2\na\tb\n\nc\td\n"),
        ("tsv", "sentence1\tsentence2\na\tb\n\nc\td\n"),
        ("jsonl", '{"sentence1": "a", "sentence2": "b"}\n\n{"id": 7, "sentence1": "c", "sentence2": "d"}\n'),
    ],
)
def test_rows_without_ids_are_numbered_and_blank_lines_are_no_rows(form: Format, content: str) -> None:
    assert fields_of(read(content, form)) == [("0", "a", "b"), ("1", "c", "d")]


def test_ids_are_text() -> None:
    assert fields_of(read("id,sentence\n7e2,a\n007,b\n,c\n", "csv", ("sentence",))) == [
        ("7e2", "a"),
        ("007", "b"),
        ("", "c"),
    ]
    assert fields_of(read('{"id": 7, "sentence": 1.5}\n{"id": null, "sentence": null}\n', "jsonl", ("sentence",))) == [
        ("7", "1.5"),
        ("", ""),
    ]


def test_single_column_needs_no_delimiter() -> None:
    content = 'sentence\nA fine film, really\n"Dull, ""very"""\n""\n'
    assert fields_of(read(content, "csv", ("sentence",))) == [
        ("0", "A fine film, really"),
        ("1", 'Dull, "very"'),
        ("2", ""),
    ]
    assert fields_of(read("sentence\na, b\n", "tsv", ("sentence",))) == [("0", "a, b")]
    assert fields_of(read("sentence\na,\tb\nc\n", "csv", ("sentence",))) == [("0", "a,\tb"), ("1", "c")]
    assert fields_of(read('"a, b"\nc, d\n', "csv", ("a, b",))) == [("0", "c, d")]
    message = one_line_error(read, "text;label\na;b\n", "csv", ("sentence",))
    assert message == "x:1: columns must be separated by tabs or commas, got 'text;label'"


@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_single_column_of_another_name_can_be_named(form: Format) -> None:
    for name in ("text", "Sentences of mine"):
        message = one_line_error(read, f"{name}\na, b\n", form, ("sentence",))
        assert message.startswith("x:1: column sentence is missing; ")
        assert message.endswith(f"known: {name}")


@pytest.mark.parametrize("text", ["a word " * 30_000, "a\nword\n" * 30_000, 'a "word", ' * 200_000])
@pytest.mark.parametrize("delimiter", ["\t", ","])
def test_long_text_is_read(text: str, delimiter: str) -> None:
    content = f'id{delimiter}sentence\na{delimiter}"{text.replace(chr(34), 2 * chr(34))}"\nb{delimiter}fine\n'
    rows = read(content, "csv", ("sentence",))
    assert fields_of(rows) == [("a", text.strip()), ("b", "fine")]
    assert [row.where for row in rows] == ["x:2", f"x:{3 + text.count(chr(10))}"]
    assert fields_of(read(content.partition(delimiter)[2], "lines", ("sentence",)))


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "lines"])
def test_byte_order_mark_and_windows_line_ends_are_accepted(form: Format) -> None:
    content = {
        "csv": "sentence1,sentence2\né,b\n",
        "tsv": "sentence1\tsentence2\né\tb\n",
        "jsonl": '{"sentence1": "é", "sentence2": "b"}\n',
        "lines": "é\tb\n",
    }[form]
    assert fields_of(read(b"\xef\xbb\xbf" + content.replace("\n", "\r\n").encode(), form)) == [("0", "é", "b")]
    assert fields_of(read(content.rstrip("\n"), form)) == [("0", "é", "b")]


WRONG: list[tuple[Format, str | bytes]] = [
    ("csv", ""),
    ("tsv", ""),
    ("csv", "sentence1\na, b\n"),
    ("tsv", "sentence1\na, b\n"),
    ("csv", "\nid,sentence1,sentence2\na,b,c\n"),
    ("tsv", "\nid\tsentence1\tsentence2\na\tb\tc\n"),
    ("csv", "id;sentence1;sentence2\na;b;c\n"),
    ("csv", "id,sentence1,sentence\na,b,c\n"),
    ("csv", "id,sentence1,sentence2,sentence1\na,b,c,d\n"),
    ("csv", "id,sentence1,sentence2\na,b,c\nd,e\n"),
    ("csv", "id,sentence1,sentence2\na,b,c\nd,e,f,g\n"),
    ("csv", 'id,sentence1,sentence2\na,"two\nlines",c\nd,"e,f\n'),
    ("csv", 'id,sentence1,sentence2\n"a,b",c,d\n"e,f","never closed,1\n'),
    ("csv", 'id\tsentence1\tsentence2\na\t"b\tc\nd\te\tf"\ng\th\ti\n'),
    ("csv", b"id,sentence1,sentence2\na,b,c\nd,caf\xe9,f\n"),
    ("csv", b"id\tsentence1\tsentence2\na\tb\tc\nd\te,\t\xff\n"),
    ("csv", "id,sentence1,sentence2\na,b,c\n".encode("utf-16")),
    ("csv", "id,sentence1,sentence2\na,b,c\n".encode("utf-16-le")),
    ("csv", b"id,sentence1,sent\xffence2\na,b,c\n"),
    ("tsv", b"id\tsentence1\tsentence2\na\tb\tc\nd\t\xe9\tf\n"),
    ("tsv", "id\tsentence1\tsentence2\na\tb\tc\td\n"),
    ("tsv", "id\tsentence1\tsentence\na\tb\tc\n"),
    ("jsonl", '{"id": 1, "sentence1": "a", "sentence2": "b"}\n[1]\n'),
    ("jsonl", '{"id": 1, "sentence1": "a", "sentence2": "b"}\n\n{"id": 2, "sentence1": "a"}\n'),
    ("jsonl", '{"sentence1": "a", "sentence2": ["b"]}\n'),
    ("jsonl", '{"id": 1, "sentence1": "a"\n'),
    ("jsonl", '{"sentence1": "a", "sentence2": "\\ud800"}\n'),
    ("jsonl", b'{"sentence1": "a", "sentence2": "b"}\n{"sentence1": "\xe9"}\n'),
]


@pytest.mark.parametrize(("form", "content"), WRONG)
def test_errors_are_those_of_a_whole_file(form: Format, content: str | bytes, tmp_path: Path) -> None:
    path = tmp_path / "set.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError) as caught:
        list(read_file(path, form, ("id", *PAIR), numbered=True))
    assert one_line_error(read, content, form, name="set.csv") == str(caught.value)


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "lines"])
def test_file_without_rows_has_none(form: Format) -> None:
    header = {"csv": "sentence1,sentence2\n", "tsv": "sentence1\tsentence2", "jsonl": "\n", "lines": ""}[form]
    assert read(header, form) == []


def test_endless_line_is_refused_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_readers, "MAX_LINE_LENGTH", 8)
    assert fields_of(read("1234567\n", "lines", ("sentence",))) == [("0", "1234567")]
    assert (
        one_line_error(read, "1\n12345678\n", "lines", ("sentence",))
        == "x:2: a line must have at most 8 bytes, got more"
    )


def test_unclosed_quotation_mark_is_refused_in_bounded_memory() -> None:
    endless = Endless(b'id,sentence\na,"one\ntwo"\nb,"never closed\n', b"a fine film, and a long one\n")
    rows = read_texts(io.BufferedReader(endless, 4096), "x", "csv", ("sentence",))
    assert fields_of([next(rows)]) == [("a", "one\ntwo")]
    rule = r"^x:4: column sentence must close its quotation mark where the text ends, within 16,777,216 characters "
    with pytest.raises(ValueError, match=rule + '.*got "never closed$'):
        next(rows)
    assert endless.taken <= file_readers.MAX_LINE_LENGTH + 2 * 4096


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
        ("tsv", b"sentence\n", b"a fine film\n"),
        ("jsonl", b"", b'{"sentence": "a fine film"}\n'),
        ("lines", b"", b"a fine film\n"),
    ],
)
def test_reading_is_lazy(form: Format, first: bytes, line: bytes) -> None:
    endless = Endless(first, line)
    rows = read_texts(io.BufferedReader(endless, 4096), "x", form, ("sentence",))
    for number in range(1000):
        assert next(rows).id == str(number)
        assert endless.taken <= len(first) + (number + 1) * len(line) + 4096


def test_suffix_determines_the_format() -> None:
    names = {"a.csv": "csv", "a.TSV": "tsv", "a.jsonl": "jsonl", "a.ndjson": "jsonl", "a.txt": "lines", "-": "lines"}
    assert {name: find_format(name) for name in names} == names
    with pytest.raises(ValueError, match=r"--input must end in \.csv, \.tsv, \.jsonl, .*--format, got a\.xlsx"):
        find_format("a.xlsx")


def test_unreadable_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").touch()
    (tmp_path / "readme.md").touch()
    gone = "No such file or directory; "
    for place, why in (
        (tmp_path / "text.csv", rf"{gone}did you mean 'texts\.csv'\? the folder holds texts\.csv$"),
        (tmp_path / "other.jsonl", rf"{gone}the folder holds texts\.csv$"),
        (tmp_path / "gone" / "texts.csv", rf"{gone}did you mean the folder {tmp_path}, which has it\?$"),
        (tmp_path / "gone" / "other.csv", f"{gone}there is no folder {tmp_path}/gone$"),
        (tmp_path, "Is a directory$"),
    ):
        with (
            pytest.raises(ValueError, match=f"--input must be a readable file, got {place}: {why}"),
            open_input(str(place)),
        ):
            pass


def test_standard_input_is_read_as_bytes_and_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    standard = io.TextIOWrapper(io.BytesIO("é\n".encode()), encoding="ascii")
    monkeypatch.setattr("sys.stdin", standard)
    with open_input("-") as stream:
        assert fields_of(list(read_texts(stream, "standard input", "lines", ("sentence",)))) == [("0", "é")]
    assert not standard.closed


def test_parquet_is_read_like_other_tables(tmp_path: Path) -> None:
    frame = pd.DataFrame({"key": ["a", "b"], "sentence": [" A fine film ", None], "other": [1, 2]})
    frame.to_parquet(tmp_path / "new.parquet")
    assert find_format("new.parquet") == "parquet"
    with open_input(str(tmp_path / "new.parquet")) as stream:
        rows = list(read_texts(stream, "new.parquet", "parquet", ("sentence",), "key"))
    assert [(row.id, row.texts, row.is_blank) for row in rows] == [("a", ("A fine film",), False), ("b", ("",), True)]
    with open_input(str(tmp_path / "new.parquet")) as stream:
        assert [row.id for row in read_texts(stream, "new.parquet", "parquet", ("sentence",))] == ["0", "1"]
    (tmp_path / "text.parquet").write_text("sentence\nA fine film\n")
    with open_input(str(tmp_path / "text.parquet")) as stream:
        message = one_line_error(lambda: list(read_texts(stream, "text.parquet", "parquet", ("sentence",))))
    assert message.startswith("text.parquet must be a Parquet file that can be read, got: ")


def test_parquet_through_a_pipe_is_refused() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    with open(reading, "rb") as pipe:  # noqa: PTH123 - a descriptor has no path
        message = one_line_error(lambda: list(read_texts(pipe, "standard input", "parquet", ("sentence",))))
    assert message == "--input must be a file where it is Parquet, got standard input"
