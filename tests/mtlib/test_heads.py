"""Heads: width, initial values and the stream they are drawn from."""

import dataclasses

import pytest
import torch
from scipy.stats import kstest

from mtlib.config import TrialConfig
from mtlib.config_training import StageConfig
from mtlib.heads import linear_head
from mtlib.tasks import TASKS

BASE = TrialConfig(stages=(StageConfig(tasks=("sst", "qqp", "sts")),))


@pytest.mark.parametrize(("task", "logits"), [("sst", 5), ("qqp", 1), ("sts", 1)])
def test_a_head_gives_the_logits_of_its_task(task: str, logits: int) -> None:
    head = linear_head(BASE, task, 32)
    assert head.weight.shape == (logits, 32)
    assert head(torch.zeros(3, 32)).shape == (3, logits)
    assert head.weight.requires_grad
    assert head.bias.requires_grad


def test_a_bi_encoders_head_reads_both_vectors() -> None:
    assert linear_head(BASE.override({"tasks.sts.encoding": "bi"}), "sts", 32).in_features == 64
    assert linear_head(BASE.override({"tasks.sts.encoding": "bi"}), "qqp", 32).in_features == 32


def test_weights_are_normal_with_deviation_two_hundredths_and_bias_is_zero() -> None:
    head = linear_head(BASE, "sst", 4000)
    assert kstest(head.weight.detach().flatten().numpy(), "norm", args=(0, 0.02)).pvalue > 1e-3
    assert torch.equal(head.bias, torch.zeros(5))


def test_a_head_follows_from_seed_replicate_and_task_alone() -> None:
    head = linear_head(BASE, "sst", 32).weight
    torch.manual_seed(99)
    alone = dataclasses.replace(BASE, stages=(StageConfig(tasks=("sst",), epochs=3),))
    inert = {"optimizer.learning_rate": 1e-3, "tasks.sst.batch_size": 4, "smart.weight": 3, "smart.tasks": "sst"}
    other = alone.override(inert)
    assert torch.equal(linear_head(other, "sst", 32).weight, head)
    for change in ({"seed": 1}, {"replicate": 1}):
        assert not torch.equal(linear_head(BASE.override(change), "sst", 32).weight, head)
    assert not torch.equal(linear_head(BASE, "qqp", 32).weight, linear_head(BASE, "sts", 32).weight)


def test_making_a_head_leaves_the_global_stream_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    linear_head(BASE, "sst", 32)
    assert torch.equal(torch.rand(3), expected)


def test_a_fourth_task_has_a_head_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "nli", dataclasses.replace(TASKS["sst"], name="nli", label_range=(0, 2)))
    config = TrialConfig(stages=(StageConfig(tasks=("sst", "nli")),))
    assert linear_head(config, "nli", 32).weight.shape == (3, 32)
    assert torch.equal(linear_head(config, "sst", 32).weight, linear_head(BASE, "sst", 32).weight)
