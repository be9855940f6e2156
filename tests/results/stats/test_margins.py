"""Margins against tables and scipy, and the rate of false differences between equally good configurations."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from results.stats.configuration_means import (
    MAX_DEGREES,
    ConfigurationMeans,
    ModelScores,
    configuration_means,
    contrasts,
)
from results.stats.margins import (
    confidence_set,
    drawn_quantile,
    dunnett_quantile,
    largest_range,
    margins_best,
    margins_control,
    permuted_quantile,
    range_quantile,
)
from results.stats.resampling import Floats
from tests.results.stats.test_configuration_means import drawn_scores, model_scores, with_copies


def to_best(means: ConfigurationMeans) -> Floats:
    """Coefficients of the best one's differences to all others."""
    best = int(means.means.argmax())
    return np.delete(np.eye(len(means.means))[best] - np.eye(len(means.means)), best, axis=0)


def to_first(means: ConfigurationMeans) -> Floats:
    return np.delete(np.eye(len(means.means)) - np.eye(len(means.means))[0], 0, axis=0)


def exact_table(num_configurations: int, num_replicates: int) -> Floats:
    """A table in which every configuration has the same residual variance."""
    stream = np.random.default_rng(0)
    pattern = np.tile([[1.0, -1.0], [-1.0, 1.0]], (num_configurations // 2, num_replicates // 2))
    return pattern + stream.normal(size=num_configurations)[:, None]


def test_pair_has_the_margin_of_a_paired_t_test() -> None:
    table = np.array([[0.50, 0.54, 0.52], [0.53, 0.58, 0.54]])
    means = configuration_means(model_scores(table))
    test = stats.ttest_rel(table[1], table[0]).confidence_interval(0.95)
    half = (test.high - test.low) / 2
    assert margins_best(means, contrasts(means, to_best(means)))[0] == pytest.approx(half, rel=1e-3)
    assert margins_control(means, to_first(means)).widths[0] == pytest.approx(half, rel=1e-6)


@pytest.mark.parametrize("number", [3, 4, 24])
def test_quantile_of_all_pairs_is_that_of_the_studentised_range(number: int) -> None:
    """Of three configurations the pairs are drawn, of more the configurations; of 24 in several parts."""
    means = configuration_means(drawn_scores(0, (number, 4)))
    means = replace(means, model_variances=np.full_like(means.model_variances, 1e-4), examples=0 * means.examples)
    one = np.eye(number)
    pairs = np.array([one[a] - one[b] for a, b in combinations(range(number), 2)])
    for degrees in (8.0, 60.0):
        (expected,) = range_quantile(number, np.array([degrees]))
        assert dunnett_quantile(means, pairs, degrees) == pytest.approx(expected, rel=0.02)


def with_equal_variances(means: ConfigurationMeans) -> ConfigurationMeans:
    return replace(means, degrees=np.full_like(means.degrees, MAX_DEGREES))


def test_all_pairs_have_tukeys_margin() -> None:
    table = exact_table(4, 2)  # too few permutations: 24
    means = with_equal_variances(configuration_means(model_scores(table)))
    compared = contrasts(means, to_best(means))
    expected = stats.studentized_range.ppf(0.95, 4, 3) / np.sqrt(2)
    assert np.allclose(margins_best(means, compared) / compared.errors, expected, rtol=1e-3)


@pytest.mark.parametrize(("num_others", "degrees"), [(2, 5), (3, 10), (5, 20)])
def test_one_against_all_has_dunnetts_margin(num_others: int, degrees: int) -> None:
    """With equal variances the contrasts' correlations are 1/2."""
    means = configuration_means(model_scores(exact_table(6, 2)))
    found = dunnett_quantile(means, to_first(means)[:num_others], degrees)
    limit = np.full(num_others, found)
    shape = np.full((num_others, num_others), 0.5) + 0.5 * np.eye(num_others)
    inside = stats.multivariate_t(shape=shape, df=degrees).cdf(limit, lower_limit=-limit, random_state=0)
    assert inside == pytest.approx(0.95, abs=0.004)


def test_known_variance_adds_to_the_margin() -> None:
    table = np.array([[0.50, 0.54, 0.52], [0.53, 0.58, 0.54]])
    covariance = np.kron(np.eye(2), np.full((3, 3), 0.0002))
    plain, wider = (configuration_means(model_scores(table, c)) for c in (None, covariance))
    margins = [margins_control(means, to_first(means)).widths[0] for means in (plain, wider)]
    assert margins[1] ** 2 - margins[0] ** 2 == pytest.approx(stats.norm.ppf(0.975) ** 2 * 0.0004, rel=1e-3)


def test_equal_paired_differences_have_the_margin_of_the_examples() -> None:
    """Two accuracies of each of two models, which differ by .017 both times, and errors over 1,000 examples."""
    right = np.random.default_rng(0).random((4, 1000)) < 0.8
    covariance = np.cov(right, ddof=1) / 1000
    means = configuration_means(model_scores(np.array([[0.700, 0.720], [0.683, 0.703]]), covariance))
    compared = contrasts(means, to_first(means))
    paired = (right[2:].astype(float) - right[:2]).mean(axis=0)
    assert compared.training_errors[0] == pytest.approx(0.0, abs=1e-12)
    assert compared.errors[0] == pytest.approx(paired.std(ddof=1) / np.sqrt(1000))
    for margins in (
        margins_control(means, to_first(means)).widths,
        margins_best(means, contrasts(means, to_best(means))),
    ):
        assert margins[0] == pytest.approx(stats.norm.ppf(0.975) * compared.errors[0], rel=2e-3)


@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (2, 3), (7, 2), (4, 5)])
def test_no_margin_is_below_the_one_of_the_examples_alone(shape: tuple[int, int]) -> None:
    for seed in range(20):
        stream = np.random.default_rng(seed)
        right = stream.random((np.prod(shape), 300)) < 0.8
        table = right.mean(axis=1).reshape(shape) + 10.0 ** stream.uniform(-6, -1) * stream.normal(size=shape)
        means = configuration_means(model_scores(table, np.cov(right) / 300))
        ones = right.reshape(*shape, 300).mean(axis=1)
        least = stats.norm.ppf(0.975) * np.std(ones[1:] - ones[0], axis=-1) / np.sqrt(300)
        assert (margins_control(means, to_first(means)).widths >= 0.99 * least).all()  # quantiles are drawn


def test_variances_that_are_known_well_have_tukeys_quantile() -> None:
    means = configuration_means(model_scores(exact_table(6, 4)))
    assert drawn_quantile(with_equal_variances(means), largest_range) == 0
    known = replace(means, degrees=np.full(6, MAX_DEGREES - 1))
    expected = stats.studentized_range.ppf(0.95, 6, 15) / np.sqrt(2)
    assert drawn_quantile(known, largest_range) == pytest.approx(expected, rel=0.02)


def test_several_means_with_unequal_variances_need_a_larger_quantile_than_tukeys() -> None:
    table = np.random.default_rng(4).normal(size=(12, 3)) * np.geomspace(0.2, 5, 12)[:, None]
    means = configuration_means(model_scores(table))
    tukey = stats.studentized_range.ppf(0.95, 12, 22) / np.sqrt(2)
    assert drawn_quantile(means, largest_range) > 1.1 * tukey


def test_permutations_do_not_depend_on_real_differences() -> None:
    """Seven configurations with two replicates: a real difference must not enter its own null distribution."""
    table = np.random.default_rng(5).normal(size=(7, 2))
    found = [
        permuted_quantile(configuration_means(model_scores(one)), largest_range)
        for one in (table, table + 100.0 * np.eye(7)[:, :1])
    ]
    assert found[1] == pytest.approx(found[0], rel=1e-6)


def test_one_outlier_among_many_trials_is_no_difference() -> None:
    """One of 40 equally good configurations has a collapsed trial: permuted scores have ranges as large."""
    table = np.random.default_rng(1).normal(0.7, 0.01, size=(40, 2))
    table[5, 0] = 0.3
    means = configuration_means(model_scores(table))
    compared = contrasts(means, to_best(means))
    assert not (compared.estimates > margins_best(means, compared)).any()


@pytest.mark.parametrize("margins", ["best", "control"])
def test_equally_good_configurations_rarely_differ(margins: str) -> None:
    stream = np.random.default_rng(2)
    num_claims = 0
    for _ in range(100):
        means = configuration_means(model_scores(stream.standard_t(3, size=(7, 3)) + stream.normal(size=3)))
        coefficients = to_best(means) if margins == "best" else to_first(means)
        compared = contrasts(means, coefficients)
        allowed = margins_best(means, compared) if margins == "best" else margins_control(means, coefficients).widths
        num_claims += bool((np.abs(compared.estimates) > allowed).any())
    assert num_claims <= 11  # 5 % are 5; more than 11 have a probability below 1 %


def test_copies_change_no_margin_and_have_none_between_them() -> None:
    scores = drawn_scores(3, (6, 3))
    alone, copied = configuration_means(scores), configuration_means(with_copies(scores, [0, 4]))
    margins = margins_control(copied, to_first(copied)).widths
    assert margins[:5] == pytest.approx(margins_control(alone, to_first(alone)).widths, rel=0.03)  # drawn
    assert margins[5] == 0  # the copy of the first
    assert margins[6] == margins[3]
    best = margins_best(copied, contrasts(copied, to_best(copied)))
    assert best.max() == pytest.approx(margins_best(alone, contrasts(alone, to_best(alone))).max(), rel=1e-9)


def test_where_all_trained_the_same_margins_are_0_unless_they_did_so_once() -> None:
    scores = with_copies(drawn_scores(2, (1, 3)), [0, 0])
    means = configuration_means(scores)
    assert margins_control(means, to_first(means)).widths.tolist() == [0, 0]
    assert margins_best(means, contrasts(means, to_best(means))).tolist() == [0, 0]
    once = configuration_means(with_copies(drawn_scores(2, (1, 1)), [0]))
    assert np.isnan(margins_control(once, to_first(once)).widths).all()


def means_of(scores: Floats, example_variance: float = 0.0) -> ConfigurationMeans:
    """Of scores, (configurations, replicates), whose examples are the same but for a part of each configuration."""
    configurations, replicates = np.array(list(product(*map(range, scores.shape)))).T
    same = configurations[:, None] == configurations[None]
    models = ModelScores(
        configurations=configurations,
        replicates=replicates,
        scores=scores.ravel(),
        covariance=example_variance * same.astype(np.float64),
        trainings=np.arange(len(configurations)),
    )
    return configuration_means(models)


def draw(true: Floats, num_replicates: int, seed: int) -> Floats:
    """Scores around true means, with a training error of 1 and an effect of each replicate."""
    random = np.random.default_rng(seed)
    return true[:, None] + random.normal(size=(len(true), num_replicates)) + 3 * random.normal(size=num_replicates)


def test_best_are_left_in_nearly_all_sweeps() -> None:
    """Four are equally good, four far worse: none of the four is eliminated in at least 95 %."""
    true = np.repeat([0.0, -6.0], 4)
    left = [confidence_set(means_of(draw(true, 4, seed), 0.05)).is_left for seed in range(80)]
    kept = np.mean([own[:4].all() for own in left])
    assert kept >= 0.95 - 2 * np.sqrt(0.05 * 0.95 / 80)
    assert np.mean([own[4:].any() for own in left]) < 0.05


def test_elimination_goes_on_with_the_margins_of_those_left() -> None:
    true = np.concatenate([[0.0, -2.2], np.full(10, -30.0)])
    sizes, single_step = [], []
    for seed in range(12):
        means = means_of(draw(true, 5, seed))
        found, one = confidence_set(means), np.eye(len(true))
        compared = contrasts(means, one[int(means.means.argmax())] - one)
        single_step.append(int((compared.estimates <= margins_best(means, compared)).sum()))
        sizes.append(int(found.is_left.sum()))
        assert not found.is_left[2:].any()
        assert (found.below_best <= found.margins).tolist() == found.is_left.tolist()
    assert all(size <= other for size, other in zip(sizes, single_step, strict=True))
    assert sum(sizes) < sum(single_step)


def test_all_are_left_where_training_was_not_repeated() -> None:
    found = confidence_set(means_of(draw(np.array([0.0, -50.0, -90.0]), 1, 0)))
    assert found.is_left.all()
    assert np.isnan(found.margins).all()


def test_copies_of_the_best_are_left_with_it() -> None:
    scores = draw(np.array([0.0, 40.0, -40.0]), 4, 0)
    table = np.concatenate([scores, scores[1:2]])
    configurations, replicates = np.array(list(product(range(4), range(4)))).T
    models = ModelScores(
        configurations=configurations,
        replicates=replicates,
        scores=table.ravel(),
        covariance=np.zeros((16, 16)),
        trainings=np.r_[:12, 4:8],
    )
    assert confidence_set(configuration_means(models)).is_left.tolist() == [False, True, False, True]
