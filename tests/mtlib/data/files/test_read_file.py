"""One file in any format: by its name or the given format, with the names of classes that it carries."""

import json
from pathlib import Path

import datasets
import pandas as pd
import pytest

from mtlib.data.files.read_file import carried_by, is_file_of_splits, read_one_file
from mtlib.data.files.readers import Wanted
from mtlib.tasks import FileFormat
from tests.one_line_error import one_line_error

COLUMNS = ("id", "text", "label")
FRAME = pd.DataFrame({"id": ["a", "b"], "text": ['say "x"', "y"], "label": ["no", "yes"]})
CELLS = [["a", 'say "x"', "no"], ["b", "y", "yes"]]


def read(path: Path, columns: tuple[str, ...] = COLUMNS, **given: str) -> list[list[str]]:
    return [cells for _, cells in read_one_file(path, Wanted(columns=columns, format=FileFormat(**given)))]


def test_the_name_says_the_format_or_it_is_given(tmp_path: Path) -> None:
    writers = {
        "csv": FRAME.to_csv(index=False),
        "tsv": FRAME.to_csv(sep="\t", index=False),
        "jsonl": FRAME.to_json(orient="records", lines=True),
        "json": FRAME.to_json(orient="records"),
    }
    for form, content in writers.items():
        for name, given in ((f"t.{form}", ""), (f"T.{form.upper()}", ""), ("t", form), ("t.txt", form)):
            (tmp_path / name).write_text(content)
            assert read(tmp_path / name, name=given) == CELLS
    FRAME.to_parquet(tmp_path / "data")
    assert read(tmp_path / "data", name="parquet") == CELLS


def test_the_quoting_of_a_tsv_file_may_be_given(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text('id\ttext\tlabel\na\t"x"\tno\n')
    assert read(path) == read(path, quoting="none") == [["a", '"x"', "no"]]
    assert read(path, quoting="standard") == [["a", "x", "no"]]


def test_a_file_can_be_one_text_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "sport").mkdir()
    path = tmp_path / "sport" / "001.txt"
    path.write_text("A title\n\nA text.\n")
    assert read(path, ("file", "text", "folder"), name="text") == [["001.txt", "A title\n\nA text.", "sport"]]
    assert "column label is missing" in one_line_error(read, path, ("", "text", "label"), name="text")


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.csv.zst", "t.csv.zip", "t.tsv.gz", "t.parquet"])
def test_a_file_that_is_not_there_or_damaged_is_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    assert one_line_error(read, path).startswith(f"{path} must be a readable file, got: ")
    path.write_bytes(b"\0\xff\1" * 20)
    assert name in one_line_error(read, path)


def test_a_name_that_says_no_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.doc").touch()
    assert one_line_error(read, tmp_path / "t.doc") == f"{tmp_path / 't.doc'} must have a format that its name says"


def test_names_of_classes_are_those_that_a_parquet_file_carries(tmp_path: Path) -> None:
    path, given = tmp_path / "t.parquet", FileFormat()
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])})
    datasets.Dataset.from_dict({"text": ["x"], "label": [1]}, features=features).to_parquet(path)
    assert carried_by(path, given, "label") == ("no", "yes")
    assert carried_by(path, given, "text") == ()
    FRAME.to_parquet(path)
    FRAME.to_csv(tmp_path / "t.csv")
    assert carried_by(path, given, "label") == carried_by(tmp_path / "t.csv", given, "label") == ()
    assert carried_by(tmp_path / "none.parquet", given, "label") == ()


@pytest.mark.parametrize(
    ("content", "is_of_splits"),
    [
        ({"train": [], "val": []}, True),
        ({"train": []}, False),
        ({"train": "x", "val": "y"}, False),
        ([], False),
        ("{", False),
    ],
)
def test_a_json_file_may_hold_an_array_for_each_split(content: object, is_of_splits: bool, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    assert is_file_of_splits(path, FileFormat(), ("train", "dev")) == is_of_splits
    assert not is_file_of_splits(path, FileFormat(name="jsonl"), ("train", "dev"))
