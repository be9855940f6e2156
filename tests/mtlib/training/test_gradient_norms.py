"""Norms of gradients by hand, in the steps that count, without a change of what is trained."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import mtlib.training.gradient_norms
from mtlib.stages.sampler import Step, StepBatch
from mtlib.training.gradient_norms import GRADIENT_NORM, NUM_STEPS, is_measured
from mtlib.training.run import Run
from mtlib.training.step import batch_place, shard_of, take_step

NewRun = Callable[..., Run]
SST = StepBatch(set="sst", rows=np.arange(8), turn=0)
QQP = StepBatch(set="qqp", rows=np.arange(6), turn=0)
NO_DROPOUT = {"encoder.dropout": 0, "encoder.attention_dropout": 0, "smart.weight": 0}
TOGETHER = {"stages.0.tasks": "sst,qqp"}
SUMMED = {**TOGETHER, "stages.0.sum_losses": True}
PCGRAD = {**SUMMED, "gradients": "pcgrad"}


def norm_by_hand(run: Run, part: StepBatch) -> float:
    """The norm over the encoder's weights of the gradient of one batch's part of the loss."""
    loss, _ = run.objective([shard_of(run.config, run.corpus, part)], [batch_place(run, part)])
    found = torch.autograd.grad(loss, list(run.model.encoder.parameters()), allow_unused=True)
    return math.sqrt(sum(float(gradient.square().sum()) for gradient in found if gradient is not None))


def norms_of(run: Run) -> dict[str, tuple[float, int]]:
    """Sum and number of a run's norms, by task."""
    return {task: sums[GRADIENT_NORM] for task, sums in run.sums.items() if GRADIENT_NORM in sums}


def test_norms_of_alternating_steps_are_those_of_the_weighted_losses(new_run: NewRun) -> None:
    run, plain = (new_run({**NO_DROPOUT, **TOGETHER, "tasks.qqp.loss_weight": weight}) for weight in (0.25, 1))
    assert norm_by_hand(run, QQP) == pytest.approx(norm_by_hand(plain, QQP) / 4)
    expected: dict[str, list[float]] = {"sst": [], "qqp": []}
    for part in (SST, QQP, SST):
        expected[part.set].append(norm_by_hand(run, part))
        take_step(run, (part,))
    found: Any = norms_of(run)
    assert found == {task: (pytest.approx(sum(norms), rel=1e-5), len(norms)) for task, norms in expected.items()}


def test_a_step_of_two_tasks_has_a_norm_for_each_in_every_second_step(new_run: NewRun) -> None:
    run = new_run({**NO_DROPOUT, **PCGRAD, "stages.0.micro_batch_size": 3})
    expected = {part.set: norm_by_hand(run, part) for part in (SST, QQP)}
    for _ in range(2):
        take_step(run, (SST, QQP))
        found: Any = norms_of(run)
        assert found == {task: (pytest.approx(norm, rel=1e-5), 1) for task, norm in expected.items()}
    take_step(run, (SST, QQP))
    assert {task: count for task, (_, count) in norms_of(run).items()} == {"sst": 2, "qqp": 2}


def test_the_first_steps_of_the_first_stage_of_several_tasks_count(new_run: NewRun) -> None:
    run = new_run({"stages.1.steps_per_epoch": 12, "stages.1.epochs": 3})
    places = ((0, 0, 0), (1, 0, 0), (1, 0, 11), (1, 1, NUM_STEPS - 12 - 1), (1, 1, NUM_STEPS - 12), (1, 2, 0))
    counted = []
    for run.stage, run.epoch, run.step in places:
        counted.append(is_measured(run, 1))
    assert counted == [False, True, True, True, False, False]
    later = new_run(TOGETHER)  # both stages train several tasks
    later.stage = 1
    assert not is_measured(later, 1)
    assert not is_measured(new_run({"stages.0.tasks": "sst", "stages.1.tasks": "sst"}), 1)


@pytest.mark.parametrize(("changes", "steps"), [(TOGETHER, [(SST,), (QQP,)]), (PCGRAD, [(SST, QQP)])])
def test_trained_numbers_are_those_without_measuring(
    changes: dict[str, Any], steps: list[Step], new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    smart = {"smart.weight": 1, "smart.tasks": "sst,qqp", "smart.noise_std": 0.1, "encoder.dropout": 0.3}
    weights = []
    for num_steps in (NUM_STEPS, 0):
        monkeypatch.setattr(mtlib.training.gradient_norms, "NUM_STEPS", num_steps)
        run = new_run({**changes, **smart})
        for step in 2 * steps:
            take_step(run, step)
        assert bool(norms_of(run)) is (num_steps > 0)
        weights.append({name: weight.clone() for name, weight in run.model.state_dict().items()})
    assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())
