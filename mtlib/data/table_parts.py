"""Parts of tables, each from one file or data set, read and joined; rows that are kept aside are told from the rest."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mtlib.config.data import HUB_PREFIX
from mtlib.data.file_readers import SUFFIX_FORMATS, read_file, short_name
from mtlib.data.hold_out import hold_out_texts, share_text
from mtlib.data.hub_datasets import read_hub_data
from mtlib.data.missing_files import describe_missing
from mtlib.data.tables import Layout, Table, check_folder, make_table
from mtlib.errors import require
from mtlib.tasks import TASKS

HELD = "held"
"""The split that consists of the rows kept aside."""


@dataclass(frozen=True, kw_only=True)
class HoldOut:
    """What is kept aside before anything is trained."""

    share: float
    """Of the rows of each part, above 0."""
    parts: tuple["Part", ...]
    """Whose rows: the own train rows of tasks."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Rows from one file or data set: all that decides them, but for the content."""

    task: str
    split: str
    """`train`, `dev` or `held`."""
    path: str
    """A file, relative to the data folder or absolute, or `hf://NAME`."""
    own_split: str
    """What a data set calls the split."""
    layout: Layout
    delimiters: str = "\t,"
    """What may separate columns in CSV."""
    prefix: str = ""
    """Before the ids: the name of augmentation, and a slash."""
    hold_out: HoldOut | None = None
    """What `held` consists of, and `train` is without, as it is without all other rows that share a text with it; None:
    nothing is kept aside."""


Parts = tuple[Part, ...]
"""The parts of one table: its own rows, then augmentation."""

Held = Mapping[tuple[Part, float], frozenset[str]]
"""By part and share, the texts of the rows kept aside, normalised."""


def describe_parts(parts: Parts) -> str:
    """The files of a table, and the tasks of which rows are kept aside."""
    paths, hold_out = ", ".join(part.path for part in parts), parts[0].hold_out
    return paths if hold_out is None else f"{paths}; held out: {' '.join(part.task for part in hold_out.parts)}"


def check_files(wanted: Iterable[Parts], folder: Path) -> None:
    """Raises ValueError that names every file of `wanted` that is missing, or the folder if it is."""
    paths = {part.path for parts in wanted for part in parts if not part.path.startswith(HUB_PREFIX)}
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


def read_tables(wanted: Iterable[Parts], folder: Path) -> dict[Parts, Table]:
    """The tables that some parts make: the rows of a first part, its own, then those of the others.

    Each file is read once, and what to keep aside of it is chosen once.

    Args:
        wanted: the parts of each table.
        folder: the data folder.

    Raises:
        ValueError: in one line. A file cannot be used (see `read_file`, `read_hub_data` and `make_table`); no row of
            one can be held out, or none is left to train on.
    """
    tables = list(dict.fromkeys(wanted))
    parts = [part for own in tables for part in own]
    hold_outs = dict.fromkeys(part.hold_out for part in parts if part.hold_out is not None)
    shares = dict.fromkeys((part, hold_out.share) for hold_out in hold_outs for part in hold_out.parts)
    files = dict.fromkeys([*map(whole, parts), *(part for part, _ in shares)])
    read = {part: read_part(part, folder) for part in files}
    held = {(part, share): choose_texts(read[part], share) for part, share in shares}
    return {own: join_tables([take_rows(part, read[whole(part)], held) for part in own]) for own in tables}


def whole(part: Part) -> Part:
    """All rows of a part's file or data set, whatever is kept aside."""
    return dataclasses.replace(part, split="train" if part.split == HELD else part.split, hold_out=None)


def read_part(part: Part, folder: Path) -> Table:
    """The table of one whole file or data set."""
    layout = part.layout
    if part.path.startswith(HUB_PREFIX):
        name = place_of_data(part.path, folder)
        path = Path(name.removeprefix(HUB_PREFIX))
        rows = read_hub_data(name, part.own_split, layout.columns, numbered=layout.is_numbered)
    else:
        path = folder / part.path
        form, is_numbered = SUFFIX_FORMATS[path.suffix], layout.is_numbered
        rows = read_file(path, form, layout.columns, numbered=is_numbered, delimiters=part.delimiters)
    table = make_table(TASKS[part.task], part.split, layout, path, rows)
    return dataclasses.replace(table, ids=[part.prefix + name for name in table.ids]) if part.prefix else table


def place_of_data(path: str, folder: Path) -> str:
    """The path of a data set, with its name as an absolute path where the data folder holds a folder of that name."""
    name, mark, configuration = path.removeprefix(HUB_PREFIX).partition("#")
    place = folder / name
    return f"{HUB_PREFIX}{place.absolute()}{mark}{configuration}" if place.is_dir() else path


def choose_texts(table: Table, share: float) -> frozenset[str]:
    """The texts of the rows of a table that are kept aside; ValueError if there are none."""
    texts = hold_out_texts(table.texts, share)
    rule = f"{short_name(table.path)}: data.hold_out must keep aside at least one whole group of rows that share texts"
    require(bool(texts), rule, f"{share:g} of {len(table.ids)} rows")
    return texts


def take_rows(part: Part, table: Table, held: Held) -> Table:
    """Of all rows of a part's file those that the part consists of; train rows left out beside those held are said."""
    if part.hold_out is None:
        return table
    own = {one: held[one, part.hold_out.share] for one in part.hold_out.parts}
    shares = share_text(table.texts, frozenset().union(*own.values()))
    if part.split == HELD:
        return dataclasses.replace(pick_rows(table, shares), split=HELD, skipped=(), left_out=())
    is_held = share_text(table.texts, own.get(whole(part), frozenset()))
    name, num_others = short_name(table.path), int((shares & ~is_held).sum())
    rule = f"{name}: there must be train rows that share no text with rows held out"
    require(not shares.all(), rule, f"none among {len(shares)}")
    found = f"{name}: {'1 row shares' if num_others == 1 else f'{num_others} rows share'} a text with rows held out"
    kept = pick_rows(table, ~shares)
    return dataclasses.replace(kept, left_out=(*table.left_out, found)) if num_others else kept


def pick_rows(table: Table, chosen: np.ndarray) -> Table:
    """Some rows of a table, all of which are its own.

    Args:
        table: all rows, without augmentation.
        chosen: (rows,) bool.
    """
    rows = np.flatnonzero(chosen)
    return dataclasses.replace(
        table,
        ids=[table.ids[row] for row in rows],
        texts=tuple([column[row] for row in rows] for column in table.texts),
        labels=None if table.labels is None else table.labels[rows],
        num_own_rows=len(rows),
    )


def join_tables(tables: list[Table]) -> Table:
    """A table with others behind it, as augmentation is behind a task's own train rows."""
    own, *added = tables
    if not added:
        return own
    assert all(table.labels is not None for table in tables), "train has labels"
    return dataclasses.replace(
        own,
        ids=[name for table in tables for name in table.ids],
        texts=tuple(
            [text for column in columns for text in column] for columns in zip(*(t.texts for t in tables), strict=True)
        ),
        labels=np.concatenate([table.labels for table in tables if table.labels is not None]),
        skipped=tuple(line for table in tables for line in table.skipped),
        left_out=tuple(line for table in tables for line in table.left_out),
    )
