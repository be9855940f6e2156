"""One model for all tasks has the best overall score, is named by trial and epoch, and is scored by cross-fitting."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from mtlib.tasks import TASKS, overall_score
from results.ensembles.candidates import Candidate, Pool
from results.ensembles.selection_method import Settings
from results.selection.shared_model import Pools, choose_shared_model, overall_scores, with_common_candidates
from tests.results.ensembles.simulated_pools import build_pool, keeping, pool_of
from tests.results.selection.plain_selection import all_rows, mean_score

FAST = Settings()
SKILLS = {"sst": (0.9, 0.3, 0.6), "qqp": (0.2, 0.9, 0.7), "sts": (0.5, 0.4, 0.9)}


def build_pools(num_rows: int = 90, num_epochs: int = 2, seed: int = 0) -> dict[str, Pool]:
    """The same trials for all tasks, with different examples of different numbers."""
    return {
        task: build_pool(
            TASKS[task], skills, num_rows=num_rows + 7 * place, num_epochs=num_epochs, seed=10 * seed + place
        )
        for place, (task, skills) in enumerate(SKILLS.items())
    }


def shuffled(pools: Pools) -> dict[str, Pool]:
    """The pools, all but the first with reordered candidates."""
    generator, (first, *others) = np.random.default_rng(0), pools
    return {first: pools[first]} | {task: reordered(pools[task], generator) for task in others}


def reordered(pool: Pool, generator: np.random.Generator) -> Pool:
    return pool.only(generator.permutation(len(pool.candidates)))


def plain_overall(pools: Pools) -> list[float]:
    """The overall score of each candidate, by scikit-learn and scipy."""
    scores = {
        task: [mean_score(pool, own, all_rows(pool)) for own in np.eye(len(pool.candidates))]
        for task, pool in pools.items()
    }
    return [overall_score(dict(zip(scores, own, strict=True)), TASKS) for own in zip(*scores.values(), strict=True)]


def keys(pool: Pool) -> list[tuple[str, int]]:
    return [(one.trial, one.epoch) for one in pool.candidates]


def scored(levels: dict[str, Sequence[float]]) -> dict[str, Pool]:
    """Pools with given dev scores: an accuracy of a binary task, and a correlation."""
    signal = np.concatenate([np.full(50, -1.0), np.full(50, 1.0)])
    other = np.tile([-1.0, 1.0], 50)  # not correlated with it
    binary = [np.where(np.arange(100) < 100 * level, 0.5, -0.5) for level in levels["qqp"]]
    real = [2.5 + 0.5 * (level * signal + np.sqrt(1 - level**2) * other) for level in levels["sts"]]
    return {
        "qqp": pool_of(TASKS["qqp"], np.stack(binary), np.ones(100)),
        "sts": pool_of(TASKS["sts"], np.stack(real), 2.5 + signal),
    }


@pytest.mark.parametrize("seed", range(2))
def test_selected_candidate_has_the_best_overall_score(seed: int) -> None:
    pools = build_pools(seed=seed)
    expected = plain_overall(pools)
    found = choose_shared_model(pools, FAST)
    best = int(np.argmax(expected))
    assert found.candidate == pools["sst"].candidates[best]
    for task, pool in pools.items():
        alone = mean_score(pool, np.eye(len(pool.candidates))[best], all_rows(pool))
        assert found.in_sample[task] == pytest.approx(alone, rel=1e-6)
    rows = {task: all_rows(pool) for task, pool in pools.items()}
    np.testing.assert_allclose(overall_scores(pools, rows), expected, rtol=1e-6)


def test_common_candidates_are_in_the_first_tasks_order_with_their_outputs() -> None:
    pools = shuffled(build_pools())
    pools["sst"], pools["sts"] = pools["sst"].only([5, 0, 3, 2]), pools["sts"].only([4, 1, 0, 5])
    found = with_common_candidates(pools)
    common = [key for key in keys(pools["sst"]) if key in keys(pools["sts"])]
    assert len(common) >= 1
    for task, pool in found.items():
        assert keys(pool) == common
        places = [keys(pools[task]).index(key) for key in common]
        np.testing.assert_array_equal(pool.outputs, pools[task].outputs[places])


@pytest.mark.parametrize("changes", [{"sweep": "other"}, {"trial": "other"}, {"epoch": 7}])
def test_tasks_without_a_common_candidate_are_named(changes: dict[str, object]) -> None:
    """Candidates are common only with the same epoch of the same trial of the same sweep."""
    pools = scored({"qqp": (0.5, 0.6), "sts": (0.3, 0.4)})
    others: tuple[Candidate, ...] = tuple(replace(one, **changes) for one in pools["sts"].candidates)  # type: ignore[arg-type]
    pools["sts"] = replace(pools["sts"], candidates=others)
    with pytest.raises(ValueError, match=r"^some candidate must have been scored on qqp, sts, got none$"):
        choose_shared_model(pools, FAST)


def test_selection_is_limited_to_stored_weights_and_the_estimate_is_not() -> None:
    pools = scored({"qqp": (0.9, 0.6, 0.7), "sts": (0.9, 0.5, 0.5)})
    limited = {task: keeping(pool, {1, 2}) for task, pool in pools.items()}
    first, second = (choose_shared_model(own, FAST) for own in (pools, limited))
    assert (first.candidate.number, second.candidate.number) == (0, 2)
    assert second.in_sample == pytest.approx({"qqp": 0.7, "sts": 0.5})
    for task in pools:
        np.testing.assert_array_equal(first.fitted[task].values, second.fitted[task].values)


def test_missing_weights_are_one_line() -> None:
    pools = {task: keeping(pool, ()) for task, pool in build_pools().items()}
    line = "some candidate for all tasks must have its weights still, got none"
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        choose_shared_model(pools, FAST)


@pytest.mark.parametrize("num_repeats", [1, 3])
def test_each_example_is_scored_by_the_best_candidate_outside_its_fold(num_repeats: int) -> None:
    pools = build_pools(num_rows=40)
    fitted = choose_shared_model(pools, FAST, num_repeats=num_repeats).fitted
    for repeat in range(num_repeats):
        for fold in range(5):
            outside = {task: np.flatnonzero(fitted[task].folds[repeat] != fold) for task in pools}
            best = int(np.argmax(overall_scores(pools, outside)))
            for task, pool in pools.items():
                inside = fitted[task].folds[repeat] == fold
                np.testing.assert_array_equal(fitted[task].values[repeat, inside], pool.values[best, inside])
