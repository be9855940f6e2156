"""Best k against scikit-learn, scipy and exhaustive search; no other labels are used."""

from dataclasses import replace

import numpy as np
import pytest

from mtlib.tasks import TASKS, Task
from results.ensembles.best_k import choose_best_k, choose_single
from results.ensembles.ensemble import (
    ensemble_outputs,
    equal_ensemble,
    score_rows,
)
from results.ensembles.greedy import choose_greedy
from results.ensembles.selection_method import (
    Choose,
    best_candidates,
    candidate_scores,
    inner_folds,
)
from results.ensembles.stacking import choose_weights
from tests.results.ensembles.simulated_pools import (
    EACH_TASK,
    FAST,
    NO_BAGS,
    SKILLS,
    build_pool,
    each_task,
    few_seeds,
    peeks,
    pool_of,
)
from tests.results.selection.plain_selection import all_rows, plain_score

CLASSES, BINARY, REGRESSION = TASKS["sst"], TASKS["qqp"], TASKS["sts"]
METHODS: dict[str, Choose] = {
    "single": choose_single,
    "best k": choose_best_k,
    "weights": choose_weights,
    "greedy": choose_greedy,
}
each_method = pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
each_way = pytest.mark.parametrize(
    ("task", "method"),
    [(task, method) for task in EACH_TASK for method in METHODS.values()],
)


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
