"""Samples of files have the rows that readers read, in any format, and say what is wrong with the others."""

import datetime
import decimal
import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mtlib.data.proposals.samples import FAULTS, Sample, bare_name, look_at, split_in
from mtlib.runtime.errors import first_line

ROWS = [{"text": f"a short text {at}", "label": "ab"[at % 2]} for at in range(6)]
FRAME = pd.DataFrame(ROWS)


def written(folder: Path, name: str, content: str | bytes) -> Sample:
    """The sample of a file with this content."""
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return look_at(folder, Path(name))


def zipped(name: str, content: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


CSV, LINES = FRAME.to_csv(index=False), FRAME.to_json(orient="records", lines=True)


@pytest.mark.parametrize(
    ("name", "content", "given"),
    [
        ("a.csv", CSV, {}),
        ("a.csv", CSV.replace("\n", " \n").replace(",", ", "), {}),
        ("a.csv", FRAME.to_csv(index=False, sep=";", quoting=1).replace("text 0", "text 0"), {"separator": ";"}),
        ("a.tsv", FRAME.to_csv(index=False, sep="\t"), {}),
        ("a.txt", CSV, {"name": "csv"}),
        ("archive.zip", zipped("train.csv", CSV), {"name": "csv"}),
        ("a.csv.gz", gzip.compress(CSV.encode(), mtime=0), {}),
        ("a.json", LINES, {}),
        ("a.txt", LINES, {"name": "jsonl"}),
        ("a.txt", json.dumps(ROWS, indent=1), {"name": "json"}),
    ],
)
def test_the_rows_of_a_file_are_found(name: str, content: str | bytes, given: dict[str, str], tmp_path: Path) -> None:
    sample = written(tmp_path, name, content)
    assert (list(sample.names), list(sample.rows)) == (["text", "label"], ROWS)
    assert {key: value for key, value in vars(sample.given).items() if value} == given


def test_a_line_feed_in_a_quoted_name_takes_the_separator(tmp_path: Path) -> None:
    sample = written(tmp_path, "a.csv", CSV.replace("text", '"a\ntext"', 1))
    assert (sample.names, sample.given.separator) == (["a\ntext", "label"], ",")


@pytest.mark.parametrize(
    ("first", "has_names"),
    [
        ("text,label", True),
        ("great film,b", False),  # `b` recurs in its column
        ("12,some label of it", False),
        ("the first of many words here,label", True),
        (",,label", True),
        (",,mood", False),
    ],
)
def test_the_first_line_names_columns_or_is_a_row(first: str, has_names: bool, tmp_path: Path) -> None:
    assert written(tmp_path, "a.csv", "\n".join([first, *CSV.split("\n")[1:]])).has_names == has_names


def test_names_recur_where_files_were_joined(tmp_path: Path) -> None:
    assert written(tmp_path, "a.csv", CSV + CSV).has_names


def test_values_that_are_no_cells_are_left_out(tmp_path: Path) -> None:
    more = {
        "day": datetime.date(2020, 1, 1),
        "raw": b"\xff",
        "days": [datetime.date(2020, 1, 1)],
        "sums": [decimal.Decimal("1.5"), None],
    }
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([{**row, **more} for row in ROWS]), buffer)
    sample = written(tmp_path, "a.parquet", buffer.getvalue())
    assert list(sample.names) == ["text", "label", "day", "days", "sums"]


def test_names_of_classes_keep_their_order(tmp_path: Path) -> None:
    names = ["World", "Sports", "Business"]
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=names)})
    datasets.Dataset.from_dict({"text": ["a", "b"], "label": [2, 0]}, features=features).to_parquet(
        tmp_path / "a.parquet"
    )
    sample = look_at(tmp_path, Path("a.parquet"))
    assert sample.class_names == {"label": tuple(names)}
    assert sample.values("label") == ["Business", "World"]


def prodigy(**keys: Any) -> str:
    rows = [{"text": "a text", "_input_hash": at, "_task_hash": at, **keys} for at in range(4)]
    return json.dumps([row | {"label": "ab"[at % 2]} if "label" in keys else row for at, row in enumerate(rows)])


def studio(**annotation: Any) -> str:
    return json.dumps([{"data": {"text": "a"}, "annotations": [annotation]}])


RESULT = [{"from_name": "tone", "value": {"choices": ["a"]}}]
DEEP = "[" + '{"a":' * 900 + "1" + "}" * 900 + "]"


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("a.json", studio(was_cancelled=True, result=RESULT), "1 left out: no annotator has answered tone"),
        ("a.json", studio(result=None), "must be a row of an export of Label Studio"),
        ("a.json", json.dumps([{"data": "a", "annotations": ["pos"]}]), "must be a row of an export of Label Studio"),
        ("a.json", prodigy(answer="ignore"), "4 left out: no annotator has answered"),
        ("a.jsonl", json.dumps({"text": "a", "tone.responses": None}), "1 left out: no annotator has answered tone"),
        *(("a.json", content, "must have rows with texts or numbers") for content in ("[{}]", "[[]]", '[{"a": {}}]')),
        ("a.json", DEEP, "must have rows with texts or numbers"),
        ("a.json", '{"dev": [{"a": 1}], "test": []}', "must have one for train, got dev, test"),
        ("a.csv", f"\n{CSV}", "must start with a header line, got a blank one"),
        ("a.csv", "text,label\n", "must have rows below the names of its columns"),
        ("a.png", b"\x89PNG\r\n\0\0", "must hold no zero byte"),
        ("a.csv", b"\xef\xbb\xbf\n", "a file must have rows"),
    ],
)
def test_a_file_without_rows_says_why(name: str, content: str | bytes, fault: str, tmp_path: Path) -> None:
    with pytest.raises(FAULTS) as error:
        written(tmp_path, name, content)
    assert fault in first_line(error.value)


def test_names_of_columns_may_be_anything_in_json(tmp_path: Path) -> None:
    assert written(tmp_path, "a.json", '{"data": [[1, "x"]], "columns": 3}').names == ["column1", "column2"]


@pytest.mark.parametrize(("keys", "label"), [({"label": ""}, "label"), ({}, "answer")])
def test_the_label_of_prodigy_is_the_key_with_several_values(keys: dict[str, str], label: str, tmp_path: Path) -> None:
    assert written(tmp_path, "a.json", prodigy(answer="accept", **keys)).label == label


def test_long_files_are_looked_at_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mtlib.data.proposals.samples.MOST_BYTES", len(CSV) - 8)
    sample = written(tmp_path, "a.csv", CSV + CSV)
    assert list(sample.rows) == ROWS[:-1]
    monkeypatch.setattr("mtlib.data.proposals.samples.MOST_BYTES", 5)
    assert (written(tmp_path, "a.txt", "one\ntwo\nthree").num_lines) == 2 + 1


@pytest.mark.parametrize(
    ("name", "split", "rest"),
    [
        ("TrainSet", "train", ""),
        ("traindata", "train", ""),
        ("DevSet", "dev", ""),
        ("testfile", "test", ""),
        ("train-00000-of-00005", "train", ""),
        ("20news-bydate-train", "train", "20 news bydate"),
        ("tweets_valid2", "dev", "tweets"),
        ("device", "", "device"),
        ("latest", "", "latest"),
    ],
)
def test_names_say_their_split(name: str, split: str, rest: str) -> None:
    assert (split_in(name), bare_name(name)) == (split, rest)
