"""Folds have equal sizes and similar labels, depend on the seed, and cover every example."""

import re

import numpy as np
import pytest

from mtlib.tasks import TASKS
from results.ensembles.folds import LEAST_ROWS, assign_folds, count_folds
from results.stats.resampling import Floats


def draw_labels(rows: int, num_classes: int, seed: int = 0) -> Floats:
    """Classes of unequal frequency, the last one the rarest."""
    generator = np.random.default_rng(seed)
    return np.minimum(generator.integers(num_classes, size=rows), generator.integers(num_classes, size=rows)).astype(
        np.float64
    )


@pytest.mark.parametrize("rows", [10, 11, 137])
@pytest.mark.parametrize("num_folds", [2, 10])
@pytest.mark.parametrize("num_classes", [1, 5])
def test_folds_have_equal_sizes_and_equal_shares_of_each_class(rows: int, num_folds: int, num_classes: int) -> None:
    labels = draw_labels(rows, num_classes)
    for seed in range(5):
        folds = assign_folds(labels, num_folds, np.random.default_rng(seed))
        assert folds.shape == (rows,)
        assert np.ptp(np.bincount(folds, minlength=num_folds)) <= 1
        for label in np.unique(labels):
            assert np.ptp(np.bincount(folds[labels == label], minlength=num_folds)) <= 2


def test_each_fold_has_one_example_per_quantile_of_real_labels() -> None:
    labels = np.random.default_rng(0).uniform(0, 5, 103)
    folds = assign_folds(labels, 5, np.random.default_rng(1))
    ranked = folds[labels.argsort()]
    for start in range(0, 100, 5):
        assert sorted(ranked[start : start + 5]) == [0, 1, 2, 3, 4]
    assert len(set(ranked[100:])) == 3


def test_every_example_is_equally_likely_in_every_fold() -> None:
    labels, generator = draw_labels(23, 3), np.random.default_rng(0)
    drawn = np.stack([assign_folds(labels, 5, generator) for _ in range(4000)])
    shares = np.stack([(drawn == fold).mean(axis=0) for fold in range(5)])
    np.testing.assert_allclose(shares, 0.2, atol=0.03)  # standard error .006


@pytest.mark.parametrize(("num_folds", "rows"), [(1, 7), (8, 7), (2, 1)])
def test_fewer_than_two_folds_or_more_than_examples_are_refused(num_folds: int, rows: int) -> None:
    what = f"at most one per group of examples, of which there are {rows}"
    rule = f"there must be at least 2 folds and {what}, got {num_folds}"
    with pytest.raises(ValueError, match=f"^{re.escape(rule)}$"):
        assign_folds(np.zeros(rows), num_folds, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("num_rows", "count"), [(2, 2), (13, 2), (3 * LEAST_ROWS - 1, 2), (3 * LEAST_ROWS, 3), (50, 5), (1000, 5)]
)
def test_correlation_has_only_folds_with_enough_examples(num_rows: int, count: int) -> None:
    assert count_folds(TASKS["sts"], num_rows, 5) == count


GROUP_SIZES = {"pairs": [2] * 40, "mixed": [30, 9, 9, 4, *[3] * 7, *[2] * 20, *[1] * 60], "large": [90, *[1] * 40]}


@pytest.mark.parametrize("sizes", GROUP_SIZES.values(), ids=GROUP_SIZES)
@pytest.mark.parametrize("num_folds", [2, 5])
def test_groups_are_not_split_and_sizes_differ_by_at_most_the_largest(sizes: list[int], num_folds: int) -> None:
    generator = np.random.default_rng(0)
    groups = generator.permutation(np.repeat(np.arange(len(sizes)) * 7, sizes))
    for seed in range(20):
        folds = assign_folds(draw_labels(len(groups), 2), num_folds, np.random.default_rng(seed), groups)
        assert all(len(set(folds[groups == group])) == 1 for group in set(groups))
        found = np.bincount(folds, minlength=num_folds)
        assert found.min() > 0
        assert np.ptp(found) <= max(sizes)


def test_mean_labels_of_groups_are_spread_alike() -> None:
    labels = np.repeat(np.random.default_rng(0).uniform(0, 5, 200), 2)
    folds = assign_folds(labels, 5, np.random.default_rng(1), np.repeat(np.arange(200), 2))
    ranked = folds[labels.argsort(kind="stable")][::2]
    for start in range(0, 200, 5):
        assert sorted(ranked[start : start + 5]) == [0, 1, 2, 3, 4]


def test_the_rarest_of_several_labels_is_spread_over_folds() -> None:
    labels = (np.random.default_rng(0).random((300, 3)) < [0.7, 0.3, 0.05]).astype(np.float64)
    folds = assign_folds(labels, 5, np.random.default_rng(1))
    assert np.ptp(np.bincount(folds[labels[:, 2] == 1], minlength=5)) <= 2
