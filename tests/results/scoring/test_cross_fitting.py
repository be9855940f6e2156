"""Cross-fitted scores use members selected without the example, are at chance under noise, and have right errors."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import pearsonr
from sklearn.metrics import accuracy_score

from mtlib.tasks import TASKS, Task
from results.analysis.comparison.bootstrap import Numbers
from results.ensembles.best_k import choose_best_k, choose_single
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Ensemble, ensemble_outputs, equal_ensemble, score_rows
from results.ensembles.greedy import choose_greedy
from results.ensembles.outputs import predictions_of
from results.ensembles.selection_method import Choose, Settings, candidate_scores
from results.ensembles.stacking import choose_weights
from results.scoring.cross_fitting import (
    cross_fit,
)
from tests.results.scoring.plain_selection import all_rows
from tests.results.scoring.simulated_pools import build_pool, peeks

Floats = npt.NDArray[np.float64]

CLASSES, BINARY, REGRESSION = TASKS["sst"], TASKS["qqp"], TASKS["sts"]
METHODS: dict[str, Choose] = {
    "single": choose_single,
    "best k": choose_best_k,
    "weights": choose_weights,
    "greedy": choose_greedy,
}
FAST = Settings(bags=2, num_steps=8, max_models=4)
SKILLS = (0.3, 0.7, 0.5, 0.6)

each_task = pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))
each_method = pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))


def recorded(method: Choose) -> tuple[Choose, list[tuple[Numbers, Ensemble]]]:
    """A method, and a list to which it appends its rows and its ensemble."""
    calls: list[tuple[Numbers, Ensemble]] = []

    def choose(pool: Pool, rows: Numbers, settings: Settings) -> Ensemble:
        calls.append((rows, method(pool, rows, settings)))
        return calls[-1][1]

    return choose, calls


def select_by_all_rows(pool: Pool, _rows: Numbers, _settings: Settings) -> Ensemble:
    """Leaks labels: selects the best candidate on all rows of the pool."""
    return equal_ensemble(np.array([int(candidate_scores(pool, all_rows(pool)).argmax())]))


@each_task
def test_selection_rows_never_contain_the_scored_fold(task: Task) -> None:
    pool, rows = build_pool(task, SKILLS, num_rows=120), np.arange(119, 9, -2)
    method, calls = recorded(choose_single)
    found = cross_fit(pool, method, FAST, rows, num_repeats=3)
    assert len(calls) == 15
    handed = iter(calls)
    for folds in found.folds:
        assert set(folds) == set(range(5))
        for fold in range(5):
            assert sorted(next(handed)[0]) == sorted(rows[folds != fold])


@each_task
def test_every_example_is_predicted_once_per_repeat_by_its_folds_ensemble(task: Task) -> None:
    pool, rows = build_pool(task, SKILLS, num_rows=80), np.random.default_rng(0).permutation(80)[:61]
    method, calls = recorded(choose_greedy)
    found = cross_fit(pool, method, FAST, rows, num_repeats=2)
    assert found.values.shape == found.folds.shape == (2, 61)
    np.testing.assert_array_equal(found.labels, pool.labels[rows])
    for repeat in range(2):
        for column, row in enumerate(rows):
            without = [chosen for handed, chosen in calls[5 * repeat : 5 * repeat + 5] if row not in handed]
            assert len(without) == 1
            outputs = ensemble_outputs(pool, without[0], np.array([row]))
            predicted = float(predictions_of(task, outputs)[0])
            expected = predicted if task is REGRESSION else float(predicted == pool.labels[row])
            assert found.values[repeat, column] == pytest.approx(expected, rel=1e-9)


@each_task
@each_method
def test_folds_ensemble_does_not_depend_on_its_labels(task: Task, method: Choose) -> None:
    pool = build_pool(task, SKILLS, num_rows=50, num_epochs=2)
    watched, calls = recorded(method)
    cross_fit(pool, watched, FAST, all_rows(pool))
    assert not any(peeks(method, pool, rows, FAST) for rows, _ in calls[:2])
    assert any(peeks(select_by_all_rows, pool, rows, FAST) for rows, _ in calls)


def noise_scores(task: Task, method: Choose) -> tuple[Floats, Floats]:
    """In-sample and cross-fitted scores of 16 pools of noise, relative to chance."""
    chance = {"classes": 0.2, "binary": 0.5, "regression": 0.0}[task.kind]
    in_sample, cross_fitted = [], []
    for seed in range(16):
        pool = build_pool(task, [0.0] * 10, num_rows=100, num_epochs=2, correlation=0.2, seed=seed)
        rows = all_rows(pool)
        chosen = method(pool, rows, FAST)
        in_sample.append(score_rows(pool, ensemble_outputs(pool, chosen, rows), rows) - chance)
        cross_fitted.append(cross_fit(pool, method, FAST, rows).score - chance)
    return np.array(in_sample), np.array(cross_fitted)


@each_task
@each_method
def test_cross_fitted_score_of_noise_is_at_chance(task: Task, method: Choose) -> None:
    in_sample, cross_fitted = noise_scores(task, method)
    error = cross_fitted.std(ddof=1) / np.sqrt(16)
    assert abs(cross_fitted.mean()) < 3 * error < 0.15
    assert in_sample.mean() > 0.03
    optimism = in_sample - cross_fitted
    assert optimism.mean() > 3 * optimism.std(ddof=1) / np.sqrt(16)


@each_task
def test_leaking_method_is_above_chance_even_here(task: Task) -> None:
    _, cross_fitted = noise_scores(task, select_by_all_rows)
    assert cross_fitted.mean() > 4 * cross_fitted.std(ddof=1) / np.sqrt(16)


@each_method
def test_cross_fitted_score_is_that_on_new_examples(method: Choose) -> None:
    """On average over pools, up to what the missing fifth of the examples would have added."""
    for task in (CLASSES, BINARY):
        differences = []
        for seed in range(8):
            pool = build_pool(task, [0.6] * 8, num_rows=2100, correlation=0.3, seed=seed)
            rows, new = np.arange(100), np.arange(100, 2100)
            truth = score_rows(pool, ensemble_outputs(pool, method(pool, rows, FAST), new), new)
            differences.append(cross_fit(pool, method, FAST, rows).score - truth)
        assert abs(np.mean(differences)) < 3 * np.std(differences, ddof=1) / np.sqrt(8)


@pytest.mark.parametrize("task", [CLASSES, BINARY])
def test_score_is_the_accuracy_over_all_examples_averaged_over_repeats(task: Task) -> None:
    pool, rows = build_pool(task, SKILLS, num_rows=53), np.arange(53)
    method, calls = recorded(choose_single)
    found = cross_fit(pool, method, FAST, rows, num_repeats=3)
    scores = []
    for repeat in range(3):
        predicted = np.empty(53)
        for handed, chosen in calls[5 * repeat : 5 * repeat + 5]:
            inside = np.setdiff1d(rows, handed)
            predicted[inside] = predictions_of(task, ensemble_outputs(pool, chosen, inside))
        scores.append(accuracy_score(pool.labels, predicted))
    assert found.score == pytest.approx(np.mean(scores), rel=1e-12)


def test_regression_score_is_pearson_per_fold_averaged_by_size() -> None:
    pool = build_pool(REGRESSION, SKILLS, num_rows=53)
    found = cross_fit(pool, choose_greedy, FAST, all_rows(pool), num_repeats=3)
    scores, sizes = [], []
    for values, folds in zip(found.values, found.folds, strict=True):
        for fold in range(5):
            rows = folds == fold
            scores.append(pearsonr(values[rows], pool.labels[rows]).statistic)
            sizes.append(rows.sum())
    assert sorted(set(sizes)) == [10, 11]
    assert found.score == pytest.approx(np.average(scores, weights=sizes), rel=1e-9)


@each_task
def test_equal_seeds_give_equal_scores_and_repeats_have_different_folds(task: Task) -> None:
    pool = build_pool(task, SKILLS)
    first, again, other = (
        cross_fit(pool, choose_greedy, replace(FAST, seed=seed), all_rows(pool), num_repeats=2) for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first.values, again.values)
    np.testing.assert_array_equal(first.folds, again.folds)
    assert (first.folds != other.folds).any()
    assert (first.folds[0] != first.folds[1]).any()


@each_task
def test_methods_are_scored_on_the_same_folds(task: Task) -> None:
    pool = build_pool(task, SKILLS)
    first, second = (cross_fit(pool, method, FAST, all_rows(pool)) for method in (choose_single, choose_weights))
    np.testing.assert_array_equal(first.folds, second.folds)


@each_task
@each_method
@pytest.mark.parametrize("num_rows", [2, 3, 4])
def test_few_examples_make_fewer_folds(task: Task, method: Choose, num_rows: int) -> None:
    pool = build_pool(task, SKILLS)
    found = cross_fit(pool, method, FAST, np.arange(num_rows))
    assert sorted(set(found.folds[0])) == list(range(2 if task is REGRESSION else num_rows))
    assert np.isfinite([found.score, found.standard_error]).all()


@pytest.mark.parametrize(("num_rows", "num_folds"), [(1, 5), (10, 1)])
def test_one_example_or_one_fold_is_refused(num_rows: int, num_folds: int) -> None:
    with pytest.raises(ValueError, match="at least 2 folds"):
        cross_fit(build_pool(BINARY, SKILLS), choose_single, replace(FAST, num_folds=num_folds), np.arange(num_rows))
