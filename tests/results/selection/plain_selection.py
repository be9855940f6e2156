"""Selection implemented plainly and slowly from outputs, by scikit-learn, scipy and the text of the paper."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import softmax
from scipy.stats import pearsonr
from sklearn.metrics import accuracy_score, f1_score

from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Ensemble
from results.ensembles.outputs import Outputs, probabilities_of
from results.ensembles.selection_method import Settings
from results.records.selection import MethodScore
from results.stats.resampling import Numbers

Floats = npt.NDArray[np.float64]


def all_rows(pool: Pool) -> Numbers:
    return np.arange(len(pool.labels))


def without_leads(*scores: MethodScore) -> tuple[MethodScore, ...]:
    """Scores without the intervals of their leads, which depend on how many methods are compared."""
    return tuple(replace(score, lead_interval=(), base_lead_interval=()) for score in scores)


def all_margins(pool: Pool) -> Outputs:
    return pool.margins(np.arange(len(pool.candidates)), all_rows(pool))


def mean_score(pool: Pool, counts: Floats, rows: Numbers) -> float:
    """The score of a weighted mean of outputs, by scikit-learn and scipy."""
    mean = np.tensordot(counts / counts.sum(), pool.outputs.astype(np.float64), axes=1)[rows]
    if pool.task.kind == "regression":
        return float(pearsonr(mean[:, 0], pool.labels[rows]).statistic)
    if pool.task.kind_entry.has_several_labels:
        return float(f1_score(pool.labels[rows], mean > 0, average="micro"))
    return float(accuracy_score(pool.labels[rows], probabilities_of(pool.task, mean).argmax(1)))


def counts_of(pool: Pool, ensemble: Ensemble) -> Floats:
    """Weights of all candidates."""
    counts = np.zeros(len(pool.candidates))
    counts[list(ensemble.members)] = ensemble.weights
    return counts


def plain_score(pool: Pool, ensemble: Ensemble, rows: Numbers | None = None) -> float:
    """An ensemble's score on some rows, or on all."""
    return mean_score(pool, counts_of(pool, ensemble), all_rows(pool) if rows is None else rows)


def select_as_in_paper(pool: Pool, library: list[int], rows: Numbers, settings: Settings) -> Floats:
    """Caruana et al. (2004), sections 2 and 2.1 to 2.2, line by line: how often each candidate is in the ensemble.

    "1. Start with the empty ensemble. 2. Add to the ensemble the model in the library that maximizes the ensemble's
    performance [...]. 3. Repeat Step 2 for a fixed number of iterations [...]. 4. Return the ensemble from the nested
    set of ensembles that has maximum performance." With replacement; sorted initialisation puts the best N in first,
    where N is the number that does best. Our own: no more than `max_models` different ones.
    """

    def performance(ensemble: list[int]) -> float:
        return mean_score(pool, np.bincount(ensemble, minlength=len(pool.candidates)).astype(np.float64), rows)

    models = sorted(library, key=lambda model: -performance([model]))
    starts = [models[:size] for size in range(1, min(settings.max_models, len(models)) + 1)]
    ensemble = max(starts, key=performance)
    nested = [ensemble]
    while len(ensemble) < settings.num_steps:
        allowed = models if len(set(ensemble)) < settings.max_models else [one for one in models if one in ensemble]
        ensemble = max(([*ensemble, model] for model in allowed), key=performance)
        nested.append(ensemble)
    return np.bincount(max(nested, key=performance), minlength=len(pool.candidates)).astype(np.float64)


def mixture_loss(probs: Floats, shrinkage: float, weights: Floats) -> float:
    """The negative log of likelihood and Dirichlet prior, per row."""
    prior = shrinkage / len(probs) * np.log(weights).sum() if shrinkage else 0.0
    return float(-np.log(weights @ probs).mean() - prior)


def optimal_mixture(probs: Floats, shrinkage: float) -> Floats:
    """The weights that minimize `mixture_loss`, by scipy, over their logits.

    With the exact gradient: from differences of the loss BFGS ends 1e-4 away from the optimum on some processors.
    """

    def loss(logits: Floats) -> float:
        return mixture_loss(probs, shrinkage, softmax(logits))

    def loss_gradient(logits: Floats) -> Floats:
        weights = softmax(logits)
        by_weight = -(probs / (weights @ probs)).mean(axis=1)
        gradient: Floats = weights * (by_weight - weights @ by_weight) - shrinkage * (1 / len(probs) - weights)
        return gradient

    equal = np.zeros(len(probs))
    found = minimize(loss, equal, jac=loss_gradient, method="BFGS", options={"gtol": 1e-9, "maxiter": 2000})
    return np.asarray(softmax(found.x))
