"""An honest score of a way to choose: each example is judged by what was chosen without it.

Everything that is chosen is chosen anew outside each fold. The estimate is of what the method chooses from so many
fewer examples, so it is a little too low; what a search or a scheduler has seen of all examples it cannot undo.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm

from mtlib.tasks import Task
from results.ensembles.best_k import Method, Settings
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Combine, ensemble_outputs
from results.ensembles.folds import assign_folds, count_folds, iter_folds
from results.ensembles.outputs import values_of
from results.ranking.bootstrap import (
    CONFIDENCE,
    NUM_RESAMPLES,
    Floats,
    Numbers,
    draw_counts,
    score_examples,
    variance,
    weighted_pearson,
)

CHOICE_FACTOR = 2.0
"""With it 95 % intervals covered the true score of what was chosen automatically in 93 to 95 of 100 simulated sweeps,
of the best single model in 92 to 95, of what other ways chose in 94 to 97 (`benchmarks/selection.py`: 9 kinds, 2,000 of
each, two repeats); without it in as few as 87 (20 kinds, 300 of each), where one of many like candidates is chosen."""

NUM_FITTED = 4
"""Two means and two variances: what a correlation is fitted with. With them the variance of that of two normal
variables comes out within 5 % of the truth on 20 examples and more, without them up to 22 % too small."""

ZERO_SPREAD = 1e-12
"""A spread of resampled scores that is no larger is none."""


@dataclass(frozen=True, kw_only=True)
class CrossFitted:
    """What ensembles that were chosen without an example came to on it."""

    task: Task
    labels: Floats
    """(rows,)."""
    values: Floats
    """(repeats, rows): what each example adds to the score, from `results.ensembles.outputs.values_of`."""
    folds: Numbers
    """(repeats, rows): which fold each example was in."""

    @property
    def score(self) -> float:
        """The main metric: over all examples, or for a correlation in each fold, averaged by size; over repeats."""
        return float(
            np.average([part.score for part in self.parts()], weights=[len(part.rows) for part in self.parts()])
        )

    @property
    def repeats(self) -> "list[CrossFitted]":
        """Each repeat by itself."""
        pairs = zip(self.values[:, None], self.folds[:, None], strict=True)
        return [replace(self, values=values, folds=folds) for values, folds in pairs]

    @property
    def influences(self) -> Floats:
        """By how much each example moves the score of each repeat, (repeats, rows); the mean of a repeat's is 0.

        For accuracy whether it is right, less the accuracy. For a correlation r in a fold, with both sides standardised
        there, x y - r (x^2 + y^2) / 2 (Devlin, Gnanadesikan and Kettenring 1975), times the root of n / (n - 4) for its
        n examples: see `NUM_FITTED`.
        """
        total = np.zeros(self.values.shape)
        for own, repeat in zip(total, self.repeats, strict=True):
            for part in repeat.parts():
                own[part.rows] = part.influences
        return total

    @property
    def standard_error(self) -> float:
        """Of the score: over examples, and over what is chosen.

        Of an accuracy near 0 or 1 it is at least that of 2 examples of n + 4 (Agresti and Coull 1998): where all are
        right, that none is wrong has been seen n times and no more.
        """
        found = total_error(self.influences, np.array([repeat.score for repeat in self.repeats]))
        share = 2 / (len(self.labels) + 4)
        least = 0.0 if self.task.metric == "pearson" else float(np.sqrt(share * (1 - share) / len(self.labels)))
        return max(found, least)

    def parts(self) -> Iterator["ScoredRows"]:
        """Every fold of every repeat; for accuracy every repeat whole."""
        for values, folds in zip(self.values, self.folds, strict=True):
            for fold in range(int(folds.max()) + 1) if self.task.metric == "pearson" else [None]:
                rows = np.arange(len(folds)) if fold is None else np.flatnonzero(folds == fold)
                yield ScoredRows(task=self.task, rows=rows, values=values[rows], labels=self.labels[rows])


def total_error(influences: Floats, scores: Floats) -> float:
    """The standard error of a cross-fitted score, or of the difference of two, as that of what is chosen in the end.

    The variance over examples is that of a single repeat: what is chosen in the end is one ensemble, not the mean of
    those of all repeats. What is chosen varies as well, and with it its true score. That shows in how scores differ
    between repeats; `CHOICE_FACTOR` times their variance is added.

    Args:
        influences: (repeats, rows), of which each repeat's mean is 0.
        scores: (repeats,).
    """
    choice = CHOICE_FACTOR * scores.var(ddof=1) if len(scores) > 1 else 0.0
    return float(np.sqrt(example_error(influences) ** 2 + choice))


def example_error(influences: Floats) -> float:
    """The standard error over examples alone, of a single repeat, from influences, (repeats, rows)."""
    return float(np.sqrt((influences**2).mean() / influences.shape[1]))


@dataclass(frozen=True, kw_only=True)
class ScoredRows:
    """Examples that are scored together."""

    task: Task
    rows: Numbers
    values: Floats
    labels: Floats

    @property
    def score(self) -> float:
        """Their main metric."""
        return float(score_examples(self.task, self.values[None], self.labels)[0])

    @property
    def influences(self) -> Floats:
        """As `CrossFitted.influences`."""
        if self.task.metric != "pearson":
            return np.asarray(self.values - self.values.mean())
        x, y = (standardised(side) for side in (self.values, self.labels))
        derivatives, count = x * y - self.score * (x * x + y * y) / 2, len(self.values)
        return np.asarray(derivatives * np.sqrt(count / max(1, count - NUM_FITTED)))


def standardised(values: Floats) -> Floats:
    """Values with mean 0 and variance 1; zeros if they are constant, up to rounding."""
    centred = values - values.mean()
    scale = np.sqrt(variance(np.mean(centred**2), np.mean(centred)))
    return np.asarray(centred / scale if scale > 0 else centred * 0)


def cross_fit(
    pool: Pool,
    method: Method,
    settings: Settings,
    rows: Numbers,
    *,
    num_repeats: int = 1,
    combine: Combine = ensemble_outputs,
) -> CrossFitted:
    """Scores a method by cross-fitting on some rows of a pool.

    Args:
        pool: the candidates.
        method: chooses an ensemble from some of the rows.
        settings: what the method is told; `num_folds` and `seed` are those of this cross-fitting too.
        rows: (rows,) numbers of examples, each once.
        num_repeats: how often, at least 1, with other folds each time.
        combine: gives the outputs of what was chosen on some rows, (rows, width).

    Raises:
        ValueError: fewer than 2 examples or folds.
    """
    generator = np.random.default_rng((settings.seed, len(rows), 1))
    labels, values, folds = pool.labels[rows], [], []
    for _ in range(num_repeats):
        folds.append(assign_folds(labels, count_folds(pool.task, len(rows), settings.num_folds), generator))
        found = np.empty(len(rows))
        for outside, inside in iter_folds(folds[-1]):
            chosen = method(pool, rows[outside], settings)
            outputs = combine(pool, chosen, rows[inside])
            found[inside] = values_of(pool.task, outputs, labels[inside])
        values.append(found)
    return CrossFitted(task=pool.task, labels=labels, values=np.stack(values), folds=np.stack(folds))


def bootstrap(found: CrossFitted, *, num_resamples: int = NUM_RESAMPLES, seed: int = 0) -> Floats:
    """The score on resampled examples, (resamples,); for a task, equal seeds and rows give equal resamples."""
    blocks = draw_counts(len(found.labels), num_resamples, (seed, zlib.crc32(found.task.name.encode()), 2))
    return np.concatenate([score_resamples(found, counts) for counts in blocks])


def score_resamples(found: CrossFitted, counts: Floats) -> Floats:
    """The score where examples are counted several times or not at all, (resamples, rows) -> (resamples,)."""
    if found.task.metric != "pearson":
        return np.asarray(counts @ found.values.mean(0) / counts.sum(1))
    total, weights = np.zeros(len(counts)), np.zeros(len(counts))
    for part in found.parts():
        own = counts[:, part.rows]
        held = own.sum(1)
        some = held > 0  # a small part may have none of its examples in a resample
        total[some] += held[some] * weighted_pearson(own[some], part.values[None], part.labels)[0]
        weights += held
    return total / weights


def interval(resampled: Floats, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The percentile interval of resampled scores."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(resampled, (tail, 1 - tail))
    return float(low), float(high)


def widened(resampled: Floats, score: float, error: float) -> Floats:
    """Resampled scores about a score, stretched to a standard error: they do not know how what is chosen varies.

    Where they do not move at all, they are those of a normal distribution.
    """
    around, spread = resampled - resampled.mean(), resampled.std(ddof=1)
    if spread <= ZERO_SPREAD:
        around = norm.ppf((np.arange(len(resampled)) + 0.5) / len(resampled))
        spread = around.std(ddof=1)
    return np.asarray(score + around * (error / spread))


def compare(first: CrossFitted, second: CrossFitted) -> tuple[float, float]:
    """How much better the first is, and the standard error of that; both are paired, example by example.

    Args:
        first, second: of the same examples and with as many repeats.
    """
    scores = np.array([[repeat.score for repeat in found.repeats] for found in (first, second)])
    return first.score - second.score, total_error(first.influences - second.influences, scores[0] - scores[1])
