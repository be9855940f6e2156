"""Interactions are found where they are built in, and not claimed where effects add up."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.formula.api as smf
from pandas import DataFrame
from scipy import stats
from statsmodels.stats.anova import anova_lm

from results.stats.configuration_means import configuration_means
from results.stats.effects.interactions import find_interactions, interaction_contrasts, wald_test
from results.stats.effects.searched_keys import SearchedKey
from tests.results.answers.simulated_grid import grid_of
from tests.results.stats.test_configuration_means import model_scores

KEYS = [SearchedKey(name="a", values=(0, 1, 2), base=0), SearchedKey(name="b", values=(0, 1), base=0)]
GRID = {"a": (0, 1, 2), "b": (0, 1)}


def test_p_value_of_two_replicates_is_that_of_an_analysis_of_variance() -> None:
    """With equal training variances; so few residuals show no difference between these."""
    stream = np.random.default_rng(0)
    table = np.tile([[1.0, -1.0]], (6, 1)) * np.array([1, -1, 1, -1, 1, -1])[:, None] + stream.normal(size=(6, 1))
    params = [{"a": a, "b": b} for a in range(3) for b in range(2)]
    (found,) = find_interactions(KEYS, configuration_means(model_scores(table)), params)
    rows = [{**own, "replicate": r, "score": table[n, r]} for n, own in enumerate(params) for r in range(2)]
    fit = smf.ols("score ~ C(a) * C(b) + C(replicate)", DataFrame(rows)).fit()
    assert found.p_value == pytest.approx(anova_lm(fit).loc["C(a):C(b)", "PR(>F)"], rel=0.06)  # of medians


def test_replicates_that_are_equal_by_chance_have_no_smaller_p_value_than_the_test_over_examples() -> None:
    """Two keys with two values each and two equal replicates: the interaction has half the error of a score."""
    table = np.repeat(np.array([[0.50], [0.52], [0.53], [0.56]]), 2, axis=1)
    means = configuration_means(model_scores(table, 0.0002 * np.eye(8)))
    params = [{"a": a, "b": b} for a in (0, 1) for b in (0, 1)]
    first, second = (SearchedKey(name=name, values=(0, 1), base=0) for name in "ab")
    found = wald_test(means, interaction_contrasts(first, second, params))
    over_examples, over_both = stats.chi2.sf(0.01**2 / 0.0004, 1), stats.f.sf(0.01**2 / 0.0004, 1, 3)
    assert over_examples * 0.999 < found < over_both * 1.001


def test_additive_effects_are_no_interaction_in_19_of_20_sweeps() -> None:
    claims = []
    for seed in range(150):
        means, params = grid_of(GRID, 3, lambda a, b: 0.5 + 0.03 * a + 0.1 * b, seed, 0.01)
        claims.append(wald_test(means, interaction_contrasts(KEYS[0], KEYS[1], params)) < 0.05)
    assert 0.0 < np.mean(claims) < 0.1


def test_nothing_is_tested_without_replicates_or_crossed_values() -> None:
    means, params = grid_of(GRID, 1, lambda a, b: 0.5 + a * b, 0, 0.01)
    assert find_interactions(KEYS, means, params) == []
    diagonal = [{"a": 0, "b": 0}, {"a": 1, "b": 1}]
    means = configuration_means(model_scores(np.array([[0.1, 0.2], [0.3, 0.5]])))
    assert find_interactions(KEYS, means, diagonal) == []


def test_missing_cell_is_left_out_of_the_contrasts() -> None:
    params: list[dict[str, int]] = [{"a": a, "b": b, "c": c} for a in (0, 1) for b in (0, 1) for c in (0, 1)][:-1]
    (row,) = interaction_contrasts(KEYS[0], KEYS[1], params)
    assert row.tolist() == [1, 0, -1, 0, -1, 0, 1]


def test_few_groups_of_examples_make_hotellings_test() -> None:
    """Trainings that repeat exactly, so that the covariance over examples, from 12 groups, is all that is unsure."""
    params = [{"a": a, "b": b} for a in range(3) for b in range(2)]
    contrasts = interaction_contrasts(KEYS[0], KEYS[1], params)
    table = np.repeat(4 * np.random.default_rng(0).normal(size=(6, 1)), 2, axis=1)
    covariance = np.asarray(np.kron(np.eye(6), np.ones((2, 2))), dtype=np.float64)
    scores = replace(model_scores(table, covariance), degrees=11.0)
    estimates = contrasts @ table[:, 0]
    statistic = estimates @ np.linalg.inv(contrasts @ contrasts.T) @ estimates
    expected = stats.f.sf(statistic * 10 / (11 * 2), 2, 10)  # Hotelling's T^2 with 11 degrees of freedom, rank 2
    assert wald_test(configuration_means(scores), contrasts) == pytest.approx(expected, rel=0.08)
    assert expected > 2 * stats.chi2.sf(statistic, 2)
    one = replace(scores, degrees=1.0)
    assert wald_test(configuration_means(one), contrasts) == 1.0
    none = replace(scores, degrees=0.0)
    assert find_interactions(KEYS, configuration_means(none), params) == []
