"""Proposes a `tasks.toml` for a folder of data files: what it finds, and as comments what it is unsure of.

Every file is looked at for itself. Files that belong together, such as texts beside their labels, are joined, and those
with the same columns are the splits of one task. Each proposal is then read as a `tasks.toml` would be: the rows that
it shows, and the error where it cannot be read, come from there.
"""

import dataclasses
import io
import itertools
import json
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mtlib.config.data import DELIMITED_FORMATS, Format, as_number, format_of
from mtlib.config.task_file import tasks_of_tree
from mtlib.data.files.excel_files import excel_records, excel_rows
from mtlib.data.files.exports import find_export, labels_of_export, rows_of_export
from mtlib.data.files.json_files import array_objects, cell_text, line_objects, split_key
from mtlib.data.files.opening import open_decompressed
from mtlib.data.files.parquet_files import NO_CLASS, carried_names, name_classes
from mtlib.data.files.quoting import find_quoting
from mtlib.data.files.readers import (
    FASTTEXT_LABEL,
    TABS_OR_COMMAS,
    WORDS_OF_SPLITS,
    Findings,
    Wanted,
    csv_records,
    fasttext_records,
    is_split_word,
    likely_encoding,
    tsv_records,
)
from mtlib.data.load import own_source, read_all, with_quoting
from mtlib.data.row_labels import parse_list
from mtlib.data.tables import Table
from mtlib.runtime.errors import first_line, require
from mtlib.tasks import FileFormat, Task

NO_DATA = re.compile(r"\.|readme|licen[cs]e|copying|citation|changelog|.*\.(md|toml|py|sh|pdf|ya?ml)$", re.IGNORECASE)
"""Names of files that are beside data."""
MOST_ROWS = 100_000
"""Rows of a file that are looked at."""
MOST_LABELS = 200
"""Values of a column of labels, at most."""
SHOWN_ROWS, SHOWN_CHARACTERS = 2, 100
"""Rows of a task that are shown, and characters of each cell."""
MOST_CLASSES = 20
"""More values that are numbers are a regression."""
NUMBERS = re.compile(r"\d+(,\d+)*", re.ASCII)
"""Numbers of labels, with commas between."""
TEXT_WORDS = 3.0
"""Words that a cell of a column of texts has on average, at least."""
LABEL_NAMES = ("label", "class", "categor", "intent", "target", "sentiment", "emotion", "gold", "answer", "cats")
"""Parts of the names of columns of labels, the likeliest first."""
ID_NAMES = ("id", "idx", "index", "key", "guid", "uid")
NAMES_OF_LABELS = re.compile(r"label|mapping|class|categor|emotion", re.IGNORECASE)
"""In the names of files that list the names of labels."""
SEPARATORS = "\t@|;"
"""What may stand between the cells of each line of a file whose name does not say its format."""
PREFIXES = (r"(?P<label>[^\s:]+):(?P<detail>[^\s:]+) (?P<text>.*)", r"(?P<label>[^\s:]+):\s+(?P<text>.*)")
"""Patterns of lines that begin with their label."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """The first rows of a file, or of several that are read as one."""

    path: Path
    """Relative to the folder; of several files, the first one's."""
    form: Format
    given: FileFormat = field(default_factory=FileFormat)
    """What `tasks.toml` has to say of the format."""
    names: list[str]
    """Of the columns."""
    rows: Sequence[Mapping[str, str]]
    has_names: bool = True
    """Whether the file itself names its columns."""
    label: str = ""
    """The column of the label, where the files show it."""
    files: str = ""
    """The files as TOML; empty: the path alone."""
    splits: tuple[str, ...] = ()
    """For which splits one JSON file has arrays."""
    doubts: tuple[str, ...] = ()

    def values(self, name: str) -> list[str]:
        """Returns the cells of a column that are not blank."""
        return [row[name] for row in self.rows if row.get(name)]

    @property
    def texts(self) -> list[str]:
        """The lines of a file that has nothing else; none of any other file."""
        return [row["text"] for row in self.rows] if self.form == "lines" and not self.label else []

    @property
    def split(self) -> str:
        """The split that the name of the file, or of a folder, says; empty: none."""
        words = re.split(r"[^a-z]+", str(self.path).lower())
        return next((split for split, own in WORDS_OF_SPLITS.items() if not set(own).isdisjoint(words)), "")

    @property
    def place(self) -> Path:
        """The innermost folder that is not of one split."""
        return next(own for own in self.path.parents if not is_split_word(own.name))


def suggest_tasks(folder: Path) -> Iterator[str]:
    """Yields the lines of a `tasks.toml` for the files of a folder.

    Raises:
        ValueError: there is no file with rows.
    """
    samples, faults = list[Sample](), list[str]()
    for path in sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file()):
        if NO_DATA.match(path.name):
            continue
        try:
            samples.append(look_at(folder, path))
        except (ValueError, OSError, pa.ArrowException) as error:
            faults.append(f"{path}: {first_line(error)}")
    require(bool(samples), f"{folder} must hold a file with rows", "none")
    names = {sample.place: own for sample in samples if (own := names_of_labels(sample))}
    samples = [sample for sample in samples if not names_of_labels(sample)] or samples
    groups = groups_of(join_classes(join_folders(join_labels([with_prefix(sample) for sample in samples]))))
    yield "# A proposal, made from the files: check each line, above all those that begin with `# unsure`."
    for number, group in enumerate(groups, 1):
        title = f"task{number}" if len(groups) > 1 else "task"
        yield from ("", *suggest_task(folder, group, title, names.get(group[0].place, [])))
    yield from ("", *(f"# unsure: not read: {fault}" for fault in faults)) if faults else ()


def look_at(folder: Path, path: Path) -> Sample:
    """Returns the first rows of a file; ValueError if it has none, or cannot be read."""
    with open_decompressed(folder / path) as stream:
        content = stream.read()
    require(bool(content.strip()), "a file must have rows", "none")
    form = format_of(path.name)
    if form == "parquet":
        return sample_of_items(path, form, FileFormat(), parquet_items(content))
    if form == "xlsx":
        sheet = excel_records(excel_rows(io.BytesIO(content), path.name), path.name)
        return sample_of_records(path, form, FileFormat(), [cells for _, cells in sheet])
    try:
        text, encoding = content.decode("utf-8-sig"), ""
    except UnicodeDecodeError:
        encoding = likely_encoding(io.BytesIO(content), b"")
        text = content.decode(encoding)
    given = FileFormat(encoding=encoding) if form else dataclasses.replace(format_by_content(text), encoding=encoding)
    quoting = "standard" if form == "csv" else find_quoting(folder / path, given).name if form != "json" else ""
    return sample_of_text(path, form or given.name, given, quoting == "standard", text)  # type: ignore[arg-type]


def format_by_content(text: str) -> FileFormat:
    """Returns the format of a text whose file's name does not say it."""
    lines = [line for line in itertools.islice(text.split("\n"), 1000) if line.strip()]
    if lines and lines[0].startswith(("{", "[")):
        return FileFormat(name="jsonl" if lines[0].rstrip().endswith("}") else "json")
    if lines and lines[0].startswith(FASTTEXT_LABEL):
        return FileFormat(name="fasttext")
    for mark in SEPARATORS:
        is_table = bool(lines) and all(line.count(mark) == lines[0].count(mark) > 0 for line in lines)
        ends = {line.rpartition(mark)[2].strip() for line in lines}
        if is_table and (mark == "\t" or (len(ends) <= MOST_LABELS and not any(" " in end for end in ends))):
            return FileFormat(name="tsv", separator="" if mark == "\t" else mark)
    return FileFormat(name="lines")


def sample_of_text(path: Path, form: Format, given: FileFormat, is_quoted: bool, text: str) -> Sample:
    """Returns the first rows of a text."""
    lines = iter(io.StringIO(text, newline="\n"))
    if form in ("json", "jsonl"):
        wanted = Wanted(columns=(), headers=[names_by_number(count) for count in range(1, 20)])
        places = line_objects(lines, path.name) if form == "jsonl" else array_objects(text, path.name, wanted)
        items = [item for _, item in itertools.islice(places, MOST_ROWS)]
        tree = json.loads(text) if form == "json" and text.lstrip().startswith("{") and items else {}
        splits = tuple(split for split in WORDS_OF_SPLITS if split_key(tree, split) is not None)
        return dataclasses.replace(sample_of_items(path, form, given, items), splits=splits)
    if form in ("csv", "tsv"):
        marks = given.separator or ("\t" if form == "tsv" else TABS_OR_COMMAS)
        records = csv_records(lines, path.name, marks) if is_quoted else tsv_records(lines, path.name, marks)
    elif form == "fasttext":
        records = fasttext_records(lines, path.name, Wanted(columns=("", "text", "label")))
    else:
        records = ((path.name, [line.strip()]) for line in itertools.chain(["text"], lines))
    return sample_of_records(path, form, given, [cells for _, cells in itertools.islice(records, MOST_ROWS)])


def names_by_number(count: int) -> list[str]:
    """Returns names for so many columns that have none."""
    return [f"column{at}" for at in range(1, count + 1)]


def parquet_items(content: bytes) -> list[dict[str, Any]]:
    """Returns the first rows of a Parquet file, with the names of classes that it carries."""
    with pq.ParquetFile(io.BytesIO(content)) as file:
        rows = next(file.iter_batches(MOST_ROWS), pa.record_batch({})).to_pylist()
        carried = {name: carried_names(file.schema_arrow, name) for name in file.schema_arrow.names}
    named = {name: {NO_CLASS: "", **dict(enumerate(own))} for name, own in carried.items() if own}
    return [{key: name_classes(value, named.get(key, {})) for key, value in row.items()} for row in rows]


def sample_of_items(path: Path, form: Format, given: FileFormat, items: Sequence[Mapping[str, Any]]) -> Sample:
    """Returns the first rows of a file that are objects."""
    require(bool(items), "a file must have rows", "none")
    export, doubts, label = find_export(items[0]), list[str](), ""
    if export is not None:
        labels = next(filter(None, map(labels_of_export, items)), [])
        label = next(iter(labels), "")
        doubts.append(f"the files look like exports of {export[0]}; their labels: {', '.join(labels) or 'none'}")
    decided = rows_of_export(((path.name, dict(item)) for item in items), label, Findings())
    rows = [
        flatten({key: own for key, own in item.items() if export is None or not isinstance(own, dict)})
        for _, item in decided  # what inner objects of exports hold is beside them
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return Sample(
        path=path,
        form=form,
        given=given,
        names=names,
        rows=rows,
        has_names=names != names_by_number(len(names)),
        label=label,
        doubts=tuple(doubts),
    )


def sample_of_records(path: Path, form: Format, given: FileFormat, records: Sequence[Sequence[str]]) -> Sample:
    """Returns the first rows of a file that are lists of cells."""
    require(bool(records), "a file must have rows", "none")
    has_names = looks_like_names(records[0])
    names = list(records[0]) if has_names else names_by_number(len(records[0]))
    start = f"the first line of {path.name} looks like a row, not like names of columns"
    doubts = () if has_names else (f"{start}: name them in columns",)
    rows = [dict(zip(names, cells, strict=False)) for cells in records[has_names:]]
    return Sample(path=path, form=form, given=given, names=names, rows=rows, has_names=has_names, doubts=doubts)


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


def names_of_labels(sample: Sample) -> list[str]:
    """Returns the names that a file lists for the labels 0, 1, ...; none for any other file."""
    if not NAMES_OF_LABELS.search(sample.path.stem) or sample.split:
        return []
    lines = sample.texts
    if not lines and len(sample.names) == 2 and not sample.has_names:  # a number and its name in each line
        numbers, lines = ([row.get(name, "") for row in sample.rows] for name in sample.names)
        lines = lines if numbers == [str(at) for at in range(len(lines))] else []
    names = [line for line in lines if line]
    is_list = 2 <= len(set(names)) == len(names) <= MOST_LABELS
    return names if is_list and all(len(name.split()) < TEXT_WORDS for name in names) else []


def with_prefix(sample: Sample) -> Sample:
    """Returns a file of lines that begin with their label with a pattern that finds it; any other as it is."""
    for pattern in PREFIXES if sample.texts else ():
        found = [re.fullmatch(pattern, line) for line in sample.texts if line]
        rows = [match.groupdict() for match in found if match is not None]
        labels = {row["label"] for row in rows}
        if len(rows) == len(found) and 1 < len(labels) <= min(MOST_LABELS, len(rows) / 2):
            given = dataclasses.replace(sample.given, name="lines", pattern=pattern)
            names, doubts = list(rows[0]), (*sample.doubts, "each line seems to begin with its label")
            return dataclasses.replace(sample, given=given, names=names, rows=rows, label="label", doubts=doubts)
    return sample


def join_labels(samples: Iterable[Sample]) -> list[Sample]:
    """Returns samples with a label a line joined to those that have as many texts, in the same folder."""
    beside, joined = defaultdict[Any, list[Sample]](list), list[Sample]()
    for sample in samples:
        key = (sample.path.parent, sample.split, len(sample.texts)) if sample.texts else sample.path
        beside[key].append(sample)
    for group in beside.values():
        labels = [sample for sample in group if has_labels_alone(sample)]
        texts = [sample for sample in group if sample not in labels]
        if len(labels) != 1 or not texts:
            joined += group
            continue
        first, (beside_it,) = texts[0], labels
        rows = [{"text": text, "label": label} for text, label in zip(first.texts, beside_it.texts, strict=True)]
        files = f"{{files = {in_toml(str(first.path))}, labels = {in_toml(str(beside_it.path))}}}"
        also = [f"{sample.path} has as many lines too" for sample in texts[1:]]
        joined.append(
            dataclasses.replace(
                first, names=["text", "label"], rows=rows, label="label", files=files, doubts=(*first.doubts, *also)
            )
        )
    return joined


def has_labels_alone(sample: Sample) -> bool:
    """Returns whether each line of a file is one word, of which there are few."""
    lines = sample.texts
    return bool(lines) and all(len(line.split()) == 1 for line in lines) and len(set(lines)) <= MOST_LABELS


def join_folders(samples: Iterable[Sample]) -> list[Sample]:
    """Returns samples with those joined whose folders are their labels: each is one text."""
    by_place, joined = defaultdict[Any, list[Sample]](list), list[Sample]()
    for sample in samples:
        is_text = bool(sample.texts) and len(sample.path.parts) > 1 and not is_split_word(sample.path.parent.name)
        by_place[(sample.path.parent.parent, sample.path.suffix) if is_text else sample.path].append(sample)
    for group in by_place.values():
        sizes = Counter(sample.path.parent.name for sample in group)
        if len(sizes) < 2 or min(sizes.values()) < 2:
            joined += group
            continue
        first = group[0]
        rows = [{"text": " ".join(sample.texts), "folder": sample.path.parent.name} for sample in group]
        files = in_toml(str(first.path.parent.parent / "*" / f"*{first.path.suffix}"))
        encoding = next((sample.given.encoding for sample in group if sample.given.encoding), "")
        given = FileFormat(name="text", encoding=encoding)
        doubts = ("each file seems to be one text, whose label is its folder",)
        joined.append(
            dataclasses.replace(
                first,
                path=first.path.parent,
                form="text",
                given=given,
                names=["text", "folder"],
                rows=rows,
                label="folder",
                files=files,
                doubts=doubts,
            )
        )
    return joined


def join_classes(samples: Iterable[Sample]) -> list[Sample]:
    """Returns samples with those joined that differ in the ending of their names alone, which is their label."""
    by_stem, joined = defaultdict[Any, list[Sample]](list), list[Sample]()
    for sample in samples:
        is_class = bool(sample.texts) and bool(sample.path.suffix) and not sample.split
        by_stem[sample.path.with_suffix("") if is_class else sample].append(sample)
    for group in by_stem.values():
        if len(group) == 1:
            joined += group
            continue
        files = ", ".join(f"{in_toml(one.path.suffix[1:])} = {in_toml(str(one.path))}" for one in group)
        rows = [{"text": text, "label": one.path.suffix[1:]} for one in group for text in one.texts]
        encoding = next((one.given.encoding for one in group if one.given.encoding), "")
        given = FileFormat(name="lines", encoding=encoding)
        joined.append(
            dataclasses.replace(
                group[0],
                given=given,
                names=["text", "label"],
                rows=rows,
                label="label",
                files=f"{{files = {{{files}}}}}",
                doubts=("each file seems to have the texts of one label, the ending of its name",),
            )
        )
    return joined


def groups_of(samples: Iterable[Sample]) -> list[list[Sample]]:
    """Returns the samples of each task: of one folder, its splits aside, with the same columns; those of test may lack
    the column of the label."""
    groups = defaultdict[Any, list[Sample]](list)
    for sample in samples:
        groups[sample.place, sample.form, tuple(sample.names)].append(sample)
    for key, group in list(groups.items()):
        place, form, names = key
        wider = [other for other in groups if other[:2] == (place, form) and set(names) < set(other[2])]
        if wider and {sample.split for sample in group} == {"test"}:
            groups[wider[0]] += groups.pop(key)
    return list(groups.values())


def suggest_task(folder: Path, samples: Sequence[Sample], name: str, label_names: Sequence[str]) -> Iterator[str]:
    """Yields the section of one task, whose files have the same columns.

    Args:
        folder: of the data.
        samples: of its files.
        name: of the task.
        label_names: names of its labels 0, 1, ... that a file beside lists; empty: none does.
    """
    # The keys that the rows of train decide.
    first = next((sample for sample in samples if sample.split == "train"), samples[0])
    texts, labels = columns_of_texts(first) or [first.names[0]], label_columns(first)
    label, is_lines = labels[0] if labels else "label", bool(first.texts)
    shown = texts[:2] if len(texts) == 2 or not first.label else texts[:1]
    lines = [*describe_kind(first, label, label_names), f"texts = {in_toml(shown)}", f"label = {in_toml(label)}"]
    ids = [own for own in first.names if own.lower() in ID_NAMES and len(set(first.values(own))) == len(first.rows)]
    lines += [f"id = {in_toml(ids[0])}"] if ids else []
    form = first.given.name or ("lines" if is_lines else "")
    lines += [f'format = "{form}"'] if form else []
    for key in ("encoding", "separator", "pattern"):
        value = getattr(first.given, key)
        lines += [f"{key} = {in_toml(value)}"] if value else []
    lines += [] if first.has_names or first.form not in DELIMITED_FORMATS else [f"columns = {in_toml(first.names)}"]
    lines += split_lines(samples, first)

    # What they do not decide.
    doubts = list(first.doubts)
    if len(texts) > len(shown) or len(texts) > 2:
        doubts.append(f"these columns look like texts: {', '.join(texts)}")
    if is_lines:
        where = "a file for each label, a file with a label a line or a pattern"
        doubts.append(f"lines are texts alone: their labels are in {where}, see docs/layouts.md")
    elif not labels:
        doubts.append("no column looks like labels")
    elif len(labels) > 1:
        doubts.append(f"these columns may be labels: {', '.join(labels)}")
    if label_names:
        doubts.append(f"the names of labels are those of a file beside: {', '.join(label_names[:MOST_CLASSES])}")
    if first.form == "tsv" and find_quoting(folder / first.path, first.given).name == "unclear":
        doubts.append('the cells in quotation marks may be quoted: quoting = "standard", or "none"')
    rows, fault = read_proposal(folder, name, lines)
    doubts += [f"these files cannot be read so: {fault}"] if fault and len({*first.values(label)}) > 1 else []
    yield f"[tasks.{name}]"
    yield from lines
    yield from (f"# unsure: {doubt}" for doubt in doubts)
    yield from ("# rows as they were read:", *(f"#   {row}" for row in rows)) if rows else ()


def read_proposal(folder: Path, name: str, lines: Iterable[str]) -> tuple[list[str], str]:
    """Returns the first rows of train as text, read as these lines of a task say; if they cannot be read, why."""
    try:
        task = with_quoting(tasks_of_tree(tomllib.loads("\n".join([f"[tasks.{name}]", *lines])))[name], folder)
        assert task.files is not None, "tasks.toml defines the task"
        tables = read_all({(name, split): (own_source(task, task.files, split),) for split in ("train", "dev")}, folder)
    except ValueError as error:
        return [], first_line(error)
    train = tables[name, "train"]
    return [describe_row(task, train, row) for row in range(min(SHOWN_ROWS, len(train.ids)))], ""


def describe_row(task: Task, table: Table, row: int) -> str:
    """Returns the texts and the label of a row, with the names of their columns."""
    label = table.labels[row]
    named = f"{label:g}" if task.is_regression else task.names_of(label)
    texts = (column[row] for column in table.texts)
    pairs = zip((*task.text_columns, task.label_column), (*texts, named), strict=True)
    return "  ".join(f"{key}: {value[:SHOWN_CHARACTERS]!r}" for key, value in pairs)


def split_lines(samples: Sequence[Sample], first: Sample) -> Iterator[str]:
    """Yields the keys that name the files of each split."""
    columns = split_columns(first)
    files = {sample: sample.files or in_toml(str(sample.path)) for sample in samples}
    by_split = {split: [files[one] for one in samples if one.split == split] for split in WORDS_OF_SPLITS}
    if columns:
        for split, words in WORDS_OF_SPLITS.items():
            values = [value for value in Counter(first.values(columns[0])) if value.casefold() in words]
            if values:
                yield f"{split} = {{files = {files[first]}, where = {{{in_toml(columns[0])} = {in_toml(values)}}}}}"
        return
    if {"train", "dev"} <= {*first.splits}:  # each in an array of its own
        yield from (f"{split} = {files[first]}" for split in first.splits)
        return
    if not by_split["train"]:
        by_split["train"] = [files[one] for one in samples if not one.split] or [files[first]]
    for split, group in by_split.items():
        if group:
            are_paths = all(own.startswith('"') for own in group)
            yield f"{split} = [{', '.join(group)}]" if are_paths and len(group) > 1 else f"{split} = {group[0]}"
            yield from (f"# unsure: {split} has these files too: {other}" for other in group[1:] if not are_paths)
        elif split == "dev":
            yield "dev = 0.1  # a share of train, as no file is for dev by its name"


def split_columns(sample: Sample) -> list[str]:
    """Returns the columns that say which split each row is for."""
    said = {name: set(sample.values(name)) for name in sample.names}
    return [name for name, values in said.items() if len(values) > 1 and all(map(is_split_word, values))]


def columns_of_texts(sample: Sample) -> list[str]:
    """Returns the columns whose cells have several words."""
    found = []
    for name in sample.names:
        cells = [cell for cell in sample.values(name)[:1000] if not cell.startswith(("[", "{"))]
        if cells and sum(len(cell.split()) for cell in cells) / len(cells) >= TEXT_WORDS:
            found.append(name)
    return found


def label_columns(sample: Sample) -> list[str]:
    """Returns the columns that may be labels, the likeliest first."""
    if sample.label or sample.texts:
        return [sample.label] if sample.label else []
    texts = columns_of_texts(sample)
    aside = [name for name in sample.names if name.lower() in ID_NAMES or name in split_columns(sample)]
    others = [name for name in sample.names if name not in texts and name not in aside]
    values = {name: {one for cell in sample.values(name) for one in labels_in(cell)} for name in others}
    few = [name for name in others if 1 < len(values[name]) <= MOST_LABELS]
    numbers = [name for name in others if all(isinstance(as_number(own), float) for own in sample.values(name))]
    found = [name for name in others if name in few or name in numbers]
    named = [name for part in LABEL_NAMES for name in found if part in name.lower()]
    return list(dict.fromkeys([*named, *found]))


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


def describe_kind(sample: Sample, label: str, label_names: Sequence[str]) -> Iterator[str]:
    """Yields the keys of the kind of task that a column of labels is for; `label_names` as of `suggest_task`."""
    lists = [labels_in(cell) for cell in sample.values(label)]
    found = {one for own in lists for one in own}
    values = sorted(found, key=lambda value: (isinstance(as_number(value), str), as_number(value)))
    numbers = [number for value in values if isinstance(number := as_number(value), float)]
    are_numbers = bool(values) and len(numbers) == len(values)
    is_named = are_numbers and {*numbers} <= {*range(len(label_names))}
    is_counted = numbers == list(range(len(values)))
    names = in_toml(label_names) if is_named else mapping_to_name(values) if numbers else in_toml(values)
    if any(len(own) != 1 for own in lists):
        yield from ('kind = "multilabel"', f"labels = {names}")
    elif are_numbers and not is_named and (len(values) > MOST_CLASSES or not all(map(float.is_integer, numbers))):
        yield from ('kind = "regression"', f"range = [{numbers[0]:g}, {numbers[-1]:g}]  # unsure: of these rows")
    elif is_counted and not is_named and len(values) >= 2:
        yield from ('kind = "classes"', f"num_labels = {len(values)}") if len(values) > 2 else ('kind = "binary"',)
    elif len(values) < 2:
        yield from ('kind = "classes"', 'labels = ["one", "two"]  # unsure: the names of the labels')
    else:
        count = len(label_names) if is_named else len(values)
        yield from (f'kind = "{"binary" if count == 2 else "classes"}"', f"labels = {names}")
