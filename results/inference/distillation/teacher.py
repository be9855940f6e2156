"""What ensembles teach: their logits for train rows and for further texts, in files from which students learn."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from mtlib.config.schema import to_dict
from mtlib.data.hold_out import normalise_columns, share_text
from mtlib.data.load import find_held_sources, find_row_sources, read_all
from mtlib.data.tables import Table
from mtlib.runtime.checksum import hash_of
from mtlib.runtime.command_line import counted
from mtlib.runtime.errors import require
from mtlib.runtime.storage import is_file, open_folder
from mtlib.tasks import Task
from results.inference.distillation.taught_rows import (
    TEACHERS_FOLDER,
    Lesson,
    TaughtRole,
    TaughtRows,
    lesson_logits,
    source_settings,
    table_of,
)
from results.inference.models import ModelSource, find_trials
from results.inference.readers import find_format, name_input, new_text_format, open_input, read_texts
from results.records.files import write_parquet
from results.records.selection import OWN_SWEEP, Selection

UNLABELLED_FLAG = "--unlabelled"
"""The flag of the command line, for messages."""
Note = Callable[[str], object]


@dataclass(frozen=True, kw_only=True)
class Taught:
    """A file of rows with the logits of a task's teachers."""

    task: Task
    path: Path
    role: TaughtRole

    @property
    def settings(self) -> Mapping[str, Any]:
        """What gives a student its rows, by dotted key."""
        name = f"taught_{self.task.name}" if self.role == "train" else f"further_{self.task.name}"
        return source_settings(name, self.task, self.path, self.role)


def teach(task: Task, role: TaughtRole, lesson: Lesson, source: ModelSource, home: Path, note: Note) -> Taught:
    """Writes what models say of rows, unless it has been written.

    Args:
        task: whose rows they are.
        role: of the file.
        lesson: the rows, with the models that teach them.
        source: where models are.
        home: the folder of the sweep that teaches.
        note: gets a line about it.

    Raises:
        ValueError: in one line: a model cannot be loaded.
    """

    def file_of(name: str) -> Path:
        """The file, by the models and what their own sweep is called."""
        called = [to_dict(replace(own, sweep=own.sweep.replace(str(home), name))) for own in lesson.members]
        key = hash_of([[called, lesson.rows.key]])
        return home / TEACHERS_FOLDER / f"{task.name}-{role}-{key[:12]}.parquet"

    older = file_of(str(home))  # files of earlier versions have the sweep's path in their hash
    taught = Taught(task=task, path=older if older.exists() else file_of(OWN_SWEEP), role=role)
    root, num_rows = open_folder(taught.path.parent), counted(len(lesson.rows.ids), "row")
    if is_file(root, taught.path.name):
        note(f"{task.title}: {num_rows} taught before ({taught.path.name})")
    else:
        note(f"{task.title}: {counted(len(lesson.members), 'model')} predict {num_rows} to teach ...")
        write_parquet(root, taught.path.name, table_of(task, lesson.rows, lesson_logits(task, lesson, source)))
    return taught


def read_task_texts(
    selection: Selection,
    name: str,
    source: ModelSource,
    data: Path,
    further: Sequence["FurtherText"],
    note: Note,
) -> tuple[Table, TaughtRows]:
    """Reads the train rows of a task, and further texts of it.

    Args:
        selection, name: whose ensemble is to teach.
        source: where its models are.
        data: the data folder.
        further: files of texts without labels. Those that are a dev or held-out text, or a train row's, are left out.
        note: gets a line about these.

    Returns:
        The train rows, the task's own ones first, and the texts without labels; there may be none of these.

    Raises:
        ValueError: in one line: rows cannot be read.
    """
    ((_, config), *_) = find_trials(selection.tasks[name].members[:1], name, source)
    sources = find_row_sources(config, data)
    wanted = {key: sources[key] for key in ((name, "train"), (name, "dev"))}
    held = {key: own for key, own in find_held_sources(config, data).items() if key[0] == name}  # there may be none
    tables = {split: table for (_, split), table in read_all({**wanted, **held}, data).items()}
    return tables["train"], read_further(selection.definitions[name], further, tables, note)


@dataclass(frozen=True, kw_only=True)
class FurtherText:
    """A file of texts without labels for a task."""

    task: str
    place: str
    """A file that `results/predict.py` reads."""
    columns: tuple[str, ...] = ()
    """The columns of the texts; empty: the task's own."""

    def open(self) -> AbstractContextManager[IO[bytes]]:
        """Returns a stream of the file's bytes; ValueError if it cannot be read, or its suffix is not known."""
        find_format(self.place, UNLABELLED_FLAG)
        return open_input(self.place, UNLABELLED_FLAG)


def read_further(task: Task, further: Iterable[FurtherText], tables: Mapping[str, Table], note: Note) -> TaughtRows:
    """Returns the texts of files for a task, each once;
    those of train, dev and held-out rows, and blank ones, are left out."""
    texts: dict[tuple[str, ...], None] = {}
    for file in further:
        if file.task != task.name:
            continue
        with file.open() as stream:
            form = find_format(file.place, UNLABELLED_FLAG)
            given = new_text_format(task, file.place, form)
            rows = read_texts(stream, name_input(file.place), form, file.columns or task.text_columns, given=given)
            texts |= dict.fromkeys(row.texts for row in rows if not row.is_blank)
    if not texts:
        return TaughtRows(ids=[], texts=[], labels=None)
    columns = [column for table in tables.values() for column in normalise_columns(table.texts)]
    known = frozenset(text for column in columns for text in column)
    is_known = share_text(list(zip(*texts, strict=True)), known)
    kept = [text for text, is_there in zip(texts, is_known, strict=True) if not is_there]
    note(f"{task.title}: {counted(len(kept), 'further text')}, {int(is_known.sum()):,} left out that the data has")
    require(bool(kept), f"--unlabelled must have texts of {task.name} that its data does not have", "none")
    return TaughtRows(ids=[str(number) for number in range(len(kept))], texts=kept, labels=None)
