"""Predicts texts from Python with what sweeps have left: `load(folder).predict(texts)`."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from mtlib.runtime.command_line import counted
from mtlib.runtime.errors import require, require_name
from mtlib.runtime.method_file import trusting_methods
from mtlib.runtime.storage import Location, is_file, local_path, open_folder
from mtlib.tasks import Task
from results.ensembles.ensemble import Ensemble
from results.inference.bundle.manifest import find_bundle, load_bundled, load_bundled_model, read_bundle
from results.inference.given_texts import listed_texts, names_of, num_texts_of, ordered_texts, text_rows
from results.inference.models import LoadedModel, ModelSource, find_sweeps
from results.inference.predictor import Predictor, load_predictor, predict_stream_together
from results.inference.writers import Cell, column_names, row_values
from results.records.files import find_sweep
from results.records.selection import read_selection
from results.stats.texts import named

EXPORTED_FILE = "trial.json"
"""Is in the folder of an exported model."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TextPredictor:
    """Predicts the tasks of a sweep's selection, a bundle or an exported model."""

    predictors: Mapping[str, Predictor]
    """The ensemble of each task, loaded; ensembles share the models that both have."""

    @property
    def tasks(self) -> Mapping[str, Task]:
        """The tasks by name, with their columns of texts and labels."""
        return {name: own.task for name, own in self.predictors.items()}

    def predict(self, texts: Any, tasks: str | Iterable[str] | None = None) -> pd.DataFrame:
        """Predicts texts; what several tasks read alike passes through a model once for all of them.

        Args:
            texts: a text by row, or a tuple of texts for tasks of pairs; a frame, a dictionary of columns, and rows
                with names are read by the names of the columns that each task's own files have.
            tasks: some of `tasks`; one name gives that task's columns without its name before them. None: all whose
                columns `texts` have or, where texts have no names, all with as many texts.

        Returns:
            A row per text, with the index of a frame or series: for each task `TASK.prediction`, and
            `TASK.probability_LABEL` as `results/predict.py` writes them. A row with a blank text (None, NaN,
            `pandas.NA`, `pandas.NaT` or white space) has none of the tasks that read it, and a warning names the first.

        Raises:
            ValueError: there is no such task, no task fits, a column is missing, or a row has another number of texts
                than the task.
        """
        found, note = predict_given(self.predictors, texts, tasks)
        if note:
            warnings.warn(note, stacklevel=2)
        return found


def predict_given(
    predictors: Mapping[str, Predictor], texts: Any, tasks: str | Iterable[str] | None
) -> tuple[pd.DataFrame, str]:
    """Returns what `TextPredictor.predict` does, and a line about rows with a blank text, empty where there are none;
    arguments and errors as there."""
    texts = listed_texts(texts)
    chosen = choose_tasks(predictors, texts, tasks)
    # Tasks that have the same texts are predicted together: by the names of columns, or by their number without names.
    groups: dict[Any, list[Predictor]] = {}
    for name in chosen:
        columns = predictors[name].task.text_columns
        groups.setdefault(columns if names_of(texts) else len(columns), []).append(predictors[name])
    frames, blank = dict[str, pd.DataFrame](), dict[str, str]()
    for group in groups.values():
        columns = group[0].task.text_columns
        given, index = ordered_texts(texts, columns)
        rows = list(text_rows(given, len(columns)))
        blank |= {row.id: row.where for row in rows if row.is_blank}
        cells: list[list[list[Cell]]] = [[] for _ in group]
        for chunk, outputs in predict_stream_together(group, rows):
            for own, lines, found in zip(group, cells, outputs, strict=True):
                lines.extend(row_values(own.task, chunk, found))
        for own, lines in zip(group, cells, strict=True):
            frame = pd.DataFrame(lines, columns=column_names(own.task), index=index)
            frames[own.task.name] = frame.drop(columns="id")
    note = f"{counted(len(blank), 'row')} with a blank text without prediction, the first is "
    note = note + blank[min(blank, key=int)] if blank else ""
    if isinstance(tasks, str):
        return frames[tasks], note
    return pd.concat([frames[name].add_prefix(f"{name}.") for name in chosen], axis=1), note


def choose_tasks(predictors: Mapping[str, Predictor], texts: Any, tasks: str | Iterable[str] | None) -> list[str]:
    """Returns the tasks to predict; ValueError if one is unknown, or none fits the texts."""
    if tasks is not None:
        names = [tasks] if isinstance(tasks, str) else list(dict.fromkeys(tasks))
        for name in names:
            require_name(name, predictors, "task that is predicted")
        require(bool(names), "tasks must name one at least", "none")
        return names
    titles, number = names_of(texts), num_texts_of(texts)
    columns = {name: own.task.text_columns for name, own in predictors.items()}
    found = [name for name, own in columns.items() if (set(own) <= set(titles) if titles else len(own) == number)]
    known = "; ".join(f"{name} ({', '.join(own)})" for name, own in columns.items())
    got = f"columns {named(list(map(str, titles)))}" if titles else f"{counted(number, 'text')} a row"
    require(bool(found), f"texts must have the columns of a task: {known}", got)
    return found


def load(
    folder: Location,
    *,
    tasks: Sequence[str] | None = None,
    device: str = "auto",
    encoder: str | None = None,
    trust_methods: bool = False,
) -> TextPredictor:
    """Loads what predicts texts: the ensembles that were selected in a sweep, those of a bundle, or an exported model.

    Args:
        folder: name, folder or URI of a sweep with `selection.json`, or the folder of a bundle or of an exported model.
        tasks: those to load; None for all.
        device: `auto` (a GPU if there is one), `cpu` or `cuda`.
        encoder: name or folder that replaces the pretrained encoder that a sweep's trials name.
        trust_methods: whether methods of their maker's own, which are Python, are run if the file is not this user's.

    Raises:
        ValueError: in one line: there is no such folder or task, nothing was selected, or a model cannot be loaded.
    """
    place = find_sweep(folder) if isinstance(folder, str | Path) else folder
    with trusting_methods(trust_methods):
        return TextPredictor(predictors=load_predictors(place, tasks, device, encoder))


def load_predictors(
    place: Location, tasks: Sequence[str] | None, device: str, encoder: str | None
) -> dict[str, Predictor]:
    """Returns the ensemble of each task at a place; arguments and errors as of `load`."""
    bundle_folder, path = find_bundle(place), local_path(place)
    if bundle_folder is not None:
        bundle, loaded = read_bundle(bundle_folder), dict[str, LoadedModel]()
        names = tasks_to_load(tasks, bundle.tasks)
        return {name: load_bundled(bundle_folder, bundle, name, device, loaded) for name in names}
    if path is not None and is_file(open_folder(place), EXPORTED_FILE):
        model = load_bundled_model(path, device)
        alone = Ensemble(members=(0,), weights=(1.0,))
        names = tasks_to_load(tasks, model.config.active_tasks)
        return {name: Predictor(task=model.config.task(name), models=(model,), ensemble=alone) for name in names}
    selection = read_selection(place)
    source = ModelSource(places=find_sweeps(selection, place), encoder=encoder, device=device, models={})
    return {name: load_predictor(selection, name, source) for name in tasks_to_load(tasks, selection.tasks)}


def tasks_to_load(tasks: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    """Returns the tasks that are asked for, or all; ValueError if there is no such task."""
    for name in tasks or ():
        require_name(name, list(known), "task that is predicted")
    return list(known if tasks is None else tasks)
