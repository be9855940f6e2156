"""An ensemble is the weighted mean of its members' outputs."""

import numpy as np
import pytest

from mtlib.tasks import TASKS, Task
from mtlib.training.evaluation import task_metrics
from results.ensembles.candidates import Candidate, Pool
from results.ensembles.ensemble import (
    Ensemble,
    ensemble_outputs,
    score_rows,
    weighted_ensemble,
)
from results.ensembles.outputs import outputs_of


def build_pool(task: Task, candidates: int = 4, rows: int = 60, seed: int = 0) -> Pool:
    """Candidates whose logits are noise."""
    return Pool(
        task=task,
        candidates=tuple(Candidate(sweep="a", trial=str(n), epoch=1, number=n) for n in range(candidates)),
        ids=tuple(map(str, range(rows))),
        labels=np.random.default_rng((seed, 1)).integers(0, int(task.label_range[1]) + 1, rows).astype(np.float64),
        outputs=outputs_of(task, 2 * np.random.default_rng(seed).normal(size=(candidates, rows, task.num_logits))),
    )


def test_largest_weights_keep_their_order_and_sum_to_1() -> None:
    members, weights = np.array([10, 11, 12, 13, 14]), np.array([1.0, 3.0, 0.0, 2.0, 1.0])
    found = weighted_ensemble(members, weights, max_models=3)
    assert found.members == (11, 13, 10)  # the first of equals
    assert found.weights == pytest.approx((3 / 6, 2 / 6, 1 / 6))
    assert weighted_ensemble(members, weights, max_models=100).members == (11, 13, 10, 14), "none of weight 0"


@pytest.mark.parametrize("task", TASKS.values())
def test_ensemble_output_is_weighted_mean(task: Task) -> None:
    pool, rows = build_pool(task), np.array([5, 3, 3, 59, 0])
    ensemble = Ensemble(members=(3, 0, 2), weights=(0.5, 0.125, 0.375))
    expected = np.average(pool.outputs[[3, 0, 2]], axis=0, weights=[0.5, 0.125, 0.375])[rows]
    found = ensemble_outputs(pool, ensemble, rows)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("task", TASKS.values())
def test_score_equals_that_of_training(task: Task) -> None:
    generator = np.random.default_rng(0)
    pool, rows = build_pool(task), generator.permutation(60)[:40]
    logits = 2 * generator.normal(size=(60, task.num_logits))
    expected = task_metrics(task, logits[rows], pool.labels[rows])[task.metric]
    assert score_rows(pool, outputs_of(task, logits)[rows], rows) == pytest.approx(expected, rel=1e-5)
