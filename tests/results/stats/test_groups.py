"""Groups of examples: sums, resamples and covariances of whole groups, against pandas and statsmodels."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from mtlib.data.hold_out import LARGEST_SHARE, LEAST_GROUPS, are_usable
from mtlib.tasks import TASKS
from results.stats.covariance import covariance_over_examples
from results.stats.groups import (
    MANY_DEGREES,
    count_groups,
    degrees_of_variance,
    drawn_groups,
    fold_groups,
    independent_groups,
    score_interval,
    sum_groups,
    text_groups_of,
)
from results.stats.resampling import Floats, Numbers, bootstrap_scores, draw_counts, percentile_interval
from tests.mtlib.conftest import build_table

GROUPS: Numbers = np.random.default_rng(0).integers(40, size=300) * 3
"""Of unequal sizes, with gaps in their numbers."""


def bias_reduced_error(values: Floats, groups: Numbers) -> float:
    """Standard error of a mean by the equations of Bell and McCaffrey (2002), with the hat matrix of a constant."""
    total = 0.0
    for group in np.unique(groups):
        own = groups == group
        hat = np.full((own.sum(), own.sum()), 1 / len(values))
        total += float((inverse_root(np.eye(own.sum()) - hat) @ (values[own] - values.mean())).sum()) ** 2
    return math.sqrt(total) / len(values)


def inverse_root(matrix: Floats) -> Floats:
    """The symmetric inverse square root."""
    roots, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors / np.sqrt(roots)) @ vectors.T)


def degrees_by_matrices(groups: Numbers, correlation: float) -> float:
    """Degrees of freedom of that variance, from its covariance matrix over groups (Imbens and Kolesar 2016, eq. 10)."""
    number = len(groups)
    same = groups[:, None] == groups
    model = np.where(np.eye(number, dtype=bool), 1.0, correlation * same)
    residuals = np.eye(number) - np.full((number, number), 1 / number)
    columns = []
    for group in np.unique(groups):
        own = groups == group
        scaled = inverse_root(np.eye(own.sum()) - np.full((own.sum(), own.sum()), 1 / number))
        columns.append(residuals[:, own] @ scaled.sum(axis=1))
    covariance = np.stack(columns) @ model @ np.stack(columns).T
    return float(np.trace(covariance) ** 2 / np.trace(covariance @ covariance))


def test_sums_are_those_of_pandas() -> None:
    values = np.random.default_rng(1).normal(size=(3, 300))
    np.testing.assert_allclose(sum_groups(values, GROUPS), pd.DataFrame(values.T).groupby(GROUPS).sum().to_numpy().T)
    assert count_groups(GROUPS) == len(set(GROUPS.tolist()))


def test_covariance_is_bias_reduced() -> None:
    labels, generator = np.zeros(300), np.random.default_rng(2)
    values = (generator.random((2, 300)) < generator.random(120)[GROUPS]).astype(float)
    found = covariance_over_examples(TASKS["qqp"].metric_entry.influences(values, labels), GROUPS)
    assert np.sqrt(found[0, 0]) == pytest.approx(bias_reduced_error(values[0], GROUPS), rel=1e-9)
    difference = found[0, 0] + found[1, 1] - 2 * found[0, 1]
    assert np.sqrt(difference) == pytest.approx(bias_reduced_error(values[0] - values[1], GROUPS), rel=1e-9)


def test_covariance_of_equal_groups_is_that_of_cluster_robust_least_squares() -> None:
    values, groups = np.random.default_rng(2).random(300), np.arange(300) // 12
    fit = sm.OLS(values, np.ones(300)).fit(cov_type="cluster", cov_kwds={"groups": groups, "df_correction": False})
    expected = fit.bse[0] ** 2 * 299 / 300  # without its factor for the number of coefficients
    assert covariance_over_examples((values - values.mean())[None], groups)[0, 0] == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("correlation", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("sizes", [[1] * 12, [5] * 12, [1, 2, 3, 30, 4, 1, 1, 9]], ids=["1", "5", "unequal"])
def test_degrees_of_freedom_are_those_of_bell_and_mccaffrey(sizes: list[int], correlation: float) -> None:
    groups = np.repeat(np.arange(len(sizes)), sizes)
    found = degrees_of_variance(np.array(sizes), correlation)
    assert found == pytest.approx(degrees_by_matrices(groups, correlation))
    assert found <= len(sizes) - 1 + 1e-9
    if len(set(sizes)) == 1:
        assert found == pytest.approx(len(sizes) - 1)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 1.0])
def test_degrees_follow_the_correlation_of_what_models_do_not_share(correlation: float) -> None:
    generator, sizes = np.random.default_rng(5), np.random.default_rng(6).integers(1, 30, 60)
    groups = np.repeat(np.arange(60), sizes)
    shared = 3 * generator.normal(size=60)[groups]  # of all models, so no part of their differences
    own = generator.normal(size=(40, 60))[:, groups], generator.normal(size=(40, len(groups)))
    values = shared + np.sqrt(correlation) * own[0] + np.sqrt(1 - correlation) * own[1]
    drawn = drawn_groups(values - values.mean(axis=1, keepdims=True), groups)
    expected, most = degrees_of_variance(sizes, correlation), degrees_of_variance(sizes, 1.0)
    assert drawn.degrees_of_differences(np.arange(40)) == pytest.approx(expected, rel=0.03)
    assert drawn.degrees_of_mean(np.arange(40)) == pytest.approx(most, rel=0.05)  # nearly all is shared
    some = drawn.degrees_of_differences(np.arange(5))
    other = drawn_groups(values[:5] - values[:5].mean(axis=1, keepdims=True), groups)
    assert some == pytest.approx(other.degrees_of_differences(np.arange(5)))  # others change nothing


def test_many_groups_count_as_a_known_variance_and_too_few_as_none() -> None:
    influence, both = np.random.default_rng(7).normal(size=(2, 3000)), np.arange(2)
    assert drawn_groups(influence, np.arange(3000)).degrees_of_differences(both) == math.inf
    few_rows = drawn_groups(influence[:, :MANY_DEGREES], np.arange(MANY_DEGREES))
    assert few_rows.degrees_of_differences(both) == pytest.approx(MANY_DEGREES - 1)
    few = drawn_groups(influence, np.arange(3000) % 9)
    assert (len(few.sizes), few.largest, few.num_examples, few.are_usable) == (9, 334, 3000, False)
    assert few.degrees_of_differences(both) == few.degrees_of_mean(both) == 0
    assert drawn_groups(influence, np.arange(3000) % 10).degrees_of_differences(both) == pytest.approx(9, abs=0.01)
    large = np.maximum(0, np.arange(3000) - 2400)  # the first has 2,401 rows
    assert drawn_groups(influence, large).degrees_of_differences(both) == 0
    assert drawn_groups(influence, np.maximum(0, np.arange(3000) - 2399)).degrees_of_differences(both) > 1
    one = drawn_groups(influence[:, :1], np.zeros(1, dtype=np.intp))
    assert one.degrees_of_differences(both) == 0


def test_groups_are_numbered_in_the_order_of_their_first_examples() -> None:
    assert independent_groups([7, 7, 2, 9, 2], 5).tolist() == [0, 0, 1, 2, 1]


def test_rows_of_a_group_are_drawn_together_and_once_on_average() -> None:
    counts = np.concatenate(list(draw_counts(300, 4000, (1,), GROUPS)))
    for group in np.unique(GROUPS):
        own = counts[:, group == GROUPS]
        assert (own == own[:, :1]).all()
        assert own[:, 0].mean() == pytest.approx(1, abs=0.08)
    one_row_each = np.unique(GROUPS, return_index=True)[1]
    assert (counts[:, one_row_each].sum(axis=1) == len(one_row_each)).all()


@pytest.mark.parametrize("task", ["qqp", "sts"])
def test_resampled_groups_have_the_error_of_the_covariance(task: str) -> None:
    generator = np.random.default_rng(3)
    labels = generator.normal(size=120)[GROUPS] + generator.normal(size=300)
    values = (labels + generator.normal(size=120)[GROUPS])[None] if task == "sts" else (labels > 0)[None].astype(float)
    expected = np.sqrt(covariance_over_examples(TASKS[task].metric_entry.influences(values, labels), GROUPS)[0, 0])
    found = bootstrap_scores(TASKS[task], values, labels, groups=GROUPS, num_resamples=4000)[0].std(ddof=1)
    assert found == pytest.approx(expected, rel=0.07)
    alone = bootstrap_scores(TASKS[task], values, labels, num_resamples=4000)[0].std(ddof=1)
    assert alone < 0.75 * found


def test_examples_without_shared_or_known_texts_are_alone() -> None:
    assert independent_groups(None, 3).tolist() == [0, 1, 2]
    assert independent_groups([5, 9, 7], 3).tolist() == [0, 1, 2]
    assert independent_groups([], 0).tolist() == []


@pytest.mark.parametrize(
    ("sizes", "is_usable"),
    [
        ([1] * 9, False),
        ([1] * 10, True),
        ([2] * (LEAST_GROUPS - 1), False),
        ([2] * LEAST_GROUPS, True),
        ([80, *[1] * 20], True),
        ([81, *[1] * 20], False),
    ],
)
def test_few_groups_or_a_very_large_one_cannot_be_drawn(sizes: list[int], is_usable: bool) -> None:
    assert LARGEST_SHARE == 0.8
    assert are_usable(len(sizes), max(sizes), sum(sizes)) == is_usable
    groups = np.repeat(np.arange(len(sizes)), sizes)
    assert count_groups(independent_groups(groups, sum(sizes))) == len(sizes)
    assert count_groups(fold_groups(groups)) == (len(sizes) if is_usable else sum(sizes))


def test_rows_of_a_table_are_drawn_with_those_of_their_texts_and_groups() -> None:
    table = build_table("sst", [f"Text {row // 2}" for row in range(40)])
    assert count_groups(text_groups_of(table)) == 20
    grouped = dataclasses.replace(table, groups=(["", "\0a", "\0a", *[""] * 37],))
    assert count_groups(text_groups_of(grouped)) == 19


def test_many_single_examples_have_the_percentile_interval() -> None:
    values, labels = (np.random.default_rng(0).random((1, 1200)) < 0.7).astype(float), np.ones(1200)
    expected = percentile_interval(bootstrap_scores(TASKS["qqp"], values, labels, groups=np.arange(1200), seed=3)[0])
    assert score_interval(TASKS["qqp"], values, labels, np.arange(1200), seed=3) == expected


def test_difference_of_two_is_paired() -> None:
    right = (np.random.default_rng(0).random(900) < 0.7).astype(float)
    better = right.copy()
    better[np.flatnonzero(right == 0)[:30]] = 1
    low, high = score_interval(TASKS["qqp"], np.stack([better, right]), np.ones(900), np.arange(900))
    assert 0 < low < 30 / 900 < high
    assert score_interval(TASKS["qqp"], np.stack([right, right]), np.ones(900), np.arange(900)) == (0, 0)


def test_interval_widens_with_fewer_groups_and_too_few_have_none() -> None:
    by_group = (np.random.default_rng(1).random(720) < 0.5).astype(float)
    widths = []
    for num_groups in (720, 40, 12):
        values = np.repeat(by_group[:num_groups], 720 // num_groups)[None]
        low, high = score_interval(TASKS["qqp"], values, np.ones(720), np.arange(720) // (720 // num_groups))
        widths.append(high - low)
    assert widths[0] < widths[1] < widths[2]
    assert score_interval(TASKS["qqp"], values, np.ones(720), np.arange(720) // 80) == ()


@pytest.mark.parametrize("task", ["sts", "sst"])
def test_interval_of_every_metric_is_within_its_bounds(task: str) -> None:
    labels = np.random.default_rng(2).integers(0, 5, 60).astype(float)
    values = labels[None] + (task == "sts") * np.random.default_rng(3).normal(size=(1, 60))
    values = values if task == "sts" else np.ones((1, 60))
    low, high = score_interval(TASKS[task], values, labels, np.arange(60) // 3)
    assert -1 <= low <= high <= 1
