"""Proposes a `tasks.toml` for a folder of data files: what it finds, and as comments what it is unsure of."""

import contextlib
import io
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mtlib.config.data import Format, as_number, format_of
from mtlib.data.files.excel_files import excel_records, excel_rows
from mtlib.data.files.exports import find_export, labels_of_export, rows_of_export
from mtlib.data.files.json_files import array_objects, cell_text, line_objects
from mtlib.data.files.opening import open_decompressed
from mtlib.data.files.parquet_files import NO_CLASS, carried_names, name_classes
from mtlib.data.files.quoting import find_quoting
from mtlib.data.files.readers import (
    FASTTEXT_LABEL,
    SPLIT_WORDS,
    TABS_OR_COMMAS,
    Wanted,
    csv_records,
    fasttext_records,
    likely_encoding,
    tsv_records,
)
from mtlib.data.row_labels import parse_list
from mtlib.runtime.errors import require
from mtlib.tasks import FileFormat

MOST_ROWS = 100_000
"""Rows of a file that are looked at."""
MOST_LABELS = 200
"""Values of a column of labels, at most."""
SHOWN_ROWS, SHOWN_CHARACTERS = 2, 100
"""Rows of a file that are shown, and characters of each cell."""
MOST_CLASSES = 20
"""More values that are numbers are a regression."""
NUMBERS = re.compile(r"\d+(,\d+)*", re.ASCII)
"""Numbers of labels, with commas between."""
TEXT_WORDS = 3.0
"""Words that a cell of a column of texts has on average, at least."""
LABEL_NAMES = (
    "label",
    "labels",
    "class",
    "category",
    "intent",
    "target",
    "sentiment",
    "emotion",
    "gold",
    "answer",
    "cats",
)
"""Parts of the names of columns of labels, the likeliest first."""
ID_NAMES = ("id", "idx", "index", "key", "guid", "uid")
SPLIT_NAMES = {"train": ("train",), "dev": ("dev", "val", "trial"), "test": ("test",)}
"""Parts of the names of the files of each split."""


@dataclass(kw_only=True)
class Sample:
    """The first rows of a file."""

    path: Path
    form: Format
    encoding: str
    names: list[str]
    """Of the columns."""
    rows: list[dict[str, str]]
    has_names: bool = True
    """Whether the file itself names its columns."""
    doubts: list[str] = field(default_factory=list)
    label: str = ""
    """The column of the label, where the file shows it."""

    def values(self, name: str) -> list[str]:
        """Returns the cells of a column that are not blank."""
        return [row[name] for row in self.rows if row.get(name)]


def suggest_tasks(folder: Path) -> Iterator[str]:
    """Yields the lines of a `tasks.toml` for the files of a folder.

    Raises:
        ValueError: there is no file with rows.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith((".", "README")))
    samples = [own for path in files if (own := look_at(path)) is not None]
    require(bool(samples), f"{folder} must hold a file with rows", "none")
    groups: dict[tuple[Any, ...], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.path.parent, sample.form, tuple(sample.names)), []).append(sample)
    yield "# A proposal, made from the files: check each line, above all those that begin with `# unsure`."
    for number, group in enumerate(groups.values(), 1):
        yield from ("", *suggest_task(folder, group, f"task{number}" if len(groups) > 1 else "task"))


def look_at(path: Path) -> Sample | None:
    """Returns the first rows of a file; None where it has no rows that can be read."""
    with contextlib.suppress(ValueError, OSError, StopIteration, pa.ArrowException):
        with open_decompressed(path) as stream:
            content = stream.read()
        if not content.strip():
            return None
        form, encoding = format_of(path.name), ""
        if form == "parquet":
            return sample_of_items(path, form, encoding, parquet_items(content))
        if form == "xlsx":
            sheet = excel_records(excel_rows(io.BytesIO(content), path.name), path.name)
            return sample_of_records(path, form, encoding, [cells for _, cells in sheet])
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            encoding = likely_encoding(io.BytesIO(content), b"")
            text = content.decode(encoding)
        return sample_of_text(path, form or format_by_content(text), encoding, text)
    return None


def format_by_content(text: str) -> Format:
    """Returns the format of a text whose file's name does not say it."""
    lines = [line for line in itertools.islice(text.split("\n"), 50) if line.strip()]
    if lines and lines[0].startswith(("{", "[")):
        return "jsonl" if lines[0].rstrip().endswith("}") else "json"
    if lines and lines[0].startswith(FASTTEXT_LABEL):
        return "fasttext"
    return "tsv" if lines and all(line.count("\t") == lines[0].count("\t") > 0 for line in lines) else "lines"


def sample_of_text(path: Path, form: Format, encoding: str, text: str) -> Sample | None:
    """Returns the first rows of a text; None if it has none."""
    lines = iter(io.StringIO(text, newline="\n"))
    if form in ("json", "jsonl"):
        wanted = Wanted(columns=(), headers=[[f"column{at}" for at in range(1, 20)]])
        places = line_objects(lines, path.name) if form == "jsonl" else array_objects(text, path.name, wanted)
        return sample_of_items(path, form, encoding, [item for _, item in itertools.islice(places, MOST_ROWS)])
    if form in ("csv", "tsv"):
        given = FileFormat(encoding=encoding)
        is_quoted = form == "csv" or find_quoting(path, given).name == "standard"
        read = csv_records(lines, path.name, TABS_OR_COMMAS) if is_quoted else tsv_records(lines, path.name, "\t")
        return sample_of_records(path, form, encoding, [cells for _, cells in itertools.islice(read, MOST_ROWS)])
    if form == "fasttext":
        read = fasttext_records(lines, path.name, Wanted(columns=("", "text", "label")))
        return sample_of_records(path, form, encoding, [cells for _, cells in itertools.islice(read, MOST_ROWS)])
    texts = (line.strip() for line in lines)
    return sample_of_records(path, form, encoding, [[text] for text in itertools.islice(texts, MOST_ROWS) if text])


def parquet_items(content: bytes) -> list[dict[str, Any]]:
    """Returns the first rows of a Parquet file, with the names of classes that it carries."""
    with pq.ParquetFile(io.BytesIO(content)) as file:
        rows = next(file.iter_batches(MOST_ROWS), pa.record_batch({})).to_pylist()
        names = {name: {NO_CLASS: "", **dict(enumerate(own))} for name, own in names_of_columns(file.schema_arrow)}
    return [{key: name_classes(value, names.get(key, {})) for key, value in row.items()} for row in rows]


def names_of_columns(schema: pa.Schema) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the columns that carry names of classes, and these."""
    found = ((name, carried_names(schema, name)) for name in schema.names)
    yield from ((name, own) for name, own in found if own)


def sample_of_items(path: Path, form: Format, encoding: str, items: Sequence[Mapping[str, Any]]) -> Sample | None:
    """Returns the first rows of a file that are objects; None if it has none."""
    if not items:
        return None
    export, doubts, label = find_export(items[0]), list[str](), ""
    if export is not None:
        labels = next(filter(None, map(labels_of_export, items)), [])
        label = next(iter(labels), "")
        doubts.append(f"the files look like exports of {export[0]}; their labels: {', '.join(labels) or 'none'}")
    decided = rows_of_export(((path.name, dict(item)) for item in items), label, Counter(), set())
    rows = [
        flatten({key: own for key, own in item.items() if export is None or not isinstance(own, dict)})
        for _, item in decided  # what inner objects of exports hold is beside them
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return Sample(path=path, form=form, encoding=encoding, names=names, rows=rows, doubts=doubts, label=label)


def sample_of_records(path: Path, form: Format, encoding: str, records: Sequence[Sequence[str]]) -> Sample | None:
    """Returns the first rows of a file that are lists of cells; None if it has none."""
    if not records:
        return None
    is_table, doubts = form != "lines", list[str]()
    has_names = is_table and looks_like_names(records[0])
    names = list(records[0]) if has_names else [f"column{at}" for at in range(1, len(records[0]) + 1)]
    if is_table and not has_names:
        start = f"the first line of {path.name} looks like a row"
        doubts.append(f"{start}, not like names of columns: name them in columns")
    names = names if is_table else ["text"]
    rows = [dict(zip(names, cells, strict=False)) for cells in records[has_names:]]
    return Sample(path=path, form=form, encoding=encoding, names=names, rows=rows, has_names=has_names, doubts=doubts)


def flatten(item: Mapping[str, Any]) -> dict[str, str]:
    """Returns the values of an object as texts, those of inner objects by keys with dots."""
    found: dict[str, str] = {}
    for key, value in item.items():
        if isinstance(value, dict):
            found |= {f"{key}.{inner}": own for inner, own in flatten(value).items()}
        else:
            is_list = isinstance(value, list)
            found[key] = json.dumps(value, ensure_ascii=False) if is_list else cell_text(key, key, value)
    return found


def looks_like_names(cells: Sequence[str]) -> bool:
    """Returns whether a line names columns: no cell is a number or has many words, or is there twice."""
    words = [cell.strip() for cell in cells]
    is_name = [len(word.split()) <= 4 and not isinstance(as_number(word), float) for word in words]
    return all(is_name) and len(set(words)) == len(words)


def suggest_task(folder: Path, samples: Sequence[Sample], name: str) -> Iterator[str]:
    """Yields the section of one task, whose files have the same columns."""
    first = next((own for own in samples if split_of(own.path) == "train"), samples[0])
    texts, labels = columns_of_texts(first) or [first.names[0]], label_columns(first)
    doubts = list(first.doubts)
    if len(texts) > 2:
        doubts.append(f"these columns look like texts: {', '.join(texts)}")
    if first.form == "lines":
        labels, where = [], "a file for each label, a file with a label a line or a pattern"
        doubts.append(f"lines are texts alone: their labels are in {where}, see docs/layouts.md")
    elif len(labels) != 1:
        doubts.append(f"columns of labels: {', '.join(labels)}" if labels else "no column looks like labels")
    yield f"[tasks.{name}]"
    label = labels[0] if labels else "label"
    yield from describe_kind(first, label)
    yield f"texts = {in_toml(texts[:2])}"
    yield f"label = {in_toml(label)}"
    ids = [own for own in first.names if own.lower() in ID_NAMES and len(set(first.values(own))) == len(first.rows)]
    yield from [f"id = {in_toml(ids[0])}"] if ids else []
    if format_of(first.path.name) is None:
        yield f'format = "{first.form}"'
    yield from [f'encoding = "{first.encoding}"'] if first.encoding else []
    yield from [] if first.has_names or first.form not in ("csv", "tsv") else [f"columns = {in_toml(first.names)}"]
    if first.form == "tsv" and not find_quoting(first.path, FileFormat(encoding=first.encoding)).is_certain:
        doubts.append('the cells in quotation marks may be quoted: quoting = "standard", or "none"')
    yield from split_lines(folder, samples, first)
    yield from (f"# unsure: {doubt}" for doubt in doubts)
    yield "# rows as they were read:"
    for row in first.rows[:SHOWN_ROWS]:
        cells = (f"{key}: {own[:SHOWN_CHARACTERS]!r}" for key, own in row.items() if key in {*texts, label})
        yield f"#   {'  '.join(cells)}"


def split_lines(folder: Path, samples: Sequence[Sample], first: Sample) -> Iterator[str]:
    """Yields the keys that name the files of each split."""
    columns = [
        name
        for name in first.names
        if len(values := set(first.values(name))) > 1 and SPLIT_WORDS.issuperset(map(str.casefold, values))
    ]
    by_split = {split: [own for own in samples if split_of(own.path) == split] for split in SPLIT_NAMES}
    if columns:
        path, column = in_toml(str(first.path.relative_to(folder))), columns[0]
        for split, words in SPLIT_NAMES.items():
            own = [value for value in Counter(first.values(column)) if value.casefold().startswith(words)]
            if own:
                yield f"{split} = {{files = {path}, where = {{{in_toml(column)} = {in_toml(own)}}}}}"
        return
    if not by_split["train"]:
        by_split["train"] = [own for own in samples if split_of(own.path) is None] or [first]
    for split, group in by_split.items():
        paths = [str(sample.path.relative_to(folder)) for sample in group]
        if paths:
            yield f"{split} = {in_toml(paths[0] if len(paths) == 1 else paths)}"
        elif split == "dev":
            yield "dev = 0.1  # a share of train, as no file is for dev by its name"


def split_of(path: Path) -> str | None:
    """Returns the split that the name of a file, or of its folder, says."""
    name = "/".join(path.parts[-2:]).lower()
    return next(
        (split for split, words in SPLIT_NAMES.items() if any(re.search(rf"(^|[^a-z]){word}", name) for word in words)),
        None,
    )


def columns_of_texts(sample: Sample) -> list[str]:
    """Returns the columns whose cells have several words."""
    found = []
    for name in sample.names:
        cells = [cell for cell in sample.values(name)[:1000] if not cell.startswith(("[", "{"))]
        if cells and sum(len(cell.split()) for cell in cells) / len(cells) >= TEXT_WORDS:
            found.append(name)
    return found


def label_columns(sample: Sample) -> list[str]:
    """Returns the columns that may be labels, the likeliest alone if its name says so."""
    texts = columns_of_texts(sample)
    others = [name for name in sample.names if name not in texts and name.lower() not in ID_NAMES]
    values = {name: {one for cell in sample.values(name) for one in labels_in(cell)} for name in others}
    few = [name for name in others if 1 < len(values[name]) <= MOST_LABELS]
    numbers = [name for name in others if all(isinstance(as_number(own), float) for own in sample.values(name))]
    found = [name for name in others if name in few or name in numbers]
    if sample.label:
        return [sample.label]
    named = [name for part in LABEL_NAMES for name in found if part in name.lower()]
    return named[:1] or found


def labels_in(cell: str) -> list[str]:
    """Returns the labels in a cell: of a list in JSON, or numbers with commas between; itself where it is neither."""
    if NUMBERS.fullmatch(cell):
        return cell.split(",")
    own = parse_list(cell) if cell.startswith("[") else None
    return [cell] if own is None else own


def in_toml(value: str | Sequence[str]) -> str:
    """Returns a text or a list of texts as TOML."""
    return json.dumps(value, ensure_ascii=False)


def mapping_to_name(values: Sequence[str]) -> str:
    """Returns a mapping of values, some of which are numbers, to names to be changed."""
    pairs = (f"{in_toml(own)} = {in_toml(f'label {own}')}" for own in values)
    return f"{{{', '.join(pairs)}}}  # unsure: the names of these values"


def describe_kind(sample: Sample, label: str) -> Iterator[str]:
    """Yields the keys of the kind of task that a column of labels is for."""
    lists = [labels_in(cell) for cell in sample.values(label)]
    found = {one for own in lists for one in own}
    values = sorted(found, key=lambda value: (isinstance(as_number(value), str), as_number(value)))
    numbers = [number for value in values if isinstance(number := as_number(value), float)]
    are_numbers = bool(values) and len(numbers) == len(values)
    is_counted = numbers == list(range(len(values)))
    names = mapping_to_name(values) if numbers else in_toml(values)
    if any(len(own) != 1 for own in lists):
        yield from ('kind = "multilabel"', f"labels = {names}")
    elif are_numbers and (len(values) > MOST_CLASSES or not all(number.is_integer() for number in numbers)):
        yield from ('kind = "regression"', f"range = [{numbers[0]:g}, {numbers[-1]:g}]  # unsure: of these rows")
    elif is_counted and len(values) > 2:
        yield from ('kind = "classes"', f"num_labels = {len(values)}")
    elif is_counted and len(values) == 2:
        yield 'kind = "binary"'
    elif len(values) < 2:
        yield from ('kind = "classes"', 'labels = ["one", "two"]  # unsure: the names of the labels')
    else:
        yield from (f'kind = "{"binary" if len(values) == 2 else "classes"}"', f"labels = {names}")
