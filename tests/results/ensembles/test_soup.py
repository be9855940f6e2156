"""Greedy soups are those of the paper, line by line; no soup has two shapes, and none is computed twice."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import pearsonr
from sklearn.metrics import accuracy_score

from mtlib.tasks import TASKS, Task
from results.analysis.comparison.bootstrap import Numbers
from results.ensembles.best_k import choose_single
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Ensemble, equal_ensemble, score_rows
from results.ensembles.outputs import Outputs, probabilities_of
from results.ensembles.selection_method import Settings, best_candidates, candidate_scores
from results.ensembles.soup import (
    PredictSoup,
    greedy_soup,
    list_ingredients,
    most_soups,
    predict_once,
    soup_outputs,
    uniform_soup,
)
from tests.results.scoring.plain_selection import all_rows
from tests.results.scoring.simulated_pools import build_pool, peeks, pool_of

CLASSES, BINARY, REGRESSION = TASKS["sst"], TASKS["qqp"], TASKS["sts"]
SKILLS = (0.3, 0.7, 0.5, 0.6, 0.4, 0.65, 0.55)
FAST = Settings(max_models=4)

each_task = pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))
few_seeds = pytest.mark.parametrize("seed", range(4))


def simulated_soups(pool: Pool, spread: float = 0.3) -> PredictSoup:
    """The mean of the members' outputs and noise of the soup's own, so that some soups are worse than their parts."""

    def predict(members: tuple[int, ...]) -> Outputs:
        mean = pool.outputs[list(members)].mean(0)
        noise = np.random.default_rng(members).normal(size=mean.shape) * (spread if len(members) > 1 else 0)
        return np.asarray(mean + noise, dtype=np.float32)

    return predict


def refuse_to_predict(members: tuple[int, ...]) -> Outputs:
    raise AssertionError(f"{members} must not be evaluated")


def alike(pool: Pool) -> Numbers:
    """All of one shape."""
    return np.zeros(len(pool.candidates), dtype=np.intp)


def plain_accuracy(pool: Pool, outputs: Outputs, rows: Numbers) -> float:
    """The score of outputs by scikit-learn and scipy."""
    if pool.task.kind == "regression":
        return float(pearsonr(outputs[rows, 0].astype(np.float64), pool.labels[rows]).statistic)
    return float(accuracy_score(pool.labels[rows], probabilities_of(pool.task, outputs[rows]).argmax(1)))


def greedy_as_in_the_paper(
    pool: Pool, predict: PredictSoup, rows: Numbers, ingredients: Sequence[int], most: int
) -> set[int]:
    """Wortsman et al. (2022), algorithm 1, line by line; our own: no more than `most`.

    "Recipe 1 GreedySoup. Input: potential soup ingredients (sorted in decreasing order of ValAcc). ingredients <- {}.
    for i = 1 to k do: if ValAcc(average(ingredients + theta_i)) >= ValAcc(average(ingredients)) then ingredients <-
    ingredients + theta_i. return average(ingredients)"
    """

    def val_acc(members: set[int]) -> float:
        return plain_accuracy(pool, predict(tuple(sorted(members))), rows) if members else -np.inf

    found: set[int] = set()
    for theta in ingredients:
        if len(found) < most and val_acc(found | {theta}) >= val_acc(found):
            found |= {theta}
    return found


def sorted_trials(pool: Pool, rows: Numbers) -> list[int]:
    """The best epoch of each trial, the best trial first, plainly."""
    best: dict[str, tuple[float, int]] = {}
    for number, candidate in enumerate(pool.candidates):
        score = plain_accuracy(pool, pool.outputs[number], rows)
        if candidate.trial not in best or score > best[candidate.trial][0]:
            best[candidate.trial] = (score, number)
    return [number for _, number in sorted(best.values(), key=lambda pair: (-pair[0], pair[1]))]


@each_task
def test_greedy_soup_follows_the_papers_algorithm(task: Task) -> None:
    sizes = set()
    for seed in range(6):
        pool = build_pool(task, SKILLS, num_rows=70, num_epochs=2, seed=seed)
        rows, predict = np.random.default_rng(seed).permutation(70)[:50], simulated_soups(pool, 0.05 * seed)
        for settings in (FAST, replace(FAST, max_models=2), replace(FAST, num_considered=3)):
            found = greedy_soup(predict, alike(pool))(pool, rows, settings)
            ingredients = sorted_trials(pool, rows)[: settings.num_considered]
            assert set(found.members) == greedy_as_in_the_paper(pool, predict, rows, ingredients, settings.max_models)
            assert set(found.weights) == {1 / len(found.members)}
            sizes.add(len(found.members))
    assert len(sizes) > 2  # else anything would pass


@each_task
@few_seeds
def test_uniform_soup_has_the_best_trials_at_their_best_epochs(task: Task, seed: int) -> None:
    pool = build_pool(task, SKILLS, num_rows=70, num_epochs=3, seed=seed)
    rows = np.arange(10, 60)
    for most in (1, 3, 7, 8):
        found = uniform_soup(alike(pool))(pool, rows, replace(FAST, max_models=most))
        assert found == equal_ensemble(np.array(sorted_trials(pool, rows)[:most]))


@each_task
@few_seeds
def test_greedy_soup_is_in_sample_no_worse_than_the_best_single_model(task: Task, seed: int) -> None:
    pool = build_pool(task, SKILLS, num_rows=60, num_epochs=2, seed=seed)
    rows, predict = np.arange(0, 60, 2), simulated_soups(pool, 0.5)
    found = greedy_soup(predict, alike(pool))(pool, rows, FAST)
    single = choose_single(pool, rows, FAST)
    assert found.members[0] == single.members[0]
    score = score_rows(pool, soup_outputs(predict)(pool, found, rows), rows)
    assert score >= candidate_scores(pool, rows).max() - 1e-6


@each_task
def test_members_do_not_depend_on_labels_of_other_rows(task: Task) -> None:
    pool, rows = build_pool(task, SKILLS, num_rows=50, num_epochs=2), np.arange(35)
    predict = simulated_soups(pool)
    for method in (uniform_soup(alike(pool)), greedy_soup(predict, alike(pool))):
        assert not peeks(method, pool, rows, FAST)

    def by_all(pool: Pool, _rows: Numbers, settings: Settings) -> Ensemble:
        return greedy_soup(predict, alike(pool))(pool, all_rows(pool), settings)

    assert peeks(by_all, pool, rows, FAST)


@each_task
def test_members_have_the_best_candidates_shape(task: Task) -> None:
    pool = build_pool(task, SKILLS, num_rows=60, num_epochs=2)
    shapes, averaged = np.array([0, 0, 1, 1, 2, 2, 1, 1, 0, 0, 1, 1, 2, 2]), list[tuple[int, ...]]()

    def predict(members: tuple[int, ...]) -> Outputs:
        averaged.append(members)
        return simulated_soups(pool, 0.05)(members)

    seen = set()
    for start in range(0, 60, 6):
        rows = np.arange(start, start + 6)
        best = int(candidate_scores(pool, rows).argmax())
        for method in (uniform_soup(shapes), greedy_soup(predict, shapes)):
            found = method(pool, rows, FAST)
            assert set(shapes[list(found.members)]) == {shapes[best]}
        assert list_ingredients(pool, rows, shapes).tolist() == [
            number for number in best_candidates(pool, rows) if shapes[number] == shapes[best]
        ]
        seen.add(int(shapes[best]))
    assert len(seen) > 1
    assert any(len(members) > 1 for members in averaged)
    assert all(len(set(shapes[list(members)])) == 1 for members in averaged)


@each_task
def test_no_soup_is_computed_twice_and_none_of_one_model(task: Task) -> None:
    pool, calls = build_pool(task, SKILLS, num_rows=40), list[tuple[int, ...]]()

    def predict(members: tuple[int, ...]) -> Outputs:
        calls.append(members)
        return simulated_soups(pool)(members)

    once = predict_once(pool, predict)
    np.testing.assert_array_equal(once((3,)), pool.outputs[3])
    for _ in range(2):
        np.testing.assert_array_equal(once((1, 4)), simulated_soups(pool)((1, 4)))
        greedy_soup(once, alike(pool))(pool, all_rows(pool), FAST)
    assert len(calls) == len(set(calls)) > 1
    assert all(len(members) > 1 and list(members) == sorted(members) for members in calls)


def test_outputs_are_the_averaged_models_not_the_mean_outputs() -> None:
    pool = build_pool(REGRESSION, SKILLS, num_rows=30)
    combine, rows = soup_outputs(simulated_soups(pool)), np.array([4, 2, 29])
    found = combine(pool, equal_ensemble(np.array([5, 0, 3])), rows)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, simulated_soups(pool)((0, 3, 5))[rows])
    assert np.abs(found - pool.outputs[[0, 3, 5]].mean(0)[rows]).max() > 0.01


def test_members_that_change_nothing_are_kept_up_to_the_limit() -> None:
    """The paper's "at least", where every soup is as good as the first model."""
    pool = build_pool(CLASSES, [0.9] + [0.2] * 5, num_rows=40)
    best = pool.outputs[int(candidate_scores(pool, all_rows(pool)).argmax())]
    method = greedy_soup(lambda _members: best, alike(pool))
    for most in (1, 2, 5, 6, 7):
        assert len(method(pool, all_rows(pool), replace(FAST, max_models=most)).members) == min(most, 6)


@each_task
def test_one_candidate_needs_no_soup(task: Task) -> None:
    pool = build_pool(task, [0.5], num_rows=20)
    once = predict_once(pool, refuse_to_predict)
    for method in (uniform_soup(alike(pool)), greedy_soup(once, alike(pool))):
        found = method(pool, all_rows(pool), FAST)
        assert found == Ensemble(members=(0,), weights=(1.0,))
    np.testing.assert_array_equal(soup_outputs(once)(pool, found, all_rows(pool)), pool.outputs[0].astype(np.float64))


@pytest.mark.filterwarnings("error")
def test_soup_with_constant_predictions_scores_zero() -> None:
    labels = np.linspace(0, 5, 30)
    pool = pool_of(REGRESSION, np.stack([labels, labels**2 / 5]), labels)

    def predict(members: tuple[int, ...]) -> Outputs:
        return np.full((30, 1), 2.5, np.float32) if len(members) > 1 else pool.outputs[members[0]]

    assert greedy_soup(predict, alike(pool))(pool, all_rows(pool), FAST).members == (0,)


def test_most_soups_equals_a_count_by_hand() -> None:
    """5 trials; chosen by all rows, without each of 4 folds, and without each of 4 folds of what is left."""
    pool = build_pool(BINARY, SKILLS[:5], num_rows=40, num_epochs=3)
    settings = replace(FAST, num_folds=4)
    assert most_soups(pool, alike(pool), settings, 1) == (1 + 4 + 16) * 5
    assert most_soups(pool, alike(pool), settings, 3) == (1 + 12 + 48) * 5
    assert most_soups(pool, alike(pool), replace(settings, num_considered=2), 1) == 21 * 2
    assert most_soups(pool, np.repeat([0, 0, 1, 1, 1], 3), settings, 1) == 21 * 3
    assert most_soups(pool, np.repeat(np.arange(5), 3), settings, 1) == 0
    assert most_soups(pool, alike(pool), replace(settings, max_models=1), 1) == 0
