"""The difference that is detectable is found with a power of 80 %."""

import math

import numpy as np
import pytest

from results.comparison.configuration_means import configuration_means
from results.effects.detectable import Precision, precision_of
from results.effects.key_effects import grid_contrasts, key_effects
from results.effects.searched_keys import SearchedKey
from tests.results.comparison.test_configuration_means import model_scores
from tests.results.effects.simulated_grid import grid_of

KEY = SearchedKey(name="a", values=(0, 1, 2, 3), base=0)


def precision(training: float, examples: float) -> Precision:
    return Precision(
        training_error=training, example_error=examples, num_replicates=3, degrees_per_replicate=6, quantile_ratio=1.2
    )


@pytest.mark.parametrize("num_replicates", [3, 8])
def test_detectable_difference_is_found_with_the_stated_power(num_replicates: int) -> None:
    difference = precision(math.sqrt(2) * 0.01, 0.0)
    difference = Precision(**{**difference.__dict__, "degrees_per_replicate": 3})
    true = difference.detectable(num_replicates)
    found = []
    for seed in range(150):
        means, params = grid_of({"a": KEY.values}, num_replicates, lambda a: 0.5 + true * (a == 2), seed, 0.01)
        found.append(key_effects(grid_contrasts(KEY, params), means)[2].is_significant)
    assert 0.7 < np.mean(found) < 0.93


def test_precision_follows_from_the_least_precise_contrast() -> None:
    means, params = grid_of({"a": KEY.values}, 4, lambda _: 0.5, 0, 0.01)
    coefficients = np.stack(list(grid_contrasts(KEY, params).differences.values()))
    found = precision_of(means, coefficients)
    assert found is not None
    assert found.num_replicates == 4
    assert found.degrees_per_replicate == 3
    assert found.training_error == pytest.approx(math.sqrt(2) * 0.01, rel=0.6)
    assert found.quantile_ratio == pytest.approx(
        2.35 / 1.96, abs=0.03
    )  # Dunnett's two-sided 5 % for 3 with infinitely many


def test_precision_is_unknown_without_replicates() -> None:
    means = configuration_means(model_scores(np.array([[0.5], [0.6]])))
    assert precision_of(means, np.array([[-1.0, 1.0]])) is None


def test_more_replicates_find_smaller_differences_down_to_what_examples_allow() -> None:
    found = precision(0.02, 0.003)
    sizes = [found.detectable(count) for count in (2, 3, 9, 200)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == pytest.approx(found.finest, rel=0.15)
    assert sizes[-1] > found.finest


def test_replicates_needed_are_the_fewest_that_suffice() -> None:
    found = precision(0.02, 0.003)
    needed = found.replicates_needed(0.02)
    assert needed is not None
    assert found.detectable(needed) <= 0.02 < found.detectable(needed - 1)
    assert found.replicates_needed(found.finest * 0.99) is None
    assert found.replicates_needed(found.finest * 1.0001) is None  # more than anyone trains
