"""Groups of examples: sums, resamples and covariances of whole groups, against pandas and statsmodels."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from mtlib.data.hold_out import LARGEST_SHARE, LEAST_GROUPS, are_usable
from mtlib.tasks import TASKS
from results.stats.covariance import covariance_over_examples
from results.stats.groups import (
    count_groups,
    independent_groups,
    sum_groups,
    text_groups_of,
)
from results.stats.resampling import Floats, Numbers, bootstrap_scores, draw_counts
from tests.mtlib.conftest import build_table

GROUPS: Numbers = np.random.default_rng(0).integers(40, size=300) * 3
"""Of unequal sizes, with gaps in their numbers."""


def cluster_error(values: Floats, groups: Numbers) -> float:
    """Standard error of a mean by cluster-robust least squares on a constant."""
    fit = sm.OLS(values, np.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": groups})
    return float(fit.bse[0])


def test_sums_are_those_of_pandas() -> None:
    values = np.random.default_rng(1).normal(size=(3, 300))
    np.testing.assert_allclose(sum_groups(values, GROUPS), pd.DataFrame(values.T).groupby(GROUPS).sum().to_numpy().T)
    assert count_groups(GROUPS) == len(set(GROUPS.tolist()))


def test_covariance_is_that_of_cluster_robust_least_squares() -> None:
    labels, generator = np.zeros(300), np.random.default_rng(2)
    values = (generator.random((2, 300)) < generator.random(120)[GROUPS]).astype(float)
    found = covariance_over_examples(TASKS["qqp"].metric_entry.influences(values, labels), GROUPS)
    assert np.sqrt(found[0, 0]) == pytest.approx(cluster_error(values[0], GROUPS), rel=1e-9)
    difference = found[0, 0] + found[1, 1] - 2 * found[0, 1]
    assert np.sqrt(difference) == pytest.approx(cluster_error(values[0] - values[1], GROUPS), rel=1e-9)


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
        ([1] * 3, True),
        ([2] * (LEAST_GROUPS - 1), False),
        ([2] * LEAST_GROUPS, True),
        ([80, *[1] * 20], True),
        ([81, *[1] * 20], False),
    ],
)
def test_few_groups_or_a_very_large_one_cannot_be_drawn(sizes: list[int], is_usable: bool) -> None:
    assert LARGEST_SHARE == 0.8
    assert are_usable(len(sizes), max(sizes), sum(sizes)) == is_usable
    groups = independent_groups(np.repeat(np.arange(len(sizes)), sizes), sum(sizes))
    assert count_groups(groups) == (len(sizes) if is_usable else sum(sizes))


def test_rows_of_a_table_are_drawn_with_those_of_their_texts_and_groups() -> None:
    table = build_table("sst", [f"Text {row // 2}" for row in range(40)])
    assert count_groups(text_groups_of(table)) == 20
    grouped = dataclasses.replace(table, groups=(["", "\0a", "\0a", *[""] * 37],))
    assert count_groups(text_groups_of(grouped)) == 19
