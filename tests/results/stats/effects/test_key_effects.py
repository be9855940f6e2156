"""Effects of listed values against a paired t test and formulas by hand, and their adjusted error rate."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from results.stats.configuration_means import configuration_means
from results.stats.effects.key_effects import Trend, ValueEffect, find_trend, grid_contrasts, key_effects, with_earlier
from results.stats.effects.searched_keys import NO_VALUE, SearchedKey
from tests.results.answers.simulated_grid import grid_of
from tests.results.stats.test_configuration_means import model_scores

KEY = SearchedKey(name="a", values=(0, 1), base=0)


def half_width(effect: ValueEffect) -> float:
    """Of its interval; nan where that is unknown."""
    return math.nan if effect.interval is None else (effect.interval[1] - effect.interval[0]) / 2


def test_two_values_are_compared_as_by_a_paired_t_test() -> None:
    table = np.array([[0.50, 0.54, 0.52], [0.53, 0.58, 0.54]])
    means = configuration_means(model_scores(table))
    base, other = key_effects(grid_contrasts(KEY, [{"a": 0}, {"a": 1}], means), means)
    expected = stats.ttest_rel(table[1], table[0])
    assert (base.difference, base.interval, base.num_trials) == (None, None, 3)
    assert other.mean == pytest.approx(table[1].mean())
    assert other.difference == pytest.approx(0.03)
    low, high = expected.confidence_interval(0.95)
    assert half_width(other) == pytest.approx((high - low) / 2, rel=0.02)
    assert other.interval == pytest.approx((0.03 - half_width(other), 0.03 + half_width(other)))
    assert other.is_significant == (expected.pvalue < 0.05)


def test_several_keys_are_compared_where_all_else_is_equal() -> None:
    """Configurations of a=1 with b=2 are missing, so b=2 must not enter the difference between values of a."""
    params = [{"a": a, "b": b} for a, b in ((0, 1), (1, 1), (0, 2), (0, 3), (1, 3))]
    scores = np.array([0.1, 0.3, 0.9, 0.2, 0.5])
    means = configuration_means(model_scores(np.stack([scores, scores + 0.01], axis=1)))
    base, other = key_effects(grid_contrasts(KEY, params, means), means)
    assert other.difference == pytest.approx(((0.3 - 0.1) + (0.5 - 0.2)) / 2)
    assert base.mean == pytest.approx((0.1 + 0.9 + 0.2) / 3 + 0.005)
    assert (base.num_trials, other.num_trials) == (6, 4)


@pytest.mark.parametrize("base", [0, NO_VALUE])
def test_equal_values_are_called_different_in_one_sweep_of_twenty(base: Any) -> None:
    """Also from the value that was picked by its mean."""
    key = SearchedKey(name="a", values=(0, 1, 2, 3, 4), base=base)
    claims = []
    for seed in range(80):
        means, params = grid_of({"a": key.values}, 3, lambda _: 0.5, seed, 0.01)
        claims.append(any(value.is_significant for value in key_effects(grid_contrasts(key, params, means), means)))
    assert 0.0 < np.mean(claims) < 0.1


def test_base_that_is_picked_by_its_mean_has_the_margins_of_all_pairs() -> None:
    """Those of scipy's studentised range, with a variance that is known well and the same for all."""
    key = SearchedKey(name="a", values=(2, 0, 1, 3))
    means, params = grid_of({"a": key.values}, 200, lambda own: 0.5 + 0.01 * own, 3, 0.01)
    own = grid_contrasts(key, params, means)
    assert (own.key.base, own.key.is_picked, len(own.together)) == (3, True, 6)
    found = {value.value: value for value in key_effects(own, means) if value.difference is not None}
    assert sorted(found) == [0, 1, 2]
    expected = stats.studentized_range.ppf(0.95, 4, 597) * 0.01 / np.sqrt(200)
    assert [half_width(effect) for effect in found.values()] == pytest.approx([expected] * 3, rel=0.05)
    assert all((effect.difference or 0.0) <= 0 for effect in found.values())


NUMBERS = SearchedKey(name="a", values=(0.3, 0, 1, 3), base=0)
SLOPE = {0: 0.512, 0.3: 0.508, 1: 0.504, 3: 0.5}


def trend_of(key: SearchedKey, scores: Mapping[Any, float], error: float = 0.002, seed: int = 0) -> Trend | None:
    means, params = grid_of({key.name: key.values}, 3, lambda own: scores[own], seed, error)
    return find_trend(key, params, means)


def test_trend_can_be_significant_where_no_difference_from_the_base_is() -> None:
    """By the order of the values, whatever their distances are and in whichever order they were listed."""
    found = []
    for seed in range(20):
        means, params = grid_of({"a": NUMBERS.values}, 3, lambda own: SLOPE[own], seed, 0.003)
        values, trend = key_effects(grid_contrasts(NUMBERS, params, means), means), find_trend(NUMBERS, params, means)
        if trend is not None and not any(value.is_significant for value in values):
            found.append((trend.is_upward, trend.is_better))
    assert {*found} == {(True, False)}


def test_trend_begins_where_the_contrast_up_to_there_is_significant() -> None:
    found = trend_of(NUMBERS, {0: 0.500, 0.3: 0.504, 1: 0.54, 3: 0.58})
    assert found == Trend(is_upward=True, is_better=True, first=1)
    from_the_top = SearchedKey(name="a", values=(0.7, 0.8, 0.9, 1.0), base=1.0)
    found = trend_of(from_the_top, {1.0: 0.58, 0.9: 0.576, 0.8: 0.54, 0.7: 0.5})
    assert found == Trend(is_upward=False, is_better=False, first=0.8)


@pytest.mark.parametrize(
    ("key", "scores"),
    [
        (NUMBERS, {**SLOPE, 3: 0.53}),
        (replace(NUMBERS, base=0.3), SLOPE),
        (replace(NUMBERS, is_picked=True), SLOPE),
        (SearchedKey(name="a", values=("x", "y", "z"), base="x"), {"x": 0.5, "y": 0.52, "z": 0.54}),
        (SearchedKey(name="a", values=(0, None, 1), base=0), {0: 0.5, None: 0.52, 1: 0.54}),
        (SearchedKey(name="a", values=(0, 1), base=0), {0: 0.5, 1: 0.6}),
    ],
    ids=["interrupted", "base in the middle", "base picked by its mean", "names", "no number", "two values"],
)
def test_some_keys_have_no_trend(key: SearchedKey, scores: Mapping[Any, float]) -> None:
    assert trend_of(NUMBERS, SLOPE) is not None
    assert trend_of(key, scores) is None


def test_trend_is_over_what_all_values_were_trained_with() -> None:
    """At b=1 the scores rise, at b=2 they fall; the value 3 has only b=1."""
    cells = [(a, b) for b in (1, 2) for a in (0, 1, 2, 3) if (a, b) != (3, 2)]
    scores = np.array([0.5 + 0.02 * a if b == 1 else 0.9 - 0.2 * a for a, b in cells])
    means = configuration_means(model_scores(scores[:, None] + np.random.default_rng(0).normal(size=(7, 3)) * 0.001))
    key = SearchedKey(name="a", values=(0, 1, 2, 3), base=0)
    found = find_trend(key, [{"a": a, "b": b} for a, b in cells], means)
    assert found == Trend(is_upward=True, is_better=True, first=1)
    apart = [{"a": a, "b": b} for a, b in ((0, 0), (0, 1), (1, 0), (2, 1))]
    means = configuration_means(model_scores(np.array([[0.1, 0.11], [0.2, 0.22], [0.3, 0.31], [0.4, 0.42]])))
    assert find_trend(SearchedKey(name="a", values=(0, 1, 2), base=0), apart, means) is None


def test_equal_values_hardly_ever_show_a_trend() -> None:
    """Also those before the last one, if only that one differs."""
    key = SearchedKey(name="a", values=(0, 1, 2), base=0)
    assert np.mean([trend_of(key, dict.fromkeys(key.values, 0.5), 0.01, seed) is not None for seed in range(150)]) < 0.1
    found = [trend_of(key, {0: 0.5, 1: 0.5, 2: 0.4}, 0.01, seed) for seed in range(150)]
    assert np.mean([trend is not None and trend.first < 2 for trend in found]) < 0.1


def effect_of(difference: float, margin: float, decided_at: int | None = None) -> ValueEffect:
    interval = (difference - margin, difference + margin)
    found = ValueEffect(value=1, num_trials=3, mean=0.5, difference=difference, error=0.01, interval=interval)
    return replace(found, decided_at=decided_at)


def test_intervals_of_two_looks_hold_together() -> None:
    (found,) = with_earlier([effect_of(0.02, 0.03)], [effect_of(0.05, 0.04, decided_at=3)])
    assert found.interval == pytest.approx((0.01, 0.05))
    assert found.is_significant
    assert found.decided_at == 3
    assert found.difference == 0.02


def test_difference_is_moved_into_the_interval_that_both_looks_allow() -> None:
    (found,) = with_earlier([effect_of(0.005, 0.02)], [effect_of(0.05, 0.04, decided_at=3)])
    assert found.interval == pytest.approx((0.01, 0.025))
    assert found.difference == pytest.approx(0.01)
