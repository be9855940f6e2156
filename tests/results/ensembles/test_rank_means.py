"""Mean ranks are those of scipy, do not depend on a member's scale, and are those that a new text gets."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import pearsonr, rankdata

from mtlib.tasks import TASKS
from results.ensembles.best_k import Settings, choose_best_k, inner_folds
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import NUM_KNOTS, Ensemble, combine_outputs, ensemble_outputs, find_knots, score_rows
from results.ensembles.rank_means import choose_best_k_ranks, rank_pool
from results.ranking.bootstrap import Numbers
from results.selection.select_ensemble import members_of
from tests.results.scoring.plain_selection import all_rows
from tests.results.scoring.simulated_pools import build_pool, peeks, pool_of

Floats = npt.NDArray[np.float64]

REGRESSION = TASKS["sts"]
SKILLS = (0.2, 0.7, 0.5, 0.6, 0.4)
FAST = Settings(max_models=4)

few_seeds = pytest.mark.parametrize("seed", range(4))


def tiny_pool(seed: int = 0) -> Pool:
    """Predictions that are all different, as many as there are knots: their ranks are exact."""
    return build_pool(REGRESSION, SKILLS, num_rows=NUM_KNOTS, seed=seed)


def ranks(pool: Pool) -> Floats:
    """(candidates, rows), by scipy, from 0 to 1."""
    return np.asarray((rankdata(pool.values, axis=1) - 1) / (len(pool.labels) - 1))


def bend(pool: Pool, number: int) -> Pool:
    """The pool where one candidate spaces its predictions otherwise, in the same order."""
    outputs = pool.outputs.copy()
    outputs[number] = 0.01 * outputs[number] ** 3
    return replace(pool, outputs=outputs)


def outputs_of(pool: Pool, ensemble: Ensemble, rows: Numbers | None = None) -> Floats:
    return ensemble_outputs(pool, ensemble, all_rows(pool) if rows is None else rows)[:, 0]


def correlation(predicted: Floats, pool: Pool, rows: Numbers) -> float:
    return float(pearsonr(predicted, pool.labels[rows]).statistic)


@few_seeds
def test_an_ensemble_says_the_mean_rank_of_scipy_stretched_to_the_labels(seed: int) -> None:
    pool = tiny_pool(seed)
    chosen = choose_best_k_ranks(pool, all_rows(pool), FAST)
    expected = 5 * ranks(pool)[list(chosen.members)].mean(axis=0)
    np.testing.assert_allclose(outputs_of(pool, chosen), expected, atol=1e-6)


@few_seeds
def test_members_are_those_of_a_plain_search_over_folds_with_ranks_of_scipy(seed: int) -> None:
    pool, scores = tiny_pool(seed), np.zeros(FAST.max_models)
    rows, ranked = all_rows(pool), ranks(pool)

    def best_first(among: Numbers) -> list[int]:
        return sorted(range(len(SKILLS)), key=lambda number: -correlation(ranked[number, among], pool, among))

    for outside, inside in inner_folds(pool, rows, FAST):
        for size in range(1, FAST.max_models + 1):
            mean = ranked[best_first(outside)[:size]][:, inside].mean(axis=0)
            scores[size - 1] += len(inside) * correlation(mean, pool, inside)
    size = int(scores.argmax()) + 1
    chosen = choose_best_k_ranks(pool, rows, FAST)
    assert chosen.members == tuple(best_first(rows)[:size])
    assert chosen.weights == pytest.approx((1 / size,) * size)


def test_knots_are_the_quantiles_of_what_members_say_of_these_rows() -> None:
    pool, rows = build_pool(REGRESSION, SKILLS, num_rows=150), np.arange(0, 150, 3)
    chosen = choose_best_k_ranks(pool, rows, FAST)
    assert chosen.knots == tuple(find_knots(pool.values[member, rows]) for member in chosen.members)


def test_a_candidate_of_a_ranked_pool_says_where_it_stands_among_its_own_predictions() -> None:
    pool = tiny_pool()
    found = rank_pool(pool, [find_knots(values) for values in pool.values])
    np.testing.assert_allclose(found.values, ranks(pool), atol=1e-6)
    assert (found.candidates, found.ids) == (pool.candidates, pool.ids)
    np.testing.assert_array_equal(found.labels, pool.labels)


@few_seeds
@pytest.mark.parametrize("number", range(len(SKILLS)))
def test_how_a_member_spaces_its_predictions_changes_nothing(seed: int, number: int) -> None:
    pool = tiny_pool(seed)
    first, second = (choose_best_k_ranks(one, all_rows(one), FAST) for one in (pool, bend(pool, number)))
    assert (first.members, first.weights) == (second.members, second.weights)
    np.testing.assert_allclose(outputs_of(bend(pool, number), second), outputs_of(pool, first), atol=1e-5)


def test_how_a_member_spaces_its_predictions_does_change_the_mean_of_scores() -> None:
    pool = tiny_pool()
    first, second = (choose_best_k(one, all_rows(one), FAST) for one in (pool, bend(pool, 1)))
    assert not np.allclose(outputs_of(pool, first), outputs_of(bend(pool, 1), second), atol=0.01)


def test_ranks_are_better_where_members_space_their_predictions_wildly() -> None:
    pool = build_pool(REGRESSION, [1.0] * 4, num_rows=800, correlation=0)
    wild = replace(pool, outputs=(pool.outputs - 2.5) ** 5)
    rows, new = np.arange(400), np.arange(400, 800)
    by_ranks, by_scores = (method(wild, rows, FAST) for method in (choose_best_k_ranks, choose_best_k))
    found, other = (correlation(outputs_of(wild, one, new), wild, new) for one in (by_ranks, by_scores))
    assert found > other + 0.1


def test_what_is_kept_of_members_says_of_a_new_text_what_the_ensemble_says() -> None:
    pool, rows = build_pool(REGRESSION, SKILLS, num_rows=200), np.arange(120)
    chosen = choose_best_k_ranks(pool, rows, FAST)
    members = members_of(pool, chosen)
    kept = Ensemble(
        members=tuple(range(len(members))),
        weights=tuple(member.weight for member in members),
        knots=tuple(member.knots for member in members),
    )
    numbers = [int(member.trial[:4]) for member in members]
    for row in (0, 119, 120, 199):
        outputs = pool.outputs[numbers][:, [row]].astype(np.float64)
        expected = outputs_of(pool, chosen, np.array([row]))
        np.testing.assert_allclose(combine_outputs(REGRESSION, outputs, kept)[:, 0], expected, rtol=1e-12)


def test_twice_as_many_trials_are_considered_as_there_may_be_members() -> None:
    labels = np.linspace(0.1, 4.9, 60)
    noise = np.random.default_rng(0).normal(size=(2, 60))
    best_by_rank = np.exp(3 * labels) / np.exp(15)
    pool = pool_of(REGRESSION, np.stack([labels + 0.3 * noise[0], labels + 0.4 * noise[1], best_by_rank]), labels)
    assert choose_best_k_ranks(pool, all_rows(pool), replace(FAST, max_models=1)).members == (0,)
    assert choose_best_k_ranks(pool, all_rows(pool), replace(FAST, max_models=2)).members == (2,)


def test_nothing_that_is_chosen_depends_on_labels_of_other_rows() -> None:
    pool = build_pool(REGRESSION, SKILLS, num_rows=60, num_epochs=2)
    assert not peeks(choose_best_k_ranks, pool, np.arange(0, 60, 2), FAST)


def test_no_more_models_are_chosen_than_are_allowed_and_one_epoch_of_each_trial() -> None:
    pool = build_pool(REGRESSION, [0.6] * 8, num_epochs=2, correlation=0.1)
    for max_models in (1, 3):
        chosen = choose_best_k_ranks(pool, all_rows(pool), replace(FAST, max_models=max_models))
        assert 1 <= len(chosen.members) <= max_models
        assert len({pool.candidates[member].trial for member in chosen.members}) == len(chosen.members)


def test_equal_seeds_choose_alike() -> None:
    pool = tiny_pool()
    assert choose_best_k_ranks(pool, all_rows(pool), FAST) == choose_best_k_ranks(pool, all_rows(pool), FAST)


@pytest.mark.parametrize("num_rows", [1, 2, 3, 50])
def test_the_only_candidate_is_chosen_by_however_few_rows(num_rows: int) -> None:
    pool = build_pool(REGRESSION, [0.5])
    chosen = choose_best_k_ranks(pool, np.arange(num_rows), FAST)
    assert (chosen.members, chosen.weights) == ((0,), (1.0,))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("constant", ["predictions", "labels"])
def test_constant_predictions_or_labels_choose_something(constant: str) -> None:
    labels = np.linspace(0, 5, 30)
    alike = {
        "predictions": pool_of(REGRESSION, np.full((3, 30), 0.1), labels),
        "labels": pool_of(REGRESSION, np.stack([labels, labels**2 / 5]), np.full(30, 2.2)),
    }
    pool = alike[constant]
    chosen = choose_best_k_ranks(pool, all_rows(pool), FAST)
    assert score_rows(pool, ensemble_outputs(pool, chosen, all_rows(pool)), all_rows(pool)) == 0
