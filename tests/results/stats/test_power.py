"""The difference that is detectable is found with a power of 80 %."""

import math
from typing import Any

import numpy as np
import pytest

from results.stats.configuration_means import ConfigurationMeans, configuration_means
from results.stats.effects.key_effects import grid_contrasts, key_effects
from results.stats.effects.searched_keys import SearchedKey
from results.stats.margins import margins_control
from results.stats.power import Precision, precision_of
from tests.results.answers.simulated_grid import grid_of
from tests.results.stats.test_configuration_means import drawn_scores, model_scores, with_copies

KEY = SearchedKey(name="a", values=(0, 1, 2, 3), base=0)


def precision(training: float, examples: float, margin: float = 0.03) -> Precision:
    return Precision(
        training_error=training,
        example_error=examples,
        num_replicates=3,
        degrees_per_replicate=6,
        quantile_ratio=1.2,
        margin=margin,
    )


def precision_in(means: ConfigurationMeans, params: list[dict[str, Any]]) -> Precision:
    coefficients = np.stack(list(grid_contrasts(KEY, params, means).differences.values()))
    found = precision_of(means, coefficients, margins_control(means, coefficients).widths)
    assert found is not None
    return found


@pytest.mark.parametrize("num_replicates", [3, 8])
def test_detectable_difference_is_found_with_the_stated_power(num_replicates: int) -> None:
    """Each sweep of 3 replicates states a difference, which a sweep of 3 or 8 then has."""
    found = []
    for seed in range(100):
        true = precision_in(*grid_of({"a": KEY.values}, 3, lambda _: 0.5, seed, 0.01)).detectable(num_replicates)
        scores = dict.fromkeys(KEY.values, 0.5) | {2: 0.5 + true}
        means, params = grid_of({"a": KEY.values}, num_replicates, scores.__getitem__, seed, 0.01)
        found.append(key_effects(grid_contrasts(KEY, params, means), means)[2].is_significant)
    assert 0.65 < np.mean(found) < 0.93  # standard errors of .04, and what 3 replicates forecast of 8 is rough


def test_precision_follows_from_the_mean_of_the_contrasts() -> None:
    means, params = grid_of({"a": KEY.values}, 4, lambda _: 0.5, 0, 0.01)
    found = precision_in(means, params)
    assert found.num_replicates == 4
    assert 0.5 < found.degrees_per_replicate <= 3.5  # 3 if variances were known to be equal
    assert found.training_error == pytest.approx(math.sqrt(2) * 0.01, rel=0.6)
    assert found.quantile_ratio == pytest.approx(
        2.35 / 1.96, abs=0.08
    )  # Dunnett's two-sided 5 % for 3 with infinitely many
    margins = [value.margin for value in key_effects(grid_contrasts(KEY, params, means), means)[1:]]
    assert found.margin == pytest.approx(np.sqrt(np.mean(np.square(margins))))
    assert min(margins) < found.margin < max(margins)


def test_variance_over_examples_is_averaged_over_the_contrasts() -> None:
    """Value 1 seems to share more errors with the base than replicates share: alone it would have no variance."""
    stream = np.random.default_rng(0)
    configurations = np.repeat(np.arange(3), 2)
    shared = np.array([[3.0, 4.0, 1.0], [4.0, 3.0, 1.0], [1.0, 1.0, 7.0]])
    covariance = shared[np.ix_(configurations, configurations)] + 9 * np.eye(6)
    means = configuration_means(model_scores(stream.normal(size=(3, 2)), covariance))
    coefficients = np.array([[-1.0, 1, 0], [-1, 0, 1]])
    found = precision_of(means, coefficients, np.array([1.0, 2.0]))
    assert found is not None
    assert found.example_error == pytest.approx(math.sqrt(((3 + 3 - 8) + (3 + 7 - 2)) / 2))


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


def test_values_that_trained_the_same_have_no_part_in_the_precision() -> None:
    scores = drawn_scores(0)
    base = np.eye(4)[1:] - np.eye(4)[0]
    alone, copied = configuration_means(scores), configuration_means(with_copies(scores, [0, 2]))
    copies = np.eye(6)[1:] - np.eye(6)[0]
    found = precision_of(copied, copies, np.array([0.1, 0.2, 0.3, 0.0, 0.2]))
    expected = precision_of(alone, base, np.array([0.1, 0.2, 0.3]))
    assert found is not None
    assert expected is not None
    assert found.degrees_per_replicate == pytest.approx(expected.degrees_per_replicate, rel=0.1)
    assert found.num_replicates == expected.num_replicates
    assert found.quantile_ratio == pytest.approx(expected.quantile_ratio, rel=0.03)  # drawn
    assert precision_of(copied, copies[3:4], np.zeros(1)) is None
    same = configuration_means(with_copies(drawn_scores(0, (1, 3)), [0]))
    assert precision_of(same, np.array([[-1.0, 1.0]]), np.zeros(1)) is None


@pytest.mark.parametrize(("shape", "is_known"), [((2, 2), False), ((3, 2), True), ((2, 3), True)])
def test_one_degree_of_freedom_gives_no_forecast(shape: tuple[int, int], is_known: bool) -> None:
    means = configuration_means(model_scores(np.random.default_rng(0).normal(size=shape)))
    coefficients = np.eye(shape[0])[1:] - np.eye(shape[0])[0]
    assert (precision_of(means, coefficients, margins_control(means, coefficients).widths) is not None) == is_known
