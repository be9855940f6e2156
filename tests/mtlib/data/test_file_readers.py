"""Readers of each format against csv, json and pandas."""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mtlib.data.file_readers import Row, read_file, short_name
from tests.one_line_error import one_line_error

COLUMNS = ("id", "premise", "gold")
PARTS = ["plain", '"', '""', "'", ",", ", and", "; ", "`` quoted ''", "é", "\u2028", "\x85", "\x1c", "\\t", "#"]
Reader = Callable[..., Iterator[Row]]


def read_csv(path: Path, columns: Sequence[str], **options: Any) -> Iterator[Row]:
    return read_file(path, "csv", columns, **options)


def read_tsv(path: Path, columns: Sequence[str], **options: Any) -> Iterator[Row]:
    return read_file(path, "tsv", columns, **options)


def read_json_lines(path: Path, columns: Sequence[str], **options: Any) -> Iterator[Row]:
    return read_file(path, "jsonl", columns, **options)


def random_frame(parts: list[str], count: int = 200) -> pd.DataFrame:
    """Reordered columns, one extra column, and texts that need quoting."""
    stream = np.random.default_rng(0)
    texts = ["x" + "".join(stream.choice(parts, 4)) + "x" for _ in range(count)]
    gold = stream.choice(["entailment", "neutral", "1.0"], count)
    return pd.DataFrame({"gold": gold, "more": texts[::-1], "premise": texts, "id": [f"r{n}" for n in range(count)]})


def expected_cells(frame: pd.DataFrame) -> list[list[str]]:
    return [list(map(str, row)) for row in frame[list(COLUMNS)].to_numpy()]


def cells_of(rows: Iterator[Row]) -> list[list[str]]:
    return [cells for _, cells in rows]


def reading_error(reader: Reader, path: Path, content: str | bytes, **options: Any) -> str:
    """The error of reading `content`."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return one_line_error(lambda: list(reader(path, COLUMNS, **options)))


@pytest.mark.parametrize("delimiter", ["\t", ","])
def test_csv_with_tabs_or_commas_matches_pandas_and_the_csv_module(tmp_path: Path, delimiter: str) -> None:
    frame, path = random_frame([*PARTS, "two\nlines"] if delimiter == "," else PARTS), tmp_path / "set.csv"
    frame.to_csv(path, sep=delimiter, index=False)
    found = cells_of(read_csv(path, COLUMNS))
    assert found == expected_cells(frame)
    assert found == expected_cells(pd.read_csv(path, sep=delimiter, dtype=str, keep_default_na=False))
    with path.open(newline="") as file:
        assert found == [[row[column] for column in COLUMNS] for row in csv.DictReader(file, delimiter=delimiter)]


LONG = "a word " * 30_000
"""More characters than the default field limit of `csv`, 131,072."""


@pytest.mark.parametrize("text", [LONG, LONG.replace(" ", "\n"), 'a "word", ' * 20_000])
def test_a_text_of_any_length_is_read_like_pandas(tmp_path: Path, text: str) -> None:
    frame = pd.DataFrame({"id": ["a", "b"], "premise": [text.strip(), "fine"], "gold": ["1", "0"]})
    frame.to_csv(tmp_path / "set.csv", index=False)
    assert cells_of(read_csv(tmp_path / "set.csv", COLUMNS)) == expected_cells(frame)
    frame.to_csv(tmp_path / "tabs.csv", index=False, sep="\t")
    assert cells_of(read_csv(tmp_path / "tabs.csv", COLUMNS)) == expected_cells(frame)


@pytest.mark.parametrize("long", [LONG, LONG.replace(" ", "\n")])
def test_an_unclosed_quotation_mark_is_named_with_its_line(tmp_path: Path, long: str) -> None:
    content = f'id,premise,gold\na,"{LONG}",1\nb,"{long},1\nc,fine,0\n'
    message = reading_error(read_csv, tmp_path / "set.csv", content)
    assert message.startswith("set.csv:3: column premise must close its quotation mark where the text ends")
    assert message.endswith(f'got "{long.partition(chr(10))[0][:39]}')


def test_tabs_in_the_header_win_over_commas(tmp_path: Path) -> None:
    (tmp_path / "set.csv").write_text("id\tpremise\tgold\tyes, no\na\tone, two\t1\t\n")
    assert cells_of(read_csv(tmp_path / "set.csv", COLUMNS)) == [["a", "one, two", "1"]]


def test_rows_are_numbered_by_their_first_line(tmp_path: Path) -> None:
    (tmp_path / "set.csv").write_text('id,premise,gold\na,"two\nlines",1\nb,fine,0\n')
    assert [where for where, _ in read_csv(tmp_path / "set.csv", COLUMNS)] == ["set.csv:2", "set.csv:4"]


def test_a_file_without_the_required_delimiter_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "set.csv"
    message = reading_error(read_csv, path, "id,premise,gold\na,fine,1\n", delimiters="\t")
    assert message == "set.csv:1: columns must be separated by tabs, got 'id,premise,gold'"
    message = reading_error(read_csv, path, "id;premise;gold\na;fine;1\n")
    assert message == "set.csv:1: columns must be separated by tabs or commas, got 'id;premise;gold'"


@pytest.mark.parametrize("delimiters", ["\t", "\t,"])
@pytest.mark.parametrize("content", ["premise\na\n", '"premise"\n"a, b"\n', "\ufeffpremise\r\na\r\n"])
def test_a_file_of_one_column_lacks_the_others(tmp_path: Path, delimiters: str, content: str) -> None:
    message = reading_error(read_csv, tmp_path / "set.csv", content, delimiters=delimiters)
    assert message == "set.csv:1: column id is missing; known: premise"
    message = reading_error(read_csv, tmp_path / "set.csv", content, delimiters=delimiters, numbered=True)
    assert message == "set.csv:1: column gold is missing; known: premise"


def test_a_required_column_is_not_suggested_for_another_one(tmp_path: Path) -> None:
    (tmp_path / "set.csv").write_text("id,text1,label\na,b,c\n")
    with pytest.raises(ValueError, match=r"column text2 is missing; known: id, label, text1$"):
        list(read_csv(tmp_path / "set.csv", ("id", "text1", "text2")))
    (tmp_path / "set.jsonl").write_text('{"id": 1, "text1": "a"}')
    with pytest.raises(ValueError, match=r"key text2 is missing; known: id, text1$"):
        list(read_json_lines(tmp_path / "set.jsonl", ("id", "text1", "text2")))


def test_column_names_may_have_spaces_and_quotation_marks(tmp_path: Path) -> None:
    (tmp_path / "set.csv").write_text('id, premise ,gold,"more, of it"\na, fine ,1,x\n')
    assert cells_of(read_csv(tmp_path / "set.csv", COLUMNS)) == [["a", "fine", "1"]]
    (tmp_path / "set.csv").write_text('"id, and such"\tpremise\tgold\na\tfine\t1\n')
    assert cells_of(read_csv(tmp_path / "set.csv", ("id, and such", *COLUMNS[1:]))) == [["a", "fine", "1"]]
    (tmp_path / "set.tsv").write_text("id\t premise\tgold \na\tfine\t1\n")
    assert cells_of(read_tsv(tmp_path / "set.tsv", COLUMNS)) == [["a", "fine", "1"]]


@pytest.mark.parametrize(
    ("reader", "end"), [(read_csv, "\n"), (read_csv, "\r\n"), (read_tsv, "\n"), (read_tsv, "\r\n")]
)
def test_a_blank_line_is_not_a_header(tmp_path: Path, reader: Reader, end: str) -> None:
    message = reading_error(reader, tmp_path / "set.csv", f"{end}id\tpremise\tgold{end}a\tfine\t1{end}")
    assert message == "set.csv:1: a file must start with a header line, got a blank one"


def test_carriage_returns_end_lines(tmp_path: Path) -> None:
    (tmp_path / "set.csv").write_bytes(b"id,premise,gold\ra,one\ttwo,1\rb,three,0\r")
    assert cells_of(read_csv(tmp_path / "set.csv", COLUMNS)) == [["a", "one\ttwo", "1"], ["b", "three", "0"]]


def test_an_unclosed_quotation_mark_is_named_after_cells_with_commas(tmp_path: Path) -> None:
    message = reading_error(read_csv, tmp_path / "set.csv", 'id,premise,gold\n"a,b",fine,1\n"c,d","never closed,1\n')
    assert message.startswith("set.csv:3: column premise must close its quotation mark")


def test_a_comma_file_with_too_many_cells_is_refused(tmp_path: Path) -> None:
    message = reading_error(read_csv, tmp_path / "set.csv", "id,premise,gold\na,one, two,1\n")
    assert message == "set.csv:2: a line must have 3 cells, got 4, column gold must be the last"


def test_another_encoding_is_named_with_the_column_of_a_comma_file(tmp_path: Path) -> None:
    message = reading_error(read_csv, tmp_path / "set.csv", "id,premise,gold\na,café,1\n".encode("latin-1"))
    assert message == "set.csv:2: column premise must be UTF-8 text, got byte 0xe9"


def test_tsv_is_read_like_csv_without_quoting(tmp_path: Path) -> None:
    frame, path = random_frame([part for part in PARTS if part not in ("\x85", "\x1c", "\u2028")]), tmp_path / "t.tsv"
    lines = ["\t".join(frame.columns), *("\t".join(map(str, row)) for row in frame.to_numpy())]
    path.write_text("\n".join(lines) + "\n")
    found = cells_of(read_tsv(path, COLUMNS))
    with path.open(newline="") as file:
        reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        assert found == [[row[column].strip() for column in COLUMNS] for row in reader]
    assert found == expected_cells(frame)
    assert any(text.startswith('x"') for _, text, _ in found)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_quotation_mark_in_tsv_is_plain_text(tmp_path: Path, end: str) -> None:
    (tmp_path / "t.tsv").write_bytes(end.join(["id\tpremise\tgold", 'a\t"fine\t1', 'b\t"good"\t0', ""]).encode())
    assert cells_of(read_tsv(tmp_path / "t.tsv", COLUMNS)) == [["a", '"fine', "1"], ["b", '"good"', "0"]]


def test_a_broken_tsv_line_gives_rows_with_blank_cells(tmp_path: Path) -> None:
    """As in GLUE's QQP."""
    folder = tmp_path / "QQP"
    folder.mkdir()
    (folder / "train.tsv").write_text("id\tpremise\tgold\na\tfine\t1\nb\tbroken\n in two\t0\nc\tgood\t0\n")
    assert list(read_tsv(folder / "train.tsv", COLUMNS)) == [
        ("QQP/train.tsv:2", ["a", "fine", "1"]),
        ("QQP/train.tsv:3", ["b", "broken", ""]),
        ("QQP/train.tsv:4", ["in two", "0", ""]),
        ("QQP/train.tsv:5", ["c", "good", "0"]),
    ]


def test_a_tsv_line_with_too_many_cells_is_an_error(tmp_path: Path) -> None:
    message = reading_error(read_tsv, tmp_path / "t.tsv", "id\tpremise\tgold\na\tone\ttwo\t1\n")
    assert message.endswith("t.tsv:2: a line must have 3 cells, got 4, column gold must be the last")


@pytest.mark.parametrize("ascii_only", [True, False])
def test_json_lines_match_json_and_pandas(tmp_path: Path, ascii_only: bool) -> None:
    frame, path = random_frame([*PARTS, "two\nlines", "\t", "\U0001f600"]), tmp_path / "set.jsonl"
    lines = [json.dumps(row, ensure_ascii=ascii_only) for row in frame.to_dict("records")]
    path.write_text("\n\n".join(lines))
    found = list(read_json_lines(path, COLUMNS))
    assert [cells for _, cells in found] == expected_cells(frame)
    assert [where for where, _ in found[:3]] == ["set.jsonl:1", "set.jsonl:3", "set.jsonl:5"]
    path.write_text("\n".join(lines))
    assert [cells for _, cells in found] == expected_cells(pd.read_json(path, lines=True, dtype=False))


def test_json_values_become_the_text_of_csv(tmp_path: Path) -> None:
    values = [7, 0, 1.5, True, False, None, " fine ", ""]
    (tmp_path / "set.jsonl").write_text("\n".join(json.dumps({"id": 1, "premise": v, "gold": "x"}) for v in values))
    found = [cells[1] for cells in cells_of(read_json_lines(tmp_path / "set.jsonl", COLUMNS))]
    assert found == ["7", "0", "1.5", "true", "false", "", "fine", ""]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1, 2]", "set.jsonl:3: a line must be a JSON object, got [1, 2]"),
        ("{'id': 1}", "set.jsonl:3: a line must be a JSON object, got {'id': 1}"),
        ('"text"', 'set.jsonl:3: a line must be a JSON object, got "text"'),
        ('{"id": "b", "premis": "x"}', "set.jsonl:3: key premise is missing; did you mean 'premis'? known: premis, id"),
        ('{"premise": "x", "gold": 1}', "set.jsonl:3: key id is missing; known: gold, premise"),
        ('{"id": "b", "premise": ["x"], "gold": 1}', "set.jsonl:3: column premise must be text or a number, got ['x']"),
        (
            '{"id": "b", "premise": "\\ud83d", "gold": 1}',
            "set.jsonl:3: column premise must be text, got an unpaired surrogate",
        ),
    ],
)
def test_an_invalid_json_line_is_refused_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    first = '{"id": "a", "premise": "x", "gold": 1}\n\n'
    for numbered in (True, False):  # the first object has an id, so that the others must have one
        assert reading_error(read_json_lines, tmp_path / "set.jsonl", first + line, numbered=numbered).startswith(
            message
        )


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_json_file_is_refused(tmp_path: Path, content: str) -> None:
    message = reading_error(read_json_lines, tmp_path / "set.jsonl", content)
    assert message == "set.jsonl:1: a file must hold a JSON object per line, got an empty file"


def test_json_in_another_encoding_is_refused_with_its_line(tmp_path: Path) -> None:
    content = '{"id": 1, "premise": "a", "gold": 0}\n{"id": "café"}\n'.encode("latin-1")
    message = reading_error(read_json_lines, tmp_path / "set.jsonl", content)
    assert message == "set.jsonl:2: column id must be UTF-8 text, got byte 0xe9"


FORMATS = {
    "set.csv": (read_csv, "premise,gold\nfine,1\n,\ngood,0\n"),
    "set.tsv": (read_tsv, "premise\tgold\nfine\t1\n\t\ngood\t0\n"),
    "set.jsonl": (
        read_json_lines,
        '{"premise": "fine", "gold": 1}\n{"premise": "", "gold": null}\n\n{"premise": "good", "gold": 0}\n',
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_rows_without_ids_are_numbered_from_zero_with_blank_ones(tmp_path: Path, name: str) -> None:
    reader, content = FORMATS[name]
    (tmp_path / name).write_text(content)
    found = cells_of(reader(tmp_path / name, COLUMNS, numbered=True))
    assert found == [["0", "fine", "1"], ["1", "", ""], ["2", "good", "0"]]
    assert "id is missing" in reading_error(reader, tmp_path / name, content)


def test_blank_lines_are_rows_except_at_the_end_of_tsv(tmp_path: Path) -> None:
    blank = ["", "", ""]
    (tmp_path / "set.csv").write_text("id,premise,gold\n\na,b,1\n\n")
    assert list(read_csv(tmp_path / "set.csv", COLUMNS)) == [
        ("set.csv:2", blank),
        ("set.csv:3", ["a", "b", "1"]),
        ("set.csv:4", blank),
    ]
    (tmp_path / "set.csv").write_text("premise\tgold\n\n\nb\t1\n\n")
    assert list(read_tsv(tmp_path / "set.csv", COLUMNS, numbered=True)) == [
        ("set.csv:2", ["0", "", ""]),
        ("set.csv:3", ["1", "", ""]),
        ("set.csv:4", ["2", "b", "1"]),
    ]


@pytest.mark.parametrize(("reader", "mark"), [(read_csv, ","), (read_csv, "\t"), (read_tsv, "\t")])
def test_given_names_stand_for_a_missing_header_line(tmp_path: Path, reader: Reader, mark: str) -> None:
    path, header = tmp_path / "set.tsv", ("source", "gold", "premise")
    where = f"{tmp_path.name}/set.tsv"
    path.write_text("\n".join([mark.join(("s", "1", "fine")), mark.join(("s", "0", "good"))]))
    rows = [(f"{where}:1", ["0", "fine", "1"]), (f"{where}:2", ["1", "good", "0"])]
    assert list(reader(path, COLUMNS, numbered=True, headers=[header])) == rows
    path.write_text(mark.join(("gold", "premise")) + "\n" + mark.join(("1", "fine")))
    rows = [(f"{where}:2", ["0", "fine", "1"])]
    assert list(reader(path, COLUMNS, numbered=True, headers=[header])) == rows, "it has a header line all the same"
    path.write_text(mark.join(("1", "fine")))
    rows = [(f"{where}:1", ["0", "fine", "1"])]
    assert list(reader(path, COLUMNS, numbered=True, headers=[header, header[1:]])) == rows, "of the same number"
    path.write_text(mark.join(("s", "1", "fine", "more")))
    message = one_line_error(lambda: list(reader(path, COLUMNS, numbered=True, headers=[header])))
    assert message == f"{where}:1: a line must have 3 cells, got 4, column premise must be the last"


@pytest.mark.parametrize(
    ("reader", "content"),
    [
        (read_csv, ",premise,gold\n7,fine,1\n"),  # as pandas writes its index
        (read_tsv, "\tpremise\tgold\n7\tfine\t1\n"),
        (read_json_lines, '{"": 7, "premise": "fine", "gold": 1}\n'),
    ],
)
def test_rows_are_numbered_where_the_name_for_ids_is_blank(tmp_path: Path, reader: Reader, content: str) -> None:
    (tmp_path / "set").write_text(content)
    assert cells_of(reader(tmp_path / "set", ("", *COLUMNS[1:]), numbered=True)) == [["0", "fine", "1"]]


def test_only_files_of_the_same_name_are_shown_with_their_folder() -> None:
    assert short_name(Path("/data/QQP/train.tsv")) == "QQP/train.tsv"
    assert short_name(Path("/data/ids-sst-train.csv")) == "ids-sst-train.csv"
