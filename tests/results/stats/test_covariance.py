"""Influence values against leave-one-out, and their covariance against a bootstrap."""

import numpy as np
import pytest

from mtlib.tasks import TASKS
from results.stats.covariance import (
    covariance_over_examples,
    score_covariance,
)
from results.stats.resampling import Floats, bootstrap_scores, example_values, score_examples

TASK_NAMES = ("sst", "sts")


def make_values(task: str, num_rows: int = 400) -> tuple[Floats, Floats]:
    """Three models' values, the first two similar, and labels."""
    stream = np.random.default_rng(0)
    labels = stream.uniform(0, 5, num_rows) if task == "sts" else stream.integers(0, 5, num_rows).astype(float)
    if task == "sts":
        first = labels + stream.normal(0, 1, num_rows)
        return np.stack([first, first + stream.normal(0, 0.3, num_rows), stream.normal(0, 1, num_rows)]), labels
    right = stream.random(num_rows) < 0.6
    other = np.where(stream.random(num_rows) < 0.9, right, ~right)
    return np.stack([right, other, stream.random(num_rows) < 0.5]).astype(float), labels


@pytest.mark.parametrize("task", TASK_NAMES)
def test_influence_is_the_limit_of_the_jackknife(task: str) -> None:
    values, labels = make_values(task)
    num_rows = len(labels)
    whole = score_examples(TASKS[task], values, labels)
    left_out = [
        score_examples(TASKS[task], np.delete(values, row, axis=1), np.delete(labels, row)) for row in range(num_rows)
    ]
    jackknife = (num_rows - 1) * (whole - np.stack(left_out)).T
    assert np.allclose(TASKS[task].metric_entry.influences(values, labels), jackknife, atol=0.05)


def test_copies_of_an_example_in_one_group_count_as_one() -> None:
    values, labels = make_values("sst", 50)
    single = covariance_over_examples(TASKS["sst"].metric_entry.influences(values, labels))
    doubled = TASKS["sst"].metric_entry.influences(np.repeat(values, 2, axis=1), np.repeat(labels, 2))
    assert np.allclose(covariance_over_examples(doubled, np.repeat(np.arange(50), 2)), single)
    assert np.all(np.diag(covariance_over_examples(doubled)) < 0.6 * np.diag(single))


TRIALS = ("a", "b", "c")


def simulated_logits(task: str, rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Logits of three trials that err on the same examples, and labels."""
    stream = np.random.default_rng(len(task))
    labels = stream.uniform(0, 5, rows) if task == "sts" else stream.integers(0, TASKS[task].num_classes or 2, rows)
    shared = stream.normal(size=(rows, TASKS[task].num_logits))
    own = stream.normal(size=(3, rows, TASKS[task].num_logits))
    signal = labels[:, None] if task == "sts" else np.eye(5)[labels] if task == "sst" else 2 * labels[:, None] - 1
    return signal + shared + 0.5 * own, labels


@pytest.mark.parametrize("task", ["sst", "qqp", "sts"])
def test_covariance_agrees_with_a_bootstrap(task: str) -> None:
    logits, labels = simulated_logits(task)
    found, _ = score_covariance(TASKS[task], TRIALS, logits, labels)
    resampled = bootstrap_scores(TASKS[task], example_values(TASKS[task], logits, labels), labels, num_resamples=4000)
    assert np.allclose(found, np.cov(resampled), rtol=0.15, atol=0.05 * np.diag(found).max())
