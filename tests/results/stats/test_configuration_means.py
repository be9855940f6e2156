"""Least-squares means against statsmodels, and variances against formulas by hand."""

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
    representatives,
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
    assert found.errors[0] == pytest.approx(float(fit.t_test(contrast).sd.item()), rel=0.1)  # of medians


def test_without_a_second_replicate_there_is_no_error() -> None:
    means = configuration_means(model_scores(np.array([[0.5], [0.6]])))
    found = contrasts(means, difference(means, 1, 0))
    assert not means.has_replicates
    assert found.estimates[0] == pytest.approx(0.1)
    assert np.isnan(found.errors[0])


def test_variance_over_examples_is_that_of_shared_errors() -> None:
    """Errors over examples: `a_i` of each configuration, plus one of each model, with known variances."""
    shared, own = np.array([4.0, 1.0]), 9.0
    configurations = np.repeat([0, 1], 3)
    covariance = np.where(configurations[:, None] == configurations, shared[configurations], 0) + own * np.eye(6)
    means = configuration_means(model_scores(TABLE, covariance))
    assert np.allclose(means.examples, np.diag(shared))
    assert contrasts(means, difference(means, 0, 1)).example_errors[0] == pytest.approx(np.sqrt(5))


def test_training_errors_are_those_of_variances_that_are_known_well() -> None:
    """One of many configurations has a standard deviation four times as large; all have 100 replicates."""
    table = np.random.default_rng(0).normal(size=(20, 100))
    table[2] *= 4
    means = configuration_means(model_scores(table))
    rows = np.concatenate([difference(means, 1, 0), difference(means, 2, 0)])
    assert contrasts(means, rows).training_errors == pytest.approx(np.sqrt([2 / 100, 17 / 100]), rel=0.15)


def test_replicates_that_are_equal_by_chance_vary_at_least_as_their_examples_do() -> None:
    """Each model has a variance of 9 over examples alone, and configurations one of 1 that replicates share."""
    covariance = np.kron(np.eye(2), np.ones((3, 3))) + 9 * np.eye(6)
    means = configuration_means(model_scores(np.repeat([[0.5], [0.6]], 3, axis=1), covariance))
    found = contrasts(means, difference(means, 1, 0))
    assert found.training_errors[0] == pytest.approx(np.sqrt(2 * 9 / 3))
    assert found.errors[0] == pytest.approx(np.sqrt(2 * 9 / 3 + 2 * 1)) == found.fixed_errors[0]


def test_drawn_errors_have_the_variances_of_the_means() -> None:
    """Of variances that are known well, with errors over examples that two configurations share."""
    table = np.random.default_rng(0).normal(size=(3, 100))
    shared = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 0.5]])
    means = configuration_means(model_scores(table, np.kron(shared, np.ones((100, 100)))))
    expected = shared + np.eye(3) / 100
    assert np.cov(np.add(*means.error_draws).T) == pytest.approx(expected, abs=0.05)


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


def test_examples_that_models_of_a_replicate_share_are_no_variance_of_training() -> None:
    """Two configurations whose models of a replicate err on the same examples: all that differs is 0.01."""
    table = 0.5 + 0.03 * np.random.default_rng(0).normal(size=4) + 0.001 * np.array([[1, -1, 1, -1], [-1, 1, -1, 1]])
    replicates = np.tile(np.eye(4), (2, 2))  # of models in the order of configurations
    shared = configuration_means(model_scores(table, 0.02**2 * replicates + 1e-8 * np.eye(8)))
    alone = configuration_means(model_scores(table, (0.02**2 + 1e-8) * np.eye(8)))
    assert np.sqrt(shared.model_variances.max()) < 0.003
    assert np.sqrt(alone.model_variances.min()) > 0.015


def test_configuration_with_one_training_has_a_floor_too() -> None:
    table = np.array([[0.5, 0.5], [0.6, 0.6], [0.4, np.nan], [0.3, np.nan]])
    means = configuration_means(model_scores(table, 1e-4 * np.eye(6)))
    assert means.model_variances == pytest.approx(1e-4)
