"""The data of a configuration: the tasks' own files or what replaces them, augmentation, and extra data sets."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from mtlib.config.data import HUB_PREFIX, as_number, has_format
from mtlib.config.task_file import NO_METRICS, TASK_FILE, OwnMetrics, read_task_file, read_toml, tasks_of_tree
from mtlib.config.trial import TrialConfig
from mtlib.data.files.hub_datasets import split_hub_path
from mtlib.data.files.quoting import find_quoting
from mtlib.data.files.readers import ClassNames, SourceFindings
from mtlib.data.row_labels import Layout, parse_list, split_labels
from mtlib.data.row_sources import (
    HELD,
    HoldOut,
    RowSource,
    RowSources,
    check_files,
    expand_home,
    find_matching,
    is_hub,
    read_cells,
    read_tables,
    train_of,
)
from mtlib.data.tables import Table, prefixed_table
from mtlib.runtime.errors import require
from mtlib.tasks import TASKS, FileFormat, Task, TaskFiles

TableKey = tuple[str, str]
"""Set (a task or an extra data set) and split."""
LABEL_TABLE = '{VALUE = "NAME", ...}'
"""How `tasks.toml` maps the values of files to names of labels."""

MAX_PASTED_LABELS = 50
"""Labels in train that an error lists; more are perhaps no classes."""


def data_tasks(folder: Path | None, own_metrics: OwnMetrics = NO_METRICS) -> Mapping[str, Task]:
    """Returns the tasks that a folder's `tasks.toml` defines; SST, QQP and STS where there is no file or no folder.

    Raises:
        ValueError: as `read_task_file`; if a task lacks `labels`, with the line to paste.
    """
    if folder is None or not (folder / TASK_FILE).is_file():
        return TASKS
    try:
        tasks = read_task_file(folder / TASK_FILE, own_metrics)
    except ValueError as error:
        raise ValueError("; ".join([str(error), *missing_labels(folder)])) from error
    return {name: with_quoting(task, folder) for name, task in tasks.items()}


def with_quoting(task: Task, folder: Path) -> Task:
    """Returns a task that says how its TSV files are to be read, as these show; itself where there are none.

    Raises:
        ValueError: some of them have standard quoting, others cannot have it.
    """
    files = task.files
    if files is None or files.format.quoting:
        return task
    found: dict[str, str] = {}
    for path in files_of_task(task, files, folder):
        if has_format(path.name, files.format, "tsv"):
            with contextlib.suppress(OSError):  # the reader says so
                found.setdefault(find_quoting(path, files.format).name, path.name)
    is_unclear = "unclear" in found
    shown = {name: path for name, path in found.items() if name in ("standard", "none")}
    rule = f"the TSV files of tasks.{task.name} must be alike in their quoting: write one of them again"
    require(len(shown) < 2, rule, " and ".join(f"{name} in {path}" for name, path in shown.items()))
    quoting = dataclasses.replace(files.format, quoting=next(iter(shown), "unclear" if is_unclear else ""))
    return dataclasses.replace(task, files=dataclasses.replace(files, format=quoting))


def files_of_task(task: Task, files: TaskFiles, folder: Path) -> Iterator[Path]:
    """Yields the files of a task that are there."""
    for split in ("train", "dev", "test"):
        if files.paths(split):
            source = own_source(task, files, split)
            if not is_hub(source):
                yield from (folder / name for path in source.paths for name in find_matching(path, folder))


def missing_labels(folder: Path) -> Iterator[str]:
    """Yields the labels in train of each task of `tasks.toml` that needs names of labels and has none, as TOML."""
    # Definitions and files may have any other mistake, which was reported or will be.
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, OSError):
        for name, entry in read_toml(folder / TASK_FILE)["tasks"].items():
            needs_names = entry["kind"] in ("classes", "multilabel") and isinstance(entry["label"], str)
            if needs_names and not {"labels", "num_labels"} & entry.keys():
                stand_in = {**entry, "labels": {"one": "any", "two": "other"}, "metric": ""}
                found = labels_in_train(tasks_of_tree({"tasks": {name: stand_in}})[name], folder)
                yield f"by the train rows of {name}: {found}"


def labels_in_train(task: Task, folder: Path) -> str:
    """Returns the labels in the train rows of a task as a line of `tasks.toml`, or how many there are."""
    assert task.files is not None, "tasks.toml defines the task"
    source, found = own_source(task, task.files, "train"), set[str]()
    has_several = task.kind_entry.has_several_labels
    for where, (*_, cell) in read_cells(source, source.layout.columns, folder, SourceFindings()):
        found.update(filter(None, split_labels(where, cell) if has_several else parse_list(cell) or [cell]))
    found -= set(task.files.left_out)
    labels = sorted(found, key=lambda text: (isinstance(as_number(text), str), as_number(text)))
    if labels and not has_several and [*map(as_number, labels)] == list(range(len(labels))):
        return f"num_labels = {len(labels)}"
    if not 0 < len(labels) <= MAX_PASTED_LABELS:
        return f"column {task.label_column} has {len(labels):,} values"
    return f"labels = {json.dumps(labels, ensure_ascii=False)}"


def read_data(config: TrialConfig, folder: Path) -> dict[TableKey, Table]:
    """Reads train and dev of every active task, and train of every extra set that some stage names.

    Rows of augmentation follow a task's own train rows, with ids `<source>/<id>`. Texts have the task's `prefix`.

    Raises:
        ValueError: in one line. The folder or files are missing (all of them are named, before any is read), or one
            cannot be used (see `read_tables`).
    """
    tables = read_all(find_row_sources(config, folder), folder)
    return {key: prefixed_table(table, config.tasks[table.task].prefix) for key, table in tables.items()}


def read_held_out(config: TrialConfig, folder: Path) -> dict[str, Table]:
    """Reads the held-out rows of every active task, none of whose texts is in its train tables.

    The rows depend neither on their order in the file nor on other tasks.

    Raises:
        ValueError: `data.hold_out` is 0; else as `read_data`.
    """
    rule = "data.hold_out must be above 0 where rows held out are asked for"
    require(config.data.hold_out > 0, rule, config.data.hold_out)
    return {task: table for (task, _), table in read_all(find_held_sources(config, folder), folder).items()}


def read_all(wanted: dict[TableKey, RowSources], folder: Path) -> dict[TableKey, Table]:
    """Reads the tables of these sources, after checking that all files are there."""
    check_files(wanted.values(), folder)
    tables = read_tables(wanted.values(), folder)
    return {key: tables[sources] for key, sources in wanted.items()}


def find_row_sources(config: TrialConfig, folder: Path) -> dict[TableKey, RowSources]:
    """Returns the sources that `read_data` reads, by (set, split):
    hashable, and equal exactly if the rows are the same."""
    wanted: dict[TableKey, RowSources] = {}
    for task in config.active_tasks:
        augmentation = config.data.of_role("augment", task)
        added = tuple(configured_source(config, name, "train", prefix=f"{name}/") for name in augmentation)
        wanted[task, "train"] = (task_source(config, folder, task, "train"), *added)
        wanted[task, "dev"] = (task_source(config, folder, task, "dev"),)
    for name in config.train_sets:
        if name not in config.tasks:
            wanted[name, "train"] = (configured_source(config, name, "train"),)
    own = tuple(wanted[task, "train"][0] for task in config.active_tasks)
    drawn = tuple(train_of(wanted[task, "dev"][0]) for task in config.active_tasks if wanted[task, "dev"][0].takes_dev)
    hold_out = HoldOut(share=config.data.hold_out, sources=own) if config.data.hold_out > 0 else None
    return {
        key: tuple(dataclasses.replace(one, hold_out=hold_out, drawn_dev=drawn) for one in sources)
        if key[1] == "train"
        else sources
        for key, sources in wanted.items()
    }


def find_held_sources(config: TrialConfig, folder: Path) -> dict[TableKey, RowSources]:
    """Returns the sources that `read_held_out` reads, by (task, `held`); empty where nothing is held out."""
    wanted: dict[TableKey, RowSources] = {}
    for task in config.active_tasks if config.data.hold_out > 0 else ():
        own = task_source(config, folder, task, "train")
        hold_out = HoldOut(share=config.data.hold_out, sources=(own,))
        wanted[task, HELD] = (dataclasses.replace(own, split=HELD, hold_out=hold_out),)
    return wanted


def task_source(config: TrialConfig, folder: Path, name: str, split: str) -> RowSource:
    """Returns a task's own rows: from a source that replaces them, else in the CS224N layout, else in that of GLUE."""
    for source in config.data.of_role("replace", name):
        return configured_source(config, source, split)
    for source in config.data.of_role("train", name) if split == "train" else ():
        return configured_source(config, source, split)
    task = config.task(name)
    if task.files is not None:
        return own_source(task, task.files, split)
    has_own = any((folder / task.file_name(known)).is_file() for known in ("train", "dev"))
    glue = task.glue
    if glue is not None and not has_own and (folder / glue.folder / "train.tsv").is_file():
        layout = Layout(id_column=glue.id_column, text_columns=glue.text_columns, label_column=glue.label_column)
        return RowSource(
            task=task,
            split=split,
            paths=(f"{glue.folder}/{split}.tsv",),
            own_split=split,
            layout=layout,
            format=FileFormat(quoting="none"),
        )
    layout = Layout(id_column="id", text_columns=task.text_columns, label_column=task.label_column)
    paths, form = (task.file_name(split),), FileFormat(separator="\t")
    return RowSource(task=task, split=split, paths=paths, own_split=split, layout=layout, format=form)


def own_source(task: Task, files: TaskFiles, split: str) -> RowSource:
    """Returns a task's own files or data set of a split."""
    takes_dev = split in ("train", "dev") and files.takes_dev_from_train
    paths, own_split = expand_home(files.paths(split)), "train" if takes_dev else split
    if paths[0].startswith(HUB_PREFIX):
        path, own_split = split_hub_path(paths[0], own_split)
        paths = (path,)
    rows = files.rows(split)
    layout = Layout(
        id_column=files.id_column,
        is_numbered=not files.id_column,
        has_unique_ids=bool(files.id_column),
        header=files.columns,
        text_columns=task.text_columns,
        label_column=task.label_column,
        indicator_columns=task.indicator_columns,
        labels=label_mapping(task),
        has_all_labels=True,
        class_names=None if task.indicator_columns else names_to_carry(task, LABEL_TABLE),
        leave_out=files.left_out,
        dev_from=files.dev_from if takes_dev else None,
        group_columns=files.group_columns,
        slice_columns=files.slice_columns,
    )
    return RowSource(
        task=task,
        split=split,
        paths=paths,
        own_split=own_split,
        layout=layout,
        format=files.format,
        selection=dataclasses.replace(rows, label_files=expand_home(rows.label_files)),
        dev_share=files.dev_share if takes_dev else 0.0,
    )


def label_mapping(task: Task) -> tuple[str, ...]:
    """Returns the numbers of labels by value, as `Layout.labels`;
    by name and number where files have no values of their own.

    By number only if no name is a number.
    """
    by_value = tuple(f"{value}:{number}" for number, value in enumerate(task.label_values or task.labels))
    is_given = bool(task.label_values) or any(isinstance(as_number(name), float) for name in task.labels)
    return by_value if is_given else (*by_value, *(f"{number}:{number}" for number in range(len(task.labels))))


def names_to_carry(task: Task, mapping: str) -> ClassNames | None:
    """`Layout.class_names`: the names of a task's labels in their order; any where `tasks.toml` maps each to a name."""
    return ClassNames(names=() if task.label_values else task.labels, mapping=mapping) if task.labels else None


def configured_source(config: TrialConfig, name: str, split: str, prefix: str = "") -> RowSource:
    """Returns the file or data set of a configured source, for `split`."""
    source = config.data.sources[name]
    task = config.task(source.task)
    own_split = source.dev_split if split == "dev" else split
    path = source.path.replace("{split}", own_split)
    indicators = () if source.label_column or source.labels else task.indicator_columns
    files = task.files if source.role in ("replace", "train") else None
    layout = Layout(
        id_column=source.id_column,
        is_numbered=True,
        text_columns=source.text_columns or task.text_columns,
        label_column=source.label_column or task.label_column,
        indicator_columns=indicators,
        teacher_columns=source.teacher_columns,
        may_lack_label=source.role == "augment" and bool(source.teacher_columns),
        labels=source.labels or label_mapping(task),
        has_all_labels=not source.labels and bool(task.labels),
        class_names=None if source.labels or indicators else names_to_carry(task, f"data.sources.{name}.labels"),
        group_columns=() if files is None else files.group_columns,
        slice_columns=() if files is None else files.slice_columns,
    )
    is_in_path = path.startswith(HUB_PREFIX) and path != source.path
    own_split = "train" if is_in_path else own_split  # the data set is of this split alone
    return RowSource(task=task, split=split, paths=(path,), own_split=own_split, layout=layout, prefix=prefix)
