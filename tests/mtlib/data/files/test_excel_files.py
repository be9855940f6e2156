"""Excel files as pandas and openpyxl write them; every mistake is one line with its row."""

import datetime
import re
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from mtlib.data.files.excel_files import excel_rows, read_excel_stream
from mtlib.data.files.readers import Wanted
from tests.one_line_error import one_line_error

openpyxl = pytest.importorskip("openpyxl")

WANTED = Wanted(columns=("id", "text", "label"))


def write(path: Path, *sheets: Sequence[Sequence[object]]) -> Path:
    """Writes a file with these rows of each sheet."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for rows in sheets:
        sheet = book.create_sheet()
        for row in rows:
            sheet.append(list(row))
    book.save(path)
    return path


def read(path: Path, wanted: Wanted = WANTED) -> list[tuple[str, list[str]]]:
    with path.open("rb") as stream:
        return list(read_excel_stream(stream, path.name, wanted))


HEADER = ("label", "text", "more", "id")


def test_values_become_the_text_of_csv_and_blank_rows_are_none(tmp_path: Path) -> None:
    day = datetime.date(2024, 2, 1)
    rows = [HEADER, (1, " fine ", day, "a"), (None, None), (True, "NA", None, 7), (0.5, day, None, 1.0), (None, "x")]
    assert read(write(tmp_path / "t.xlsx", rows, [])) == [
        ("t.xlsx: row 2", ["a", "fine", "1"]),
        ("t.xlsx: row 4", ["7", "NA", "true"]),
        ("t.xlsx: row 5", ["1", "2024-02-01 00:00:00", "0.5"]),
        ("t.xlsx: row 6", ["", "x", ""]),
    ]


def test_cells_without_a_value_are_no_column_and_no_row_and_errors_are_blank(tmp_path: Path) -> None:
    """A format makes a cell; so the second sheet has none, and the first one three columns."""
    sheet = [("label", "text", "id"), (1, "fine"), (), (0, "bad", 2.0), ("#N/A", "x", "")]
    book = openpyxl.load_workbook(write(tmp_path / "t.xlsx", sheet, []))
    for own in book.worksheets:
        own.cell(9, 9).number_format = "0.0"
    book.save(tmp_path / "t.xlsx")
    with (tmp_path / "t.xlsx").open("rb") as stream:
        rows = excel_rows(stream, "t.xlsx")
    assert rows[1:] == [[1, "fine", None], [None, None, None], [0, "bad", 2], [None, "x", None]]


def test_dimensions_that_a_file_states_wrongly_cut_nothing(tmp_path: Path) -> None:
    path, changed = write(tmp_path / "t.xlsx", [HEADER, (1, "fine", "", "a")]), tmp_path / "changed.xlsx"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            new.writestr(name, re.sub(rb'<dimension ref="[^"]*"', b'<dimension ref="A1:A1"', old.read(name)))
    assert read(changed) == [("changed.xlsx: row 2", ["a", "fine", "1"])]


def test_given_names_stand_for_a_missing_first_row(tmp_path: Path) -> None:
    path = write(tmp_path / "t.xlsx", [(1, "fine"), (0, "bad")])
    found = read(path, Wanted(columns=("", "text", "label"), headers=[("label", "text")]))
    assert [cells for _, cells in found] == [["0", "fine", "1"], ["1", "bad", "0"]]


def test_a_file_has_one_sheet_with_rows(tmp_path: Path) -> None:
    two = write(tmp_path / "t.xlsx", [HEADER, (1, "x")], [("more",), (1,)])
    assert one_line_error(read, two) == "t.xlsx must have one sheet with rows, got Sheet, Sheet1"
    assert one_line_error(read, write(tmp_path / "t.xlsx", [])) == "t.xlsx must have one sheet with rows, got none"


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    message = one_line_error(read, write(tmp_path / "t.xlsx", [("label", "txt"), (1, "x")]))
    assert message.startswith("t.xlsx: row 1: column text is missing; did you mean 'txt'?")


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.xlsx").write_text("label,text\n")
    assert one_line_error(read, tmp_path / "t.xlsx").startswith("t.xlsx must be an Excel file that can be read, got: ")


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pd.DataFrame({"id": [1], "text": ["x"], "label": [1]}).to_excel(tmp_path / "t.xlsx", index=False)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    message = one_line_error(read, tmp_path / "t.xlsx")
    assert message.startswith("t.xlsx needs the library openpyxl: pip install 'multitask-sweeps[excel]' (")
