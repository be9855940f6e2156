"""Stacking: non-negative weights of the best trials, shrunk towards equal weights."""

from collections.abc import Sequence

import numpy as np

from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Ensemble, weighted_ensemble
from results.ensembles.outputs import signs
from results.ensembles.selection_method import Settings, best_candidates, inner_folds, sum_scores
from results.stats.resampling import Floats, Numbers

SHRINKAGES = (np.inf, 1.0, 0.3, 0.1, 0.03, 0.0)
"""Shrinkages towards equal weights that are tried, the strongest first; infinity: equal weights.
They are about a factor of 3 apart."""


def choose_weights(pool: Pool, rows: Numbers, settings: Settings) -> Ensemble:
    """Non-negative weights of the best `max_models` trials, with a shrinkage towards equal weights tuned by folds.

    Classification: the weights of a mixture under a Dirichlet prior worth `shrinkage` times the number of rows, by
    expectation maximisation. Regression: least squares with a ridge around equal weights. Of shrinkages with equal
    scores the strongest is taken.

    Source: stacking with non-negative weights, Breiman (1996), "Stacked regressions".
    """
    scores = np.zeros(len(SHRINKAGES))
    for outside, inside in inner_folds(pool, rows, settings):
        members = best_candidates(pool, outside)[: settings.max_models]
        margins = pool.margins(members, inside)
        fits = fit_weights(pool, members, outside, SHRINKAGES)
        sums = np.tensordot(fits.astype(np.float32), margins, axes=1)
        scores += len(inside) * sum_scores(pool, sums, inside)
    members = best_candidates(pool, rows)[: settings.max_models]
    (weights,) = fit_weights(pool, members, rows, [SHRINKAGES[int(scores.argmax())]])
    return weighted_ensemble(members, weights, settings.max_models)


def fit_weights(pool: Pool, members: Numbers, rows: Numbers, shrinkages: Sequence[float]) -> Floats:
    """Weights of members under each shrinkage, (shrinkages, members); the sum of each row is 1."""
    found = np.full((len(shrinkages), len(members)), 1 / len(members))
    is_finite = np.isfinite(shrinkages)
    if len(members) == 1 or not is_finite.any():
        return found
    finite = [shrinkage for shrinkage in shrinkages if np.isfinite(shrinkage)]
    if pool.task.is_regression:
        values, labels = pool.values[members][:, rows].astype(np.float64), pool.labels[rows]
        found[is_finite] = [least_squares(values, labels, shrinkage) for shrinkage in finite]
    else:
        found[is_finite] = mixture(right_probabilities(pool, members, rows), finite)
    return found


def right_probabilities(pool: Pool, members: Numbers, rows: Numbers) -> Floats:
    """Returns each member's probability of the label, (members, rows);
    of each of several labels, (members, rows * labels)."""
    outputs = pool.outputs[members][:, rows].astype(np.float64)
    if pool.task.kind_entry.link == "sigmoid":
        return (1 + outputs.reshape(len(members), -1) * signs(pool.labels[rows]).reshape(-1)) / 2
    right = pool.labels[rows].astype(int)
    return np.take_along_axis(outputs, right[None, :, None], axis=2)[:, :, 0]


NUM_ROUNDS = 50
"""Rounds of expectation maximisation; `mixture` says how far from the optimum they end."""


def mixture(probs: Floats, shrinkages: Sequence[float]) -> Floats:
    """Weights of a mixture under each shrinkage, (shrinkages, members), from the probability of what was observed.

    The rounds start from equal weights and end short of the optimum: of the gain over equal weights at most 0.2 % is
    missing at a shrinkage of 0.1 and above, 3 % at 0.03 and 11 % at 0 (simulated pools of 4 to 10 members and 150 to
    1000 rows). A shrinkage of 0 is therefore a small one in effect.

    Args:
        probs: (members, rows).
        shrinkages: finite.
    """
    num_members, num_rows = probs.shape
    probs = np.maximum(probs, np.finfo(float).tiny)
    weights = np.full((len(shrinkages), num_members), 1 / num_members)
    prior = np.array(shrinkages)[:, None] * num_rows / num_members
    for _ in range(NUM_ROUNDS):
        found = weights * ((1 / (weights @ probs)) @ probs.T) + prior
        weights = found / found.sum(1, keepdims=True)
    return weights


def least_squares(values: Floats, labels: Floats, shrinkage: float) -> Floats:
    """Weights of predictions, (members,), from those predictions, (members, rows), and labels.

    With x and y centred and M members, the w >= 0 that minimises
    |y - w x|^2 + shrinkage |x|^2 / M |w - b / M|^2,
    where b is the slope of y on the mean prediction, at least 0; divided by its sum. Centring hides a
    shift of predictions: shifted ones must be left out before, as `best_candidates` does.
    """
    from scipy.optimize import nnls  # here: it takes half a second, which a sweep need not wait for at its start

    x, y = values - values.mean(1, keepdims=True), labels - labels.mean()
    mean = x.mean(0)
    slope = max(0.0, float(mean @ y) / max(float(mean @ mean), np.finfo(float).tiny))
    ridge = np.sqrt(shrinkage * (x * x).sum() / len(x))
    rows = np.concatenate([x.T, ridge * np.eye(len(x))])
    weights, _ = nnls(rows, np.concatenate([y, np.full(len(x), ridge * slope / len(x))]))
    total = weights.sum()
    return np.asarray(weights / total if total > 0 else np.full(len(x), 1 / len(x)))
