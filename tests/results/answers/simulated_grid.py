"""Scores of a grid of configurations with replicates, for tests of effects."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from results.stats.configuration_means import ConfigurationMeans, configuration_means
from tests.results.stats.test_configuration_means import model_scores


def grid_of(
    values: Mapping[str, Sequence[Any]], num_replicates: int, score: Callable[..., float], seed: int, noise: float
) -> tuple[ConfigurationMeans, list[dict[str, Any]]]:
    """Means and parameters; scores have an effect of each replicate and normal training errors."""
    stream = np.random.default_rng(seed)
    params = [dict(zip(values, own, strict=True)) for own in itertools.product(*values.values())]
    table = np.array([score(*own.values()) for own in params])[:, None] + stream.normal(size=num_replicates) * 0.05
    table = table + stream.normal(size=table.shape) * noise
    return configuration_means(model_scores(table)), params
