"""The data that a configuration asks for: the tasks' own files or what replaces them, augmentation, and extra sets."""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mtlib.config import TrialConfig
from mtlib.config_data import HUB_PREFIX, SourceConfig
from mtlib.data import Layout, Table, check_folder, make_table, own_layout
from mtlib.hub_data import read_hub_data
from mtlib.schema import require
from mtlib.table_files import Row, read_csv, read_json_lines, read_tsv
from mtlib.tasks import TASKS, Task

Key = tuple[str, str]
"""Set and split."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Rows from one file or data set: all that decides them, but for the content."""

    task: str
    split: str
    """`train` or `dev`."""
    path: str
    """A file, relative to the data folder or absolute, or `hf://NAME`."""
    own_split: str
    """What a data set calls the split."""
    layout: Layout
    delimiters: str = "\t,"
    """What may separate columns in CSV."""
    prefix: str = ""
    """Before the ids: the name of augmentation, and a slash."""


Parts = tuple[Part, ...]
"""The parts of one table: its own rows, then augmentation."""


def read_data(config: TrialConfig, folder: Path) -> dict[Key, Table]:
    """Reads train and dev of every active task, and train of every extra set that some stage names.

    Args:
        config: the trial's configuration.
        folder: the data folder.

    Returns:
        Tables by (set, split). Rows of augmentation follow a task's own train rows, with ids `<source>/<id>`.

    Raises:
        ValueError: in one line. The folder or files are missing (all of them are named, before any is read), or one
            cannot be used (see `read_csv`, `read_tsv`, `read_json_lines`, `read_hub_data` and `make_table`).
    """
    wanted = find_parts(config, folder)
    check_files(wanted.values(), folder)
    return {key: read_parts(parts, folder) for key, parts in wanted.items()}


def find_parts(config: TrialConfig, folder: Path) -> dict[Key, Parts]:
    """What `read_data` reads, by (set, split): equal and hashable exactly where the same rows are asked for."""
    wanted: dict[Key, Parts] = {}
    for task in config.active_tasks:
        augmentation = config.data.of_role("augment", task)
        added = tuple(source_part(config.data.sources[name], "train", prefix=f"{name}/") for name in augmentation)
        wanted[task, "train"] = (task_part(config, folder, task, "train"), *added)
        wanted[task, "dev"] = (task_part(config, folder, task, "dev"),)
    for name in config.train_sets:
        if name not in config.tasks:
            wanted[name, "train"] = (source_part(config.data.sources[name], "train"),)
    return wanted


def task_part(config: TrialConfig, folder: Path, name: str, split: str) -> Part:
    """A task's own rows: from the source that replaces them, else in the CS224N layout, else in that of GLUE."""
    for source in config.data.of_role("replace", name):
        return source_part(config.data.sources[source], split)
    task = TASKS[name]
    has_own = any((folder / task.file_name(known)).is_file() for known in ("train", "dev"))
    is_glue = task.glue is not None and not has_own and (folder / task.glue.folder / "train.tsv").is_file()
    return glue_part(task, split) if is_glue else own_part(task, split)


def own_part(task: Task, split: str) -> Part:
    """The file of a split in the CS224N layout."""
    layout, path = own_layout(task, split), task.file_name(split)
    return Part(task=task.name, split=split, path=path, own_split=split, layout=layout, delimiters="\t")


def glue_part(task: Task, split: str) -> Part:
    """The file of a split in the layout of GLUE."""
    assert task.glue is not None
    glue = task.glue
    layout = Layout(id_column=glue.id_column, text_columns=glue.text_columns, label_column=glue.label_column)
    return Part(task=task.name, split=split, path=f"{glue.folder}/{split}.tsv", own_split=split, layout=layout)


def source_part(source: SourceConfig, split: str, prefix: str = "") -> Part:
    """The file or data set of a source, for `split`."""
    own_split = source.dev_split if split == "dev" else split
    path = source.path.replace("{split}", own_split)
    layout = Layout(
        id_column=source.id_column,
        is_numbered=True,
        text_columns=source.text_columns or TASKS[source.task].text_columns,
        label_column=source.label_column or TASKS[source.task].label_column,
        labels=source.labels,
    )
    is_in_path = path.startswith(HUB_PREFIX) and path != source.path
    own_split = "train" if is_in_path else own_split  # the data set is of this split alone
    return Part(task=source.task, split=split, path=path, own_split=own_split, layout=layout, prefix=prefix)


def check_files(wanted: Iterable[Parts], folder: Path) -> None:
    """Raises ValueError that names every file of `wanted` that is missing, or the folder if it is."""
    paths = {part.path for parts in wanted for part in parts if not part.path.startswith(HUB_PREFIX)}
    absolute = {path for path in paths if Path(path).is_absolute()}
    missing = ", ".join(sorted(path for path in absolute if not Path(path).is_file()))
    try:
        check_folder(folder, paths - absolute)
    except ValueError as error:
        raise ValueError(f"{error}; and there is no {missing}" if missing else str(error)) from error
    require(not missing, "files of data.sources must be there", f"no {missing}")


def read_parts(parts: Sequence[Part], folder: Path) -> Table:
    """One table: the rows of the first part, its own, then those of the others."""
    own, *added = [read_part(part, folder) for part in parts]
    return join_tables(own, added) if added else own


def read_part(part: Part, folder: Path) -> Table:
    """The table of one file or data set."""
    task, is_numbered = TASKS[part.task], part.layout.is_numbered
    if part.path.startswith(HUB_PREFIX):
        path = place_of_data(part.path, folder)
        rows = read_hub_data(path, part.own_split, part.layout.columns, numbered=is_numbered)
        table = make_table(task, part.split, part.layout, Path(path.removeprefix(HUB_PREFIX)), rows)
    else:
        table = make_table(task, part.split, part.layout, folder / part.path, file_rows(part, folder / part.path))
    return dataclasses.replace(table, ids=[part.prefix + name for name in table.ids]) if part.prefix else table


def file_rows(part: Part, path: Path) -> Iterable[Row]:
    """The rows of a file, read by its suffix."""
    columns, is_numbered = part.layout.columns, part.layout.is_numbered
    if path.suffix == ".csv":
        return read_csv(path, columns, numbered=is_numbered, delimiters=part.delimiters)
    reader = read_tsv if path.suffix == ".tsv" else read_json_lines
    return reader(path, columns, numbered=is_numbered)


def place_of_data(path: str, folder: Path) -> str:
    """The path of a data set, with its name as an absolute path where the data folder holds a folder of that name."""
    name, mark, configuration = path.removeprefix(HUB_PREFIX).partition("#")
    place = folder / name
    return f"{HUB_PREFIX}{place.absolute()}{mark}{configuration}" if place.is_dir() else path


def join_tables(own: Table, added: Iterable[Table]) -> Table:
    """A task's train rows with augmentation behind them."""
    tables = [own, *added]
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
