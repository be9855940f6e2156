"""Cross-fitted scores use members selected without the example, are at chance under noise, and have right errors."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import pearsonr

from mtlib.metrics.correlation import counted_pearson
from mtlib.tasks import TASKS, Task
from results.ensembles.best_k import choose_best_k, choose_single
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Ensemble, ensemble_outputs, score_rows
from results.ensembles.greedy import choose_greedy
from results.ensembles.selection_method import Choose, Settings
from results.selection.cross_fitting import (
    CHOICE_FACTOR,
    CrossFitted,
    bootstrap,
    cross_fit,
    example_influences,
    score_resamples,
    widened,
)
from results.stats.resampling import Floats, Numbers, draw_counts, percentile_interval
from tests.results.ensembles.simulated_pools import build_pool, pool_of
from tests.results.selection.plain_selection import all_rows

CLASSES, BINARY, REGRESSION = TASKS["sst"], TASKS["qqp"], TASKS["sts"]
FAST = Settings(bags=2, num_steps=8, max_models=4)
SKILLS = (0.3, 0.7, 0.5, 0.6)

each_task = pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))


def recorded(method: Choose) -> tuple[Choose, list[tuple[Numbers, Ensemble]]]:
    """A method, and a list to which it appends its rows and its ensemble."""
    calls: list[tuple[Numbers, Ensemble]] = []

    def choose(pool: Pool, rows: Numbers, settings: Settings) -> Ensemble:
        calls.append((rows, method(pool, rows, settings)))
        return calls[-1][1]

    return choose, calls


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
            predicted = float(task.kind_entry.predict(outputs)[0])
            expected = predicted if task is REGRESSION else float(predicted == pool.labels[row])
            assert found.values[repeat, column] == pytest.approx(expected, rel=1e-9)


@each_task
@pytest.mark.parametrize("method", [choose_single, choose_greedy])
def test_cross_fitted_score_of_noise_is_at_chance(task: Task, method: Choose) -> None:
    chance = {"classes": 0.2, "binary": 0.5, "regression": 0.0}[task.kind]
    scores = []
    for seed in range(16):
        pool = build_pool(task, [0.0] * 10, num_rows=100, num_epochs=2, correlation=0.2, seed=seed)
        rows = all_rows(pool)
        on_dev = score_rows(pool, ensemble_outputs(pool, method(pool, rows, FAST), rows), rows)
        scores.append((on_dev - chance, cross_fit(pool, method, FAST, rows).score - chance))
    in_sample, cross_fitted = np.array(scores).T
    error = cross_fitted.std(ddof=1) / np.sqrt(16)
    assert abs(cross_fitted.mean()) < 3 * error < 0.15
    assert in_sample.mean() > 0.03
    optimism = in_sample - cross_fitted
    assert optimism.mean() > 3 * optimism.std(ddof=1) / np.sqrt(16)


def build_fitted(task: Task, *, num_rows: int = 600, num_repeats: int = 1, seed: int = 0) -> CrossFitted:
    """Cross-fitted result of the best of three similar candidates."""
    pool = build_pool(task, [0.9, 0.9, 0.9], num_rows=num_rows, seed=seed)
    return cross_fit(pool, choose_single, replace(FAST, seed=seed), all_rows(pool), num_repeats=num_repeats)


def numeric_influences(values: Floats, labels: Floats) -> Floats:
    """Change of the correlation per weight added to one example."""
    size, step = len(values), 1e-6
    counts = np.full((size, size), (1 - step) / size) + step * np.eye(size)
    whole = counted_pearson(values[None], labels, None)[0]
    return np.asarray((counted_pearson(values[None], labels, counts)[0] - whole) / step)


@pytest.mark.parametrize(("num_rows", "least"), [(20, 0.9), (60, 0.95), (173, 0.96)])
def test_variance_of_a_correlation_of_few_examples_is_not_too_small(num_rows: int, least: float) -> None:
    """Without the correction it is 0.78, 0.92 and 0.97 of the true one; over 3,000 samples, so within 3 %."""
    generator = np.random.default_rng(0)
    scores, variances = [], []
    for _ in range(3000):
        labels = generator.standard_normal(num_rows)
        values = labels + generator.standard_normal(num_rows)
        influences = example_influences(REGRESSION, values, labels, np.arange(num_rows))
        scores.append(np.corrcoef(values, labels)[0, 1])
        variances.append((influences**2).mean() / num_rows)
    assert least < np.mean(variances) / np.var(scores) < 1.07


@each_task
def test_influences_are_computed_per_fold_and_repeat_with_mean_zero(task: Task) -> None:
    found = build_fitted(task, num_rows=53, num_repeats=2)
    expected = np.zeros((2, 53))
    for wanted, values, folds in zip(expected, found.values, found.folds, strict=True):
        for fold in range(5):
            rows = folds == fold
            wanted[rows] = values[rows]
            if task is REGRESSION:
                more = np.sqrt(rows.sum() / (rows.sum() - 4))
                wanted[rows] = more * numeric_influences(values[rows], found.labels[rows])
    if task is not REGRESSION:
        expected -= expected.mean(1, keepdims=True)
    np.testing.assert_allclose(found.row_influences, expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found.influences, found.row_influences * np.sqrt(53 / 52))
    assert found.row_influences.mean() == pytest.approx(0, abs=1e-12)


@each_task
def test_standard_error_of_one_repeat_matches_the_bootstrap(task: Task) -> None:
    pool = build_pool(task, SKILLS, num_rows=800)
    found = cross_fit(pool, choose_best_k, FAST, all_rows(pool))
    assert found.standard_error == pytest.approx(bootstrap(found, num_resamples=3000).std(ddof=1), rel=0.05)


@each_task
def test_variance_between_repeats_adds_to_the_standard_error(task: Task) -> None:
    pool = build_pool(task, SKILLS, num_rows=800)
    found = cross_fit(pool, choose_best_k, FAST, all_rows(pool), num_repeats=3)
    repeats = [replace(found, values=found.values[[n]], folds=found.folds[[n]]) for n in range(3)]
    alone = np.array([repeat.standard_error for repeat in repeats])
    expected = np.sqrt((alone**2).mean() + CHOICE_FACTOR * found.scores.var(ddof=1))
    assert found.standard_error == pytest.approx(expected)
    assert found.scores == pytest.approx([repeat.score for repeat in repeats])
    assert found.score == pytest.approx(found.scores.mean())


def test_resampled_scores_are_stretched_about_the_score() -> None:
    resampled = np.random.default_rng(0).normal(0.5, 0.01, size=1000)
    wide = widened(resampled, 0.6, 0.03)
    assert (wide.mean(), wide.std(ddof=1)) == (pytest.approx(0.6), pytest.approx(0.03))
    assert np.corrcoef(resampled, wide)[0, 1] == pytest.approx(1)
    assert widened(np.full(5, 0.7), 0.7, 0.0).tolist() == [0.7] * 5
    assert percentile_interval(widened(np.full(4000, 0.7), 0.7, 0.1)) == pytest.approx(
        (0.7 - 0.196, 0.7 + 0.196), abs=0.001
    )


@each_task
def test_resample_is_scored_as_its_repeated_examples(task: Task) -> None:
    found = build_fitted(task, num_rows=30, num_repeats=2)
    counts = np.concatenate(list(draw_counts(30, 8, (1,))))
    for own, score in zip(counts.astype(int), score_resamples(found, counts), strict=True):
        scores, sizes = [], []
        for values, folds in zip(found.values, found.folds, strict=True):
            for fold in range(5):
                rows = np.repeat(np.flatnonzero(folds == fold), own[folds == fold])
                if task is REGRESSION:
                    is_constant = len(set(rows)) < 2
                    scores.append(0.0 if is_constant else pearsonr(values[rows], found.labels[rows]).statistic)
                else:
                    scores.append(values[rows].mean())
                sizes.append(len(rows))
        assert score == pytest.approx(np.average(scores, weights=sizes), rel=1e-9)


@pytest.mark.filterwarnings("error")
def test_resample_without_examples_of_a_fold_is_scored_on_the_others() -> None:
    found = build_fitted(REGRESSION, num_rows=30)  # in 3 folds
    assert np.isfinite(bootstrap(found)).all()
    counts = np.where(found.folds[0] == 2, 0.0, 1.0)[None]
    others = np.delete(found.part_scores[0], 2)
    assert score_resamples(found, counts)[0] == pytest.approx(np.mean(others))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("constant", [0.1, 5.0])
def test_constant_side_has_a_correlation_of_zero_and_no_influence(constant: float) -> None:
    labels = np.linspace(0, 5, 33)
    for pool in (
        pool_of(REGRESSION, np.full((2, 33), constant), labels),
        pool_of(REGRESSION, np.stack([labels, labels**2 / 5]), np.full(33, constant)),
    ):
        found = cross_fit(pool, choose_greedy, FAST, all_rows(pool))
        assert found.score == found.standard_error == 0
        assert percentile_interval(bootstrap(found, num_resamples=50)) == (0, 0)


@pytest.mark.parametrize("label", [0.0, 1.0])
@pytest.mark.parametrize("num_rows", [13, 200])
def test_perfect_or_failing_candidate_has_an_interval(label: float, num_rows: int) -> None:
    """With n observations of one outcome, the other may have probability 3 / n at 95 %: the interval reaches so far."""
    pool = pool_of(BINARY, np.full((1, num_rows), 0.5), np.full(num_rows, label))
    found = cross_fit(pool, choose_single, FAST, all_rows(pool))
    assert found.score == label
    low, high = percentile_interval(widened(bootstrap(found, num_resamples=2000), found.score, found.standard_error))
    reach = label - low if label else high
    assert 0.7 * 3 / num_rows < reach < 1.2 * 3 / num_rows


@each_task
def test_groups_of_copies_have_the_error_of_single_examples(task: Task) -> None:
    found = build_fitted(task, num_rows=100)
    rows = np.repeat(np.arange(100), 3)
    values, folds = found.values[:, rows], found.folds[:, rows]
    copies = replace(found, labels=found.labels[rows], values=values, folds=folds, groups=found.groups[rows])
    assert copies.standard_error == pytest.approx(found.standard_error)
