"""The first rows of a file in any format, and how it is read: what a proposal of tasks knows of each file."""

import codecs
import contextlib
import dataclasses
import io
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from mtlib.config.data import as_number, format_of
from mtlib.data.files.excel_files import excel_records, excel_rows
from mtlib.data.files.exports import find_export, labels_of_export, rows_of_export
from mtlib.data.files.json_files import (
    MISSING,
    cell_text,
    keys_of,
    line_objects,
    parse_object,
    parse_tree,
    split_key,
    tree_objects,
    value_of_key,
)
from mtlib.data.files.opening import open_decompressed
from mtlib.data.files.parquet_files import NO_CLASS, carried_names, name_classes
from mtlib.data.files.quoting import find_quoting
from mtlib.data.files.readers import (
    FASTTEXT_LABEL,
    TABS_OR_COMMAS,
    WORDS_OF_SPLITS,
    Row,
    SourceFindings,
    Wanted,
    csv_records,
    fasttext_records,
    likely_encoding,
    start_checked,
    tsv_records,
)
from mtlib.runtime.errors import require
from mtlib.tasks import FileFormat

FAULTS = (ValueError, OSError, RuntimeError, pa.ArrowException)
"""What files that cannot be read raise; libraries of compression raise RuntimeError, JSON of many levels too."""
MOST_ROWS, MOST_BYTES, CHUNK = 100_000, 2**25, 2**20
"""Rows of a file, and bytes of text, that are looked at; bytes of the rest that are in memory at once."""
MOST_LABELS = 200
"""Values of a column of labels, at most."""
MOST_VALUES = 50
"""Values of a row of JSON that is a list, at most."""
NAME_WORDS = 4
"""Words of the name of a column, at most."""
LABEL_NAMES = (
    *("label", "labels", "class", "category", "categories", "intent", "target", "sentiment", "emotion", "emotions"),
    *("gold", "polarity", "stance", "answer", "cats"),
)
"""Words of the names of columns of labels, the likeliest first."""
SEPARATORS = "\t@|;"
"""What may stand between the cells of each line of a file whose name does not say its format."""
CSV_SEPARATORS = ("", ",", ";", "|")
"""What may be the key `separator` of CSV files, the likeliest first."""
WORD = re.compile(r"[^\W\d_]+|\d+")
SPLIT_WORD = {
    split: re.compile(rf"({'|'.join(words)})(set|data|files?|split)?") for split, words in WORDS_OF_SPLITS.items()
}
"""What a word for each split is in names of files and folders: `train`, `trainset`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """The first rows of a file, or of several that are read as one."""

    path: Path
    """Relative to the folder; of several files, the first one's."""
    given: FileFormat = field(default_factory=FileFormat)
    """What `tasks.toml` has to say of the format."""
    names: Sequence[str]
    """Of the columns."""
    rows: Sequence[Mapping[str, str]]
    has_names: bool = True
    """Whether the file itself names its columns."""
    label: str = ""
    """The column of the label, where the files show it."""
    files: str = ""
    """The files as TOML; empty: the path alone."""
    arrays: tuple[str, ...] = ()
    """The splits for which one JSON file has arrays."""
    class_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The names of the numbers of labels that the file carries, by column."""
    num_lines: int = 0
    """Of a whole file of plain lines."""
    doubts: tuple[str, ...] = ()

    @property
    def form(self) -> str | None:
        """The format that `given` says, or else the name of the file."""
        return self.given.name or format_of(self.path.name)

    def values(self, name: str) -> list[str]:
        """Returns the cells of a column that are not blank."""
        return [row[name] for row in self.rows if row.get(name)]

    @property
    def texts(self) -> list[str]:
        """The lines of a file that has nothing else; none of any other file."""
        return [row["text"] for row in self.rows] if self.form == "lines" and not self.label else []

    @property
    def split(self) -> str:
        """The split that the name of the file says, or else that of the innermost folder with one; empty: none."""
        names = (self.path.name.partition(".")[0], self.path.name, *(own.name for own in self.path.parents))
        return next(filter(None, map(split_in, names)), "")

    @property
    def place(self) -> tuple[str, ...]:
        """The folders of the file, without words for splits."""
        return tuple(filter(None, (bare_name(own.name) for own in reversed(self.path.parents))))

    @property
    def bare_name(self) -> str:
        """The name of the file without words for splits, and without what follows them."""
        return bare_name(self.path.stem)


def name_words(name: str) -> list[str]:
    """Returns the words and numbers of a name in small letters: `TrainSet1` has `train`, `set` and `1`."""
    return WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


def split_in(name: str) -> str:
    """Returns the split that a word of a name says; empty: none."""
    words = name_words(name)
    return next((split for split, word in SPLIT_WORD.items() if any(map(word.fullmatch, words))), "")


def bare_name(name: str) -> str:
    """Returns the words of a name but those for splits and the numbers after them: files `train-1`, `train-2` are parts
    of one."""
    kept, is_part = list[str](), False
    for word in name_words(name):
        if split_in(word):
            is_part = True
        elif not (is_part and (word.isdigit() or word in ("of", "part", "set", "data"))):
            kept.append(word)
    return " ".join(kept)


def look_at(folder: Path, path: Path) -> Sample:
    """Returns the first rows of a file; an exception of `FAULTS` if it has none, or cannot be read."""
    form: str | None = format_of(path.name)
    with open_decompressed(folder / path) as stream:
        if form == "parquet":
            return sample_of_parquet(path, stream)
        content, num_more = read_first_bytes(stream, -1 if form in ("json", "xlsx") else MOST_BYTES)
    if form == "xlsx":
        sheet = excel_records(excel_rows(io.BytesIO(content), path.name), path.name)
        return sample_of_records(path, FileFormat(), [cells for _, cells in sheet])
    text, encoding = decode_start(content, is_cut=num_more > 0)
    require(bool(text.strip()), "a file must have rows", "none")
    given = dataclasses.replace(FileFormat() if form else format_by_content(text), encoding=encoding)
    lines, form = io.StringIO(text, newline="\n"), form or given.name
    if form in ("json", "jsonl"):
        return sample_of_json(path, given, text, is_lines=form == "jsonl")
    if form == "lines":
        rows = [{"text": line.strip()} for line in itertools.islice(lines, MOST_ROWS)]
        num_lines = text.count("\n") + (not text.endswith("\n")) + num_more
        return Sample(path=path, given=given, names=["text"], rows=rows, num_lines=num_lines)
    if form == "fasttext":
        found = fasttext_records(lines, path.name, Wanted(columns=("", "text", "label")))
        rows = [dict(zip(("text", "label"), cells, strict=True)) for _, cells in itertools.islice(found, 1, MOST_ROWS)]
        return Sample(path=path, given=given, names=["text", "label"], rows=rows)
    if form == "csv":
        separator, records = find_separator(text, path.name, is_cut=num_more > 0)
        return sample_of_records(path, dataclasses.replace(given, separator=separator), records)
    checked, mark = start_checked(lines, path.name), given.separator or "\t"
    if find_quoting(folder / path, given).name == "standard":
        table = csv_records(checked, path.name, mark, may_hold_tabs=True)
    else:
        table = tsv_records(checked, path.name, mark)
    return sample_of_records(path, given, first_records(table, is_cut=num_more > 0))


def read_first_bytes(stream: IO[bytes], most: int) -> tuple[bytes, int]:
    """Returns the first bytes of a stream, and the number of lines that end or begin in the rest; `most` is -1 for all
    bytes."""
    content, num_lines, last = stream.read(most), 0, b"\n"
    while chunk := stream.read(CHUNK):
        num_lines, last = num_lines + chunk.count(b"\n"), chunk
    return content, num_lines + (not last.endswith(b"\n"))


def decode_start(content: bytes, *, is_cut: bool) -> tuple[str, str]:
    """Returns the whole lines of the start of a file, and its encoding unless that is UTF-8; ValueError if no encoding
    fits, or it is no text."""

    def decode(encoding: str) -> str:
        text = codecs.getincrementaldecoder(encoding)().decode(content, final=not is_cut)
        return text[: text.rfind("\n") + 1] if is_cut else text

    try:
        text, encoding = decode("utf-8-sig"), ""
    except UnicodeDecodeError:
        encoding = likely_encoding(io.BytesIO(content), b"")
        text = decode(encoding)
    require("\0" not in text, "text must hold no zero byte", "one: the file seems to be none of text")
    return text, encoding


def format_by_content(text: str) -> FileFormat:
    """Returns the format of a text whose file's name does not say it."""
    lines = list(itertools.islice((line for line in text.split("\n") if line.strip()), 1000))
    if lines[0].lstrip().startswith(("{", "[")) and (name := json_format(text, lines[0])):
        return FileFormat(name=name)
    if lines[0].startswith(FASTTEXT_LABEL):
        return FileFormat(name="fasttext")
    for mark in SEPARATORS:
        is_table = all(line.count(mark) == lines[0].count(mark) > 0 for line in lines)
        ends = {line.rpartition(mark)[2].strip() for line in lines}
        if is_table and (mark == "\t" or (len(ends) <= MOST_LABELS and not any(" " in end for end in ends))):
            return FileFormat(name="tsv", separator="" if mark == "\t" else mark)
    return FileFormat(name="csv" if is_csv(text) else "lines")


def json_format(text: str, line: str) -> str:
    """Returns the format of a text that begins like JSON, by its first line too; empty: it is no JSON."""
    with contextlib.suppress(ValueError):
        if line.startswith("{"):
            parse_object("", line)
            return "jsonl"
    with contextlib.suppress(ValueError):
        return "jsonl" if parse_tree(text, "") is MISSING else "json"
    return ""


def is_csv(text: str) -> bool:
    """Returns whether all first lines of a text have as many cells with commas between, of which the first ones are
    names of columns or in quotation marks: texts have commas too."""
    try:
        records = list(itertools.islice(csv_records(io.StringIO(text, newline="\n"), "", ","), 1000))
    except ValueError:
        return False
    cells = [cells for _, cells in records]
    return is_even(cells) and (text.startswith('"') or looks_like_names(cells))


def is_even(records: Sequence[Sequence[str]]) -> bool:
    """Returns whether all records have as many cells, of which there are two or more."""
    return len(records[0]) > 1 and all(len(cells) == len(records[0]) for cells in records)


def find_separator(text: str, name: str, *, is_cut: bool) -> tuple[str, list[list[str]]]:
    """Returns what `separator` must say of CSV, the first one with as many cells in each line, and the records.

    Raises:
        ValueError: as the reader of CSV does without `separator`, if it cannot be read with any.
    """

    def records_with(mark: str) -> list[list[str]]:
        lines = start_checked(io.StringIO(text, newline="\n"), name)
        return first_records(csv_records(lines, name, mark or TABS_OR_COMMAS), is_cut=is_cut)

    for mark in CSV_SEPARATORS:
        with contextlib.suppress(ValueError):
            records = records_with(mark)
            if is_even(records):
                return mark, records
    return "", records_with("")


def first_records(records: Iterator[Row], *, is_cut: bool) -> list[list[str]]:
    """Returns the cells of the first rows; a text that is cut may end within a row."""
    found = list[list[str]]()
    try:
        found += (cells for _, cells in itertools.islice(records, MOST_ROWS))
    except ValueError:
        if not (is_cut and found):
            raise
    return found


def sample_of_json(path: Path, given: FileFormat, text: str, *, is_lines: bool) -> Sample:
    """Returns the first rows of a text in JSON."""
    tree = MISSING if is_lines else parse_tree(text, path.name)
    arrays = tuple(split for split in WORDS_OF_SPLITS if isinstance(tree, dict) and split_key(tree, split) is not None)
    rule = "an object with an array for each split must have one for train"
    require(not arrays or "train" in arrays, rule, ", ".join(arrays))
    if tree is MISSING:
        places = line_objects(io.StringIO(text, newline="\n"), path.name)
    else:
        wanted = Wanted(columns=(), headers=[names_by_number(count) for count in range(1, MOST_VALUES)])
        places = tree_objects(tree, text, path.name, wanted)
    items = [item for _, item in itertools.islice(places, MOST_ROWS)]
    return dataclasses.replace(sample_of_items(path, given, items), arrays=arrays)


def names_by_number(count: int) -> list[str]:
    """Returns names for so many columns that have none."""
    return [f"column{at}" for at in range(1, count + 1)]


def sample_of_parquet(path: Path, stream: IO[bytes]) -> Sample:
    """Returns the first rows of a Parquet file, with the names of classes that it carries."""
    items, num_bytes = list[dict[str, Any]](), 0
    with pq.ParquetFile(stream) as file:
        carried = {name: carried_names(file.schema_arrow, name) for name in file.schema_arrow.names}
        for batch in file.iter_batches(1000):
            items, num_bytes = items + batch.to_pylist(), num_bytes + batch.nbytes
            if len(items) >= MOST_ROWS or num_bytes >= MOST_BYTES:
                break
    class_names = {name: own for name, own in carried.items() if own}
    named = {name: {NO_CLASS: "", **dict(enumerate(own))} for name, own in class_names.items()}
    rows = [{key: name_classes(value, named.get(key, {})) for key, value in row.items()} for row in items]
    return dataclasses.replace(sample_of_items(path, FileFormat(), rows), class_names=class_names)


def sample_of_items(path: Path, given: FileFormat, items: Sequence[Mapping[str, Any]]) -> Sample:
    """Returns the first rows of a file that are objects."""
    require(bool(items), "a file must have rows", "none")
    export, label, findings = find_export(items[0]), "", SourceFindings()
    doubts: tuple[str, ...] = ()
    if export is not None:
        labels = next(filter(None, map(labels_of_export, items)), [])
        varied = (name for name in labels if len({str(item.get(name)) for item in items}) > 1)
        label = next(varied, next(iter(labels), ""))
        doubts = (f"the files look like exports of {export[0]}; their labels: {', '.join(labels) or 'none'}",)
    decided = rows_of_export(((path.name, dict(item)) for item in items), label, findings)
    rows = [
        object_cells({key: own for key, own in item.items() if export is None or not isinstance(own, dict)})
        for _, item in decided  # what inner objects of exports hold is beside them
    ]
    names = list(dict.fromkeys(name for row in rows for name in row if name))
    why = "; ".join(f"{count:,} left out: {reason}" for reason, count in findings.left_out.items())
    require(bool(names), "a file must have rows with texts or numbers", why or "none")
    has_names = names != names_by_number(len(names))
    return Sample(path=path, given=given, names=names, rows=rows, has_names=has_names, label=label, doubts=doubts)


def object_cells(item: Mapping[str, Any]) -> dict[str, str]:
    """Returns the values of an object as readers read them, those of inner objects by keys with dots, without values
    that are neither text, number nor list."""
    found: dict[str, str] = {}
    for key in keys_of(item):
        value = value_of_key(item, key)
        is_list = isinstance(value, list)
        with contextlib.suppress(ValueError):
            found[key] = json.dumps(value, ensure_ascii=False, default=str) if is_list else cell_text(key, key, value)
    return found


def sample_of_records(path: Path, given: FileFormat, records: Sequence[Sequence[str]]) -> Sample:
    """Returns the first rows of a file that are lists of cells."""
    stripped = [[cell.strip() for cell in cells] for cells in records]
    has_names = looks_like_names(stripped)
    names = stripped[0] if has_names else names_by_number(len(stripped[0]))
    doubts = () if has_names else ("the first line looks like a row, not like names of columns: name them in columns",)
    rows = [dict(zip(names, cells, strict=False)) for cells in (stripped[1:] if has_names else stripped)]
    require(bool(rows), "a file must have rows below the names of its columns", "none")
    known = list(dict.fromkeys(filter(None, names)))
    return Sample(path=path, given=given, names=known, rows=rows, has_names=has_names, doubts=doubts)


def looks_like_names(records: Sequence[Sequence[str]]) -> bool:
    """Returns whether the first of some records names columns.

    Then no cell of it recurs in its own column, and either one is a usual name of labels, or none is a number, has many
    words, or is there twice.
    """
    first = [cell.strip() for cell in records[0]]
    others = (cells for cells in records[1:] if list(cells) != list(records[0]))  # of joined files the names recur
    recurs = any(cell and cell == own.strip() for cells in others for cell, own in zip(first, cells, strict=False))
    if recurs or not any(first):
        return False
    if any(cell.lower() in LABEL_NAMES for cell in first):
        return True
    is_name = [len(cell.split()) <= NAME_WORDS and not isinstance(as_number(cell), float) for cell in first]
    return all(is_name) and len(set(first)) == len(first)


def common_encoding(samples: Iterable[Sample]) -> str:
    """Returns the encoding of the files that are not UTF-8; empty: all are."""
    return next((one.given.encoding for one in samples if one.given.encoding), "")
