"""Influence values against leave-one-out, and their covariance against a bootstrap."""

import numpy as np
import pytest

from mtlib.tasks import TASKS
from results.analysis.comparison.bootstrap import Floats, bootstrap_scores, score_examples
from results.analysis.comparison.influence import covariance_over_examples, influence_values

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
    assert np.allclose(influence_values(TASKS[task], values, labels), jackknife, atol=0.05)


@pytest.mark.parametrize("task", TASK_NAMES)
def test_mean_influence_is_zero(task: str) -> None:
    values, labels = make_values(task)
    assert np.allclose(influence_values(TASKS[task], values, labels).mean(axis=1), 0)


@pytest.mark.parametrize("task", TASK_NAMES)
def test_covariance_matches_a_bootstrap(task: str) -> None:
    values, labels = make_values(task)
    resampled = bootstrap_scores(TASKS[task], values, labels, num_resamples=20_000)
    found = covariance_over_examples(influence_values(TASKS[task], values, labels))
    assert np.allclose(found, np.cov(resampled), atol=0.03 * np.abs(found).max())


def test_constant_prediction_has_no_influence() -> None:
    labels = np.arange(5.0)
    values = np.stack([np.full(5, 2.0), labels])
    assert influence_values(TASKS["sts"], values, labels)[0].tolist() == [0.0] * 5
    assert np.allclose(influence_values(TASKS["sts"], values, np.full(5, 1.0)), 0)


def test_copies_of_an_example_in_one_group_count_as_one() -> None:
    values, labels = make_values("sst", 50)
    single = covariance_over_examples(influence_values(TASKS["sst"], values, labels))
    doubled = influence_values(TASKS["sst"], np.repeat(values, 2, axis=1), np.repeat(labels, 2))
    assert np.allclose(covariance_over_examples(doubled, np.repeat(np.arange(50), 2)), single)
    assert np.all(np.diag(covariance_over_examples(doubled)) < 0.6 * np.diag(single))


def test_groups_of_one_example_change_nothing() -> None:
    values, labels = make_values("sst", 50)
    influence = influence_values(TASKS["sst"], values, labels)
    assert np.allclose(
        covariance_over_examples(influence, np.random.default_rng(1).permutation(50)),
        covariance_over_examples(influence),
    )


@pytest.mark.parametrize("groups", [None, np.zeros(1, dtype=np.intp)])
def test_one_example_has_no_covariance(groups: None) -> None:
    assert covariance_over_examples(np.zeros((2, 1)), groups).tolist() == [[0.0, 0.0], [0.0, 0.0]]
