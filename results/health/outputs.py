"""Checks of the predictions for dev: outputs that are all the same, and dev sets whose scores say little."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from mtlib.metrics.rare_classes import describe_rare_classes
from mtlib.runtime.command_line import counted
from mtlib.runtime.storage import open_folder
from mtlib.tasks import Task
from results.ensembles.outputs import outputs_of
from results.health.finding import Finding
from results.records.predictions import TrialEpoch, iter_predictions, labels_array, logits_array
from results.stats.texts import named
from results.sweep import Sweep

SAME_LABEL_SHARE = 0.98
"""A trial that predicts one label for more than this share of dev has learned little else, unless as many examples have
that label."""
SMALLEST_SPREAD = 0.01
"""Standard deviation of a regression's predictions, over the range of the labels, below which they are a constant. That
of labels that are spread evenly is 0.29."""
FEWEST_DEV_ROWS = 20
"""With fewer, one row moves an accuracy by more than .05."""


def constant_predictions(sweep: Sweep) -> Iterator[Finding]:
    """Tasks for which finished trials predict hardly anything but one label, or a constant, at their best epoch.

    That is the epoch of the highest overall score. Other trials were stopped before they could learn more.
    """
    for name, task in sweep.tasks.items():
        is_stuck = {
            trial: is_constant(task, logits, labels)
            for trial, logits, labels in dev_outputs(sweep, name, best_epochs(sweep, name))
        }
        stuck = [trial for trial in is_stuck if is_stuck[trial]]
        if stuck:
            what = "number" if task.is_regression else "label"
            yield Finding(
                level="problem",
                what=f"{task.title}: nearly the whole dev set gets the same {what} in {len(stuck)} of "
                f"{counted(len(is_stuck), 'finished trial')}: {named(stuck)}",
                advice="train longer, raise the learning rate, or lower the weight of other losses and penalties",
            )


def is_constant(task: Task, logits: npt.ArrayLike, labels: npt.ArrayLike) -> bool:
    """Returns whether predictions for dev are one label (or set of labels) for nearly all examples, or one number.

    Not of metrics that read the output of a binary or multi-label task: a threshold has no part in them.
    """
    predictions = task.kind_entry.predict(outputs_of(task, logits))
    if task.is_regression:
        low, high = task.label_range
        return bool(predictions.std() < SMALLEST_SPREAD * (high - low))
    if task.metric_entry.reads == "output":
        return False
    values, counts = np.unique(predictions, axis=0, return_counts=True)
    share, most = counts.max() / len(predictions), values[counts.argmax()]
    has_most = (np.asarray(labels) == most).reshape(len(predictions), -1).all(axis=1)
    return bool(share > max(SAME_LABEL_SHARE, has_most.mean()))


def weak_dev_sets(sweep: Sweep) -> Iterator[Finding]:
    """Dev sets whose scores say little: of few rows, of few rows of a class, or with one label for all of them.

    Finished trials have scored the same rows, so one of them is read.
    """
    for name, task in sweep.tasks.items():
        for _, _, labels in dev_outputs(sweep, name, best_epochs(sweep, name)[:1]):
            if len(labels) < FEWEST_DEV_ROWS:
                what = f"{task.title} has {counted(len(labels), 'dev row')}: its score is hardly more than chance"
                yield Finding(level="warning", what=what, advice=f"give {name} more dev rows, or a low weight")
            elif not task.is_regression:
                few = describe_rare_classes(task.class_names, task.class_sizes(labels), task.metric)
                if few:
                    yield Finding(level="note", what=f"{task.title}, {few}", advice=f"give {name} more of them")
            if len(labels) > 1 and len(np.unique(labels, axis=0)) == 1:
                what = f"All dev rows of {task.title} have the same label: its score shows nothing learned"
                yield Finding(level="warning", what=what, advice=f"give {name} dev rows with other labels too")


def best_epochs(sweep: Sweep, name: str) -> list[TrialEpoch]:
    """Returns each finished trial with a dev score of a task, at its best overall epoch."""
    epochs, scored = sweep.plot.best_epoch_scores[0], sweep.plot.dev_scores(name)
    return [(record.trial_id, epochs[record.trial_id]) for record in sweep.finished if record.trial_id in scored]


def dev_outputs(
    sweep: Sweep, name: str, wanted: Sequence[TrialEpoch]
) -> Iterator[tuple[str, npt.NDArray[np.float32], npt.NDArray[np.float32]]]:
    """Yields the logits for dev and its labels of each of these trials."""
    for (trial, _), table in iter_predictions(open_folder(sweep.path), name, "dev", wanted):
        yield trial, logits_array(table), labels_array(table)
