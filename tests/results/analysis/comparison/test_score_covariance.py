"""Covariances of scores over examples against formulas by hand and the bootstrap."""

import numpy as np
import pytest

from mtlib.tasks import TASKS, overall_score
from results.analysis.comparison.bootstrap import bootstrap_scores, example_values
from results.analysis.comparison.score_covariance import ScoreCovariance, overall_covariance, score_covariance

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
    found = score_covariance(TASKS[task], TRIALS, logits, labels)
    resampled = bootstrap_scores(TASKS[task], example_values(TASKS[task], logits, labels), labels, num_resamples=4000)
    assert np.allclose(found.matrix, np.cov(resampled), rtol=0.15, atol=0.05 * np.diag(found.matrix).max())


def test_error_of_a_mean_includes_what_trials_share() -> None:
    covariance = ScoreCovariance(trials=TRIALS, matrix=np.array([[4.0, 2, 0], [2, 6, 0], [0, 0, 9]]))
    assert covariance.mean_error(["b", "a"]) == pytest.approx(np.sqrt((4 + 6 + 2 * 2) / 4))
    assert covariance.mean_error(["c"]) == 3
    assert covariance.between(["c", "a"]).tolist() == [[9, 0], [0, 4]]


def test_overall_covariance_is_the_weighted_sum_of_independent_tasks() -> None:
    tasks = {task: score_covariance(TASKS[task], TRIALS, *simulated_logits(task)) for task in ("sst", "qqp", "sts")}
    found = overall_covariance(tasks, ("c", "a"), TASKS)
    scores = dict.fromkeys(tasks, 0.5)
    slopes = {
        task: (overall_score({**scores, task: 0.6}, TASKS) - overall_score(scores, TASKS)) / 0.1 for task in tasks
    }
    expected = sum(slopes[task] ** 2 * tasks[task].matrix[np.ix_([2, 0], [2, 0])] for task in tasks)
    assert np.allclose(found.matrix, expected)
    assert found.trials == ("c", "a")
