"""Row sources: files are read once, held-out rows are on one side only, other dropped rows are counted.

What holds for every reader is here, too: what is blank, the names of labels, values, and errors.
"""

import dataclasses
import json
import shutil
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mtlib.data import row_sources
from mtlib.data.hold_out import normalise
from mtlib.data.load import LABEL_TABLE, label_mapping, names_to_carry
from mtlib.data.parquet_files import ClassNames
from mtlib.data.row_labels import Layout
from mtlib.data.row_sources import HELD, HoldOut, RowSource, describe_sources, read_all_rows, read_tables
from mtlib.data.tables import Table, content_fingerprint
from mtlib.data.token_cache import tokenize
from mtlib.model.encoder import PretrainedEncoder
from mtlib.tasks import TASKS, Task
from tests.one_line_error import one_line_error

LAYOUT = Layout(id_column="id", text_columns=("sentence",), label_column="sentiment")


def write(folder: Path, name: str, texts: Sequence[str]) -> RowSource:
    """Writes a file of single texts; the source of all its rows."""
    rows = [f"{name}{number},{text},{number % 5}" for number, text in enumerate(texts)]
    (folder / f"{name}.csv").write_text("\n".join(["id,sentence,sentiment", *rows]) + "\n")
    return RowSource(task=TASKS["sst"], split="train", paths=(f"{name}.csv",), own_split="train", layout=LAYOUT)


def texts_of(table: Table) -> set[str]:
    return {normalise(text) for column in table.texts for text in column}


WORDS = [f"text {number}" for number in range(40)]


@pytest.fixture
def own(tmp_path: Path) -> RowSource:
    return write(tmp_path, "own", WORDS)


@pytest.fixture
def hold_out(own: RowSource) -> HoldOut:
    return HoldOut(share=0.25, sources=(own,))


def keeping(part: RowSource, hold_out: HoldOut, split: str = "train") -> RowSource:
    return dataclasses.replace(part, hold_out=hold_out, split=split)


def test_held_out_and_remaining_rows_make_up_the_file(tmp_path: Path, own: RowSource, hold_out: HoldOut) -> None:
    train, held = (keeping(own, hold_out),), (keeping(own, hold_out, HELD),)
    tables, all_rows = read_tables([train, held], tmp_path), read_all_rows(own, tmp_path)
    assert (len(tables[held].ids), len(tables[train].ids)) == (10, 30)
    assert [tables[part].num_own_rows for part in (held, train)] == [10, 30]
    assert [(tables[part].split, tables[part].left_out) for part in (held, train)] == [(HELD, ()), ("train", ())]
    rows = {
        row: (text, label) for row, text, label in zip(all_rows.ids, *all_rows.texts, labels_of(all_rows), strict=True)
    }
    for table in tables.values():
        assert table.ids == [row for row in all_rows.ids if row in set(table.ids)], "the file's order"
        assert [rows[row] for row in table.ids] == list(zip(*table.texts, labels_of(table), strict=True))
    assert sorted(tables[held].ids + tables[train].ids) == sorted(all_rows.ids)


def labels_of(table: Table) -> list[float]:
    found: list[float] = table.labels.tolist()
    return found


def test_without_held_out_rows_a_source_is_its_whole_file(tmp_path: Path, own: RowSource) -> None:
    (table,) = read_tables([(own,)], tmp_path).values()
    assert content_fingerprint({("a", "train"): table}) == content_fingerprint(
        {("a", "train"): read_all_rows(own, tmp_path)}
    )


def test_rows_of_other_files_that_share_a_held_out_text_are_dropped_and_counted(
    tmp_path: Path, own: RowSource, hold_out: HoldOut
) -> None:
    held = (keeping(own, hold_out, HELD),)
    held_texts = read_tables([held], tmp_path)[held].texts[0]
    loud = [text.upper().replace(" ", "  ") for text in held_texts]
    extra = (keeping(write(tmp_path, "extra", ["new", *loud, "newer"]), hold_out),)
    one = (keeping(write(tmp_path, "one", ["new", held_texts[0]]), hold_out),)
    none = (keeping(write(tmp_path, "none", ["new", "text"]), hold_out),)
    tables = read_tables([extra, one, none], tmp_path)
    assert (tables[extra].ids, tables[extra].num_own_rows) == (["extra0", "extra11"], 2)
    assert tables[extra].left_out == ("extra.csv: 10 rows share a text with rows held out",)
    assert tables[one].left_out == ("one.csv: 1 row shares a text with rows held out",)
    assert (tables[none].ids, tables[none].left_out) == (["none0", "none1"], ())


def test_augmentation_is_dropped_too_and_not_counted_among_own_rows(
    tmp_path: Path, own: RowSource, hold_out: HoldOut
) -> None:
    more = dataclasses.replace(keeping(write(tmp_path, "more", [*WORDS, "new"]), hold_out), prefix="more/")
    both = (keeping(own, hold_out), more)
    table = read_tables([both], tmp_path)[both]
    assert (table.num_own_rows, len(table.ids)) == (30, 61)
    assert table.ids[29].startswith("own")
    assert all(row.startswith("more/") for row in table.ids[30:])
    assert table.left_out == ("more.csv: 10 rows share a text with rows held out",)


def test_held_out_rows_of_two_tasks_are_dropped_from_both(tmp_path: Path) -> None:
    """One file is a part of the other, so that their held-out rows differ."""
    files = [write(tmp_path, "one", WORDS), write(tmp_path, "two", WORDS[:12])]
    together = HoldOut(share=0.25, sources=tuple(files))
    train = [(keeping(part, together),) for part in files]
    held = [(keeping(part, HoldOut(share=0.25, sources=(part,)), HELD),) for part in files]
    tables = read_tables([*train, *held], tmp_path)
    held_texts = [texts_of(tables[part]) for part in held]
    assert held_texts[0] != held_texts[1]
    for part, file, own, other in zip(train, files, held_texts, reversed(held_texts), strict=True):
        texts = read_all_rows(file, tmp_path).texts[0]
        num_others = sum(text in other - own for text in texts)
        assert tables[part].texts[0] == [text for text in texts if text not in own | other]
        notes = {0: (), 1: ("1 row shares",)}.get(num_others, (f"{num_others} rows share",))
        assert tables[part].left_out == tuple(f"{file.paths[0]}: {what} a text with rows held out" for what in notes)
    assert any(tables[part].left_out for part in train)


def test_every_file_is_read_once(
    tmp_path: Path, own: RowSource, hold_out: HoldOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[RowSource]()

    def count(part: RowSource, folder: Path) -> Table:
        read.append(part)
        return read_all_rows(part, folder)

    monkeypatch.setattr(row_sources, "read_all_rows", count)
    extra = write(tmp_path, "extra", ["new"])
    train, held = (keeping(own, hold_out),), (keeping(own, hold_out, HELD),)
    tables = read_tables([train, held, (keeping(extra, hold_out),), (own, extra), train], tmp_path)
    assert len(tables) == 4
    assert sorted(part.paths[0] for part in read) == ["extra.csv", "own.csv"]


def test_a_share_that_fits_no_group_is_refused_with_its_file(tmp_path: Path) -> None:
    few = write(tmp_path, "few", ["a", "b", "c"])
    assert one_line_error(read_tables, [(keeping(few, HoldOut(share=0.3, sources=(few,))),)], tmp_path) == (
        "few.csv: data.hold_out must hold out at least one whole group of rows that share texts, got 0.3 of 3 rows"
    )
    assert len(read_tables([(keeping(few, HoldOut(share=0.34, sources=(few,))),)], tmp_path)) == 1
    same = write(tmp_path, "same", ["a", "A", " a"])
    assert one_line_error(read_tables, [(keeping(same, HoldOut(share=0.5, sources=(same,))),)], tmp_path).endswith(
        "got 0.5 of 3 rows"
    )


def test_a_file_without_remaining_rows_is_refused(tmp_path: Path, own: RowSource, hold_out: HoldOut) -> None:
    held = (keeping(own, hold_out, HELD),)
    held_texts = read_tables([held], tmp_path)[held].texts[0]
    copy = keeping(write(tmp_path, "copy", held_texts[:4]), hold_out)
    rule = "copy.csv: there must be train rows that share no text with rows held out, got none among 4"
    assert one_line_error(read_tables, [(copy,)], tmp_path) == rule


def test_unusable_rows_are_reported_for_trained_splits_only(tmp_path: Path, own: RowSource, hold_out: HoldOut) -> None:
    with (tmp_path / "own.csv").open("a") as file:
        file.write("last,,1\n")
    train, held = (keeping(own, hold_out),), (keeping(own, hold_out, HELD),)
    tables = read_tables([train, held], tmp_path)
    assert [tables[part].skipped for part in (train, held)] == [("own.csv:42: sentence is blank",), ()]


def test_held_out_rows_can_be_tokenized(
    tmp_path: Path, own: RowSource, hold_out: HoldOut, tiny_encoder: PretrainedEncoder
) -> None:
    held = (keeping(own, hold_out, HELD),)
    tables = {("sst", HELD): read_tables([held], tmp_path)[held]}
    table = tokenize(tables, tiny_encoder.tokenizer, tmp_path / "cache")["sst", HELD]
    assert (table.num_rows, table.ids) == (10, tables["sst", HELD].ids)
    assert table.labels.tolist() == labels_of(tables["sst", HELD])


def test_row_sources_are_identified_by_files_and_held_out_rows(own: RowSource, hold_out: HoldOut) -> None:
    assert describe_sources((own, dataclasses.replace(own, paths=("b.csv",)))) == "own.csv, b.csv"
    assert describe_sources((keeping(own, hold_out),)) == "own.csv; held out: sst"


ROWS = Layout(id_column="", is_numbered=True, text_columns=("text",), label_column="label")
STARS = Task(
    name="stars", title="", kind="regression", label_range=(0, 2.9), text_columns=("text",), label_column="label"
)
TONES = ("neg", "neu", "pos")
TONE = Task(
    name="tone",
    title="",
    kind="classes",
    label_range=(0, 2),
    labels=TONES,
    text_columns=("text",),
    label_column="label",
)
Columns = dict[str, list[Any]]


def write_delimited(folder: Path, columns: Columns, name: str = "rows.csv") -> str:
    pd.DataFrame(columns).to_csv(folder / name, sep="\t" if name.endswith("tsv") else ",", index=False)
    return name


def write_json(folder: Path, columns: Columns, name: str = "rows.jsonl") -> str:
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def write_parquet(folder: Path, columns: Columns) -> str:
    pd.DataFrame(columns).to_parquet(folder / "rows.parquet")
    return "rows.parquet"


def write_saved(folder: Path, columns: Columns) -> str:
    datasets.Dataset(pa.Table.from_pandas(pd.DataFrame(columns))).save_to_disk(folder / "saved")
    return "hf://saved"


def in_hub_folder(write: Callable[..., str], name: str) -> Callable[[Path, Columns], str]:
    def write_in_folder(folder: Path, columns: Columns) -> str:
        (folder / "hub").mkdir(exist_ok=True)
        write(folder / "hub", columns, name)
        return "hf://hub"

    return write_in_folder


WRITERS: dict[str, Callable[[Path, Columns], str]] = {
    "CSV": write_delimited,
    "TSV": lambda folder, columns: write_delimited(folder, columns, "rows.tsv"),
    "JSON lines": write_json,
    "Parquet": write_parquet,
    "saved data set": write_saved,
    "hub folder of CSV": in_hub_folder(write_delimited, "train.csv"),
    "hub folder of JSON lines": in_hub_folder(write_json, "train.jsonl"),
}
every_reader = pytest.mark.parametrize("reader", WRITERS)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def source_of(path: str, task: Task, layout: Layout = ROWS) -> RowSource:
    return RowSource(task=task, split="train", paths=(path,), own_split="train", layout=layout)


WORDS_LIKE_NONE = ["null", "NA", "None", "nan", "NaN", "N/A", "-"]


@every_reader
@pytest.mark.usefixtures("own_cache")
def test_missing_values_are_blank_and_their_words_are_text(reader: str, tmp_path: Path) -> None:
    texts = [*WORDS_LIKE_NONE, None, float("nan"), "", " ", "fine", "good"]
    labels = [1.0] * (len(texts) - 1) + [float("nan")]
    path = WRITERS[reader](tmp_path, {"text": texts, "label": labels})
    table = read_all_rows(source_of(path, STARS), tmp_path)
    assert table.texts == ([*WORDS_LIKE_NONE, "fine"],)
    assert [line.rpartition(": ")[2] for line in table.skipped] == ["text is blank"] * 4 + ["label is blank"]


@pytest.mark.parametrize("reader", ["Parquet", "saved data set"])
@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array([2.9, 0.1], pa.float32()), ["2.9", "0.1"]),
        (pa.array(np.array([2.5, 0.1], np.float16)), ["2.5", "0.1"]),
        (pa.array([Decimal("2.50"), Decimal("0.10")]), ["2.50", "0.10"]),
        (pa.array([2, 0], pa.int8()), ["2", "0"]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array(["2", "0"]).dictionary_encode(), ["2", "0"]),
    ],
)
def test_values_of_every_type_are_read_as_they_were_written(
    reader: str, values: pa.Array, texts: list[str], tmp_path: Path
) -> None:
    table = pa.table({"label": [1.0, 1.0], "text": values})
    pq.write_table(table, tmp_path / "rows.parquet")
    if reader != "Parquet" and not pa.types.is_dictionary(values.type):
        datasets.Dataset(table).save_to_disk(tmp_path / "saved")
    path = "rows.parquet" if reader == "Parquet" or pa.types.is_dictionary(values.type) else "hf://saved"
    assert read_all_rows(source_of(path, STARS), tmp_path).texts == (texts,)


@every_reader
@pytest.mark.usefixtures("own_cache")
def test_a_bound_in_single_precision_is_within_the_range(reader: str, tmp_path: Path) -> None:
    path = WRITERS[reader](tmp_path, {"text": ["a", "b"], "label": [float(np.float32(2.9)), 0.0]})
    assert read_all_rows(source_of(path, STARS), tmp_path).labels.tolist() == [np.float32(2.9), 0]


@every_reader
@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("label", ["1_0", "\u0662", "\uff12", "0x1", "nan", "inf", "1,5"])
def test_what_python_or_nothing_reads_as_a_number_is_refused(reader: str, label: str, tmp_path: Path) -> None:
    path = WRITERS[reader](tmp_path, {"text": ["a", "b"], "label": ["1", label]})
    task = dataclasses.replace(STARS, label_range=(0, 20))
    message = one_line_error(read_all_rows, source_of(path, task), tmp_path)
    assert message.endswith(f"column label must be a number from 0 to 20, got {label!r}")


@every_reader
@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("names", [("false", "true"), ("False", "True")])
def test_truth_values_have_the_names_that_labels_give(reader: str, names: tuple[str, str], tmp_path: Path) -> None:
    path = WRITERS[reader](tmp_path, {"text": ["a", "b", "c"], "label": [True, False, True]})
    task = dataclasses.replace(TONE, kind="binary", label_range=(0, 1), labels=names)
    carried = ClassNames(names=names, mapping=LABEL_TABLE)
    layout = dataclasses.replace(ROWS, labels=label_mapping(task), has_all_labels=True, class_names=carried)
    assert read_all_rows(source_of(path, task, layout), tmp_path).labels.tolist() == [1, 0, 1]


NAMED_READERS = ("Parquet", "saved data set", "hub folder of Parquet")


def write_named(folder: Path, reader: str) -> str:
    """Rows with the classes 0, 1, 2 and a missing one, of a data set that calls them neg, neu and pos."""
    data = datasets.Dataset.from_dict({"text": ["a", "b", "c", "d"], "label": [0, 1, 2, -1]})
    data = data.cast_column("label", datasets.ClassLabel(names=list(TONES)))
    if reader == "saved data set":
        data.save_to_disk(folder / "saved")
        return "hf://saved"
    (folder / "hub").mkdir()
    data.to_parquet(folder / "hub" / "train.parquet")
    return "hub/train.parquet" if reader == "Parquet" else "hf://hub"


def named_layout(labels: Sequence[str] | dict[str, str]) -> tuple[Task, Layout]:
    """A task whose `labels` in `tasks.toml` are a list or a mapping, and its layout."""
    values = tuple(labels) if isinstance(labels, dict) else ()
    names = tuple(labels.values()) if isinstance(labels, dict) else tuple(labels)
    task = dataclasses.replace(TONE, labels=names, label_values=values)
    layout = dataclasses.replace(
        ROWS, labels=label_mapping(task), has_all_labels=True, class_names=names_to_carry(task, LABEL_TABLE)
    )
    return task, layout


@pytest.mark.parametrize("reader", NAMED_READERS)
@pytest.mark.usefixtures("own_cache")
def test_labels_are_called_as_the_data_set_calls_them(reader: str, tmp_path: Path) -> None:
    path = write_named(tmp_path, reader)
    for labels in (TONES, {"pos": "good", "neg": "bad", "neu": "so-so"}):
        task, layout = named_layout(labels)
        table = read_all_rows(source_of(path, task, layout), tmp_path)
        called = [task.labels[int(number)] for number in table.labels]
        assert called == (["bad", "so-so", "good"] if isinstance(labels, dict) else list(TONES))
        assert [line.rpartition(": ")[2] for line in table.skipped] == ["label is blank"]


@pytest.mark.parametrize("reader", NAMED_READERS)
@pytest.mark.parametrize("labels", [("pos", "neu", "neg"), ("negative", "neutral", "positive"), ("neg", "neu")])
@pytest.mark.usefixtures("own_cache")
def test_a_list_of_labels_that_contradicts_the_data_set_is_refused_with_both_orders(
    reader: str, labels: tuple[str, ...], tmp_path: Path
) -> None:
    task, layout = named_layout(labels)
    message = one_line_error(read_all_rows, source_of(write_named(tmp_path, reader), task, layout), tmp_path)
    assert "column label" in message
    assert "neg, neu, pos" in message
    assert LABEL_TABLE in message
    assert message.endswith(f"got {', '.join(labels)}")


@pytest.mark.usefixtures("own_cache")
def test_numbers_of_named_labels_stay_where_labels_have_no_names(tmp_path: Path) -> None:
    path = write_named(tmp_path, "saved data set")
    layout = dataclasses.replace(ROWS, labels=("0:2", "2:0"))
    assert read_all_rows(source_of(path, TONE, layout), tmp_path).labels.tolist() == [2, 0]


def refused_rows(folder: Path, name: str) -> list[tuple[str, str, str]]:
    """Files that are refused, each with the row and the column of its mistake."""
    text, latin = "x" * 5000, b"a caf\xe9"
    (folder / f"{name}.csv").write_text(f"text,label\nfine,1\nfine,{text}\n")
    (folder / f"{name}-1.csv").write_bytes(b"text,label\nfine,1\n" + latin + b",1\n")
    (folder / f"{name}-2.csv").write_text(f'text,label\nfine,1\n"{text},1\n')
    (folder / f"{name}-3.csv").write_text("sep=,\ntext,label\nfine,bad\n")
    (folder / f"{name}.tsv").write_text(f"text\tlabel\rfine\t1\rfine\t{text}\r")
    (folder / f"{name}-1.tsv").write_bytes(b"text\tlabel\rfine\t1\r" + latin + b"\t1\r")
    (folder / f"{name}.jsonl").write_text('{"text": "fine", "label": 1}\n{"text": ["' + text + '"], "label": 1}\n')
    (folder / f"{name}-1.jsonl").write_bytes(b'{"text": "a", "label": 1}\n{"label": 1, "text": "' + latin + b'"}\n')
    (folder / f"{name}-2.jsonl").write_text('{"text": "fine", "label": "' + "\\n\\u001b[31m" * 99 + '"}\n')
    (folder / f"{name}-4.csv").write_text(",".join([*(f"column {number}" for number in range(99)), "text"]) + "\n1\n")
    offsets = pa.array([b"fine", latin], pa.binary()).buffers()
    wrong = pa.table({"text": pa.Array.from_buffers(pa.string(), 2, offsets), "label": [1.0, 1.0]})
    pq.write_table(wrong, folder / f"{name}.parquet")
    pq.write_table(pa.table({"text": ["a", "b"], "label": [[1.0], [2.0] * 999]}), folder / f"{name}-1.parquet")
    damage_page(folder / f"{name}-2.parquet")
    datasets.Dataset(wrong).save_to_disk(folder / name)
    for number, suffix in (("1", "csv"), ("1", "tsv"), ("2", "parquet")):
        (folder / f"{name}-{suffix}").mkdir()
        shutil.copy(folder / f"{name}-{number}.{suffix}", folder / f"{name}-{suffix}" / f"train.{suffix}")
    return [
        (f"{name}.csv", ":3:", "label"),
        (f"{name}-1.csv", ":3:", "text"),
        (f"{name}-2.csv", ":3:", "text"),
        (f"{name}-3.csv", ":3:", "label"),
        (f"{name}-4.csv", ":1:", "label"),
        (f"{name}.tsv", ":3:", "label"),
        (f"{name}-1.tsv", ":3:", "text"),
        (f"{name}.jsonl", ":2:", "text"),
        (f"{name}-1.jsonl", ":2:", "text"),
        (f"{name}-2.jsonl", ":1:", "label"),
        (f"{name}.parquet", ": row 1:", "text"),
        (f"{name}-1.parquet", ": row 0:", "label"),
        (f"{name}-2.parquet", ": rows 1000 to 1999:", "text"),
        (f"hf://{name}", ": row 1:", "text"),
        (f"hf://{name}-csv", "train.csv:3:", "text"),
        (f"hf://{name}-tsv", "train.tsv:3:", "text"),
        (f"hf://{name}-parquet", "train.parquet: rows 1000 to 1999:", "text"),
    ]


def damage_page(path: Path) -> None:
    """Writes a file of two row groups, with a damaged page in the text column of the second."""
    texts = [f"text {number}" for number in range(2000)]
    table = pa.table({"text": texts, "label": [1.0] * 2000})
    pq.write_table(table, path, row_group_size=1000, use_dictionary=False, write_page_checksum=True)
    place = pq.ParquetFile(path).metadata.row_group(1).column(0)
    content = bytearray(path.read_bytes())
    at = place.data_page_offset + place.total_compressed_size // 2
    content[at] ^= 255
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["rows", "r" * 150])
@pytest.mark.usefixtures("own_cache")
def test_every_error_names_file_row_and_column_in_one_short_line(name: str, tmp_path: Path) -> None:
    for path, row, column in refused_rows(tmp_path, name):
        message = one_line_error(read_all_rows, source_of(path, STARS), tmp_path)
        assert len(message) <= 200, message
        assert message.isprintable(), message
        assert path[-40:].removeprefix("hf://") in message, message
        assert row in message, message
        assert f"column {column} " in message, message


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_a_line_that_names_the_separator_is_no_header(suffix: str, tmp_path: Path) -> None:
    mark = "," if suffix == "csv" else "\t"
    lines = [f"sep={mark}", mark.join(("text", "label")), mark.join(("fine", "1")), ""]
    (tmp_path / f"rows.{suffix}").write_text("\r\n".join(lines))
    assert read_all_rows(source_of(f"rows.{suffix}", STARS), tmp_path).texts == (["fine"],)
    (tmp_path / f"rows.{suffix}").write_text("sep=;\ntext;label\nfine;1\n")
    message = one_line_error(read_all_rows, source_of(f"rows.{suffix}", STARS), tmp_path)
    assert ":1: columns must be separated by " in message
    assert message.endswith("got sep=;")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("reader", ["CSV", "TSV", "JSON lines"])
def test_every_end_of_lines_gives_the_same_rows(reader: str, end: str, tmp_path: Path) -> None:
    path = WRITERS[reader](tmp_path, {"text": ["a", "b"], "label": [1, 2]})
    (tmp_path / path).write_bytes((tmp_path / path).read_bytes().replace(b"\n", end.encode()))
    table = read_all_rows(source_of(path, STARS), tmp_path)
    assert (table.texts, table.labels.tolist()) == ((["a", "b"],), [1, 2])
