"""Stacking weights against scipy, with the shrinkage found by an exhaustive search over folds."""

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import minimize

from mtlib.tasks import TASKS, Task
from results.ensembles import stacking as weighting
from results.ensembles.ensemble import weighted_ensemble
from results.ensembles.outputs import probabilities_of
from results.ensembles.selection_method import best_candidates, inner_folds
from results.ensembles.stacking import (
    SHRINKAGES,
    choose_weights,
    fit_weights,
    least_squares,
    mixture,
    right_probabilities,
)
from tests.results.ensembles.simulated_pools import FAST, SEVERAL, SKILLS, build_pool, each_task, few_seeds
from tests.results.selection.plain_selection import all_rows, mixture_loss, optimal_mixture, plain_score

Floats = npt.NDArray[np.float64]

CLASSES, BINARY, REGRESSION = TASKS["sst"], TASKS["qqp"], TASKS["sts"]


@pytest.mark.parametrize("task", [CLASSES, BINARY])
def test_probability_of_the_label_is_that_of_its_class(task: Task) -> None:
    pool, rows = build_pool(task, SKILLS), np.array([4, 9, 77])
    probs = probabilities_of(task, pool.outputs)
    expected = [[probs[member, row, int(pool.labels[row])] for row in rows] for member in (5, 2)]
    np.testing.assert_allclose(right_probabilities(pool, np.array([5, 2]), rows), expected, rtol=1e-6)


def test_each_of_several_labels_has_a_probability() -> None:
    pool, rows = build_pool(SEVERAL, SKILLS), np.array([4, 9, 77])
    probs = probabilities_of(SEVERAL, pool.outputs[[5, 2]][:, rows])
    expected = np.where(pool.labels[rows] == 1, probs, 1 - probs).reshape(2, -1)
    np.testing.assert_allclose(right_probabilities(pool, np.array([5, 2]), rows), expected, rtol=1e-6)


@pytest.mark.parametrize("task", [CLASSES, BINARY])
@pytest.mark.parametrize("shrinkage", [1.0, 0.3, 0.1, 0.03, 0.0])
@few_seeds
def test_mixture_weights_match_scipy(task: Task, shrinkage: float, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weighting, "NUM_ROUNDS", 3000)
    pool = build_pool(task, SKILLS[:4], num_rows=150, seed=seed)
    probs = right_probabilities(pool, np.arange(4), all_rows(pool))
    np.testing.assert_allclose(mixture(probs, [shrinkage])[0], optimal_mixture(probs, shrinkage), atol=2e-5)


@pytest.mark.parametrize(("shrinkage", "share"), [(1.0, 1e-6), (0.1, 1e-4), (0.0, 0.1)])
@few_seeds
def test_iterations_are_close_to_the_optimum(shrinkage: float, share: float, seed: int) -> None:
    pool = build_pool(BINARY, SKILLS[:4], num_rows=150, seed=seed)
    probs = right_probabilities(pool, np.arange(4), all_rows(pool))
    found, best, equal = (
        mixture_loss(probs, shrinkage, weights)
        for weights in (mixture(probs, [shrinkage])[0], optimal_mixture(probs, shrinkage), np.full(4, 0.25))
    )
    assert best - 1e-9 <= found < best + share * (equal - best)


def test_rows_with_probability_zero_change_no_weight() -> None:
    probs = np.array([[0.9, 0.8, 0.3], [0.2, 0.9, 0.4]])
    impossible = np.concatenate([probs, np.zeros((2, 1))], axis=1)
    assert np.isfinite(mixture(impossible, [0.0])[0]).all()
    np.testing.assert_allclose(mixture(np.zeros((3, 5)), [0.0])[0], np.full(3, 1 / 3))


@pytest.mark.parametrize("shrinkage", [1.0, 0.1, 0.03, 0.0])
@pytest.mark.parametrize("skills", [SKILLS[:5], (0.5, -0.9, -0.8, -0.9, 0.6)])
@few_seeds
def test_regression_weights_match_scipy(shrinkage: float, skills: tuple[float, ...], seed: int) -> None:
    pool = build_pool(REGRESSION, skills, num_rows=80, correlation=0.2, seed=seed)
    x = pool.values.astype(np.float64) - pool.values.mean(1, keepdims=True, dtype=np.float64)
    y = pool.labels - pool.labels.mean()
    slope = max(0.0, np.polyfit(x.mean(0), y, 1)[0])
    ridge = shrinkage * (x * x).sum() / 5

    def loss(w: Floats) -> float:
        return float(((y - w @ x) ** 2).sum() + ridge * ((w - slope / 5) ** 2).sum())

    found = minimize(loss, np.full(5, 0.2), method="SLSQP", bounds=[(0, None)] * 5, tol=1e-14).x
    expected = found / found.sum()
    np.testing.assert_allclose(least_squares(pool.values.astype(float), pool.labels, shrinkage), expected, atol=2e-4)


@each_task
def test_stronger_shrinkage_gives_more_equal_weights(task: Task) -> None:
    pool = build_pool(task, SKILLS)
    fits = fit_weights(pool, np.arange(6), all_rows(pool), SHRINKAGES)
    distances = [float(np.abs(fit - 1 / 6).sum()) for fit in fits]
    assert distances[0] == 0
    assert distances == sorted(distances)
    assert distances[-1] > 0.3
    assert all(fit.sum() == pytest.approx(1) and fit.min() >= 0 for fit in fits)


@each_task
@few_seeds
def test_shrinkage_matches_an_exhaustive_search_over_folds(task: Task, seed: int) -> None:
    pool, scores = build_pool(task, SKILLS, num_rows=60, seed=seed), []
    for shrinkage in SHRINKAGES:
        score = 0.0
        for outside, inside in inner_folds(pool, all_rows(pool), FAST):
            members = best_candidates(pool, outside)[: FAST.max_models]
            (weights,) = fit_weights(pool, members, outside, [shrinkage])
            chosen = weighted_ensemble(members, weights, FAST.max_models)
            score += len(inside) * plain_score(pool, chosen, inside)
        scores.append(score)
    shrinkage = SHRINKAGES[int(np.flatnonzero(np.array(scores) > max(scores) - 1e-9)[0])]
    members = best_candidates(pool, all_rows(pool))[: FAST.max_models]
    (weights,) = fit_weights(pool, members, all_rows(pool), [shrinkage])
    assert choose_weights(pool, all_rows(pool), FAST) == weighted_ensemble(members, weights, FAST.max_models)
