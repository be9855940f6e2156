"""The data that a configuration asks for: the tasks' own files or what replaces them, augmentation, and extra sets."""

import dataclasses
from pathlib import Path

from mtlib.config.data import HUB_PREFIX, SourceConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.table_parts import HELD, HoldOut, Part, Parts, check_files, read_tables
from mtlib.data.tables import Layout, Table, own_layout
from mtlib.errors import require
from mtlib.tasks import TASKS, Task

Key = tuple[str, str]
"""Set and split."""


def read_data(config: TrialConfig, folder: Path) -> dict[Key, Table]:
    """Reads train and dev of every active task, and train of every extra set that some stage names.

    Args:
        config: the trial's configuration.
        folder: the data folder.

    Returns:
        Tables by (set, split). Rows of augmentation follow a task's own train rows, with ids `<source>/<id>`.

    Raises:
        ValueError: in one line. The folder or files are missing (all of them are named, before any is read), or one
            cannot be used (see `read_tables`).
    """
    return read_all(find_parts(config, folder), folder)


def read_held_out(config: TrialConfig, folder: Path) -> dict[str, Table]:
    """Reads the rows that a configuration keeps aside: in no train table of it is any text of theirs.

    Args:
        config: the trial's configuration, `data.hold_out` above 0.
        folder: the data folder.

    Returns:
        Tables of split `held` by active task: the same rows in whatever order a file has them, whatever else is active.

    Raises:
        ValueError: nothing is kept aside; else as `read_data`.
    """
    rule = "data.hold_out must be above 0 where rows held out are asked for"
    require(config.data.hold_out > 0, rule, config.data.hold_out)
    return {task: table for (task, _), table in read_all(find_held_parts(config, folder), folder).items()}


def read_all(wanted: dict[Key, Parts], folder: Path) -> dict[Key, Table]:
    """The tables that parts make, all of whose files are looked for first."""
    check_files(wanted.values(), folder)
    tables = read_tables(wanted.values(), folder)
    return {key: tables[parts] for key, parts in wanted.items()}


def find_parts(config: TrialConfig, folder: Path) -> dict[Key, Parts]:
    """What `read_data` reads, by (set, split): equal and hashable exactly where the same rows are asked for."""
    wanted = find_whole_parts(config, folder)
    if config.data.hold_out == 0:
        return wanted
    own = tuple(wanted[task, "train"][0] for task in config.active_tasks)
    hold_out = HoldOut(share=config.data.hold_out, parts=own)
    return {
        key: tuple(dataclasses.replace(part, hold_out=hold_out) for part in parts) if key[1] == "train" else parts
        for key, parts in wanted.items()
    }


def find_held_parts(config: TrialConfig, folder: Path) -> dict[Key, Parts]:
    """What `read_held_out` reads, by (task, `held`); empty where nothing is kept aside."""
    tasks = config.active_tasks if config.data.hold_out > 0 else ()
    own = {task: task_part(config, folder, task, "train") for task in tasks}
    return {(task, HELD): (held_part(part, config.data.hold_out),) for task, part in own.items()}


def held_part(part: Part, share: float) -> Part:
    """The rows that are kept aside of a task's own train rows."""
    return dataclasses.replace(part, split=HELD, hold_out=HoldOut(share=share, parts=(part,)))


def find_whole_parts(config: TrialConfig, folder: Path) -> dict[Key, Parts]:
    """What would be read if nothing were kept aside."""
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
