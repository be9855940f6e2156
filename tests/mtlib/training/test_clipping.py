"""Clipped gradients against torch's own on gradients by hand, and how many steps are clipped, at once and read late."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import mtlib.training.step
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.runtime.errors import TrainingDiverged
from mtlib.runtime.late_reading import LateReader
from mtlib.stages.sampler import Step, StepBatch
from mtlib.train import prepare_run
from mtlib.training.clipping import CLIPPED_STEPS
from mtlib.training.run import Run
from mtlib.training.step import take_step
from tests.worker_pair import RunOnBoth

NewRun = Callable[..., Run]
SST = StepBatch(set="sst", rows=np.arange(8), turn=0)
QQP = StepBatch(set="qqp", rows=np.arange(6), turn=0)
ALTERNATING = {
    "encoder.dropout": 0,
    "encoder.attention_dropout": 0,
    "smart.weight": 0,
    "stages.0.tasks": "sst,qqp",
}
SUMMED = {**ALTERNATING, "stages.0.sum_losses": True}
LIMIT = "optimizer.clip_norm"


def gradients_of(run: Run) -> dict[str, Tensor]:
    """The gradients with which the last step was taken."""
    return {name: part.grad.clone() for name, part in run.model.named_parameters() if part.grad is not None}


def norm_of(gradients: dict[str, Tensor]) -> float:
    return math.sqrt(sum(float(gradient.double().square().sum()) for gradient in gradients.values()))


def clipped(run: Run) -> dict[str, tuple[float, int]]:
    """Clipped steps and all steps, by task."""
    return {task: sums[CLIPPED_STEPS] for task, sums in run.sums.items() if CLIPPED_STEPS in sums}


@pytest.mark.parametrize(
    ("changes", "step"),
    [
        (ALTERNATING, (QQP,)),
        (SUMMED, (SST, QQP)),
        ({**SUMMED, "stages.0.micro_batch_size": 3}, (SST, QQP)),
        ({**SUMMED, "gradients": "pcgrad"}, (SST, QQP)),
        ({**ALTERNATING, "tasks.qqp.chosen_layers": "0", "optimizer.other_scale": 0}, (QQP,)),
    ],
)
def test_a_step_is_taken_with_the_gradient_as_torch_clips_it(
    changes: dict[str, Any], step: Step, new_run: NewRun
) -> None:
    """Of the whole step, whatever it is put together from, and of what it moves alone."""
    plain = new_run(changes)
    take_step(plain, step)
    expected = {name: torch.nn.Parameter(torch.zeros_like(one)) for name, one in gradients_of(plain).items()}
    for name, gradient in gradients_of(plain).items():
        expected[name].grad = gradient
    limit = norm_of(gradients_of(plain)) / 3
    torch.nn.utils.clip_grad_norm_(expected.values(), limit)

    run = new_run({**changes, LIMIT: limit})
    take_step(run, step)
    found = gradients_of(run)
    assert norm_of(found) == pytest.approx(limit, rel=1e-4)
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name].grad, rtol=1e-4, atol=1e-7)
        moment = run.optimizer.state[run.model.get_parameter(name)]["exp_avg"]
        torch.testing.assert_close(moment, 0.1 * gradient)


def clipped_on_a_worker(
    wrap: Callable[[nn.Module], nn.Module], config: TrialConfig, corpus: Corpus, encoder: PretrainedEncoder
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The gradients of a step's encoder, as a worker clips them, and its counts; a job of a worker."""
    run = prepare_run(config, corpus, encoder, torch.device("cpu"), wrap, None)
    take_step(run, (SST,))
    found = {name: gradient.tolist() for name, gradient in gradients_of(run).items() if "layer.1" in name}
    return found, clipped(run)


def test_two_workers_clip_the_averaged_gradient(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder, run_on_both: RunOnBoth
) -> None:
    """As torch clips the gradient of the whole batch in one process."""
    config, corpus = tiny_config.override(ALTERNATING), tiny_corpus
    plain = prepare_run(config, corpus, tiny_encoder, torch.device("cpu"), lambda objective: objective, None)
    take_step(plain, (SST,))
    limit = norm_of(gradients_of(plain)) / 3
    torch.nn.utils.clip_grad_norm_(plain.model.parameters(), limit)
    for found, counts in run_on_both(clipped_on_a_worker, config.override({LIMIT: limit}), corpus, tiny_encoder):
        assert counts == {"sst": (1.0, 1)}
        for name, gradient in found.items():
            torch.testing.assert_close(torch.tensor(gradient), gradients_of(plain)[name], rtol=1e-4, atol=1e-6)


def test_steps_are_counted_by_task_and_one_below_the_limit_stays_as_it_is(new_run: NewRun) -> None:
    plain = new_run(ALTERNATING)
    take_step(plain, (SST,))
    norm = norm_of(gradients_of(plain))
    for limit, expected in ((1.01 * norm, 0.0), (0.99 * norm, 1.0)):
        run = new_run({**ALTERNATING, LIMIT: limit})
        take_step(run, (SST,))
        assert clipped(run) == {"sst": (expected, 1)}
        is_same = all(torch.equal(one, plain.model.get_parameter(name)) for name, one in run.model.named_parameters())
        assert is_same == (not expected)
    take_step(run, (QQP,))
    take_step(run, (SST,))
    assert {task: count for task, (_, count) in clipped(run).items()} == {"sst": 2, "qqp": 1}
    summed = new_run({**SUMMED, LIMIT: 1e-3})
    take_step(summed, (SST, QQP))
    assert clipped(summed) == {"sst": (1.0, 1), "qqp": (1.0, 1)}
    assert clipped(plain) == {}


def test_norms_that_are_read_late_count_the_same(new_run: NewRun) -> None:
    runs = [new_run({**ALTERNATING, LIMIT: 3.0}) for _ in range(2)]
    runs[1].unread = LateReader(delay=2)
    for run in runs:
        for step in 3 * [(SST,), (QQP,)]:
            take_step(run, step)
    assert sum(count for _, count in clipped(runs[1]).values()) == 4
    runs[1].unread.read()
    assert runs[1].sums.keys() == runs[0].sums.keys()
    assert clipped(runs[1]) == clipped(runs[0])
    assert {task: sums["loss"] for task, sums in runs[1].sums.items()} == {
        task: sums["loss"] for task, sums in runs[0].sums.items()
    }


@pytest.mark.parametrize("norm", [math.nan, math.inf])
def test_a_norm_that_is_not_finite_ends_the_trial_and_changes_no_weight(
    norm: float, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, late = (new_run({**ALTERNATING, LIMIT: 1.0}) for _ in range(2))
    before = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    monkeypatch.setattr(mtlib.training.step, "clip_gradients", lambda *_arguments: torch.tensor(norm))
    words = rf"^qqp: the gradient's norm is {norm} at step 1$"
    with pytest.raises(TrainingDiverged, match=words):
        take_step(run, (QQP,))
    assert all(torch.equal(tensor, before[name]) for name, tensor in run.model.state_dict().items())
    late.unread = LateReader(delay=1)
    take_step(late, (QQP,))
    with pytest.raises(TrainingDiverged, match=words):
        take_step(late, (SST,))
