"""A sweep's figures, for notebooks: each is a Plotly figure, which displays itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mtlib.runtime.errors import require, require_name
from mtlib.runtime.storage import Location, open_folder
from mtlib.tasks import Task
from results.ensembles.outputs import outputs_of, probabilities_of
from results.figures import curves, effects, ensembles, predictions
from results.figures.curves import Training, training_of
from results.figures.draw import is_empty
from results.figures.predictions import Predicted
from results.records.predictions import stack_predictions
from results.records.selection import read_selection
from results.records.trials import OVERALL, TrialRecord, require_trial
from results.stats.effects.searched_keys import SearchedKey
from results.stats.effects.sweep_effects import SweepEffects
from results.stats.ranking import RankedConfiguration
from results.stats.trial_scores import Column, TrialScores, scores_at_best_epochs

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True, kw_only=True, repr=False)
class SweepPlots:
    """The figures of one sweep.

    Each method raises ValueError in one line where a name is unknown or there is nothing to draw yet.
    """

    path: Location
    records: Sequence[TrialRecord]
    curve_rows: pd.DataFrame
    tasks: Mapping[str, Task]
    read_scores: Callable[[], TrialScores]
    read_ranking: Callable[[], Sequence[RankedConfiguration]]
    read_effects: Callable[[], SweepEffects]

    def __repr__(self) -> str:
        """Its sweep alone: a notebook shows this, and the records are long."""
        return f"SweepPlots(path={str(self.path)!r})"

    def effects(self, key: str | None = None) -> "go.Figure":
        """Differences of a key's listed values from the base value, with 95 % intervals, for each task.

        Args:
            key: a searched key; None for the only one.
        """
        found = self.read_effects()
        searched = named_or_only(key, found.keys)
        rule = "differences must be of a key with listed values (`scores` shows one with a range)"
        require(searched.range is None, rule, searched.name)
        return require_points(effects.forest_plot(found, searched))

    def scores(self, key: str | None = None) -> "go.Figure":
        """Scores of all trials against a key's values; for a range with the fitted curve and its band.

        Args:
            key: a searched key; None for the only one.
        """
        found = self.read_effects()
        searched = named_or_only(key, found.keys)
        return require_points(effects.scores_by_value(found, self.records, self.read_scores(), searched))

    def curves(self, task: str | None = None) -> "go.Figure":
        """Scores by epoch on dev and on the scored rows of train; of one task, or of all."""
        return require_points(curves.learning_curves(self.training, self.require_score(task)))

    def losses(self, task: str | None = None) -> "go.Figure":
        """Losses by epoch on train and dev; of one task, or of all."""
        return require_points(curves.losses(self.training, self.require_score(task)))

    def penalties(self) -> "go.Figure":
        """Penalties, and norms of their noise, by epoch."""
        return require_points(curves.penalties(self.training))

    def predictions(self, task: str, trial: str | None = None) -> "go.Figure":
        """Returns the confusion matrix of a trial on dev, or a scatter plot for a regression.

        Args:
            task: one of the sweep's tasks.
            trial: e.g. `0003-r0`; None for the one with the highest score of this task.
        """
        model = self.predicted(task, trial)
        return require_points(
            (predictions.scatter_plot if model.probs is None else predictions.confusion_matrix)([model])
        )

    def reliability(self, task: str, trial: str | None = None) -> "go.Figure":
        """Returns how often a trial is right on dev, against the probability that it gave;
        arguments as `predictions`."""
        model = self.predicted(task, trial)
        require(model.probs is not None, "reliability must be of a task with classes", f"{task}, a regression")
        return require_points(predictions.reliability([model]))

    def classes(self, task: str, trial: str | None = None) -> "go.Figure":
        """Returns precision, recall and F1 of each class on dev, or of each of several labels; arguments as
        `predictions`."""
        model = self.predicted(task, trial)
        require(model.probs is not None, "classes must be of a task with classes", f"{task}, a regression")
        return require_points(predictions.scores_by_class([model]))

    def methods(self) -> "go.Figure":
        """Returns the expected score of each selection method, with its 95 % interval, for each task."""
        return require_points(ensembles.selection_methods(read_selection(self.path)))

    @property
    def training(self) -> Training:
        """What the figures of training are drawn from."""
        return training_of(self.curve_rows, self.records, self.tasks, self.read_ranking())

    def require_score(self, name: str | None) -> str | None:
        """Returns the name; ValueError if no task has it."""
        if name is not None:
            require_name(name, [*self.tasks, OVERALL], "task")
        return name

    @cached_property
    def best_epoch_scores(self) -> tuple[dict[str, int], dict[Column, dict[str, float]]]:
        """Each trial's best overall epoch, and the scores there, of `scores_at_best_epochs`."""
        return scores_at_best_epochs(self.records, self.curve_rows, self.tasks)

    def dev_scores(self, task: str) -> dict[str, float]:
        """By trial, the dev score of a task at the best overall epoch; empty where no trial has one yet."""
        return self.best_epoch_scores[1].get((task, "dev"), {})

    def predicted(self, task: str, trial: str | None = None) -> Predicted:
        """Returns a trial's predictions for dev at its best overall epoch; arguments as `predictions`."""
        require_name(task, self.tasks, "task")
        scores = self.dev_scores(task)
        require(bool(scores), f"a trial must have a dev score of {task}", "none yet")
        name = max(scores, key=lambda trial: scores[trial]) if trial is None else trial
        require_trial(name, scores)
        epoch, definition = self.best_epoch_scores[0][name], self.tasks[task]
        ids, labels, logits = stack_predictions(open_folder(self.path), task, "dev", [(name, epoch)])
        title = f"best single model, {name} at epoch {epoch}" if trial is None else f"{name} at epoch {epoch}"
        return predicted_from(title, definition, ids, labels, outputs_of(definition, logits[0]))


def predicted_from(name: str, task: Task, ids: Sequence[str], labels: Any, outputs: Any) -> Predicted:
    """Predictions from outputs, (rows, width), of `results.ensembles.outputs`."""
    return Predicted(
        name=name,
        task=task,
        ids=ids,
        labels=np.asarray(labels, dtype=np.float64),
        predictions=task.kind_entry.predict(outputs),
        probs=None if task.is_regression else probabilities_of(task, outputs),
    )


def named_or_only(name: str | None, keys: Sequence[SearchedKey]) -> SearchedKey:
    """Returns the searched key of this name, or the only one;
    ValueError where there is none of this name, or several."""
    by_name = {key.name: key for key in keys}
    require(bool(by_name), "there must be a searched key", "none")
    if name is None:
        require(len(by_name) == 1, "the searched key must be named where there are several", ", ".join(by_name))
        return keys[0]
    require_name(name, by_name, "searched key")
    return by_name[name]


def require_points(figure: "go.Figure") -> "go.Figure":
    """Returns the figure; ValueError if it shows nothing."""
    require(not is_empty(figure), f"{figure.layout.meta['title']}: there must be something to draw", "no data yet")
    return figure
