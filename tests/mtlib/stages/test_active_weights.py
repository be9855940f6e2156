"""Weights of the tasks active so far: by hand, for every kind of weight."""

from collections.abc import Callable
from typing import Any

import torch

from mtlib.config.trial import TrialConfig
from mtlib.stages.active_weights import OWN_GROUPS, active_parts, active_weights, part_of_weight
from mtlib.stages.sampler import epoch_steps
from mtlib.training.run import Run
from mtlib.training.step import take_step

EVERYTHING: dict[str, Any] = {
    "pals.size": 8,
    "pals.num_heads": 2,
    "pals.tasks": ["qqp", "sst"],
    "relational_tasks": ["qqp", "sts"],
    "tasks.sts.target_scale": "unit",
    "simcse.weight": 1,
    "simcse.tasks": ["sst"],
    "loss_weighting": "uncertainty",
}


def test_parts_of_tasks_are_the_encoder_their_own_and_shared_weights(tiny_config: TrialConfig) -> None:
    config = tiny_config.override(EVERYTHING)
    own = {task: {f"{group}.{task}" for group in OWN_GROUPS} for task in ("sst", "qqp", "sts")}
    assert active_parts(config, []) == {"encoder"}
    assert active_parts(config, ["sst"]) == {"encoder", "projection", *own["sst"]}
    assert active_parts(config, ["sts", "qqp"]) == {"encoder", "relational", *own["qqp"], *own["sts"]}
    without_term = config.override({"simcse.weight": 0})
    assert active_parts(without_term, ["sst"]) == {"encoder", *own["sst"]}


def test_of_a_frozen_encoder_the_adapters_are_left(tiny_config: TrialConfig) -> None:
    given = {"encoder.x.weight": 1, "encoder.x.lora_A.weight": 2, "heads.qqp.bias": 3}
    lora = tiny_config.override({"adapter.method": "lora"})
    assert active_weights(lora, ["qqp"], given) == {"encoder.x.lora_A.weight": 2, "heads.qqp.bias": 3}
    started = lora.override({"encoder.start_from": "elsewhere"})
    assert active_weights(started, ["qqp"], given) == given


def test_steps_of_a_task_change_only_weights_of_its_parts(new_run: Callable[..., Run]) -> None:
    changes = {**EVERYTHING, "stages.0.tasks": ["qqp"], "smart.weight": 0, "optimizer.weight_decay": 0.1}
    run = new_run(changes)
    before = {name: weight.clone() for name, weight in run.model.state_dict().items()}
    for step in epoch_steps(run.config, 0, 0, run.lengths, run.own_rows):
        take_step(run, step)
    changed = {name for name, weight in run.model.state_dict().items() if not torch.equal(weight, before[name])}
    trained = {part_of_weight(name) for name, _ in run.model.named_parameters()}  # scales of labels are not
    assert {part_of_weight(name) for name in changed} == active_parts(run.config, ["qqp"]) & trained
