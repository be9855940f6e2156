"""Sources of a table's rows (files and data sets): read once, joined, and split into train and held-out rows."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mtlib.config.data import HUB_PREFIX
from mtlib.data.file_readers import SUFFIX_FORMATS, read_file, short_name
from mtlib.data.file_suggestions import describe_missing
from mtlib.data.hold_out import hold_out_texts, share_text
from mtlib.data.hub_datasets import read_hub_data
from mtlib.data.parquet_files import PARQUET_SUFFIX, read_parquet_file
from mtlib.data.tables import Layout, Table, check_folder, make_table
from mtlib.runtime.errors import require
from mtlib.tasks import Task

HELD = "held"
"""The split that consists of the held-out rows."""


@dataclass(frozen=True, kw_only=True)
class HoldOut:
    """Rows that are held out before anything is trained."""

    share: float
    """Share of each source's rows, above 0."""
    sources: tuple["RowSource", ...]
    """The tasks' own train rows."""


@dataclass(frozen=True, kw_only=True)
class RowSource:
    """Describes rows of one file or data set; equal descriptions of equal files give equal rows."""

    task: Task
    split: str
    """`train`, `dev` or `held`."""
    path: str
    """A file, relative to the data folder or absolute, or `hf://NAME`."""
    own_split: str
    """The split's name in a data set."""
    layout: Layout
    delimiters: str = "\t,"
    """Column separators of CSV that are accepted."""
    prefix: str = ""
    """Added before each id: the name of the augmentation and a slash."""
    hold_out: HoldOut | None = None
    """Which rows are held out: all rows of the split `held`. `train` lacks them and every row that shares a text with
    them."""


RowSources = tuple[RowSource, ...]
"""The sources of one table: its own rows, then augmentation."""


def describe_sources(sources: RowSources) -> str:
    """The files of a table, and the tasks of which rows are held out."""
    paths, hold_out = ", ".join(source.path for source in sources), sources[0].hold_out
    return (
        paths if hold_out is None else f"{paths}; held out: {' '.join(source.task.name for source in hold_out.sources)}"
    )


def check_files(wanted: Iterable[RowSources], folder: Path) -> None:
    """Raises ValueError that names the data folder if it is missing, else every missing file of `wanted`."""
    paths = {source.path for sources in wanted for source in sources if not source.path.startswith(HUB_PREFIX)}
    absolute = {path for path in paths if Path(path).is_absolute()}
    far = sorted(path for path in absolute if not Path(path).is_file())
    missing = ", ".join(far)
    try:
        check_folder(folder, paths - absolute)
    except ValueError as error:
        raise ValueError(f"{error}; and there is no {missing}" if missing else str(error)) from error
    if far:
        hint = describe_missing(Path(far[0]).parent, far, paths.difference(far))
        raise ValueError(f"files of data.sources must be there, got no {missing}; {hint}")


def read_tables(wanted: Iterable[RowSources], folder: Path) -> dict[RowSources, Table]:
    """Reads tables: the rows of a first source, then those of the others. Each file is read once.

    Raises:
        ValueError: in one line. A file cannot be used (see `read_file`, `read_hub_data` and `make_table`); no row of
            one can be held out, or none is left to train on.
    """
    tables = list(dict.fromkeys(wanted))
    every = [source for sources in tables for source in sources]
    hold_outs = dict.fromkeys(source.hold_out for source in every if source.hold_out is not None)
    shares = dict.fromkeys((source, hold_out.share) for hold_out in hold_outs for source in hold_out.sources)
    files = dict.fromkeys([*map(without_hold_out, every), *(source for source, _ in shares)])
    read = {source: read_all_rows(source, folder) for source in files}
    held = {(source, share): texts_to_hold_out(read[source], share) for source, share in shares}
    return {
        sources: join_tables([select_rows(source, read[without_hold_out(source)], held) for source in sources])
        for sources in tables
    }


def without_hold_out(source: RowSource) -> RowSource:
    """All rows of a source's file or data set."""
    return dataclasses.replace(source, split="train" if source.split == HELD else source.split, hold_out=None)


def read_all_rows(source: RowSource, folder: Path) -> Table:
    layout = source.layout
    if source.path.startswith(HUB_PREFIX):
        name = resolve_hub_path(source.path, folder)
        path = Path(name.removeprefix(HUB_PREFIX))
        rows = read_hub_data(name, source.own_split, layout.columns, numbered=layout.is_numbered)
    else:
        path = folder / source.path
        if path.suffix == PARQUET_SUFFIX:
            rows = read_parquet_file(path, layout.columns, numbered=layout.is_numbered)
        else:
            form = SUFFIX_FORMATS[path.suffix]
            rows = read_file(path, form, layout.columns, numbered=layout.is_numbered, delimiters=source.delimiters)
    table = make_table(source.task, source.split, layout, path, rows)
    return dataclasses.replace(table, ids=[source.prefix + name for name in table.ids]) if source.prefix else table


def resolve_hub_path(path: str, folder: Path) -> str:
    """An `hf://` path, absolute if the data folder holds a folder of that name."""
    name, mark, configuration = path.removeprefix(HUB_PREFIX).partition("#")
    local = folder / name
    return f"{HUB_PREFIX}{local.absolute()}{mark}{configuration}" if local.is_dir() else path


def texts_to_hold_out(table: Table, share: float) -> frozenset[str]:
    """The texts of the rows to hold out; ValueError if there are none."""
    texts = hold_out_texts(table.texts, share)
    rule = f"{short_name(table.path)}: data.hold_out must hold out at least one whole group of rows that share texts"
    require(bool(texts), rule, f"{share:g} of {len(table.ids)} rows")
    return texts


def select_rows(source: RowSource, table: Table, held: Mapping[tuple[RowSource, float], frozenset[str]]) -> Table:
    """The rows of a source from all rows of its file; train rows that share a text with held-out rows are counted.

    `held` has the normalised texts of the held-out rows by source and share.
    """
    if source.hold_out is None:
        return table
    own = {one: held[one, source.hold_out.share] for one in source.hold_out.sources}
    shares = share_text(table.texts, frozenset().union(*own.values()))
    if source.split == HELD:
        return dataclasses.replace(pick_rows(table, np.flatnonzero(shares)), split=HELD, skipped=(), left_out=())
    is_held = share_text(table.texts, own.get(without_hold_out(source), frozenset()))
    name, num_others = short_name(table.path), int((shares & ~is_held).sum())
    rule = f"{name}: there must be train rows that share no text with rows held out"
    require(not shares.all(), rule, f"none among {len(shares)}")
    found = f"{name}: {'1 row shares' if num_others == 1 else f'{num_others} rows share'} a text with rows held out"
    kept = pick_rows(table, np.flatnonzero(~shares))
    return dataclasses.replace(kept, left_out=(*table.left_out, found)) if num_others else kept


def pick_rows(table: Table, rows: np.ndarray) -> Table:
    """The rows with these numbers, in their order, of a table without augmentation."""
    return dataclasses.replace(
        table,
        ids=[table.ids[row] for row in rows],
        texts=tuple([column[row] for row in rows] for column in table.texts),
        labels=table.labels[rows],
        num_own_rows=len(rows),
    )


def join_tables(tables: list[Table]) -> Table:
    """A task's own train rows, followed by augmentation."""
    own, *added = tables
    if not added:
        return own
    return dataclasses.replace(
        own,
        ids=[name for table in tables for name in table.ids],
        texts=tuple(
            [text for column in columns for text in column] for columns in zip(*(t.texts for t in tables), strict=True)
        ),
        labels=np.concatenate([table.labels for table in tables]),
        skipped=tuple(line for table in tables for line in table.skipped),
        left_out=tuple(line for table in tables for line in table.left_out),
    )
