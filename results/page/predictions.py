"""What the best single model and the selected ensemble predict for dev, and on which examples trials disagree."""

from collections.abc import Callable, Sequence

import numpy as np

from mtlib.tasks import Task
from results.analysis.comparison.bootstrap import Floats
from results.analysis.plots import predicted_from
from results.analysis.sweep import Sweep
from results.ensembles.ensemble import combine_outputs
from results.ensembles.outputs import outputs_of, predictions_of
from results.figures.predictions import Predicted, class_names, error_kind
from results.inference.models import find_sweeps
from results.inference.predictor import ensemble_of
from results.page.content import TextTable
from results.records.files import open_folder
from results.records.predictions import TrialEpoch, stack_predictions
from results.records.selection import Selection, TaskSelection

MAX_COMPARED = 40
"""Trials whose predictions are compared with each other: the best ones."""
NUM_EXAMPLES = 12
"""Rows of the tables of examples."""
MAX_TEXT = 400
"""Characters of a text that are shown."""
NUM_MEMBERS = 10

ReadTexts = Callable[[str, Sequence[str]], Sequence[tuple[str, ...]]]
"""From a task and ids to the texts of these dev examples."""


def predicted_models(sweep: Sweep, selection: Selection | None, name: str) -> list[Predicted]:
    """The predictions of the best single model of a task and, if one was selected, of its ensemble.

    Raises:
        ValueError: predictions are missing.
    """
    if not sweep.scores.values.get((name, "dev")):
        return []
    single = sweep.plot.predicted(name)
    chosen = None if selection is None else selection.tasks.get(name)
    if selection is None or chosen is None or chosen.is_soup or len(chosen.members) == 1:
        return [single]
    ids, labels, outputs = ensemble_predictions(selection, sweep, name, chosen)
    title = f"selected ensemble of {len(chosen.members)}"
    is_same = list(ids) == list(single.ids)
    return [single, predicted_from(title, single.task, ids, labels, outputs)] if is_same else [single]


def ensemble_predictions(
    selection: Selection, sweep: Sweep, name: str, chosen: TaskSelection
) -> tuple[list[str], Floats, Floats]:
    """Ids, labels and averaged outputs of a task's ensemble on dev."""
    places, task = find_sweeps(selection, sweep.path), selection.definitions[name]
    outputs: list[Floats] = []
    ids: list[str] = []
    labels = np.zeros(0)
    for member in chosen.members:
        root = open_folder(places[member.sweep])
        ids, found, logits = stack_predictions(root, name, "dev", [(member.trial, member.epoch)])
        labels = found.astype(np.float64)
        outputs.append(outputs_of(task, logits[0]).astype(np.float64))
    return ids, labels, combine_outputs(task, np.stack(outputs), ensemble_of(chosen.members))


def disagreement_table(sweep: Sweep, name: str, read_texts: ReadTexts | None) -> TextTable | None:
    """The dev examples whose predictions differ most between the best trials; None if there is one trial only."""
    task, scores = sweep.tasks[name], sweep.scores.values.get((name, "dev"), {})
    trials = sorted(scores, key=lambda trial: -scores[trial])[:MAX_COMPARED]
    if len(trials) < 2:
        return None
    wanted: list[TrialEpoch] = [(trial, sweep.scores.epochs[trial]) for trial in trials]
    ids, labels, logits = stack_predictions(open_folder(sweep.path), name, "dev", wanted)
    predictions = predictions_of(task, outputs_of(task, logits))  # (trials, rows)
    spread, describe = spread_of(task, predictions)
    order = np.argsort(-spread, kind="stable")[:NUM_EXAMPLES]
    order = order[spread[order] > 0]
    texts = dict(zip(order, read_texts(name, [ids[row] for row in order]), strict=True)) if read_texts else {}
    rows = [
        [ids[row], *shown_texts(texts.get(row)), label_text(task, labels[row]), describe(predictions[:, row])]
        for row in order
    ]
    columns = ["example", *(["text"] if read_texts else []), "label", "predictions"]
    return TextTable(
        name=f"disagreement-{name}",
        title=f"{task.title}: examples on which trials disagree most",
        columns=columns,
        rows=rows,
        caption=f"Predictions of the best {len(trials)} trials. Such examples are hard, ambiguous or mislabelled.",
        num_text_columns=len(columns),
    )


def spread_of(task: Task, predictions: Floats) -> tuple[Floats, Callable[[Floats], str]]:
    """How much the predictions of each example differ, and a text for those of one."""
    if task.kind == "regression":
        return predictions.std(axis=0), lambda own: f"{own.min():.2f} to {own.max():.2f}, mean {own.mean():.2f}"
    names = class_names(task)
    counts = np.stack([(predictions == number).mean(axis=0) for number in range(len(names))])  # (classes, rows)
    entropy = -np.sum(counts * np.log(np.maximum(counts, 1e-12)), axis=0)

    def describe(own: Floats) -> str:
        votes = np.bincount(own.astype(int), minlength=len(names))
        return ", ".join(f"{names[place]}: {votes[place]}" for place in np.argsort(-votes) if votes[place])

    return np.asarray(entropy.round(12)), describe


def error_table(model: Predicted, read_texts: ReadTexts) -> TextTable:
    """The worst errors of a model with their texts, by kind."""
    kinds = error_kind(model)
    probs = None if model.probs is None else model.probs[np.arange(len(kinds)), model.predictions.astype(int)]
    size = np.abs(model.predictions - model.labels) if probs is None else probs
    rows: list[int] = []
    for kind in dict.fromkeys(sorted(kind for kind in kinds if kind)):
        own = np.flatnonzero(kinds == kind)
        rows += own[np.argsort(-size[own], kind="stable")][: max(2, NUM_EXAMPLES // 4)].tolist()
    texts = read_texts(model.task.name, [model.ids[row] for row in rows]) if rows else []
    cells = [
        [
            str(kinds[row]),
            *shown_texts(text),
            label_text(model.task, model.labels[row]),
            label_text(model.task, model.predictions[row]) + ("" if probs is None else f" ({probs[row]:.2f})"),
        ]
        for row, text in zip(rows, texts, strict=True)
    ]
    return TextTable(
        name=f"error-texts-{model.task.name}",
        title=f"{model.task.title}: errors with their texts",
        columns=["error", "text", "label", "predicted"],
        rows=cells,
        caption=f"Of {model.name}: of each kind the errors of the highest probability, or the largest ones, as in "
        "Triple Threat, tables 17 to 19.",
        num_text_columns=4,
    )


def shown_texts(texts: tuple[str, ...] | None) -> list[str]:
    """One or two texts as one cell, shortened; no cell without texts."""
    if texts is None:
        return []
    shown = [text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} …" for text in texts]
    return ["\n".join(shown)]


def label_text(task: Task, label: float) -> str:
    """A label's name, or its number."""
    return f"{label:.2f}" if task.kind == "regression" else class_names(task)[int(label)]


def members_table(selection: Selection) -> TextTable:
    """The members of each task's ensemble."""
    rows = [
        [selection.definitions[name].title, chosen.method, member.trial, str(member.epoch), f"{member.weight:.3f}"]
        for name, chosen in selection.tasks.items()
        for member in chosen.members
    ]
    return TextTable(
        name="members",
        title="Members of the ensembles",
        columns=["task", "method", "trial", "epoch", "weight"],
        rows=rows,
        num_text_columns=3,
        num_shown=3 * NUM_MEMBERS,
    )
