"""Best k against scikit-learn, scipy and exhaustive search; no other labels are used."""

from dataclasses import replace

import numpy as np
import pytest

from mtlib.tasks import TASKS, Task
from results.ensembles.best_k import choose_best_k, choose_single, path_scores
from results.ensembles.ensemble import (
    Ensemble,
    ensemble_outputs,
    equal_ensemble,
    score_rows,
)
from results.ensembles.greedy import choose_greedy
from results.ensembles.selection_method import (
    Choose,
    Settings,
    best_candidates,
    candidate_scores,
    inner_folds,
)
from results.ensembles.stacking import choose_weights
from tests.results.ensembles.simulated_pools import SEVERAL, build_pool, labels_by, named_weights, peeks, pool_of
from tests.results.selection.plain_selection import all_rows, plain_score

CLASSES, BINARY, REGRESSION = TASKS["sst"], TASKS["qqp"], TASKS["sts"]
METHODS: dict[str, Choose] = {
    "single": choose_single,
    "best k": choose_best_k,
    "weights": choose_weights,
    "greedy": choose_greedy,
}
SKILLS = (0.2, 0.7, 0.5, 0.6, 0.4, 0.65)
FAST = Settings(bags=3, num_steps=8, max_models=4)
NO_BAGS = replace(FAST, bags=0)

EACH_TASK = [*TASKS.values(), SEVERAL]
each_task = pytest.mark.parametrize("task", EACH_TASK, ids=[task.name for task in EACH_TASK])
each_method = pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
each_way = pytest.mark.parametrize(
    ("task", "method"),
    [(task, method) for task in EACH_TASK for method in METHODS.values()],
)
few_seeds = pytest.mark.parametrize("seed", range(2))


@each_task
def test_path_of_means_is_scored_mean_by_mean(task: Task) -> None:
    pool, rows, members = build_pool(task, SKILLS), np.arange(5, 77), np.array([4, 1, 0, 3])
    ensembles = [equal_ensemble(members[:size]) for size in range(1, 5)]
    expected = [score_rows(pool, ensemble_outputs(pool, one, rows), rows) for one in ensembles]
    np.testing.assert_allclose(path_scores(pool, members, rows), expected, atol=1e-6)


@each_task
@few_seeds
def test_best_k_matches_an_exhaustive_search_over_folds(task: Task, seed: int) -> None:
    pool = build_pool(task, SKILLS, num_rows=45, num_epochs=2, seed=seed)
    rows = np.arange(2, 45)
    scores = np.zeros(FAST.max_models)
    for outside, inside in inner_folds(pool, rows, FAST):
        for size in range(1, FAST.max_models + 1):
            chosen = equal_ensemble(best_candidates(pool, outside)[:size])
            scores[size - 1] += len(inside) * plain_score(pool, chosen, inside)
    size = 1 + int(np.flatnonzero(scores > scores.max() - 1e-9)[0])
    assert choose_best_k(pool, rows, FAST) == equal_ensemble(best_candidates(pool, rows)[:size])


def test_equal_trials_are_averaged_and_a_far_better_one_stands_alone() -> None:
    alike = build_pool(BINARY, [0.7] * 6, num_rows=600, correlation=0)
    assert len(choose_best_k(alike, all_rows(alike), FAST).members) == FAST.max_models
    apart = build_pool(BINARY, [0.0, 3.0, 0.0, 0.0], num_rows=600, correlation=0)
    assert choose_best_k(apart, all_rows(apart), FAST).members == (1,)


@each_way
def test_selection_does_not_depend_on_labels_of_other_rows(task: Task, method: Choose) -> None:
    pool = build_pool(task, SKILLS[:4], num_rows=50, num_epochs=2)
    assert not peeks(method, pool, np.arange(0, 50, 2), FAST)


@each_way
def test_model_limit_holds_and_each_trial_has_one_epoch(task: Task, method: Choose) -> None:
    pool = build_pool(task, [0.6] * 8, num_epochs=2, correlation=0.1)
    for max_models in (1, 3):
        chosen = method(pool, all_rows(pool), replace(FAST, max_models=max_models))
        assert 1 <= len(chosen.members) <= max_models
        assert len({pool.candidates[member].trial for member in chosen.members}) == len(chosen.members)
        assert sum(chosen.weights) == pytest.approx(1)


@each_task
@pytest.mark.parametrize("method", [choose_single, choose_best_k, choose_weights])
def test_one_model_is_the_best_one(task: Task, method: Choose) -> None:
    pool = build_pool(task, SKILLS, num_epochs=2)
    rows, settings = all_rows(pool), replace(NO_BAGS, max_models=1)
    assert (
        method(pool, rows, settings)
        == choose_greedy(pool, rows, settings)
        == equal_ensemble(np.array([int(candidate_scores(pool, rows).argmax())]))
    )


@each_task
@each_method
def test_order_of_candidates_matters_only_for_ties(task: Task, method: Choose) -> None:
    pool = build_pool(task, (0.0, 0.4, 0.8, 1.2, 1.6, 2.0), num_rows=400, correlation=0)
    order = np.random.default_rng(0).permutation(len(pool.candidates))
    first, second = (named_weights(one, method(one, all_rows(one), FAST)) for one in (pool, pool.only(order)))
    assert first == pytest.approx(second, abs=1e-6)


@each_task
@each_method
def test_ensemble_of_equal_candidates_has_their_output(task: Task, method: Choose) -> None:
    one = build_pool(task, [0.8])
    pool = pool_of(task, np.repeat(one.outputs, 5, axis=0), one.labels)
    chosen = method(pool, all_rows(pool), FAST)
    np.testing.assert_allclose(ensemble_outputs(pool, chosen, all_rows(pool)), one.outputs[0], atol=1e-6)
    assert plain_score(pool, chosen) == pytest.approx(plain_score(one, equal_ensemble(np.array([0]))))


@each_task
@each_method
def test_only_candidate_is_selected(task: Task, method: Choose) -> None:
    pool = build_pool(task, [0.5])
    chosen = method(pool, all_rows(pool), FAST)
    assert chosen == Ensemble(members=(0,), weights=(1.0,))


@each_task
@each_method
@pytest.mark.parametrize("num_rows", [1, 3])
def test_fewer_rows_than_folds_are_enough(task: Task, method: Choose, num_rows: int) -> None:
    pool = build_pool(task, SKILLS)
    assert method(pool, np.arange(num_rows), FAST).members


@pytest.mark.filterwarnings("error")
@each_method
def test_constant_predictions_and_labels_select_something(method: Choose) -> None:
    labels = np.linspace(0, 5, 30)
    for pool in (
        pool_of(REGRESSION, np.full((3, 30), 0.1), labels),
        pool_of(REGRESSION, np.stack([labels, labels**2 / 5]), np.full(30, 2.2)),
    ):
        chosen = method(pool, all_rows(pool), FAST)
        assert np.isfinite(chosen.weights).all()
        assert score_rows(pool, ensemble_outputs(pool, chosen, all_rows(pool)), all_rows(pool)) == 0


@each_method
def test_perfect_candidate_is_selected_alone(method: Choose) -> None:
    for task in TASKS.values():
        noise = build_pool(task, [0.0, 0.0, 0.0], num_rows=80)
        perfect = replace(noise, labels=labels_by(noise, 1))
        assert plain_score(perfect, method(perfect, all_rows(perfect), NO_BAGS)) > 0.95
