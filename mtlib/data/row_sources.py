"""Sources of a table's rows (files and data sets): read once, joined, and split into train, dev and held-out rows."""

import dataclasses
import glob
import itertools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

import numpy as np

from mtlib.config.data import HUB_PREFIX, as_number, has_format, is_pattern
from mtlib.config.task_file import TASK_FILE, check_suffixes
from mtlib.data.files.exports import REJECTED
from mtlib.data.files.hub_datasets import hub_class_names, read_hub_data, split_hub_path
from mtlib.data.files.quoting import describe_quoting
from mtlib.data.files.read_file import carried_by, is_file_of_splits, read_one_file
from mtlib.data.files.readers import SPLIT_WORDS, Row, SourceFindings, Wanted, short_name
from mtlib.data.files.suggestions import describe_folder
from mtlib.data.hold_out import (
    group_rows,
    group_value,
    hold_out_texts,
    label_strata,
    normalise,
    normalise_columns,
    share_text,
    values_in,
)
from mtlib.data.repeats import DroppedRows, label_shift
from mtlib.data.row_labels import Layout
from mtlib.data.tables import (
    Table,
    check_folder,
    connecting_columns,
    describe_blank,
    make_table,
    named_by_key,
)
from mtlib.runtime.errors import require
from mtlib.runtime.storage import expanded_path
from mtlib.tasks import FileFormat, RowSelection, Task

HELD = "held"
"""The split that consists of the held-out rows."""
MOST_SPLITS = 20
"""Values of a column that says which split a row is for, at most."""
MOST_REASONS = 10
"""Reasons why rows are left out that have a line each."""


@dataclass(frozen=True, kw_only=True)
class HoldOut:
    """Rows that are held out before anything is trained."""

    share: float
    """Share of each source's rows, above 0."""
    sources: tuple["RowSource", ...]
    """The tasks' own train rows."""


@dataclass(frozen=True, kw_only=True)
class RowSource:
    """Describes rows of files or of a data set; equal descriptions of equal files give equal rows."""

    task: Task
    split: str
    """`train`, `dev` or `held`."""
    paths: tuple[str, ...]
    """A file, relative to the data folder or absolute, or `hf://NAME`; of a task of `tasks.toml` several files, or
    patterns of them."""
    own_split: str
    """The split's name in a data set."""
    layout: Layout
    format: FileFormat = dataclasses.field(default_factory=FileFormat)
    selection: RowSelection = dataclasses.field(default_factory=RowSelection)
    prefix: str = ""
    """Added before each id: the name of the augmentation and a slash."""
    hold_out: HoldOut | None = None
    """Which rows are held out: all rows of the split `held`. `train` lacks them and every row that shares a text or a
    group with them."""
    dev_share: float = 0.0
    """Share of the rows that are drawn as dev rows; `layout.dev_from` may say it in its place."""
    drawn_dev: tuple["RowSource", ...] = ()
    """For `train`, the sources of all tasks from which dev rows are taken. It lacks every row that shares a text or a
    group with them."""

    @property
    def takes_dev(self) -> bool:
        """Whether the rows of the split `dev` are taken from these, so that `train` and `held` lack them."""
        return self.split != "test" and (self.dev_share > 0 or self.layout.dev_from is not None)


RowSources = tuple[RowSource, ...]
"""The sources of one table: its own rows, then augmentation."""


def describe_sources(sources: RowSources) -> str:
    """Says which files a table is read from, and for which tasks rows are held out."""
    paths, hold_out = ", ".join(path for source in sources for path in source.paths), sources[0].hold_out
    return (
        paths if hold_out is None else f"{paths}; held out: {' '.join(source.task.name for source in hold_out.sources)}"
    )


def check_files(wanted: Iterable[RowSources], folder: Path) -> None:
    """Raises ValueError that names the data folder if it is missing, else every missing file of `wanted`."""
    sources = list(dict.fromkeys(source for sources in wanted for source in sources))
    every = {source: (*source.paths, *source.selection.label_files, *group_files_of(source.task)) for source in sources}
    named = {path for paths in every.values() for path in paths if not path.startswith(HUB_PREFIX)}
    paths = {path for path in named if not is_pattern(path)}
    absolute = {path for path in paths if Path(path).is_absolute()}
    far = sorted(path for path in absolute if not Path(path).is_file())
    keys = {path: key_of(source) for source in sources if is_own(source) for path in every[source]}
    keys |= {path: f"tasks.{one.task.name}.group_file" for one in sources for path in group_files_of(one.task)}
    missing = named_by_key(far, keys)
    try:
        check_folder(folder, paths - absolute, keys)
    except ValueError as error:
        raise ValueError(f"{error}; and there is no {missing}" if missing else str(error)) from error
    if far:
        hint = describe_folder(Path(far[0]).parent)
        raise ValueError(f"files outside the data folder must be there, got no {missing}; {hint}")
    for source in sources:
        if is_hub(source):
            check_splits_differ(source.task)
            continue
        files_of(source, folder)
        if source.split == "train" and is_own(source):
            check_apart_from_train(source, folder)
    check_class_names(sources, folder)


def check_class_names(sources: Iterable[RowSource], folder: Path) -> None:
    """Raises ValueError if files of a task without names of labels carry names that differ: numbers would mean others.

    Where a task has names, each file is compared with them as it is read.
    """
    firsts: dict[str, tuple[str, tuple[str, ...]]] = {}
    for source in sources:
        column = source.layout.label_column
        if not is_own(source) or source.layout.class_names is not None or not column:
            continue
        if is_hub(source):
            carried = hub_class_names(hub_path(source, folder), source.own_split, column)
        else:
            files = files_of(source, folder)
            carried = {os.path.relpath(path, folder): carried_by(path, source.format, column) for path in files}
        for name, names in carried.items():
            first, others = firsts.setdefault(source.task.name, (name, names))
            rule = f"labels of tasks.{source.task.name} must be given, as files name their numbers differently"
            found = f"{', '.join(others) or 'none'} in {first} and {', '.join(names) or 'none'} in {name}"
            require(names == others, rule, found)


def check_apart_from_train(source: RowSource, folder: Path) -> None:
    """Raises ValueError, with both names, if a file of a task's train rows is one of dev or test, under any name."""
    trained, files = {file_id(path): path for path in files_of(source, folder)}, source.task.files
    assert files is not None, "they are its own"
    for split in ("dev", "test"):
        own = dataclasses.replace(
            source, split=split, paths=expand_home(files.paths(split)), selection=files.rows(split)
        )
        is_taken = split == "dev" and files.takes_dev_from_train
        is_read = own.paths and not is_taken and not is_hub(own) and is_there(own, folder)
        for path in files_of(own, folder) if is_read else ():
            rule = f"{key_of(own)} must name other files than train{', or be a share of it' if split == 'dev' else ''}"
            if file_id(path) not in trained or are_apart(own.selection, source.selection):
                continue  # another file, or other rows of the same
            twin = f"{trained[file_id(path)]} of {', '.join(source.paths)}"
            require(is_file_of_splits(path, source.format, ("train", split)), rule, f"{path}, which is {twin}")


def are_apart(first: RowSelection, second: RowSelection) -> bool:
    """Returns whether no row has what both selections want: they want different values of one column."""
    wanted = {column: set(map(as_number, values)) for column, *values in first.where}
    return any(wanted.get(column, {*values}).isdisjoint(map(as_number, values)) for column, *values in second.where)


def check_splits_differ(task: Task) -> None:
    """Raises ValueError if train and dev of a task are the same rows of one Hugging Face data set."""
    files = task.files
    if files is not None and not files.takes_dev_from_train and not are_apart(files.train_rows, files.dev_rows):
        train, dev = (split_hub_path(files.paths(split)[0], split) for split in ("train", "dev"))
        rule = f"tasks.{task.name}.dev must name another split than train, or be a share of it"
        require(train != dev, rule, f"{dev[1]} of {dev[0]} for both")


def file_split(source: RowSource) -> str:
    """Returns the split of the task's files that the rows of a source are taken from."""
    return source.split if source.split in ("dev", "test") and not source.takes_dev else "train"


def is_own(source: RowSource) -> bool:
    """Returns whether a source's files, or its data set, are what `tasks.toml` names."""
    files = source.task.files
    given = () if files is None else expand_home(files.paths(file_split(source)))
    return source.paths == tuple(split_hub_path(path, "")[0] if path.startswith(HUB_PREFIX) else path for path in given)


def key_of(source: RowSource) -> str:
    """Returns the key of `tasks.toml` that names the files of a task's own source."""
    return f"tasks.{source.task.name}.{file_split(source)}"


def expand_home(paths: Iterable[str]) -> tuple[str, ...]:
    """Paths with the home folder in place of `~`."""
    return tuple(str(expanded_path(path)) if path.startswith("~") else path for path in paths)


def is_there(source: RowSource, folder: Path) -> bool:
    """Returns whether some file of a source is there; a data set of Hugging Face always is."""
    return is_hub(source) or any(find_matching(path, folder) for path in source.paths)


def has_folder(source: RowSource, folder: Path) -> bool:
    """Returns whether the folder of some file of a source is there; a data set of Hugging Face always is."""
    return is_hub(source) or any(folder_of(path, folder).is_dir() for path in source.paths)


def folder_of(path: str, folder: Path) -> Path:
    """Returns the innermost folder of a file, or of the files that match a pattern, that no pattern stands for."""
    return next(folder / place for place in PurePath(path).parents if not is_pattern(str(place)))


def files_of(source: RowSource, folder: Path) -> list[Path]:
    """Returns the files of a source: those that match a pattern in the order of their names.

    Raises:
        ValueError: none matches, or they differ in their suffix.
    """
    return [path for _, path in labelled_files_of(source, folder)]


def labelled_files_of(source: RowSource, folder: Path) -> list[tuple[str, Path]]:
    """As `files_of`, each with the label that all of its rows have; "" where rows have their own."""
    key, found = f"{folder / TASK_FILE}: {key_of(source)}", list[tuple[str, str]]()
    labels = source.selection.file_labels or [""] * len(source.paths)
    for label, path in zip(labels, source.paths, strict=True):
        matching = find_matching(path, folder) if is_pattern(path) else [path]
        if not matching:
            raise ValueError(f"{key} must match a file, got {path}; {describe_folder(folder_of(path, folder))}")
        found += [(label, one) for one in matching]
    if not source.format.name:
        check_suffixes(key, [path for _, path in found])
    files: dict[tuple[int, int], str] = {}
    for _, path in found:
        twin = files.setdefault(file_id(folder / path), path)
        require(twin is path, f"{key} must name each file once", f"{twin} and {path}")
    return [(label, folder / path) for label, path in found]


def file_id(path: Path) -> tuple[int, int]:
    """Returns what names of one file have in common, links among them."""
    found = path.stat()
    return found.st_dev, found.st_ino


def find_matching(path: str, folder: Path) -> list[str]:
    """Returns the files that a path or pattern stands for, by name, each once under its first one; none if it is not
    there."""
    matching = match_names(path, folder) if is_pattern(path) else [path]
    files = [name for name in sorted(matching, reverse=True) if (folder / name).is_file()]
    return sorted({file_id(folder / name): name for name in files}.values())


def match_names(pattern: str, folder: Path) -> list[str]:
    """As `glob.glob`, but `**` enters each folder once: one that holds two links to itself has names without end."""
    parts = PurePath(pattern).parts
    if "**" not in parts:
        return glob.glob(pattern, root_dir=folder)  # noqa: PTH207 - absolute ones too
    at, found, entered = parts.index("**"), list[Path](), set[tuple[int, int]]()
    for start in glob.glob(str(PurePath(*parts[:at])), root_dir=folder) if at else ("",):  # noqa: PTH207
        for place, names, _ in os.walk(folder / start, followlinks=True):
            is_new = file_id(Path(place)) not in entered
            entered.add(file_id(Path(place)))
            names[:] = sorted(name for name in names if is_new and not name.startswith("."))
            rest = str(PurePath(*parts[at + 1 :])) if parts[at + 1 :] else "*"
            found += [Path(place, name) for name in match_names(rest, Path(place))] if is_new else ()
    return [str(path) if PurePath(pattern).is_absolute() else os.path.relpath(path, folder) for path in found]


def read_tables(wanted: Iterable[RowSources], folder: Path) -> dict[RowSources, Table]:
    """Reads tables: the rows of a first source, then the others' rows. Each file is read once.

    Raises:
        ValueError: in one line. A file cannot be used (see `read_one_file`, `read_hub_data` and `make_table`); no row
            of one can be held out or drawn for dev, or none is left to train on.
    """
    tables = list(dict.fromkeys(wanted))
    every = [source for sources in tables for source in sources]
    hold_outs = dict.fromkeys(source.hold_out for source in every if source.hold_out is not None)
    shares = dict.fromkeys((source, hold_out.share) for hold_out in hold_outs for source in hold_out.sources)
    bare = dict.fromkeys([*map(without_hold_out, every), *(source for source, _ in shares)])
    drawing = dict.fromkeys(train_of(one) for source in every for one in (source, *source.drawn_dev) if one.takes_dev)
    read = {source: read_all_rows(source, folder) for source in dict.fromkeys(map(undrawn, [*bare, *drawing]))}
    drawn = {source: draw_dev(source, read[undrawn(source)]) for source in drawing}
    own = {source: take_own_rows(source, read[undrawn(source)], drawn) for source in bare}
    rest = {one: pick_rows(own[one], np.flatnonzero(~shares_later(one, own[one], drawn))) for one, _ in shares}
    held = {(source, share): texts_to_draw(rest[source], share, "data.hold_out") for source, share in shares}
    return {
        sources: join_tables([select_rows(source, own[without_hold_out(source)], held, drawn) for source in sources])
        for sources in tables
    }


def without_hold_out(source: RowSource) -> RowSource:
    """Returns a source's own rows, before others take some away."""
    return dataclasses.replace(
        source, split="train" if source.split == HELD else source.split, hold_out=None, drawn_dev=()
    )


def train_of(source: RowSource) -> RowSource:
    """Returns the train rows beside the dev rows that are taken from the same files."""
    return dataclasses.replace(without_hold_out(source), split="train")


def undrawn(source: RowSource) -> RowSource:
    """Returns all rows of a source's files or data set."""
    return dataclasses.replace(train_of(source), dev_share=0.0) if source.takes_dev else without_hold_out(source)


def read_all_rows(source: RowSource, folder: Path) -> Table:
    layout, findings = source.layout, SourceFindings()
    path = Path(source.paths[0].removeprefix(HUB_PREFIX)) if is_hub(source) else folder / source.paths[0]
    rows = read_cells(source, layout.columns, folder, findings)
    try:
        table = make_table(source.task, source.split, layout, path, rows)
    except ValueError as error:
        raise ValueError("; ".join([str(error), *describe_left_out(path, findings.left_out)])) from error
    check_split_columns(source, findings.split_values)
    check_answers(source, table, findings.left_out)
    lines = (*table.left_out, *describe_left_out(path, findings.left_out))
    exports = (f"{short_name(path)}: an export of {tool}, read as it means its rows" for tool in sorted(findings.tools))
    ids = [source.prefix + name for name in table.ids] if source.prefix else table.ids
    own = [groups_of_texts(table, folder / path) for path in group_files_of(source.task)]
    groups = tuple(itertools.chain(table.groups, *own))
    notes = (*exports, *describe_quotings(source, folder))
    return dataclasses.replace(table, ids=ids, groups=groups, left_out=lines, notes=notes)


def group_files_of(task: Task) -> tuple[str, ...]:
    """Returns the file with groups of a task's texts, if it has one."""
    return expand_home(filter(None, () if task.files is None else (task.files.group_file,)))


def groups_of_texts(table: Table, path: Path) -> list[list[str]]:
    """Returns, for each column of texts, the group of each row as a file says by the text.

    Raises:
        ValueError: in one line: the file cannot be read, a cell is blank, or a text is there twice.
    """
    known, wanted = dict[str, str](), Wanted(columns=("text", "group"), is_numbered=False, split="")
    for where, (text, group) in read_one_file(path, wanted):
        require(bool(text and group), f"{where}: text and group must not be blank", f"{text!r} and {group!r}")
        require(normalise(text) not in known, f"{where}: column text must hold each text once", repr(text))
        known[normalise(text)] = group_value(str(path), group)
    return [[known.get(normalise(text), "") for text in column] for column in table.texts]


def check_answers(source: RowSource, table: Table, left_out: Counter[str]) -> None:
    """Raises ValueError if all rows that annotators accepted have one label: accept and reject are the labels."""
    are_rejected = any(why.startswith(REJECTED) for why in left_out)
    if are_rejected and np.count_nonzero(source.task.class_sizes(table.labels)) == 1:
        label, path = source.layout.label_column, short_name(table.path)
        name = source.task.names_of(table.labels[0])
        rule = f"{path}: every row that was accepted has {label} {name}, and others were rejected"
        raise ValueError(f'{rule}: label = "answer" with labels = {{reject = ..., accept = ...}} takes both as labels')


def describe_quotings(source: RowSource, folder: Path) -> list[str]:
    """Returns a line for each TSV file that may have standard quoting or not, where no other file shows it."""
    if is_hub(source) or source.format.quoting in ("standard", "none"):
        return []
    key = f"tasks.{source.task.name}.quoting" if is_own(source) else "quoting of a task of tasks.toml"
    files = (path for path in files_of(source, folder) if has_format(path.name, source.format, "tsv"))
    return list(filter(None, (describe_quoting(path, source.format, key) for path in files)))


def describe_left_out(path: Path, left_out: Counter[str]) -> list[str]:
    """Returns a line for each reason why rows are left out."""
    shown = dict(left_out.most_common(MOST_REASONS))
    if rest := left_out.total() - sum(shown.values()):
        shown["for other reasons"] = rest
    return [f"{short_name(path)}: {count:,} row{'s' * (count != 1)}: {why}" for why, count in shown.items()]


def check_split_columns(source: RowSource, split_values: Mapping[str, Counter[str]]) -> None:
    """Raises ValueError if the rows of a source have a column that says that they are for different splits."""
    for column, counts in split_values.items():
        words = SPLIT_WORDS & set(map(str.casefold, counts))
        if len(words) > 1 and len(counts) <= MOST_SPLITS and is_own(source):
            split, path = file_split(source), short_name(Path(source.paths[0]))
            found = ", ".join(f"{value} {count:,}" for value, count in counts.most_common())
            first = f'{split} = {{files = "{source.paths[0]}", where = {{{column} = "{next(iter(counts))}"}}}}'
            raise ValueError(
                f"{path}: column {column} says which rows are for which split ({found}): "
                f"{key_of(source)} must say which it takes, one value or a list, such as {first}"
            )


def read_unlabelled(source: RowSource, folder: Path) -> tuple[list[list[str]], list[str]]:
    """Returns the texts of a source without labels, one list per column, and one line per unusable row."""
    columns = source.layout.unlabelled_columns
    texts, skipped = [list[str]() for _ in columns[1:]], list[str]()
    findings = SourceFindings()
    for where, cells in read_cells(source, columns, folder, findings):
        if all(cells):
            for column, text in zip(texts, cells[1:], strict=True):
                column.append(text)
        else:
            skipped.append(describe_blank(where, columns, cells))
    require(bool(texts[0]), f"{describe_sources((source,))}: there must be usable rows", "none")
    skipped += describe_left_out(Path(source.paths[0]), findings.left_out)
    return texts, skipped


def read_cells(source: RowSource, columns: Sequence[str], folder: Path, findings: SourceFindings) -> Iterator[Row]:
    """Rows of all files of a source, or of its data set; numbered through if the name of the first column is blank.

    Args:
        source: whose rows are read.
        columns: the wanted cells, that of the id first.
        folder: of the data.
        findings: gets what is found besides rows.
    """
    layout, selection = source.layout, source.selection
    others = [name for name in layout.header if name not in layout.label_columns]
    is_labelled = bool(set(layout.label_columns) & set(columns))
    has_labels_elsewhere = is_labelled and bool(selection.label_files or selection.file_labels)
    filters = [column for column, *_ in selection.where]
    unlabelled = [] if is_labelled and not has_labels_elsewhere else [others]
    wanted = Wanted(
        columns=(columns[0], *filters, *(columns[1:-1] if has_labels_elsewhere else columns[1:])),
        is_numbered=layout.is_numbered,
        num_filters=len(filters),
        watched=[name for name in (*layout.group_columns, *layout.slice_columns) if name not in filters],
        headers=[layout.header, *unlabelled] if layout.header else [],
        list_column=layout.label_column if is_labelled and not has_labels_elsewhere else "",
        class_names=layout.class_names,
        format=source.format,
        split=file_split(source),
        findings=findings,
    )
    if is_hub(source):
        rows = read_hub_data(hub_path(source, folder), source.own_split, wanted)
    elif has_labels_elsewhere:
        rows = read_with_labels(source, folder, wanted)
    else:
        rows = itertools.chain.from_iterable(read_one_file(path, wanted) for path in files_of(source, folder))
    if selection.where:
        rows = take_where(rows, selection.where, findings.left_out)
    if selection.first:
        rows = take_first(rows, selection.first, findings.left_out)
    return rows if columns[0] else ((where, [str(row), *cells[1:]]) for row, (where, cells) in enumerate(rows))


def read_with_labels(source: RowSource, folder: Path, wanted: Wanted) -> Iterator[Row]:
    """Rows of files without labels, each with that of its file, or that of its line in a file of labels, added."""
    files = labelled_files_of(source, folder)
    given = source.selection.label_files
    rule = f"{key_of(source)} must name a file of labels for each file of texts"
    require(not given or len(given) == len(files), rule, f"{len(given)} for {len(files)}")
    for number, (label, path) in enumerate(files):
        rows = read_one_file(path, wanted)
        if not given:
            yield from ((where, [*cells, label]) for where, cells in rows)
            continue
        form = dataclasses.replace(wanted.format, name="lines", pattern="")
        lines = dataclasses.replace(
            wanted, columns=("", "label"), num_filters=0, format=form, findings=SourceFindings()
        )
        labels = read_one_file(folder / given[number], lines)
        for own, other in itertools.zip_longest(rows, labels):
            rule = f"{given[number]} must have a label for each line of {path.name}"
            if own is None or other is None:
                raise ValueError(f"{rule}, got no more after {(own or other)[0]}")
            yield own[0], [*own[1], other[1][1]]


def take_where(rows: Iterable[Row], where: Sequence[Sequence[str]], left_out: Counter[str]) -> Iterator[Row]:
    """Yields the rows that have one of the values in each column, without these cells, which follow the id's."""
    allowed = [(column, set(map(as_number, values))) for column, *values in where]
    end = 1 + len(allowed)
    for place, cells in rows:
        pairs = zip(allowed, cells[1:end], strict=True)
        other = next((f"{column} is {cell}" for (column, values), cell in pairs if as_number(cell) not in values), None)
        if other is None:
            yield place, [cells[0], *cells[end:]]
        else:
            left_out[other] += 1


def take_first(rows: Iterable[Row], first: int, left_out: Counter[str]) -> Iterator[Row]:
    """Yields so many rows; the others are counted."""
    for number, row in enumerate(rows):
        if number < first:
            yield row
        else:
            left_out[f"only the first {first:,} are used"] += 1


def hub_path(source: RowSource, folder: Path) -> str:
    """Returns the path of a Hugging Face data set, absolute if the data folder holds it."""
    path = source.paths[0]
    name, mark, configuration = path.removeprefix(HUB_PREFIX).partition("#")
    return f"{HUB_PREFIX}{(folder / name).absolute()}{mark}{configuration}" if (folder / name).is_dir() else path


def is_hub(source: RowSource) -> bool:
    """Returns whether rows come from a Hugging Face data set."""
    return source.paths[0].startswith(HUB_PREFIX)


def texts_to_draw(
    table: Table, share: float, key: str, strata: np.ndarray | None = None, least: int = 0
) -> frozenset[str]:
    """Returns what connects the rows to draw from a table, as `hold_out_texts`; ValueError if there are none."""
    columns = connecting_columns(table)
    texts = hold_out_texts(columns, share, strata, least)
    if texts:
        return texts
    shared = "texts or groups" if table.groups else "texts"
    rule = f"{short_name(table.path)}: {key} must hold out at least one whole group of rows that share {shared}"
    sizes = np.bincount(group_rows(normalise_columns(columns)))
    raise ValueError(
        f"{rule}, got {share:g} of {len(table.ids)} rows in {len(sizes)} groups, the smallest of {sizes.min()}"
    )


def draw_dev(source: RowSource, table: Table) -> frozenset[str]:
    """Returns what connects the dev rows to take from all rows of a task: those that are later, or a stratified draw;
    of classes at least one row each."""
    if table.is_later is not None:
        count, after = int(table.is_later.sum()), getattr(source.layout.dev_from, "after", "")
        rule = f"{short_name(table.path)}: tasks.{source.task.name}.dev_from must have rows on both sides of {after}"
        require(0 < count < len(table.ids), rule, f"{count:,} of {len(table.ids):,} that are later")
        return values_in(normalise_columns(connecting_columns(table)), np.flatnonzero(table.is_later))
    is_regression, share = source.task.is_regression, source.dev_share
    strata = label_strata(table.labels, is_regression, share)
    return texts_to_draw(table, share, f"tasks.{source.task.name}.dev", strata, least=0 if is_regression else 1)


def take_own_rows(source: RowSource, table: Table, drawn: Mapping[RowSource, frozenset[str]]) -> Table:
    """Returns the train or the dev rows from all rows of a source;
    `drawn` has what connects the dev rows by train source."""
    if not source.takes_dev:
        return table
    is_dev = table.is_later
    if is_dev is None:
        is_dev = share_text(connecting_columns(table), drawn[train_of(source)])
    if source.split == "dev":
        return dataclasses.replace(
            pick_rows(table, np.flatnonzero(is_dev)), split="dev", skipped=(), left_out=(), notes=()
        )
    return pick_rows(table, np.flatnonzero(~is_dev))


def shares_later(source: RowSource, table: Table, drawn: Mapping[RowSource, frozenset[str]]) -> np.ndarray:
    """Returns whether each row of a source shares a text or a group with its dev rows, where these are later ones:
    (rows,) bool. Such rows are neither held out nor trained on."""
    later = frozenset[str]() if source.layout.dev_from is None else drawn[train_of(source)]
    return share_text(connecting_columns(table), later)


def select_rows(
    source: RowSource,
    table: Table,
    held: Mapping[tuple[RowSource, float], frozenset[str]],
    drawn: Mapping[RowSource, frozenset[str]],
) -> Table:
    """Returns the rows of a source from its own rows;
    train rows that share a text or a group with others that are set apart are counted.

    `held` has what connects the held-out rows by source and share, `drawn` what connects dev rows by source.
    """
    hold_out = source.hold_out
    if hold_out is None and not source.drawn_dev:
        return table
    held_out = {one: held[one, hold_out.share] for one in hold_out.sources} if hold_out is not None else {}
    can_be_held = ~shares_later(source, table, drawn)
    if source.split == HELD:
        is_held = can_be_held & share_text(connecting_columns(table), frozenset().union(*held_out.values()))
        return dataclasses.replace(
            pick_rows(table, np.flatnonzero(is_held)), split=HELD, skipped=(), left_out=(), notes=()
        )
    is_own = share_text(connecting_columns(table), held_out.pop(without_hold_out(source), frozenset()))
    table = pick_rows(table, np.flatnonzero(~(can_be_held & is_own)))
    apart = {f"rows held out of {one.task.name}": texts for one, texts in held_out.items()}
    apart |= {f"dev rows of {one.task.name}": drawn[one] for one in source.drawn_dev}
    is_dropped = share_text(connecting_columns(table), frozenset().union(*apart.values()))
    kept, out = (pick_rows(table, np.flatnonzero(rows)) for rows in (~is_dropped, is_dropped))
    if not out.ids:
        return table
    counts = {what: int(share_text(connecting_columns(out), texts).sum()) for what, texts in apart.items()}
    reasons, name = [what for what, count in counts.items() if count], short_name(table.path)
    shared, none = ("a text or a group", "neither text nor group") if table.groups else ("a text", "no text")
    rule = f"{name}: there must be train rows that share {none} with {' or '.join(reasons)}"
    require(bool(kept.ids), rule, f"none among {len(out.ids)}")
    share, by = len(out.ids) / len(table.ids), " and ".join(f"{what} ({counts[what]:,})" for what in reasons)
    rows = f"{len(out.ids):,} of {len(table.ids):,} train rows of {name} ({share:.1%}) share {shared} with {by}"
    sentence = f"{rows}: {label_shift(source.task, table.labels, kept.labels)}"
    dropped = DroppedRows(share=share, sentence=sentence)
    return dataclasses.replace(kept, left_out=(*table.left_out, sentence), dropped=dropped)


def pick_rows(table: Table, rows: np.ndarray) -> Table:
    """Returns the rows with these numbers, in their order, of a table without augmentation."""
    return dataclasses.replace(
        table,
        ids=[table.ids[row] for row in rows],
        places=[table.places[row] for row in rows],
        texts=tuple([column[row] for row in rows] for column in table.texts),
        labels=table.labels[rows],
        teacher=None if table.teacher is None else table.teacher[rows],
        groups=tuple([column[row] for row in rows] for column in table.groups),
        slices={name: [column[row] for row in rows] for name, column in table.slices.items()},
        is_later=None if table.is_later is None else table.is_later[rows],
        num_own_rows=len(rows),
    )


def join_tables(tables: list[Table]) -> Table:
    """Returns a task's own train rows, followed by augmentation."""
    own, *added = tables
    if not added:
        return own
    blank = [""] * sum(len(table.ids) for table in added)  # augmentation is alone, and in no slice
    return dataclasses.replace(
        own,
        ids=[name for table in tables for name in table.ids],
        places=[place for table in tables for place in table.places],
        texts=tuple(
            [text for column in columns for text in column] for columns in zip(*(t.texts for t in tables), strict=True)
        ),
        labels=np.concatenate([table.labels for table in tables]),
        teacher=join_teachers(tables),
        groups=tuple([*column, *blank] for column in own.groups),
        slices={name: [*column, *blank] for name, column in own.slices.items()},
        is_later=None,
        skipped=tuple(line for table in tables for line in table.skipped),
        left_out=tuple(line for table in tables for line in table.left_out),
        notes=tuple(line for table in tables for line in table.notes),
    )


def join_teachers(tables: Sequence[Table]) -> np.ndarray | None:
    """Returns the teachers' logits of tables one after the other, NaN for the rows of a table without;
    None without any."""
    width = next((table.teacher.shape[1] for table in tables if table.teacher is not None), None)
    if width is None:
        return None
    none = (np.full((len(table.labels), width), np.nan, dtype=np.float32) for table in tables)
    both = zip(tables, none, strict=True)
    return np.concatenate([other if table.teacher is None else table.teacher for table, other in both])
