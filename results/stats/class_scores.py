"""Scores of each class: precision, recall and F1 of trials on dev."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow.fs as fs
from sklearn.metrics import precision_recall_fscore_support

from mtlib.runtime.errors import require
from mtlib.tasks import Task
from results.records.predictions import TrialEpoch, iter_predictions, labels_array, logits_array
from results.stats.resampling import Floats

CLASS_COLUMNS = ("precision", "recall", "f1", "support")
"""Scores of a class, 0 where they are undefined, and the number of examples that have it."""


def scores_by_class(task: Task, labels: npt.ArrayLike, predictions: npt.ArrayLike) -> Floats:
    """Returns `CLASS_COLUMNS` of each class, (num_classes, 4), from labels and predictions, (rows,) each, or
    (rows, num_classes) of several labels."""
    found = precision_recall_fscore_support(labels, predictions, labels=range(task.num_classes), zero_division=0)
    return np.stack(found, axis=1).astype(np.float64)


def class_scores_frame(root: fs.SubTreeFileSystem, task: Task, wanted: Sequence[TrialEpoch]) -> pd.DataFrame:
    """Returns a row for each trial and class: `trial`, `epoch`, `class` and `CLASS_COLUMNS`.

    Args:
        root: the sweep's folder.
        task: with classes.
        wanted: trials, each with the epoch that is read.

    Raises:
        ValueError: the task is a regression, or a file is damaged.
    """
    require(not task.is_regression, "scores of classes must be of a task with classes", f"{task.name}, a regression")
    rows = [
        (trial, epoch, name, *own)
        for (trial, epoch), table in iter_predictions(root, task.name, "dev", wanted)
        for name, own in zip(
            task.class_names,
            scores_by_class(task, labels_array(table), task.kind_entry.predict(logits_array(table))),
            strict=True,
        )
    ]
    types = {"trial": "string", "epoch": "int64", "class": "string", **dict.fromkeys(CLASS_COLUMNS, "float64")}
    return pd.DataFrame(rows, columns=list(types)).astype(types | {"support": "int64"})
