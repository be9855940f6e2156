"""Predicts texts from Python with what sweeps have left: `load(folder).predict(texts)`."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from mtlib.model.hub import read_encoder_name
from mtlib.runtime.command_line import counted
from mtlib.runtime.errors import require, require_name
from mtlib.runtime.method_file import trusting_methods
from mtlib.runtime.storage import local_path, split_location
from mtlib.tasks import Task
from results.ensembles.ensemble import Ensemble
from results.inference.bundle.manifest import find_bundle, load_bundled, load_model_folder, read_bundle
from results.inference.given_texts import listed_texts, names_of, num_texts_of, ordered_texts, text_rows
from results.inference.models import LoadedModel, ModelSource, find_sweeps
from results.inference.predictor import Predictor, load_predictor, predict_stream_together
from results.inference.writers import Cell, column_names, row_values
from results.records.files import find_sweep
from results.records.selection import SELECTION_FILE, read_selection
from results.stats.texts import named


@dataclass(frozen=True, kw_only=True, eq=False)
class TextPredictor:
    """Predicts the tasks of a sweep's selection, a bundle or an exported model."""

    predictors: Mapping[str, Predictor]
    """The ensemble of each task, loaded; a model of several ensembles is loaded once."""

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
        groups.setdefault(columns if names_of(texts, columns) else len(columns), []).append(predictors[name])
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
        return known_tasks(tasks, predictors)
    columns = {name: own.task.text_columns for name, own in predictors.items()}
    titles, number = names_of(texts, set().union(*columns.values())), num_texts_of(texts)
    if not titles and number is None:
        return list(columns)  # there is no row: all fit
    found = [name for name, own in columns.items() if (set(own) <= set(titles) if titles else len(own) == number)]
    known = "; ".join(f"{name} ({', '.join(own)})" for name, own in columns.items())
    got = f"columns {named(list(map(str, titles)))}" if titles else f"{counted(number or 0, 'text')} a row"
    require(bool(found), f"texts must have the columns of a task: {known}", got)
    return found


def load(
    folder: str | Path,
    *,
    tasks: str | Iterable[str] | None = None,
    device: str = "auto",
    encoder: str | None = None,
    trust_methods: bool = False,
) -> TextPredictor:
    """Loads what predicts texts: the ensembles that were selected in a sweep, those of a bundle, or an exported model.

    Args:
        folder: name, folder or URI of a sweep with `selection.json`, or that file; or the folder of a bundle or of an
            exported model, of which tasks that its epoch had not trained yet predict by new heads.
        tasks: those to load; None for all.
        device: `auto` (a GPU if there is one), `cpu` or `cuda`.
        encoder: name or folder that replaces the pretrained encoder that a sweep's trials name.
        trust_methods: whether methods of their maker's own, which are Python, are run if the file is not this user's.

    Raises:
        ValueError: in one line: there is no such folder or task, nothing was selected, `encoder` is given for what has
            its own, or a model cannot be loaded.
    """
    parent, name = split_location(folder)
    place = find_sweep((parent or ".") if name == SELECTION_FILE else folder)
    with trusting_methods(trust_methods):
        return TextPredictor(predictors=load_predictors(place, tasks, device, encoder))


def load_predictors(
    place: str, tasks: str | Iterable[str] | None, device: str, encoder: str | None
) -> dict[str, Predictor]:
    """Returns the ensemble of each task at a place; arguments and errors as of `load`."""
    from mtlib.checkpoints.export import EXPORTED_CONFIG_FILE, read_config  # loads torch

    bundle_folder, path = find_bundle(place), local_path(place)
    is_exported = path is not None and (path / EXPORTED_CONFIG_FILE).is_file()
    if bundle_folder is not None or is_exported:
        require(
            encoder is None, "encoder must be left out for a bundle or an exported model, which has its own", encoder
        )
    if bundle_folder is not None:
        bundle, loaded = read_bundle(bundle_folder), dict[str, LoadedModel]()
        names = known_tasks(tasks, bundle.tasks)
        return {name: load_bundled(bundle_folder, bundle, name, device, loaded) for name in names}
    if path is not None and is_exported:
        names = known_tasks(tasks, read_config(path / EXPORTED_CONFIG_FILE).active_tasks)
        model, alone = load_model_folder(path, device), Ensemble(members=(0,), weights=(1.0,))
        return {name: Predictor(task=model.config.task(name), models=(model,), ensemble=alone) for name in names}
    selection = read_selection(place)
    names = known_tasks(tasks, selection.tasks)
    given = None if encoder is None else read_encoder_name(encoder, "encoder")
    source = ModelSource(places=find_sweeps(selection, place), encoder=given, device=device, models={})
    return without_initial_weights({name: load_predictor(selection, name, source) for name in names})


def without_initial_weights(predictors: Mapping[str, Predictor]) -> dict[str, Predictor]:
    """Returns the same without the weights with which training began; models of one encoder go on sharing it."""
    models = {id(model): model for own in predictors.values() for model in own.models}
    encoders = {id(model.pretrained): replace(model.pretrained, weights={}) for model in models.values()}
    kept = {key: replace(model, pretrained=encoders[id(model.pretrained)]) for key, model in models.items()}
    return {
        name: replace(own, models=tuple(kept[id(model)] for model in own.models)) for name, own in predictors.items()
    }


def known_tasks(tasks: str | Iterable[str] | None, known: Iterable[str]) -> list[str]:
    """Returns the tasks that are named, or all; ValueError if there is no such task, or none is named."""
    names = list(known) if tasks is None else [tasks] if isinstance(tasks, str) else list(dict.fromkeys(tasks))
    for name in names:
        require_name(name, list(known), "task of the selection")
    require(bool(names), "tasks must name at least one", "none")
    return names
