"""Intervals of scores and of differences, over groups of examples."""

import numpy as np
import pytest

from mtlib.tasks import TASKS
from results.stats.intervals import score_interval
from results.stats.resampling import bootstrap_scores, percentile_interval

TASK = TASKS["qqp"]


def test_many_single_examples_have_the_percentile_interval() -> None:
    values, labels = (np.random.default_rng(0).random((1, 1200)) < 0.7).astype(float), np.ones(1200)
    expected = percentile_interval(bootstrap_scores(TASK, values, labels, groups=np.arange(1200), seed=3)[0])
    assert score_interval(TASK, values, labels, np.arange(1200), seed=3) == expected


def test_difference_of_two_is_paired() -> None:
    right = (np.random.default_rng(0).random(900) < 0.7).astype(float)
    better = right.copy()
    better[np.flatnonzero(right == 0)[:30]] = 1
    low, high = score_interval(TASK, np.stack([better, right]), np.ones(900), np.arange(900))
    assert 0 < low < 30 / 900 < high
    assert score_interval(TASK, np.stack([right, right]), np.ones(900), np.arange(900)) == (0, 0)


def test_interval_widens_with_fewer_groups_and_too_few_have_none() -> None:
    by_group = (np.random.default_rng(1).random(720) < 0.5).astype(float)
    widths = []
    for num_groups in (720, 40, 12):
        values = np.repeat(by_group[:num_groups], 720 // num_groups)[None]
        low, high = score_interval(TASK, values, np.ones(720), np.arange(720) // (720 // num_groups))
        widths.append(high - low)
    assert widths[0] < widths[1] < widths[2]
    assert score_interval(TASK, values, np.ones(720), np.arange(720) // 80) == ()


@pytest.mark.parametrize("task", ["sts", "sst"])
def test_interval_of_every_metric_is_within_its_bounds(task: str) -> None:
    labels = np.random.default_rng(2).integers(0, 5, 60).astype(float)
    values = labels[None] + (task == "sts") * np.random.default_rng(3).normal(size=(1, 60))
    values = values if task == "sts" else np.ones((1, 60))
    low, high = score_interval(TASKS[task], values, labels, np.arange(60) // 3)
    assert -1 <= low <= high <= 1
