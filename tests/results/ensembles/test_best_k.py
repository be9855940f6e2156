"""Best k and mean ranks against scikit-learn, scipy and exhaustive search; no other labels are used."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import pearsonr, rankdata

from mtlib.tasks import TASKS, Task
from results.analysis.comparison.bootstrap import Numbers
from results.ensembles.best_k import choose_best_k, choose_best_k_ranks, choose_single, path_scores
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import (
    NUM_KNOTS,
    Ensemble,
    combine_outputs,
    ensemble_outputs,
    equal_ensemble,
    find_knots,
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
from results.selection.select_ensemble import members_of
from tests.results.scoring.plain_selection import all_rows, plain_score
from tests.results.scoring.simulated_pools import build_pool, labels_by, named_weights, peeks, pool_of

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

each_task = pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))
each_method = pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
each_way = pytest.mark.parametrize(
    ("task", "method"),
    [*((task, method) for task in TASKS.values() for method in METHODS.values()), (REGRESSION, choose_best_k_ranks)],
)
few_seeds = pytest.mark.parametrize("seed", range(4))


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


@each_task
@each_method
def test_method_that_uses_other_labels_is_detected(task: Task, method: Choose) -> None:
    def peek(pool: Pool, _rows: Numbers, settings: Settings) -> Ensemble:
        return method(pool, all_rows(pool), settings)

    assert peeks(peek, build_pool(task, SKILLS[:4], num_rows=50, num_epochs=2), np.arange(0, 50, 2), FAST)


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


@each_way
def test_equal_seeds_select_equally(task: Task, method: Choose) -> None:
    pool = build_pool(task, SKILLS)
    assert method(pool, all_rows(pool), FAST) == method(pool, all_rows(pool), FAST)


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
@pytest.mark.parametrize("bags", [0, 1])
def test_only_candidate_is_selected(task: Task, method: Choose, bags: int) -> None:
    pool = build_pool(task, [0.5])
    chosen = method(pool, all_rows(pool), replace(FAST, bags=bags))
    assert chosen == Ensemble(members=(0,), weights=(1.0,))


@each_task
@each_method
@pytest.mark.parametrize("num_rows", [1, 2, 3])
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


@each_way
@pytest.mark.parametrize("seed", range(8))
def test_ensemble_has_at_most_the_allowed_models(task: Task, method: Choose, seed: int) -> None:
    random = np.random.default_rng(seed)
    pool = build_pool(task, [0.6] * 7, num_epochs=2, correlation=0.1, num_rows=40, seed=seed)
    settings = replace(FAST, max_models=int(random.integers(1, 6)))
    chosen = method(pool, all_rows(pool), settings)
    assert 1 <= len(chosen.members) <= settings.max_models
    assert sum(chosen.weights) == pytest.approx(1)


Floats = npt.NDArray[np.float64]


RANK_SKILLS = (0.2, 0.7, 0.5, 0.6, 0.4)


RANK_SETTINGS = Settings(max_models=4)


def tiny_pool(seed: int = 0) -> Pool:
    """Predictions that are all different, as many as there are knots: their ranks are exact."""
    return build_pool(REGRESSION, RANK_SKILLS, num_rows=NUM_KNOTS, seed=seed)


def ranks(pool: Pool) -> Floats:
    """(candidates, rows), by scipy, from 0 to 1."""
    return np.asarray((rankdata(pool.values, axis=1) - 1) / (len(pool.labels) - 1))


def respace(pool: Pool, number: int) -> Pool:
    """The pool with one candidate's predictions spaced differently, in the same order."""
    outputs = pool.outputs.copy()
    outputs[number] = 0.01 * outputs[number] ** 3
    return replace(pool, outputs=outputs)


def outputs_of(pool: Pool, ensemble: Ensemble, rows: Numbers | None = None) -> Floats:
    return ensemble_outputs(pool, ensemble, all_rows(pool) if rows is None else rows)[:, 0]


def correlation(predicted: Floats, pool: Pool, rows: Numbers) -> float:
    return float(pearsonr(predicted, pool.labels[rows]).statistic)


@few_seeds
def test_ensemble_output_is_the_mean_rank_stretched_to_the_labels(seed: int) -> None:
    pool = tiny_pool(seed)
    chosen = choose_best_k_ranks(pool, all_rows(pool), RANK_SETTINGS)
    expected = 5 * ranks(pool)[list(chosen.members)].mean(axis=0)
    np.testing.assert_allclose(outputs_of(pool, chosen), expected, atol=1e-6)


@few_seeds
def test_members_match_an_exhaustive_search_with_ranks_of_scipy(seed: int) -> None:
    pool, scores = tiny_pool(seed), np.zeros(RANK_SETTINGS.max_models)
    rows, ranked = all_rows(pool), ranks(pool)

    def best_first(among: Numbers) -> list[int]:
        return sorted(range(len(RANK_SKILLS)), key=lambda number: -correlation(ranked[number, among], pool, among))

    for outside, inside in inner_folds(pool, rows, RANK_SETTINGS):
        for size in range(1, RANK_SETTINGS.max_models + 1):
            mean = ranked[best_first(outside)[:size]][:, inside].mean(axis=0)
            scores[size - 1] += len(inside) * correlation(mean, pool, inside)
    size = int(scores.argmax()) + 1
    chosen = choose_best_k_ranks(pool, rows, RANK_SETTINGS)
    assert chosen.members == tuple(best_first(rows)[:size])
    assert chosen.weights == pytest.approx((1 / size,) * size)


def test_knots_are_quantiles_of_the_members_predictions() -> None:
    pool, rows = build_pool(REGRESSION, RANK_SKILLS, num_rows=150), np.arange(0, 150, 3)
    chosen = choose_best_k_ranks(pool, rows, RANK_SETTINGS)
    assert chosen.knots == tuple(find_knots(pool.values[member, rows]) for member in chosen.members)


@few_seeds
@pytest.mark.parametrize("number", range(len(RANK_SKILLS)))
def test_spacing_of_predictions_does_not_change_mean_ranks(seed: int, number: int) -> None:
    pool = tiny_pool(seed)
    first, second = (choose_best_k_ranks(one, all_rows(one), RANK_SETTINGS) for one in (pool, respace(pool, number)))
    assert (first.members, first.weights) == (second.members, second.weights)
    np.testing.assert_allclose(outputs_of(respace(pool, number), second), outputs_of(pool, first), atol=1e-5)


def test_spacing_of_predictions_changes_the_mean_of_scores() -> None:
    pool = tiny_pool()
    first, second = (choose_best_k(one, all_rows(one), RANK_SETTINGS) for one in (pool, respace(pool, 1)))
    assert not np.allclose(outputs_of(pool, first), outputs_of(respace(pool, 1), second), atol=0.01)


def test_ranks_score_higher_for_unevenly_spaced_predictions() -> None:
    pool = build_pool(REGRESSION, [1.0] * 4, num_rows=800, correlation=0)
    wild = replace(pool, outputs=(pool.outputs - 2.5) ** 5)
    rows, new = np.arange(400), np.arange(400, 800)
    by_ranks, by_scores = (method(wild, rows, RANK_SETTINGS) for method in (choose_best_k_ranks, choose_best_k))
    found, other = (correlation(outputs_of(wild, one, new), wild, new) for one in (by_ranks, by_scores))
    assert found > other + 0.1


def test_stored_knots_rank_new_texts_as_the_ensemble_does() -> None:
    pool, rows = build_pool(REGRESSION, RANK_SKILLS, num_rows=200), np.arange(120)
    chosen = choose_best_k_ranks(pool, rows, RANK_SETTINGS)
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


def test_twice_as_many_trials_as_members_are_considered() -> None:
    labels = np.linspace(0.1, 4.9, 60)
    noise = np.random.default_rng(0).normal(size=(2, 60))
    best_by_rank = np.exp(3 * labels) / np.exp(15)
    pool = pool_of(REGRESSION, np.stack([labels + 0.3 * noise[0], labels + 0.4 * noise[1], best_by_rank]), labels)
    assert choose_best_k_ranks(pool, all_rows(pool), replace(RANK_SETTINGS, max_models=1)).members == (0,)
    assert choose_best_k_ranks(pool, all_rows(pool), replace(RANK_SETTINGS, max_models=2)).members == (2,)


@pytest.mark.parametrize("num_rows", [1, 2, 3, 50])
def test_only_candidate_is_selected_for_any_number_of_rows(num_rows: int) -> None:
    pool = build_pool(REGRESSION, [0.5])
    chosen = choose_best_k_ranks(pool, np.arange(num_rows), RANK_SETTINGS)
    assert (chosen.members, chosen.weights) == ((0,), (1.0,))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("constant", ["predictions", "labels"])
def test_mean_ranks_of_constant_predictions_select_something(constant: str) -> None:
    labels = np.linspace(0, 5, 30)
    alike = {
        "predictions": pool_of(REGRESSION, np.full((3, 30), 0.1), labels),
        "labels": pool_of(REGRESSION, np.stack([labels, labels**2 / 5]), np.full(30, 2.2)),
    }
    pool = alike[constant]
    chosen = choose_best_k_ranks(pool, all_rows(pool), RANK_SETTINGS)
    assert score_rows(pool, ensemble_outputs(pool, chosen, all_rows(pool)), all_rows(pool)) == 0
