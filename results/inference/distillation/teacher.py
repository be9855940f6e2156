"""What an ensemble teaches: its logits for train rows and for further texts, in files from which students learn."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import pyarrow as pa

from mtlib.config.data import SourceConfig
from mtlib.config.schema import to_dict
from mtlib.config.trial import TrialConfig
from mtlib.data.hold_out import normalise, share_text
from mtlib.data.load import find_held_sources, find_row_sources, read_all
from mtlib.data.tables import Table
from mtlib.runtime.checksum import hash_of
from mtlib.runtime.command_line import counted
from mtlib.runtime.errors import require
from mtlib.runtime.storage import is_file, open_folder
from mtlib.tasks import Task
from results.ensembles.outputs import logits_behind
from results.inference.models import ModelSource, find_trials
from results.inference.predictor import load_predictor, predict_stream
from results.inference.readers import ID_COLUMN, TextRow, find_format, name_input, open_input, read_texts
from results.records.files import write_parquet
from results.records.selection import Selection
from results.stats.resampling import Floats

TEACHERS_FOLDER = "teachers"
"""Folder of a sweep that holds what its ensembles teach."""
LABEL_COLUMN = "label"
UNLABELLED_FLAG = "--unlabelled"
"""Of the command line, in messages."""
FILE_VERSION = 1
"""Of the files; those of another version are made again."""

Note = Callable[[str], object]


@dataclass(frozen=True, kw_only=True)
class Taught:
    """A file of rows with the logits of a task's ensemble."""

    task: Task
    path: Path
    role: Literal["train", "augment"]
    """`train` for the task's own train rows, `augment` for further texts without labels."""

    @property
    def name(self) -> str:
        """Its name in `data.sources`."""
        return f"taught_{self.task.name}" if self.role == "train" else f"further_{self.task.name}"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the source."""
        columns = text_columns(self.task), logit_columns(self.task)
        source = SourceConfig(
            task=self.task.name,
            path=str(self.path),
            role=self.role,
            text_columns=columns[0],
            label_column=LABEL_COLUMN,
            id_column=ID_COLUMN,
            teacher_columns=columns[1],
        )
        settings: dict[str, Any] = to_dict(source)
        return settings


def text_columns(task: Task) -> tuple[str, ...]:
    """Names of the columns of texts."""
    return tuple(f"text_{number}" for number in range(1, len(task.text_columns) + 1))


def logit_columns(task: Task) -> tuple[str, ...]:
    """Names of the columns of logits."""
    return tuple(f"logit_{number}" for number in range(task.num_logits))


def teach(
    selection: Selection,
    name: str,
    source: ModelSource,
    home: Path,
    data: Path,
    further: Sequence["FurtherText"],
    note: Note,
) -> list[Taught]:
    """Writes what the ensemble of a task says of its train rows, and of further texts, unless it has been written.

    Args:
        selection, name: which ensemble.
        source: where its models are.
        home: the folder of the sweep.
        data: the data folder.
        further: files of texts without labels. Those that are a dev or held-out text, or a train row's, are left out.
        note: gets a line for each file.

    Raises:
        ValueError: in one line: rows cannot be read, or a model cannot be loaded.
    """
    task = selection.definitions[name]
    ((_, config), *_) = find_trials(selection.tasks[name].members[:1], name, source)
    tables = read_rows(config, data, name)
    ensemble = [to_dict(member) for member in selection.tasks[name].members]
    found: list[Taught] = []
    wanted: dict[Literal["train", "augment"], TaughtRows] = {
        "train": train_rows(tables["train"]),
        "augment": read_further(task, further, tables, note),
    }
    for role, rows in wanted.items():
        if not rows.texts:
            continue
        key = hash_of([FILE_VERSION, ensemble, rows.texts, rows.ids, np.asarray(rows.labels).tolist()])
        taught = Taught(task=task, path=home / TEACHERS_FOLDER / f"{name}-{role}-{key[:12]}.parquet", role=role)
        root = open_folder(taught.path.parent)
        if is_file(root, taught.path.name):
            note(f"{task.title}: {counted(len(rows.texts), 'row')} taught before ({taught.path.name})")
        else:
            models = counted(len(ensemble), "model")
            note(f"{task.title}: {models} predict {counted(len(rows.texts), 'row')} to teach ...")
            logits = ensemble_logits(selection, name, source, rows)
            write_parquet(root, taught.path.name, table_of(task, rows, logits))
        found.append(taught)
    return found


@dataclass(frozen=True, kw_only=True)
class FurtherText:
    """A file of texts without labels for a task."""

    task: str
    place: str
    """A file that `results/predict.py` reads."""
    columns: tuple[str, ...] = ()
    """Of the texts; empty: the task's own."""

    def open(self) -> AbstractContextManager[IO[bytes]]:
        """A stream of the file's bytes; ValueError if it cannot be read, or its suffix is not known."""
        find_format(self.place, UNLABELLED_FLAG)
        return open_input(self.place, UNLABELLED_FLAG)


@dataclass(frozen=True, kw_only=True)
class TaughtRows:
    """TaughtRows that an ensemble teaches."""

    ids: Sequence[str]
    texts: Sequence[tuple[str, ...]]
    labels: np.ndarray | None
    """As in `mtlib.data.tables.Table`; None without labels."""


def read_rows(config: TrialConfig, data: Path, name: str) -> dict[str, Table]:
    """Train and dev of a task as a trial has read them, and the rows that were held out, if there are any."""
    sources = find_row_sources(config, data)
    wanted = {key: sources[key] for key in ((name, "train"), (name, "dev"))}
    held = {key: own for key, own in find_held_sources(config, data).items() if key[0] == name}
    return {split: table for (_, split), table in read_all({**wanted, **held}, data).items()}


def train_rows(table: Table) -> TaughtRows:
    """A task's own train rows, without augmentation."""
    own = slice(table.num_own_rows)
    texts = list(zip(*table.texts, strict=True))
    return TaughtRows(ids=table.ids[own], texts=texts[own], labels=table.labels[own])


def read_further(task: Task, further: Iterable[FurtherText], tables: Mapping[str, Table], note: Note) -> TaughtRows:
    """The texts of files for a task, each once; those of train, dev and held-out rows, and blank ones, are left out."""
    texts: dict[tuple[str, ...], None] = {}
    for file in further:
        if file.task != task.name:
            continue
        with file.open() as stream:
            form = find_format(file.place, UNLABELLED_FLAG)
            rows = read_texts(stream, name_input(file.place), form, file.columns or task.text_columns)
            texts |= dict.fromkeys(row.texts for row in rows if not row.is_blank)
    if not texts:
        return TaughtRows(ids=[], texts=[], labels=None)
    known = frozenset(text for table in tables.values() for text in normalised(table))
    is_known = share_text(list(zip(*texts, strict=True)), known)
    kept = [text for text, is_there in zip(texts, is_known, strict=True) if not is_there]
    note(f"{task.title}: {counted(len(kept), 'further text')}, {int(is_known.sum()):,} left out that the data has")
    require(bool(kept), f"--unlabelled must have texts of {task.name} that its data does not have", "none")
    return TaughtRows(ids=[str(number) for number in range(len(kept))], texts=kept, labels=None)


def normalised(table: Table) -> Iterable[str]:
    """The texts of a table without differences of case and white space."""
    return (normalise(text) for column in table.texts for text in column)


def ensemble_logits(selection: Selection, name: str, source: ModelSource, rows: TaughtRows) -> Floats:
    """An ensemble's predictions as logits, (rows, num_logits); of a regression the predictions."""
    predictor = load_predictor(selection, name, source)
    texts = (TextRow(where="", id=own, texts=text) for own, text in zip(rows.ids, rows.texts, strict=True))
    outputs = np.concatenate([found for _, found in predict_stream(predictor, texts)])
    return outputs if predictor.task.is_regression else logits_behind(predictor.task, outputs)


def table_of(task: Task, rows: TaughtRows, logits: Floats) -> pa.Table:
    """The file of taught rows."""
    texts = dict(zip(text_columns(task), map(list, zip(*rows.texts, strict=True)), strict=True))
    values = dict(zip(logit_columns(task), logits.astype(np.float32).T, strict=True))
    labels = [None] * len(rows.ids) if rows.labels is None else label_values(task, rows.labels)
    kind = pa.list_(pa.string()) if task.kind_entry.has_several_labels else pa.string()
    return pa.table({ID_COLUMN: rows.ids, **texts, **values, LABEL_COLUMN: pa.array(labels, kind)})


def label_values(task: Task, labels: np.ndarray) -> list[Any]:
    """Labels as the task's files have them: by value, name or number."""
    if task.is_regression:
        return [str(label) for label in labels.tolist()]
    names = task.label_values or task.class_names
    if task.kind_entry.has_several_labels:
        return [[names[number] for number in np.flatnonzero(row)] for row in labels]
    return [names[int(label)] for label in labels]
