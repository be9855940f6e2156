"""Greedy selection against the paper's algorithm line by line, and against a brute-force bound."""

from dataclasses import replace

import numpy as np
import pytest

from mtlib.tasks import TASKS, Task
from results.ensembles.greedy import addition_scorer, choose_greedy, draw_bags
from results.ensembles.selection_method import best_candidates, sum_scores
from tests.results.ensembles.simulated_pools import (
    FAST,
    NO_BAGS,
    SKILLS,
    build_pool,
    each_task,
    few_seeds,
    pool_of,
)
from tests.results.selection.plain_selection import (
    all_margins,
    all_rows,
    counts_of,
    select_as_in_paper,
)

BINARY, REGRESSION = TASKS["qqp"], TASKS["sts"]


@each_task
@few_seeds
def test_scores_of_additions_are_those_of_the_sums(task: Task, seed: int) -> None:
    pool = build_pool(task, SKILLS, num_rows=60, seed=seed)
    margins, total = all_margins(pool), all_margins(pool)[[0, 2, 2]].sum(0)
    found = addition_scorer(pool, margins, all_rows(pool))(total, 4)
    np.testing.assert_allclose(found, sum_scores(pool, total + margins, all_rows(pool)), atol=1e-6)
    if task is not REGRESSION:
        np.testing.assert_array_equal(found, sum_scores(pool, total + margins, all_rows(pool)))


def test_correlation_of_an_addition_without_variance_is_zero() -> None:
    labels = np.random.default_rng(0).uniform(1, 4, 20)
    pool = pool_of(REGRESSION, np.stack([5 - labels, np.full(20, 0.1), labels]), labels)
    score_additions = addition_scorer(pool, all_margins(pool), all_rows(pool))
    found = score_additions(all_margins(pool)[2], 2)
    assert found[0] == 0
    np.testing.assert_allclose(found[1:], 1)
    assert score_additions(all_margins(pool)[1], 2)[1] == 0
    constant = replace(pool, labels=np.full(20, 2.2))
    assert addition_scorer(constant, all_margins(pool), all_rows(pool))(all_margins(pool)[2], 2).tolist() == [0, 0, 0]


@each_task
@few_seeds
@pytest.mark.parametrize("max_models", [2, 6])
def test_greedy_selection_matches_the_paper(task: Task, seed: int, max_models: int) -> None:
    pool, settings = build_pool(task, SKILLS, num_rows=40, seed=seed), replace(NO_BAGS, max_models=max_models)
    expected = select_as_in_paper(pool, list(range(6)), all_rows(pool), settings)
    found = counts_of(pool, choose_greedy(pool, all_rows(pool), settings))
    np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-12)


@each_task
def test_bagged_selection_averages_the_ensembles_of_the_bags(task: Task) -> None:
    pool, settings = build_pool(task, SKILLS, num_rows=40, num_epochs=2), replace(FAST, max_models=6)
    best = best_candidates(pool, all_rows(pool))
    bags = draw_bags(len(best), 3, np.random.default_rng((settings.seed, 40)))
    grown = [select_as_in_paper(pool, best[bag].tolist(), all_rows(pool), settings) for bag in bags]
    expected = np.mean([counts / counts.sum() for counts in grown], axis=0)
    np.testing.assert_allclose(counts_of(pool, choose_greedy(pool, all_rows(pool), settings)), expected, atol=1e-12)


def test_bags_are_random_subsets_in_order() -> None:
    assert [bag.tolist() for bag in draw_bags(4, 0, np.random.default_rng(0))] == [[0, 1, 2, 3]]
    bags = draw_bags(9, 40, np.random.default_rng(0))
    assert [len(bag) for bag in bags] == [7] * 40
    assert all((np.diff(bag) > 0).all() for bag in bags)
    assert set(np.concatenate(bags)) == set(range(9))
    assert len({tuple(bag) for bag in bags}) > 20


def test_greedy_selection_considers_only_the_best_trials() -> None:
    pool = build_pool(BINARY, SKILLS, num_rows=60)
    chosen = choose_greedy(pool, all_rows(pool), replace(NO_BAGS, num_considered=2))
    assert set(chosen.members) <= set(best_candidates(pool, all_rows(pool))[:2].tolist())
