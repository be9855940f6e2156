"""What the best single model and the selected ensemble predict for dev, and its members."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from mtlib.data.tables import Table
from mtlib.runtime.errors import require, require_name
from mtlib.runtime.storage import open_folder
from mtlib.tasks import Task
from results.ensembles.candidates import describe_candidate
from results.ensembles.ensemble import combine_outputs
from results.ensembles.methods import title_of_method
from results.ensembles.outputs import outputs_of
from results.figures.predictions import Predicted
from results.figures.sweep_plots import predicted_from
from results.inference.dev_texts import pick_texts, read_dev_table
from results.inference.models import find_sweeps
from results.inference.predictor import ensemble_of
from results.page.content import TextTable
from results.records.files import folder_name
from results.records.predictions import stack_predictions
from results.records.selection import Selection
from results.stats.resampling import Floats
from results.sweep import Sweep

NUM_EXAMPLES = 12
"""Rows of a table of errors."""
MAX_TEXT = 400
"""Characters of a text that are shown."""
NUM_MEMBERS = 10
"""Members of an ensemble that a table names: the usual most (`Settings.max_models`)."""

ReadTexts = Callable[[str, Sequence[str]], Sequence[tuple[str, ...]]]
"""From a task and ids to the texts of these dev examples."""


def texts_reader(sweep: Sweep, data: Path | None = None) -> ReadTexts:
    """Reads the texts of dev examples by their ids, from the sweep's data folder or the given one.

    The dev rows of a task are read once. The reader raises ValueError in one line where the data are not there or have
    changed.
    """

    @cache
    def read_table(task: str) -> Table:
        return read_dev_table(sweep.path, task, data)

    return lambda task, ids: pick_texts(read_table(task), ids)


def selected_model(sweep: Sweep, selection: Selection, single: Predicted) -> Predicted:
    """Returns the predictions of the ensemble, or of the single model, that was selected for a task.

    Args:
        sweep: has the selection.
        selection: of this task and others.
        single: the best single model of the task, whose examples are predicted, in their order.

    Raises:
        ValueError: nothing was selected; predictions of a member are missing, or are of other examples.
    """
    chosen = selection.tasks.get(single.task.name)
    if chosen is None:
        raise ValueError("the selection does not have this task")
    folders, task = find_sweeps(selection, sweep.path), single.task
    outputs: list[Floats] = []
    rule = "members must have predictions for the examples of the best single model"
    for member in chosen.members:
        require_name(member.sweep, folders, "sweep of a selection")
        root, wanted = open_folder(folders[member.sweep]), [(member.trial, member.epoch)]
        ids, labels, logits = stack_predictions(root, task.name, "dev", wanted)
        is_same = list(ids) == list(single.ids) and np.array_equal(labels, single.labels, equal_nan=True)
        require(is_same, rule, f"other examples or labels by {describe_candidate(member)}")
        outputs.append(outputs_of(task, logits[0]).astype(np.float64))
    averaged = combine_outputs(np.stack(outputs), ensemble_of(chosen.members))
    first, *others = chosen.members
    single_title = f"selected single model, {first.trial} at epoch {first.epoch}"
    title = f"selected ensemble of {len(chosen.members)}" if others else single_title
    return predicted_from(title, task, single.ids, single.labels, averaged)


def predict_alike(model: Predicted, other: Predicted) -> bool:
    """Returns whether two models of a task give the same predictions for the same examples,
    with the same probabilities."""
    pairs = [(model.predictions, other.predictions)]
    if model.probs is not None and other.probs is not None:
        pairs.append((model.probs, other.probs))
    return all(np.allclose(*pair) for pair in pairs)


def error_tables(model: Predicted, read_texts: ReadTexts) -> Iterator[TextTable]:
    """Yields the worst errors of a model with their texts, if it makes any: the largest ones, of classes those of the
    highest probability.

    Raises:
        ValueError: texts are missing.
    """
    task, size = model.task, np.abs(model.predictions - model.labels)
    if model.probs is not None:
        size = np.where(model.is_right > 0, 0.0, model.confidence).reshape(len(model.ids), -1).max(axis=1)
    rows = [row for row in np.argsort(-size, kind="stable")[:NUM_EXAMPLES].tolist() if size[row] > 0]
    if not rows:
        return
    texts = read_texts(task.name, [model.ids[row] for row in rows])
    probs = [""] * len(rows) if model.probs is None else [f" ({size[row]:.2f})" for row in rows]
    labels = [label_text(task, label) for label in model.labels[rows]]
    predicted = [label_text(task, value) for value in model.predictions[rows]]
    yield TextTable(
        title=f"{task.title}: errors with their texts",
        columns=["text", "label", "predicted"],
        rows=[
            [text_cell(text), label, f"{name}{prob}"]
            for text, label, name, prob in zip(texts, labels, predicted, probs, strict=True)
        ],
        caption=f"Of {model.name}, the {'largest' if model.probs is None else 'most probable'} ones.",
        num_text_columns=3,
    )


def text_cell(texts: tuple[str, ...]) -> str:
    """Returns one or two texts as one cell, shortened."""
    return "\n".join(text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} …" for text in texts)


def label_text(task: Task, label: float | Floats) -> str:
    """Returns a row's label as `Task.names_of`, or the number of a regression."""
    return f"{label:.2f}" if task.is_regression else task.names_of(label)


def members_table(selection: Selection) -> TextTable:
    """Returns the members of each task's ensemble; their sweeps only where there are several, by their folders, or by
    their paths where several folders have the same name."""
    members = [(name, chosen.method, member) for name, chosen in selection.tasks.items() for member in chosen.members]
    counts = Counter(map(folder_name, selection.sweeps))
    names = {sweep: sweep if counts[folder_name(sweep)] > 1 else folder_name(sweep) for sweep in selection.sweeps}
    has_sweeps = len(names) > 1
    rows = [
        [
            selection.definitions[task].title,
            title_of_method(method, selection.tasks[task].titles),
            *([names.get(member.sweep, member.sweep)] if has_sweeps else []),
            member.trial,
            str(member.epoch),
            f"{member.weight:.3f}",
        ]
        for task, method, member in members
    ]
    of_sweep = ["sweep"] * has_sweeps
    return TextTable(
        title="Members of the ensembles",
        columns=["task", "method", *of_sweep, "trial", "epoch", "weight"],
        rows=rows,
        num_text_columns=3 + has_sweeps,
        num_shown=3 * NUM_MEMBERS,
    )
