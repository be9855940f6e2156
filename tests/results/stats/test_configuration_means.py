"""Least-squares means against statsmodels, variances against formulas by hand, priors against simulated ones."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from results.stats.configuration_means import (
    ConfigurationMeans,
    ModelScores,
    configuration_means,
    contrasts,
    inverse_trigamma,
    prior_degrees,
    representatives,
    training_variances,
)
from results.stats.resampling import Floats


def model_scores(table: Floats, covariance: Floats | None = None) -> ModelScores:
    """Scores from a table, (configurations, replicates), nan where missing; no variance over examples."""
    cells = [(i, r) for i, r in itertools.product(*map(range, table.shape)) if not np.isnan(table[i, r])]
    configurations, replicates = np.array(cells).T
    return ModelScores(
        configurations=configurations,
        replicates=replicates,
        scores=table[configurations, replicates],
        covariance=np.zeros((len(cells), len(cells))) if covariance is None else covariance,
        trainings=np.arange(len(cells)),
    )


def difference(means: ConfigurationMeans, first: int, second: int) -> Floats:
    """(1, configurations) coefficients of a difference."""
    return np.asarray((np.eye(len(means.means))[first] - np.eye(len(means.means))[second])[None])


TABLE = np.array([[0.50, 0.54, 0.52], [0.53, 0.58, 0.54]])


def test_two_configurations_are_compared_as_by_a_paired_t_test() -> None:
    means = configuration_means(model_scores(TABLE))
    found = contrasts(means, difference(means, 1, 0))
    expected = stats.ttest_rel(TABLE[1], TABLE[0])
    assert found.estimates[0] == pytest.approx(0.03)
    assert found.estimates[0] / found.errors[0] == pytest.approx(expected.statistic)
    assert found.degrees[0] == pytest.approx(2)
    assert found.example_errors[0] == 0


def test_missing_replicate_is_handled_as_in_a_two_way_fit() -> None:
    table = np.random.default_rng(1).normal(size=(4, 3)) + 5 * np.arange(3)  # large effects of replicates
    table[2, 2] = np.nan
    scores = model_scores(table)
    means = configuration_means(scores)
    columns = [np.eye(4)[scores.configurations], np.eye(3)[scores.replicates][:, 1:]]
    fit = sm.OLS(scores.scores, np.concatenate(columns, axis=1)).fit()
    found = contrasts(means, difference(means, 2, 0))
    assert found.estimates[0] == pytest.approx(fit.params[2] - fit.params[0])
    assert means.total_degrees == pytest.approx(fit.df_resid)


def test_equal_variances_are_pooled_as_by_least_squares() -> None:
    table = np.array([[1.0, -1, 0], [-1, 1, 0], [1, 0, -1], [-1, 0, 1]])  # every configuration has the same variance
    scores = model_scores(table)
    means = configuration_means(scores)
    columns = [np.eye(4)[scores.configurations], np.eye(3)[scores.replicates][:, 1:]]
    fit = sm.OLS(scores.scores, np.concatenate(columns, axis=1)).fit()
    contrast = np.array([1.0, -1, 0, 0, 0, 0])
    found = contrasts(means, difference(means, 0, 1))
    assert found.errors[0] == pytest.approx(float(fit.t_test(contrast).sd.item()))
    assert found.degrees[0] == pytest.approx(fit.df_resid)


def test_without_a_second_replicate_there_is_no_error() -> None:
    means = configuration_means(model_scores(np.array([[0.5], [0.6]])))
    found = contrasts(means, difference(means, 1, 0))
    assert not means.has_replicates
    assert found.estimates[0] == pytest.approx(0.1)
    assert np.isnan(found.errors[0])
    assert found.degrees[0] == 0


def test_variance_over_examples_is_that_of_shared_errors() -> None:
    """Errors over examples: `a_i` of each configuration, plus one of each model, with known variances."""
    shared, own = np.array([4.0, 1.0]), 9.0
    configurations = np.repeat([0, 1], 3)
    covariance = np.where(configurations[:, None] == configurations, shared[configurations], 0) + own * np.eye(6)
    means = configuration_means(model_scores(TABLE, covariance))
    assert np.allclose(means.examples, np.diag(shared))
    assert contrasts(means, difference(means, 0, 1)).example_errors[0] == pytest.approx(np.sqrt(5))


@pytest.mark.parametrize(("degrees", "expected"), [(2, 4.0), (4, 10.0)])
def test_prior_of_simulated_variances_is_recovered(degrees: int, expected: float) -> None:
    stream = np.random.default_rng(4)
    true = 3 * expected / stream.chisquare(expected, 20_000)
    drawn = true * stream.chisquare(degrees, 20_000) / degrees
    assert prior_degrees(drawn, np.full(20_000, float(degrees))) == pytest.approx(expected, rel=0.1)


def test_few_equal_variances_count_as_differing_a_little() -> None:
    """trigamma(10) = .1052 and trigamma(11) = .0952: a spread of .1 is between 20 and 22 degrees of freedom."""
    assert 20 < prior_degrees(np.ones(5), np.full(5, 2.0)) < 22


def test_replicates_that_happen_to_be_equal_do_not_make_all_variances_unknown() -> None:
    """Residuals of accuracies of 15 configurations with two replicates, in steps of the accuracy; one is 0."""
    steps = np.array([0, 1, 1, 1, 1, 4, 6, 8, 8, 8, 11, 13, 16, 18, 20], np.float64)
    degrees = np.full(15, 14 / 15)
    found = prior_degrees(steps**2 / degrees, degrees)
    assert found > 2
    assert 0.7 * prior_degrees(np.maximum(steps, 0.25) ** 2 / degrees, degrees) < found


@pytest.mark.parametrize(("num_configurations", "num_replicates"), [(16, 2), (16, 3), (40, 2)])
def test_equal_variances_are_seldom_taken_for_very_different_ones(num_configurations: int, num_replicates: int) -> None:
    stream, degrees = np.random.default_rng(8), np.full(num_configurations, num_replicates - 1.0)
    found = prior_degrees(stream.chisquare(degrees, (2000, num_configurations)) / degrees, degrees)
    assert np.mean(found < 2.5) < 0.07
    assert np.median(found) > 15


def test_small_variance_is_raised_towards_the_pooled_one_and_a_large_one_stays() -> None:
    """By hand: (d0 pooled + squares) / (d0 + d) where that is more than squares / d."""
    residuals, configurations = np.array([1.0, -1.0, 2.0, -2.0, 3.0, -3.0]), np.repeat(np.arange(3), 2)
    degrees = np.full(3, 4 / 3)
    found, freedom = training_variances(residuals, configurations, degrees)
    weight = freedom[0] - 4 / 3
    own = np.array([2.0, 8.0, 18.0]) / (4 / 3)
    assert weight == pytest.approx(prior_degrees(own, degrees))
    raised = (weight * 28 / 4 + np.array([2.0, 8.0])) / (weight + 4 / 3)
    assert (raised > own[:2]).all()
    assert np.allclose(found, [*raised, own[2]])


@pytest.mark.parametrize("value", [1e-6, 0.01, 1.0, 30.0, 1e5])
def test_inverse_of_trigamma(value: float) -> None:
    from scipy.special import polygamma

    assert polygamma(1, inverse_trigamma(value)) == pytest.approx(value, rel=1e-9)


def with_copies(scores: ModelScores, copied: list[int]) -> ModelScores:
    """With further configurations at the end, whose models are those of some that there are."""
    number, models = int(scores.configurations.max()) + 1, list(range(len(scores.scores)))
    configurations = scores.configurations.tolist()
    for place, configuration in enumerate(copied):
        own = np.flatnonzero(scores.configurations == configuration).tolist()
        models += own
        configurations += [number + place] * len(own)
    return replace(scores.select(np.array(models)), configurations=np.array(configurations))


def with_trainings(scores: ModelScores, trainings: Sequence[int]) -> ModelScores:
    """With these numbers of the models' trainings."""
    return replace(scores, trainings=np.array(trainings))


def drawn_scores(seed: int, shape: tuple[int, int] = (4, 3)) -> ModelScores:
    """Scores with a covariance over examples."""
    stream = np.random.default_rng(seed)
    factors = stream.normal(size=(shape[0] * shape[1], 40))
    return model_scores(stream.normal(size=shape), factors @ factors.T / 400)


def test_configurations_that_trained_the_same_count_once() -> None:
    scores = drawn_scores(0)
    alone, found = configuration_means(scores), configuration_means(with_copies(scores, [2, 0, 2]))
    assert found.distinct.tolist() == [0, 1, 2, 3, 2, 0, 2]
    assert found.means.tolist() == alone.means[[0, 1, 2, 3, 2, 0, 2]].tolist()
    assert found.total_degrees == alone.total_degrees
    expected = contrasts(alone, difference(alone, 2, 1))
    for number in (2, 4, 6):
        own = contrasts(found, difference(found, number, 1))
        assert own.errors == expected.errors
        assert own.degrees == expected.degrees
    same = contrasts(found, difference(found, 6, 2))
    assert (same.estimates[0], same.errors[0]) == (0, 0)


def test_equal_scores_of_other_trainings_are_distinct() -> None:
    scores = drawn_scores(1)
    copied = with_copies(scores, [3])
    assert representatives(copied).tolist() == [0, 1, 2, 3, 3]
    other = np.append(copied.trainings[:-1], 12)  # of the last replicate
    assert representatives(with_trainings(copied, other.tolist())).tolist() == [0, 1, 2, 3, 4]


def without_models(scores: ModelScores, left_out: Sequence[int]) -> ModelScores:
    return scores.select(np.setdiff1d(np.arange(len(scores.scores)), left_out))


@pytest.mark.parametrize("left_out", [[14], [9], [13, 14], [10, 11]])
def test_copy_that_lacks_replicates_is_the_same_as_the_one_that_has_them(left_out: list[int]) -> None:
    """Of configuration 3, with models 9 to 11, and its copy 4, with 12 to 14."""
    scores = drawn_scores(1)
    found = configuration_means(without_models(with_copies(scores, [3]), left_out))
    assert found.distinct.tolist() == [0, 1, 2, 3, 3]
    assert found.means.tolist() == pytest.approx(configuration_means(scores).means[[0, 1, 2, 3, 3]].tolist())
    assert sorted(found.num_models.tolist()) == sorted([3, 3, 3, 3, 3 - len(left_out)])


def test_copies_that_both_lack_a_replicate_are_distinct() -> None:
    fewer = without_models(with_copies(drawn_scores(1), [3]), [9, 14])
    assert representatives(fewer).tolist() == [0, 1, 2, 3, 4]


def test_where_all_trained_the_same_the_variance_is_known_to_be_0() -> None:
    scores = drawn_scores(2, (1, 3))
    found = configuration_means(with_copies(scores, [0]))
    assert found.has_replicates
    compared = contrasts(found, difference(found, 1, 0))
    assert (compared.estimates[0], compared.errors[0]) == (0, 0)
    assert not configuration_means(scores).has_replicates  # of one configuration alone it is not used
    once = model_scores(np.array([[0.5], [0.5]]))
    assert not configuration_means(with_trainings(once, [0, 0])).has_replicates
