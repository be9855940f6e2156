"""Whether TSV files are quoted: what pandas and csv write, what stands without quoting, and what fits both."""

import csv
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mtlib.data.files.quoting import describe_quoting, find_quoting, quoting_of
from mtlib.data.files.read_file import read_one_file
from mtlib.data.files.readers import Wanted
from mtlib.tasks import FileFormat

PARTS = ["a", "b c", '"', '""', ",", "\u00e9", "'"]
WIDE_PARTS = [*PARTS, "\t", "\n"]
QUOTED = re.compile(r'"[^"]*(""[^"]*)*"')
TABS = FileFormat()


def random_table(seed: int, parts: list[str]) -> list[list[str]]:
    """Returns 1 to 12 rows of 2 or 3 cells, which are not blank and have no blanks at their ends."""
    stream = np.random.default_rng(seed)
    num_columns = int(stream.integers(2, 4))
    rows = []
    for _ in range(int(stream.integers(1, 13))):
        cells = ["".join(stream.choice(parts, int(stream.integers(1, 4)))).strip() for _ in range(num_columns)]
        rows.append([cell or "x" for cell in cells])
    return rows


def read_rows(path: Path, rows: list[list[str]]) -> list[list[str]]:
    """Returns the cells of a file whose columns are named a, b, and c."""
    names = list("abc")[: len(rows[0])]
    return [cells[1:] for _, cells in read_one_file(path, Wanted(columns=("", *names)))]


def write_without_quoting(path: Path, rows: list[list[str]]) -> None:
    path.write_text("".join("\t".join(row) + "\n" for row in [list("abc")[: len(rows[0])], *rows]))


@pytest.mark.parametrize("library", ["pandas", "csv"])
def test_a_table_that_a_library_writes_is_read_as_it_was(library: str, tmp_path: Path) -> None:
    path, num_quoted = tmp_path / "t.tsv", 0
    for seed in range(300):
        rows = random_table(seed, WIDE_PARTS)
        if library == "pandas":
            pd.DataFrame(rows, columns=list("abc")[: len(rows[0])]).to_csv(path, sep="\t", index=False)
        else:
            with path.open("w", newline="") as file:
                csv.writer(file, dialect="excel-tab").writerows([list("abc")[: len(rows[0])], *rows])
        lines = [line for line in path.read_text().split("\n") if line]
        is_even = len({line.count("\t") for line in lines}) == 1
        if is_even and any("\n" in cell for row in rows for cell in row):
            continue  # each line has as many cells without quoting
        assert read_rows(path, rows) == rows, path.read_text()
        num_quoted += find_quoting(path, TABS).name == "standard"
        path.unlink()
    assert num_quoted > 200


def test_a_table_without_quoting_is_not_changed_unless_it_fits_both_readings(tmp_path: Path) -> None:
    path, num_marked = tmp_path / "t.tsv", 0
    for seed in range(600):
        rows = random_table(seed, PARTS)
        write_without_quoting(path, rows)
        marked = [cell for row in rows for cell in row if '"' in cell]
        fits_both = bool(marked) and all(QUOTED.fullmatch(cell) for cell in marked)
        assert read_rows(path, rows) == rows or fits_both, path.read_text()
        num_marked += bool(marked) and not fits_both
        path.unlink()
    assert num_marked > 300


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("a\tb\n", ""),
        ('a\tb "c"\n', "none"),
        ('"a\tb"\n"c\td"\n', "none"),
        ('a\t"b\nc\td"\n', "none"),
        ('x\ty\tz\n1\t"a\nb"\t2\n', "standard"),
        ('x\ty\n"a\tb"\tc\n', "standard"),
        ('x\ty\n"a ""b"""\tc\n', "standard"),
        ('\ufeff"x"\t"y"\n"a"\t"b"\n', "standard"),
        ('"a"\tb\r\n"c"\td\r\n', "standard"),
        ('"a" b\t"c"\n', "none"),
        ('"a""\tb\n', "none"),
        ("x\ty\n" + '"a"\tb\n' * 9, "standard"),
    ],
)
def test_a_file_shows_whether_it_is_quoted(content: str, name: str) -> None:
    found = quoting_of(content.encode())
    assert found.name == name


@pytest.mark.parametrize("content", ['x\ty\n"a"\tb\n', '"a"\tb\n', 'x\ty\n"a"\tb\nc\t"d"\n'])
def test_a_file_whose_few_cells_in_marks_prove_nothing_fits_both_readings(content: str, tmp_path: Path) -> None:
    found = quoting_of(content.encode())
    assert (found.name, found.example) == ("unclear", '"a"')
    path = tmp_path / "t.tsv"
    path.write_text(content)
    line = describe_quoting(path, TABS, "tasks.tone.quoting")
    cells = "2 cells stand" if found.num_quoted == 2 else "1 cell stands"
    assert f'/t.tsv: {cells} in quotation marks, which are read as part of the text, such as "a"; ' in line
    assert line.endswith('tasks.tone.quoting = "standard" would read a, "none" is what is done')


def test_a_certain_file_needs_no_line(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text('a\tb "c\n')
    assert describe_quoting(tmp_path / "t.tsv", TABS, "quoting") == ""


@pytest.mark.parametrize(
    "given", [FileFormat(encoding="utf-16"), FileFormat(separator="|"), FileFormat(separator="\u00a6")]
)
def test_other_encodings_and_separators_show_it_too(given: FileFormat, tmp_path: Path) -> None:
    content = 'x\ty\n"a ""b"""\tc\n'.replace("\t", given.separator or "\t")
    (tmp_path / "t.tsv").write_bytes(content.encode(given.encoding or "utf-8"))
    wanted = Wanted(columns=("", "x", "y"), format=given)
    assert [cells for _, cells in read_one_file(tmp_path / "t.tsv", wanted)] == [["0", 'a "b"', "c"]]


def test_a_changed_file_is_looked_at_again(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    for content, name in (('a\t"b\n', "none"), ('"a"\t"b ""c"""\n', "standard"), ("", "")):
        path.write_text(content)
        assert find_quoting(path, TABS).name == name
