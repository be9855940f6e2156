"""Differences with both variances, by simulation and by scipy, and what a verdict says of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from mtlib.tasks import TASKS, overall_score
from results.inference.distillation.verdict import (
    Cost,
    Scored,
    ScoreDifference,
    difference,
    distillation_verdict,
    independent_difference,
    overall_score_of_each,
    score_table,
    scored,
)
from results.records.trials import OVERALL


def of_scores(scores: list[float], resampled: np.ndarray | None = None) -> Scored:
    """A contender with these scores by training, and no variance over examples unless given."""
    found = np.repeat(np.array(scores)[:, None], 50, axis=1) if resampled is None else resampled
    return Scored(scores={OVERALL: np.array(scores)}, resampled={OVERALL: found})


def test_without_variance_over_examples_the_interval_is_that_of_a_t_test() -> None:
    scores = [0.71, 0.74, 0.72, 0.75]
    found = difference(of_scores(scores), of_scores([0.7]), OVERALL)
    interval = ttest_1samp(np.array(scores) - 0.7, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.knows_training


def test_intervals_over_examples_and_trainings_cover_the_true_difference() -> None:
    draw, covered, truth = np.random.default_rng(2), [], 0.02
    for _ in range(400):
        example, trainings = draw.normal(0, 0.01), truth + draw.normal(0, 0.01, 4)
        resampled = trainings[:, None] + example + draw.normal(0, 0.01, 200)
        student = of_scores((trainings + example).tolist(), resampled)
        found = difference(student, of_scores([0.0], np.zeros((1, 200))), OVERALL)
        covered.append(found.low <= truth <= found.high)
    assert 0.92 < np.mean(covered) < 0.98


def test_equal_examples_pair_what_is_compared() -> None:
    """Both contenders are right about the same rows but one: the interval is far narrower than that of either."""
    draw = np.random.default_rng(1)
    right = (draw.random((1, 400)) < 0.6).astype(float)
    better = right.copy()
    better[0, np.flatnonzero(right[0] == 0)[0]] = 1
    tasks = {"sst": TASKS["sst"]}
    one, other = (
        scored({"sst": values}, {"sst": np.zeros(400)}, {"sst": np.arange(400)}, tasks) for values in (better, right)
    )
    found = difference(one, other, "sst")
    alone = independent_difference(one.cell("sst"), other.cell("sst"), knows_training=False)
    assert found.value == pytest.approx(alone.value) == pytest.approx(1 / 400)
    assert found.high - found.low < 0.2 * (alone.high - alone.low)
    assert not found.knows_training
    assert not alone.knows_training


def test_the_overall_score_of_arrays_is_that_of_each_element() -> None:
    draw = np.random.default_rng(0)
    scores = {name: draw.random((2, 3)) for name in TASKS}
    found = overall_score_of_each(scores, TASKS)
    assert found.shape == (2, 3)
    assert found[1, 2] == pytest.approx(overall_score({name: own[1, 2] for name, own in scores.items()}, TASKS))


def near(value: float, half: float = 0.01) -> ScoreDifference:
    return ScoreDifference(value=value, low=value - half, high=value + half, knows_training=True)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (0.032, "80% of their gain, with 25% of the parameters of their 12 models"),
        (0.005, "not shown to gain anything"),
        (-0.02, "worse than the best single model"),
    ],
)
def test_a_verdict_says_what_is_shown_and_no_more(own: float, words: str) -> None:
    text = " ".join(distillation_verdict([near(0.04), near(own), near(own - 0.04)], 12, 0.25))
    assert words in text
    assert sum(part in text for part in ("of their gain", "not shown to gain", "worse than")) == 1


def test_the_table_shows_values_of_the_metric_not_scores() -> None:
    tasks = {"sts": replace(TASKS["sts"], metric="rmse")}
    cost = Cost(num_models=1, num_parameters=10**6, rows_per_second=1.0)
    cells = {"sts": (-0.7, 0.1), OVERALL: (0.86, 0.1)}
    (row,) = score_table(["student"], [cost], [cells], tasks).rows
    assert row[-2:] == [["0.700", "±0.100"], ["0.860", "±0.100"]]
