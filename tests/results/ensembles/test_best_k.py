"""Scores, best epochs and best k are those of scikit-learn, scipy and plain searches; no method peeks or breaks."""

from dataclasses import replace

import numpy as np
import pytest

from mtlib.tasks import TASKS, Task
from results.ensembles.best_k import (
    Method,
    Settings,
    best_candidates,
    candidate_scores,
    choose_best_k,
    choose_single,
    inner_folds,
    path_scores,
    sum_scores,
)
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Ensemble, ensemble_outputs, equal_ensemble, score_rows
from results.ensembles.greedy import choose_greedy
from results.ensembles.rank_means import choose_best_k_ranks
from results.ensembles.stacking import choose_weights
from results.ranking.bootstrap import Numbers
from tests.results.scoring.plain_selection import all_rows, mean_score, plain_score
from tests.results.scoring.simulated_pools import build_pool, labels_by, named_weights, peeks, pool_of, true_score

CLASSES, BINARY, REGRESSION = TASKS["sst"], TASKS["qqp"], TASKS["sts"]
METHODS: dict[str, Method] = {
    "single": choose_single,
    "best k": choose_best_k,
    "weights": choose_weights,
    "greedy": choose_greedy,
}
SKILLS = (0.2, 0.7, 0.5, 0.6, 0.4, 0.65)
FAST = Settings(num_bags=3, num_steps=8, max_models=4)
NO_BAGS = replace(FAST, num_bags=0)

each_task = pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))
each_method = pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
each_way = pytest.mark.parametrize(
    ("task", "method"),
    [*((task, method) for task in TASKS.values() for method in METHODS.values()), (REGRESSION, choose_best_k_ranks)],
)
few_seeds = pytest.mark.parametrize("seed", range(4))


@each_task
@pytest.mark.parametrize("skill", [0.0, 0.8])
def test_simulated_candidates_are_as_good_as_they_are_said_to_be(task: Task, skill: float) -> None:
    pool = build_pool(task, [skill, skill], num_rows=20000, num_epochs=2)
    np.testing.assert_allclose(candidate_scores(pool, all_rows(pool)), true_score(task, skill), atol=4 / np.sqrt(20000))


@each_task
def test_scores_of_candidates_are_those_of_scikit_learn_and_scipy(task: Task) -> None:
    pool, rows = build_pool(task, SKILLS), np.array([3, 5, 8, 40, 41, 99, 100, 7])
    expected = [mean_score(pool, own, rows) for own in np.eye(len(SKILLS))]
    np.testing.assert_allclose(candidate_scores(pool, rows), expected, rtol=1e-9, atol=1e-12)


def test_accuracy_is_exact_whatever_the_number_of_rows() -> None:
    pool = build_pool(BINARY, SKILLS, num_rows=997)
    rows = np.arange(0, 997, 3)
    assert candidate_scores(pool, rows).tolist() == [own[rows].sum(dtype=int) / len(rows) for own in pool.values]


def test_a_constant_prediction_scores_zero_and_is_not_the_best() -> None:
    labels = np.linspace(0, 5, 30)
    pool = pool_of(REGRESSION, np.stack([np.full(30, 0.1), labels[::-1], labels**2 / 5]), labels)
    scores = candidate_scores(pool, all_rows(pool))
    assert scores[0] == 0
    assert scores[1] == pytest.approx(-1)
    assert best_candidates(pool, all_rows(pool)).tolist() == [2, 0, 1]


def test_the_best_epoch_of_each_trial_comes_once_the_best_trial_first_and_the_first_of_equals() -> None:
    is_right = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [1, 1, 0, 0], [0, 1, 1, 0]])
    pool = pool_of(BINARY, 0.5 * (2 * is_right - 1), np.ones(4), num_epochs=2)
    assert best_candidates(pool, all_rows(pool)).tolist() == [2, 1, 4]
    assert best_candidates(pool, np.array([3])).tolist() == [3, 0, 4]


@each_task
@few_seeds
def test_best_epochs_are_those_of_a_plain_search(task: Task, seed: int) -> None:
    pool = build_pool(task, SKILLS, num_epochs=3, num_rows=25, seed=seed)
    scores = candidate_scores(pool, all_rows(pool)).tolist()
    best = [max(range(first, first + 3), key=lambda number: scores[number]) for first in range(0, len(scores), 3)]
    found = best_candidates(pool, all_rows(pool)).tolist()
    assert sorted(found) == best
    assert [scores[number] for number in found] == sorted((scores[number] for number in best), reverse=True)


@each_task
def test_scores_of_sums_are_those_of_the_mean_output(task: Task) -> None:
    pool, rows = build_pool(task, SKILLS), np.arange(10, 90)
    counts = np.random.default_rng(0).integers(0, 4, size=(20, len(SKILLS))).astype(np.float64) + np.eye(20, 6)
    sums = np.tensordot(counts, pool.margins[:, :, rows], axes=1).astype(np.float32)
    expected = [mean_score(pool, own, rows) for own in counts]
    np.testing.assert_allclose(sum_scores(pool, sums, rows), expected, atol=1e-6)


def test_a_tie_counts_as_wrong() -> None:
    pool = pool_of(BINARY, np.zeros((1, 3)), [0, 1, 1])
    assert sum_scores(pool, pool.margins, all_rows(pool)).tolist() == [0]
    even = pool_of(CLASSES, np.full((1, 2, 5), 0.2), [0, 4])
    assert sum_scores(even, even.margins, all_rows(even)).tolist() == [0]


@each_task
def test_the_path_of_means_is_scored_mean_by_mean(task: Task) -> None:
    pool, rows, members = build_pool(task, SKILLS), np.arange(5, 77), np.array([4, 1, 0, 3])
    ensembles = [equal_ensemble(members[:size]) for size in range(1, 5)]
    expected = [score_rows(pool, ensemble_outputs(pool, one, rows), rows) for one in ensembles]
    np.testing.assert_allclose(path_scores(pool, members, rows), expected, atol=1e-6)


@each_task
@few_seeds
def test_the_number_of_the_best_is_that_of_a_plain_search_over_folds(task: Task, seed: int) -> None:
    pool = build_pool(task, SKILLS, num_rows=45, num_epochs=2, seed=seed)
    rows = np.arange(2, 45)
    scores = np.zeros(FAST.max_models)
    for outside, inside in inner_folds(pool, rows, FAST):
        for size in range(1, FAST.max_models + 1):
            chosen = equal_ensemble(best_candidates(pool, outside)[:size])
            scores[size - 1] += len(inside) * plain_score(pool, chosen, inside)
    size = 1 + int(np.flatnonzero(scores > scores.max() - 1e-9)[0])
    assert choose_best_k(pool, rows, FAST) == equal_ensemble(best_candidates(pool, rows)[:size])


def test_many_equal_trials_are_averaged_and_one_that_is_far_better_stands_alone() -> None:
    alike = build_pool(BINARY, [0.7] * 6, num_rows=600, correlation=0)
    assert len(choose_best_k(alike, all_rows(alike), FAST).members) == FAST.max_models
    apart = build_pool(BINARY, [0.0, 3.0, 0.0, 0.0], num_rows=600, correlation=0)
    assert choose_best_k(apart, all_rows(apart), FAST).members == (1,)


@each_task
def test_inner_folds_part_the_rows_they_are_given(task: Task) -> None:
    pool, rows = build_pool(task, SKILLS), np.arange(7, 60, 2)
    folds = inner_folds(pool, rows, replace(FAST, num_folds=4))
    assert len(folds) == 4
    assert sorted(np.concatenate([inside for _, inside in folds])) == rows.tolist()
    assert all(sorted(np.concatenate(pair)) == rows.tolist() for pair in folds)


def test_other_seeds_draw_other_folds() -> None:
    pool = build_pool(BINARY, SKILLS)
    folds = [inner_folds(pool, all_rows(pool), replace(FAST, seed=seed))[0][1].tolist() for seed in (0, 1)]
    assert folds[0] != folds[1]


@each_task
@each_method
def test_nothing_that_is_chosen_depends_on_labels_of_other_rows(task: Task, method: Method) -> None:
    pool = build_pool(task, SKILLS[:4], num_rows=50, num_epochs=2)
    assert not peeks(method, pool, np.arange(0, 50, 2), FAST)


@each_task
@each_method
def test_a_method_that_peeks_is_noticed(task: Task, method: Method) -> None:
    def peek(pool: Pool, _rows: Numbers, settings: Settings) -> Ensemble:
        return method(pool, all_rows(pool), settings)

    assert peeks(peek, build_pool(task, SKILLS[:4], num_rows=50, num_epochs=2), np.arange(0, 50, 2), FAST)


@each_task
@each_method
def test_no_more_models_are_chosen_than_are_allowed_and_one_epoch_of_each_trial(task: Task, method: Method) -> None:
    pool = build_pool(task, [0.6] * 8, num_epochs=2, correlation=0.1)
    for max_models in (1, 3):
        chosen = method(pool, all_rows(pool), replace(FAST, max_models=max_models))
        assert 1 <= len(chosen.members) <= max_models
        assert len({pool.candidates[member].trial for member in chosen.members}) == len(chosen.members)
        assert sum(chosen.weights) == pytest.approx(1)


@each_task
@pytest.mark.parametrize("method", [choose_single, choose_best_k, choose_weights])
def test_one_model_is_the_best_one(task: Task, method: Method) -> None:
    pool = build_pool(task, SKILLS, num_epochs=2)
    rows, settings = all_rows(pool), replace(NO_BAGS, max_models=1)
    assert (
        method(pool, rows, settings)
        == choose_greedy(pool, rows, settings)
        == equal_ensemble(np.array([int(candidate_scores(pool, rows).argmax())]))
    )


@each_task
@each_method
def test_equal_seeds_choose_alike(task: Task, method: Method) -> None:
    pool = build_pool(task, SKILLS)
    assert method(pool, all_rows(pool), FAST) == method(pool, all_rows(pool), FAST)


@each_task
@each_method
def test_the_order_of_candidates_matters_to_ties_only(task: Task, method: Method) -> None:
    pool = build_pool(task, (0.0, 0.4, 0.8, 1.2, 1.6, 2.0), num_rows=400, correlation=0)
    order = np.random.default_rng(0).permutation(len(pool.candidates))
    first, second = (named_weights(one, method(one, all_rows(one), FAST)) for one in (pool, pool.only(order)))
    assert first == pytest.approx(second, abs=1e-6)


@each_task
@each_method
def test_equal_candidates_say_together_what_each_says_alone(task: Task, method: Method) -> None:
    one = build_pool(task, [0.8])
    pool = pool_of(task, np.repeat(one.outputs, 5, axis=0), one.labels)
    chosen = method(pool, all_rows(pool), FAST)
    np.testing.assert_allclose(ensemble_outputs(pool, chosen, all_rows(pool)), one.outputs[0], atol=1e-6)
    assert plain_score(pool, chosen) == pytest.approx(plain_score(one, equal_ensemble(np.array([0]))))


@each_task
@each_method
@pytest.mark.parametrize("num_bags", [0, 1])
def test_the_only_candidate_is_chosen(task: Task, method: Method, num_bags: int) -> None:
    pool = build_pool(task, [0.5])
    chosen = method(pool, all_rows(pool), replace(FAST, num_bags=num_bags))
    assert chosen == Ensemble(members=(0,), weights=(1.0,))


@each_task
@each_method
@pytest.mark.parametrize("num_rows", [1, 2, 3])
def test_fewer_rows_than_folds_are_enough(task: Task, method: Method, num_rows: int) -> None:
    pool = build_pool(task, SKILLS)
    assert method(pool, np.arange(num_rows), FAST).members


@pytest.mark.filterwarnings("error")
@each_method
def test_constant_predictions_and_labels_choose_something(method: Method) -> None:
    labels = np.linspace(0, 5, 30)
    for pool in (
        pool_of(REGRESSION, np.full((3, 30), 0.1), labels),
        pool_of(REGRESSION, np.stack([labels, labels**2 / 5]), np.full(30, 2.2)),
    ):
        chosen = method(pool, all_rows(pool), FAST)
        assert np.isfinite(chosen.weights).all()
        assert score_rows(pool, ensemble_outputs(pool, chosen, all_rows(pool)), all_rows(pool)) == 0


@each_method
def test_a_perfect_candidate_is_all_that_is_needed(method: Method) -> None:
    for task in TASKS.values():
        noise = build_pool(task, [0.0, 0.0, 0.0], num_rows=80)
        perfect = replace(noise, labels=labels_by(noise, 1))
        assert plain_score(perfect, method(perfect, all_rows(perfect), NO_BAGS)) > 0.95


@each_way
@pytest.mark.parametrize("seed", range(8))
def test_no_ensemble_has_more_models_than_are_allowed(task: Task, method: Method, seed: int) -> None:
    random = np.random.default_rng(seed)
    pool = build_pool(task, [0.6] * 7, num_epochs=2, correlation=0.1, num_rows=40, seed=seed)
    settings = replace(FAST, max_models=int(random.integers(1, 6)))
    chosen = method(pool, all_rows(pool), settings)
    assert 1 <= len(chosen.members) <= settings.max_models
    assert sum(chosen.weights) == pytest.approx(1)
