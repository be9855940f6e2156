"""Is one student as good as the ensembles? Scores side by side, with intervals that know training and examples."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

from mtlib.runtime.command_line import counted
from mtlib.runtime.console import PrintedTable
from mtlib.tasks import Task, overall_score, title_of, value_of
from results.records.trials import OVERALL
from results.stats.groups import drawn_groups
from results.stats.resampling import CONFIDENCE, Floats, bootstrap_scores, score_examples


@dataclass(frozen=True, kw_only=True)
class Scored:
    """Scores of what can be deployed, on one set of examples a task."""

    scores: Mapping[str, Floats]
    """(replicates,) by task, and overall; an ensemble has one."""
    resampled: Mapping[str, Floats]
    """(replicates, resamples) likewise."""
    degrees: float = math.inf
    """Fewest degrees of freedom of a task's variance over examples; 0 where some are in too few groups."""

    def mean(self, name: str) -> float:
        """Returns the mean score over replicates."""
        return float(self.scores[name].mean())

    def cell(self, name: str) -> tuple[float, float]:
        """Returns the mean score and its standard error over examples."""
        return self.mean(name), float(self.resampled[name].mean(axis=0).std(ddof=1))


@dataclass(frozen=True, kw_only=True)
class ScoreDifference:
    """A mean difference of two scores and its 95 % interval."""

    value: float
    low: float
    high: float
    knows_training: bool
    """Whether the interval covers training again; otherwise it covers other examples alone."""


def scored(
    values: Mapping[str, Floats],
    labels: Mapping[str, Floats],
    groups: Mapping[str, np.ndarray],
    tasks: Mapping[str, Task],
) -> Scored:
    """Scores and resampled scores of what has predicted the examples of all tasks, on the same resamples each time.

    Args:
        values: by task what its metric reads, (replicates, rows) or (replicates, rows, num_classes).
        labels: by task.
        groups: by task, (rows,) the group that each row is drawn with.
        tasks: the definitions.
    """
    scores = {name: score_examples(tasks[name], found, labels[name]) for name, found in values.items()}
    resampled = {
        name: bootstrap_scores(tasks[name], found, labels[name], groups=groups[name]) for name, found in values.items()
    }
    influences = {name: tasks[name].metric_entry.influences(own[:1], labels[name]) for name, own in values.items()}
    return Scored(
        scores={**scores, OVERALL: overall_score_of_each(scores, tasks)},
        resampled={**resampled, OVERALL: overall_score_of_each(resampled, tasks)},
        degrees=min(drawn_groups(own, groups[name]).degrees_of_mean(np.arange(1)) for name, own in influences.items()),
    )


def overall_score_of_each(scores: Mapping[str, Floats], tasks: Mapping[str, Task]) -> Floats:
    """Returns the overall score of arrays of scores, element by element."""
    overall = np.vectorize(lambda *own: overall_score(dict(zip(scores, own, strict=True)), tasks))
    return np.asarray(overall(*scores.values()))


def difference(first: Scored, second: Scored, name: str) -> ScoreDifference:
    """Returns the mean score of one less that of another, paired by examples.

    The variance is that over examples of the mean difference, by the bootstrap, plus that of each mean over its
    replicates; the degrees of freedom are Satterthwaite's, and the interval is infinite where examples are in too few
    groups. One that was trained once counts as it is: nothing is known
    of another training of it.

    Args:
        first, second: scored on the same examples.
        name: a task, or overall.

    Source: Satterthwaite 1946.
    """
    over_examples = np.var(first.resampled[name].mean(axis=0) - second.resampled[name].mean(axis=0), ddof=1)
    repeated = [own.scores[name] for own in (first, second) if len(own.scores[name]) > 1]
    over_trainings = [np.var(scores, ddof=1) / len(scores) for scores in repeated]
    total = float(over_examples + sum(over_trainings))
    pairs = zip(over_trainings, repeated, strict=True)
    spread = float(sum(variance**2 / (len(scores) - 1) for variance, scores in pairs))
    spread += float(over_examples) ** 2 / first.degrees if first.degrees else math.inf
    degrees = total**2 / spread if spread > 0 else np.inf
    half = float(student_t.ppf((1 + CONFIDENCE) / 2, degrees)) * total**0.5 if degrees else math.inf
    value = first.mean(name) - second.mean(name)
    return ScoreDifference(value=value, low=value - half, high=value + half, knows_training=bool(repeated))


def independent_difference(
    first: tuple[float, float], second: tuple[float, float], *, knows_training: bool, degrees: float = math.inf
) -> ScoreDifference:
    """Returns the difference of two scores, each with its standard error, as if of different examples: a wide interval.

    Args:
        first, second: of the scores.
        knows_training: whether the errors have the variance of training again.
        degrees: of freedom of the variance over examples; 0 where these are in too few groups.
    """
    value, error = first[0] - second[0], float(np.hypot(first[1], second[1]))
    half = float(student_t.ppf((1 + CONFIDENCE) / 2, degrees)) * error if degrees else math.inf
    return ScoreDifference(value=value, low=value - half, high=value + half, knows_training=knows_training)


def distillation_verdict(differences: Sequence[ScoreDifference], models: int, share: float) -> list[str]:
    """Says what overall scores show, in sentences.

    Args:
        differences: of the ensembles from the best single model, of the student from it, of the student from the
            ensembles; and, where there is one, of the student from one that labels alone have taught.
        models: of the ensembles.
        share: the student's parameters over those of the ensembles.
    """
    gain, own, behind, *untaught = differences
    sentences = [f"Overall the ensembles differ by {interval_text(gain)} from the best single model."]
    sentences.append(
        f"The student differs by {interval_text(own)} from it, and by {interval_text(behind)} from the ensembles."
    )
    if own.low > 0 and gain.value > 0:
        saved = f"with {share:.0%} of the parameters of their {counted(models, 'model')}"
        sentences.append(f"It has {own.value / gain.value:.0%} of their gain, {saved}.")
    elif own.high < 0:
        sentences.append("It is worse than the best single model: deploy that one.")
    else:
        sentences.append("It is not shown to gain anything over the best single model.")
    sentences += [
        f"Its teachers are worth {interval_text(found)}: so much it differs from one by labels alone."
        for found in untaught
    ]
    if not own.knows_training:
        sentences.append("The student was trained once: how far another training would move it is not known.")
    return sentences


def interval_text(found: ScoreDifference) -> str:
    """Returns a difference with its interval."""
    if math.isinf(found.high):
        return f"{found.value:+.3f} (how surely is not known: rows are in too few groups)"
    return f"{found.value:+.3f} ({found.low:+.3f} to {found.high:+.3f})"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What it takes to predict all tasks."""

    num_models: int
    num_parameters: int
    rows_per_second: float


def score_table(
    titles: Sequence[str],
    costs: Sequence[Cost],
    cells: Sequence[Mapping[str, tuple[float, float]]],
    tasks: Mapping[str, Task],
) -> PrintedTable:
    """What can be deployed, a row each, with what it costs and its scores side by side, as their metrics have them.

    Args:
        titles, costs: of each.
        cells: of each, score and standard error by task, and overall; the error is shown below the score.
        tasks: the definitions.
    """
    rows = [
        [
            title,
            str(cost.num_models),
            f"{cost.num_parameters / 1e6:,.1f}",
            f"{cost.rows_per_second:,.0f}",
            *([f"{value_of(name, own[name][0], tasks):.3f}", f"±{own[name][1]:.3f}"] for name in (*tasks, OVERALL)),
        ]
        for title, cost, own in zip(titles, costs, cells, strict=True)
    ]
    heads = ["", "models", ["million", "parameters"], "rows/s", *(title_of(name, tasks) for name in (*tasks, OVERALL))]
    return PrintedTable(titles=heads, rows=rows, numbers=range(1, len(heads)))
