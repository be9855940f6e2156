"""The true scores of the simulated models are those over very many rows, and both models have them."""

import numpy as np
import pytest

from benchmarks.rare_classes import METRICS, RARE, check, draw_dev_set, task_of, true_score
from results.stats.resampling import score_examples


@pytest.mark.parametrize("metric", METRICS)
def test_true_scores_are_those_over_many_dev_sets(metric: str) -> None:
    sets = [draw_dev_set(8, np.random.default_rng(seed)) for seed in range(400)]
    labels = np.concatenate([own.labels for own in sets])
    predictions = np.concatenate([own.predictions for own in sets], axis=1)
    values = (predictions == labels).astype(float) if metric == "accuracy" else predictions
    assert score_examples(task_of(metric), values, labels) == pytest.approx([true_score(metric, 8)] * 2, abs=0.02)
    assert (labels == RARE).mean() == pytest.approx(8 / 408, rel=0.1)


def test_a_score_far_from_the_truth_is_outside_both_intervals() -> None:
    found = draw_dev_set(80, np.random.default_rng(0))
    error, is_held, _, is_held_by_bootstrap, width = check(task_of("macro_f1"), found, 0.2)
    assert (is_held, is_held_by_bootstrap) == (False, False)
    assert error > width > 0
