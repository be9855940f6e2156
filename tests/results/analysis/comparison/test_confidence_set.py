"""The confidence set of the best configuration, with the variance of training."""

from itertools import product

import numpy as np
import pytest

from results.analysis.comparison.bootstrap import Floats
from results.analysis.comparison.confidence_set import confidence_set
from results.analysis.comparison.configuration_means import (
    ConfigurationMeans,
    ModelScores,
    configuration_means,
    contrasts,
)
from results.analysis.comparison.critical_values import margins_best


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
    left = [confidence_set(means_of(draw(true, 4, seed), 0.05)).is_left for seed in range(200)]
    kept = np.mean([own[:4].all() for own in left])
    assert kept >= 0.95 - 2 * np.sqrt(0.05 * 0.95 / 200)
    assert np.mean([own[4:].any() for own in left]) < 0.05


def test_elimination_goes_on_with_the_margins_of_those_left() -> None:
    true = np.concatenate([[0.0, -2.2], np.full(10, -30.0)])
    sizes, single_step = [], []
    for seed in range(40):
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


@pytest.mark.parametrize("num_configurations", [2, 3])
def test_only_the_best_is_left_where_nothing_else_is_near(num_configurations: int) -> None:
    true = np.linspace(0.0, -500.0, num_configurations)
    found = confidence_set(means_of(draw(true, 3, 1)))
    assert found.is_left.tolist() == [True] + [False] * (num_configurations - 1)
    assert found.below_best[0] == 0


def test_equal_scores_are_all_left() -> None:
    assert confidence_set(means_of(np.zeros((4, 3)))).is_left.all()


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
