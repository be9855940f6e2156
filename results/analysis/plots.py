"""A sweep's figures, for notebooks: each is a Plotly figure, which displays itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mtlib.runtime.errors import require, require_name
from mtlib.runtime.storage import Location, open_folder
from mtlib.tasks import Task, title_of
from results.analysis.comparison.trial_scores import Column, TrialScores, scores_at_best_epochs
from results.analysis.effects.published_differences import EstimateEffects, find_differences
from results.analysis.effects.searched_keys import SearchedKey, searched_keys
from results.analysis.importance import key_importances
from results.analysis.ranking.rank import RankedConfiguration
from results.ensembles.outputs import outputs_of, predictions_of, probabilities_of
from results.figures.chart import Chart
from results.figures.curves import (
    Training,
    cost_chart,
    gradient_chart,
    learning_chart,
    loss_chart,
    penalty_chart,
    speed_chart,
    training_of,
)
from results.figures.effects import effect_chart, published_chart, value_chart
from results.figures.embeddings import Embedded, embeddings_chart
from results.figures.ensembles import methods_chart, pareto_chart
from results.figures.hover import score_described, score_title
from results.figures.predictions import (
    Predicted,
    confusion_chart,
    errors_chart,
    labels_chart,
    reliability_chart,
    scatter_chart,
)
from results.figures.pruning import pruning_chart, rungs_chart
from results.figures.search import (
    SearchedScore,
    history_chart,
    importance_chart,
    parallel_chart,
    slice_chart,
)
from results.records.files import folder_name
from results.records.predictions import stack_predictions
from results.records.selection import read_selection
from results.records.trials import OVERALL, TrialRecord, require_trial
from search_spaces.published import read_published

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True, kw_only=True, repr=False)
class SweepPlots:
    """The figures of one sweep.

    Each method raises ValueError in one line where a name is unknown or there is nothing to draw yet.
    """

    path: Location
    info: Mapping[str, Any]
    records: Sequence[TrialRecord]
    curve_rows: pd.DataFrame
    tasks: Mapping[str, Task]
    read_scores: Callable[[], TrialScores]
    read_ranking: Callable[[], Sequence[RankedConfiguration]]
    estimate_effects: EstimateEffects

    def __repr__(self) -> str:
        """Its sweep alone: a notebook shows this, and the records are long."""
        return f"SweepPlots(path={str(self.path)!r})"

    def effects(self, key: str | None = None) -> "go.Figure":
        """Differences of a key's listed values from the base value, with 95 % intervals, for each task.

        Args:
            key: a searched key; None for the only one.
        """
        effects = self.estimate_effects({})
        searched = named_or_only(key, {searched.name: searched for searched in effects.keys}, "searched key")
        rule = "differences must be of a key with listed values (`scores` shows one with a range)"
        require(searched.range is None, rule, searched.name)
        return draw(effect_chart(effects, searched))

    def scores(self, key: str | None = None) -> "go.Figure":
        """Scores of all trials against a key's values; for a range with the fitted curve and its band.

        Args:
            key: a searched key; None for the only one.
        """
        effects = self.estimate_effects({})
        searched = named_or_only(key, {searched.name: searched for searched in effects.keys}, "searched key")
        return draw(value_chart(effects, self.records, self.read_scores(), searched))

    def curves(self, task: str | None = None) -> "go.Figure":
        """Scores by epoch on dev and on the scored rows of train; of one task, or of all."""
        return draw(only_task(learning_chart(self.training), self.tasks, task))

    def losses(self, task: str | None = None) -> "go.Figure":
        """Losses by epoch on train and dev; of one task, or of all."""
        return draw(only_task(loss_chart(self.training), self.tasks, task))

    def penalties(self) -> "go.Figure":
        """Penalties, and norms of their noise, by epoch."""
        return draw(penalty_chart(self.training))

    def gradient_norms(self) -> "go.Figure":
        """Norms of each task's gradients in the first steps."""
        return draw(gradient_chart(self.training))

    def speed(self) -> "go.Figure":
        """Tokens trained per second, by epoch."""
        return draw(speed_chart(self.training))

    def cost(self) -> "go.Figure":
        """Overall scores against device-seconds."""
        return draw(cost_chart({folder_name(self.path): self.records}))

    def history(self) -> "go.Figure":
        """Scores in the order in which trials started, and the best so far."""
        return draw(history_chart(self.records, self.searched_score))

    def importance(self) -> "go.Figure":
        """The share of the scores' variance that each searched key explains."""
        require_comparable(self.searched_score, self.records)
        return draw(importance_chart(self.importances))

    def slices(self) -> "go.Figure":
        """Scores against each searched key."""
        return draw(slice_chart(self.records, self.keys, self.searched_score))

    def parallel_coordinates(self) -> "go.Figure":
        """Each trial as a line through its searched values to its score."""
        require_comparable(self.searched_score, self.records)
        return draw(parallel_chart(self.records, self.keys, self.searched_score, self.importances))

    def pruning(self) -> "go.Figure":
        """After how many epochs trials ended, and why."""
        return draw(pruning_chart(self.records))

    def rungs(self) -> "go.Figure":
        """The scores at each rung of a sweep with `--scheduler asha`, and which trials were stopped there."""
        scheduler = self.info.get("scheduler")
        require(scheduler == "asha", "rungs must be of a sweep with --scheduler asha", scheduler)
        return draw(rungs_chart(self.records, self.curve_rows, self.tasks, self.searched_score.name))

    def predictions(self, task: str, trial: str | None = None) -> "go.Figure":
        """The confusion matrix of a trial on dev, or a scatter plot for a regression.

        Args:
            task: one of the sweep's tasks.
            trial: e.g. `0003-r0`; None for the one with the highest score of this task.
        """
        model = self.predicted(task, trial)
        return draw((scatter_chart if model.probs is None else confusion_chart)([model]))

    def reliability(self, task: str, trial: str | None = None) -> "go.Figure":
        """How often a trial is right on dev, against the probability that it gave; arguments as `predictions`."""
        model = self.predicted(task, trial)
        require(model.probs is not None, "reliability must be of a task with classes", f"{task}, a regression")
        return draw(reliability_chart([model]))

    def labels(self, task: str, trial: str | None = None) -> "go.Figure":
        """How often each label occurs on dev, and how often it is predicted; arguments as `predictions`."""
        return draw(labels_chart([self.predicted(task, trial)]))

    def errors(self, task: str, trial: str | None = None) -> "go.Figure":
        """A trial's errors on dev by kind; arguments as `predictions`."""
        return draw(errors_chart([self.predicted(task, trial)]))

    def published(self, number: int = 1) -> "go.Figure":
        """Differences of a key's values from the base value beside those of a published table, as `find_differences`.

        Args:
            number: of the table among those of the sweep's question, from 1.
        """
        tables = read_published(self.info)
        require(bool(tables), "a published table must be recorded with the sweep's question", "none")
        require(1 <= number <= len(tables), f"number must be that of a table, 1 to {len(tables)}", number)
        table = tables[number - 1]
        found = find_differences(table, self.tasks, self.estimate_effects({}), self.estimate_effects)
        return draw(published_chart(table, found, number))

    def methods(self) -> "go.Figure":
        """The expected score of each selection method, with its 95 % interval, for each task."""
        return draw(methods_chart(read_selection(self.path)))

    def pareto(self) -> "go.Figure":
        """Expected scores against the number of models, with the Pareto front, for each task."""
        return draw(pareto_chart(read_selection(self.path)))

    def embeddings(self, trial: str, embedded: Mapping[str, Embedded]) -> "go.Figure":
        """The first two principal components of dev embeddings, coloured by label.

        `sweep.plot.embeddings(*embed_dev(sweep))` loads the best trial's model and draws them.

        Args:
            trial: the name of the trial that `results.page.models.embed_dev` returns.
            embedded: by task, the embeddings that it returns.
        """
        require_trial(trial, [record.trial_id for record in self.records])
        return draw(embeddings_chart(embedded, trial))

    @property
    def searched_score(self) -> SearchedScore:
        """The score that the search maximised."""
        return SearchedScore(name=str((self.info.get("space") or {}).get("metric", OVERALL)), tasks=self.tasks)

    @property
    def keys(self) -> list[SearchedKey]:
        """What was searched."""
        return searched_keys(self.info, self.records)

    @property
    def importances(self) -> dict[str, float]:
        """The importance of each key, the most important first; empty where it is not known."""
        return key_importances(self.records, self.keys, self.searched_score.name)

    @property
    def training(self) -> Training:
        """What the charts of training are drawn from."""
        return training_of(self.curve_rows, self.records, self.tasks, self.read_ranking())

    @cached_property
    def best_epoch_scores(self) -> tuple[dict[str, int], dict[Column, dict[str, float]]]:
        """Each trial's best overall epoch, and the scores there, of `scores_at_best_epochs`."""
        return scores_at_best_epochs(self.records, self.curve_rows, self.tasks)

    def dev_scores(self, task: str) -> dict[str, float]:
        """By trial, the dev score of a task at the best overall epoch; empty where no trial has one yet."""
        return self.best_epoch_scores[1].get((task, "dev"), {})

    def predicted(self, task: str, trial: str | None = None) -> Predicted:
        """A trial's predictions for dev at its best overall epoch; arguments as `predictions`."""
        require_name(task, self.tasks, "task")
        scores = self.dev_scores(task)
        require(bool(scores), f"a trial must have a dev score of {task}", "none yet")
        name = max(scores, key=lambda trial: scores[trial]) if trial is None else trial
        require_trial(name, scores)
        epoch, definition = self.best_epoch_scores[0][name], self.tasks[task]
        ids, labels, logits = stack_predictions(open_folder(self.path), task, "dev", [(name, epoch)])
        title = f"best single model, {name}" if trial is None else name
        return predicted_from(title, definition, ids, labels, outputs_of(definition, logits[0]))


def predicted_from(name: str, task: Task, ids: Sequence[str], labels: Any, outputs: Any) -> Predicted:
    """Predictions from outputs, (rows, width), of `results.ensembles.outputs`."""
    return Predicted(
        name=name,
        task=task,
        ids=ids,
        labels=np.asarray(labels, dtype=np.float64),
        predictions=predictions_of(task, outputs),
        probs=None if task.kind == "regression" else probabilities_of(task, outputs),
    )


def require_comparable(score: SearchedScore, records: Sequence[TrialRecord]) -> None:
    """Raises ValueError if the trials' scores cannot be compared."""
    rule = "scores must be of the same tasks to be compared"
    require(score.is_comparable(records), rule, "overall scores of different tasks")


def named_or_only(name: str | None, known: Mapping[str, Any], what: str) -> Any:
    """The named one, or the only one; ValueError where there is none of this name, or several."""
    require(bool(known), f"there must be a {what}", "none")
    if name is None:
        require(len(known) == 1, f"the {what} must be named where there are several", ", ".join(known))
        return next(iter(known.values()))
    require_name(name, known, what)
    return known[name]


def only_task(chart: Chart, tasks: Mapping[str, Task], task: str | None) -> Chart:
    """A chart with a task's panel alone; all of it if that is None."""
    if task is None:
        return chart
    require_name(task, [*tasks, OVERALL], "task")
    titles = {title_of(task, tasks), score_title(task, tasks), score_described(task, tasks)}
    panels = [panel for panel in chart.panels if panel.title in titles]
    frame = chart.frame[chart.frame["task"] == task]
    return Chart(name=chart.name, title=chart.title, caption=chart.caption, panels=panels, frame=frame)


def draw(chart: Chart) -> "go.Figure":
    """A chart as a Plotly figure; ValueError if there is nothing to draw."""
    from results.figures.plotly_figure import chart_figure  # here: Plotly takes a while to load

    require(not chart.is_empty, f"{chart.title}: there must be something to draw", "no data yet")
    return chart_figure(chart)
