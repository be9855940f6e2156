"""The difference that is detectable is found with a power of 80 %."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from results.stats.configuration_means import ConfigurationMeans, Contrasts, configuration_means
from results.stats.effects.key_effects import grid_contrasts, key_effects, value_margins
from results.stats.effects.searched_keys import SearchedKey
from results.stats.margins import Distributions, Margins, margins_control
from results.stats.power import Precision, precision_of
from tests.results.answers.simulated_grid import grid_of
from tests.results.stats.test_configuration_means import drawn_scores, model_scores, with_copies

KEY = SearchedKey(name="a", values=(0, 1, 2, 3), base=0)


def precision(training: float, examples: float, values: Sequence[Any] = (0,), num_replicates: int = 3) -> Precision:
    """Of contrasts of equal variances, over one round of trainings and over examples, with normal errors of training
    that 12 degrees of freedom show; three are compared at once (Dunnett's quantile is 2.35)."""
    present = training / math.sqrt(num_replicates)
    zeros = np.zeros(len(values))
    compared = Contrasts(
        estimates=zeros,
        training_errors=zeros + present,
        example_errors=zeros + examples,
        fixed_errors=zeros,
        example_degrees=zeros + math.inf,
    )
    found = Distributions(scales=zeros + math.hypot(present, examples), degrees=zeros + 12)
    margins = Margins(compared=compared, found=found, quantile=2.35)
    return Precision(margins=margins, values=values, num_replicates=num_replicates)


def precision_in(means: ConfigurationMeans, params: list[dict[str, Any]]) -> Precision:
    own = grid_contrasts(KEY, params, means)
    margins = value_margins(own, means)
    assert margins is not None
    found = precision_of(means, margins, list(own.differences))
    assert found is not None
    return found


@pytest.mark.parametrize("num_replicates", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_detectable_difference_is_found_with_the_stated_power(num_replicates: int) -> None:
    """Each sweep of 3 replicates states a difference, which a sweep of 3 or 8 then has."""
    found = []
    for seed in range(100):
        true = precision_in(*grid_of({"a": KEY.values}, 3, lambda _: 0.5, seed, 0.01)).detectable(num_replicates)
        scores = dict.fromkeys(KEY.values, 0.5) | {2: 0.5 + true}
        means, params = grid_of({"a": KEY.values}, num_replicates, scores.__getitem__, seed, 0.01)
        found.append(key_effects(grid_contrasts(KEY, params, means), means)[2].is_significant)
    assert 0.65 < np.mean(found) < 0.93  # standard errors of .04, and what 3 replicates forecast of 8 is rough


def test_difference_that_is_found_is_a_margin_and_what_power_asks_for() -> None:
    """With the present replicates, by the quantile of Student's t distribution with 12 degrees of freedom."""
    found = precision(0.02, 0.003)
    error = math.hypot(0.02 / math.sqrt(3), 0.003)
    margin = stats.t.isf(stats.norm.sf(2.35), 12) * error
    assert found.margins.widths == pytest.approx(margin, rel=0.01)  # the normal score is approximate
    assert found.detectable(3) == pytest.approx(margin + stats.t.ppf(0.8, 12) * error, rel=0.01)


def test_value_has_the_precision_of_its_own_contrast() -> None:
    """An unstable value needs more replicates than the others; for all of them the mean square stands."""
    table = np.random.default_rng(0).normal(size=(4, 6)) * np.array([0.01, 0.01, 0.01, 0.2])[:, None]
    means = configuration_means(model_scores(table))
    found = precision_in(means, [{"a": value} for value in KEY.values])
    assert found.of_value(3).detectable(6) > 3 * found.of_value(1).detectable(6)
    each = [found.of_value(value).detectable(6) for value in (1, 2, 3)]
    assert found.detectable(6) == pytest.approx(np.sqrt(np.mean(np.square(each))))


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
    found = precision_of(copied, margins_control(copied, copies), range(1, 6))
    expected = precision_of(alone, margins_control(alone, base), range(1, 4))
    assert found is not None
    assert expected is not None
    assert list(found.values) == [1, 2, 3, 5]
    assert found.num_replicates == expected.num_replicates
    for value in (1, 2, 3):
        sizes = [one.of_value(value).detectable(5) for one in (found, expected)]
        assert sizes[0] == pytest.approx(sizes[1], rel=0.03)  # drawn
    assert precision_of(copied, margins_control(copied, copies[3:4]), [4]) is None


@pytest.mark.parametrize(("shape", "is_known"), [((2, 2), False), ((3, 2), True), ((2, 3), True)])
def test_one_degree_of_freedom_gives_no_forecast(shape: tuple[int, int], is_known: bool) -> None:
    means = configuration_means(model_scores(np.random.default_rng(0).normal(size=shape)))
    coefficients = np.eye(shape[0])[1:] - np.eye(shape[0])[0]
    values = range(1, shape[0])
    assert (precision_of(means, margins_control(means, coefficients), values) is not None) == is_known
