"""AdamW and its rates against torch's unfused AdamW with a group per parameter, and formulas by hand."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import get_scheduler

from mtlib.config.training import OptimizerConfig
from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.layers import EMBEDDINGS
from mtlib.model.multitask import MultiTaskModel
from mtlib.training.optimizer import (
    MOMENTS,
    learning_rate_at,
    make_optimizer,
    optimizer_tensors,
    restore_optimizer,
    set_learning_rates,
    trained_parameters,
)

SETTINGS = OptimizerConfig(learning_rate=1e-2, weight_decay=0.1, beta1=0.8, beta2=0.95, epsilon=1e-6)
ALL = ("sst", "qqp", "sts")
RICH = {
    "pals.size": 4,
    "pals.num_heads": 2,
    "pals.tasks": ["sst", "qqp"],
    "relational_tasks": ["qqp", "sts"],
    "simcse.weight": 0.1,
    "simcse.tasks": ["sst"],
    "loss_weighting": "uncertainty",
}
"""A configuration with every kind of module."""
LAYER_DECAY = {"optimizer.layer_decay": 0.9}
CHOSEN = {
    "optimizer.chosen_scale": 2,
    "optimizer.other_scale": 0.5,
    "tasks.sst.chosen_layers": [0],
    "tasks.qqp.chosen_layers": [1],
}
New = Callable[..., tuple[TrialConfig, MultiTaskModel]]


@pytest.fixture
def base(tiny_config: TrialConfig) -> TrialConfig:
    return dataclasses.replace(tiny_config, optimizer=SETTINGS)


@pytest.fixture
def new(base: TrialConfig, tiny_encoder: PretrainedEncoder) -> New:
    """Builds a configuration with some changes, and its model."""

    def make(changes: dict[str, Any] | None = None) -> tuple[TrialConfig, MultiTaskModel]:
        config = base.override(changes or {})
        return config, MultiTaskModel(config, tiny_encoder)

    return make


def give_gradients(config: TrialConfig, model: MultiTaskModel, tasks: tuple[str, ...], seed: int) -> None:
    """Random gradients on what `tasks` train, none elsewhere."""
    stream = torch.Generator().manual_seed(seed)
    model.zero_grad(set_to_none=True)
    for parameter in trained_parameters(config, model, tasks).values():
        parameter.grad = torch.randn(parameter.shape, generator=stream)


def values_of(model: MultiTaskModel) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def names_by_group(optimizer: torch.optim.Optimizer, model: MultiTaskModel) -> dict[tuple[Any, float], list[str]]:
    """Parameter names by part and decay."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {
        (group["part"], group["weight_decay"]): [names[id(parameter)] for parameter in group["params"]]
        for group in optimizer.param_groups
    }


def torchs_adamw(model: MultiTaskModel) -> torch.optim.AdamW:
    """Torch's unfused AdamW with a group per parameter, which has the parameter's name."""
    groups = [{"params": [parameter], "name": name} for name, parameter in model.named_parameters()]
    return torch.optim.AdamW(groups, 1e-2, (0.8, 0.95), 1e-6, 0.1, fused=False, foreach=False)


def assert_close(one: MultiTaskModel, other: MultiTaskModel) -> None:
    for name, value in values_of(one).items():
        assert torch.allclose(value, other.get_parameter(name), rtol=1e-5, atol=1e-7), name


def test_steps_match_torchs_unfused_adamw_also_where_moments_are_carried_to_an_optimizer_of_more_tasks(
    new: New,
) -> None:
    (config, model), (_, other) = new(), new()
    optimizer, plain = make_optimizer(config, model, ("qqp",)), torchs_adamw(other)
    for seed in range(5):
        tasks: tuple[str, ...] = ("qqp",) if seed < 2 else ("qqp", "sst")
        if seed == 2:
            carried = optimizer_tensors(optimizer, model)
            optimizer = make_optimizer(config, model, tasks)
            restore_optimizer(optimizer, model, carried)
        for one, takes in ((model, optimizer), (other, plain)):
            give_gradients(config, one, tasks, seed)
            takes.step()
    assert_close(model, other)
    tensors = optimizer_tensors(optimizer, model)
    assert [int(tensors[f"heads.{task}.weight.step"]) for task in ("qqp", "sst")] == [5, 3]


def test_steps_with_rates_and_decays_of_their_own_match_torchs_unfused_adamw(new: New) -> None:
    triangle = {"optimizer.schedule": "slanted_triangular", "optimizer.warmup_fraction": 0.5}
    changes = {**RICH, **LAYER_DECAY, **CHOSEN, **triangle, "optimizer.head_learning_rate": 0.03}
    (config, model), (_, other) = (new({**changes, "optimizer.decay_biases_and_norms": False}) for _ in range(2))
    optimizer, plain = make_optimizer(config, model, ALL), torchs_adamw(other)
    for step, (task, share) in enumerate(zip(("sst", "qqp", "sst", "sts"), (0.25, 0.75, 0.75, 0.25), strict=True)):
        scales = {"sst": (2, 0.5), "qqp": (0.5, 2), "sts": (0.5, 0.5)}[task]
        for group in plain.param_groups:
            name, rate = group["name"], 0.03
            if name.startswith("encoder."):
                layer = int(name.split(".")[3]) if name.startswith("encoder.encoder.") else EMBEDDINGS
                rate = 1e-2 * 0.9 ** (1 - layer) * (1 if layer == EMBEDDINGS else scales[layer])
            group["lr"] = rate * share
            group["weight_decay"] = 0.0 if "bias" in name or "LayerNorm" in name or "log_variances" in name else 0.1
        for one in (model, other):
            give_gradients(config, one, (task,), step)
        set_learning_rates(optimizer, config, step, 4, task)
        optimizer.step()
        plain.step()
    assert_close(model, other)


def test_a_restored_optimizer_continues_bit_for_bit(new: New) -> None:
    (config, model), (_, other) = new(), new()
    optimizer, again = (make_optimizer(config, one, ("sst", "qqp")) for one in (model, other))
    for seed in range(3):
        give_gradients(config, model, ("qqp",), seed)
        optimizer.step()
    names = trained_parameters(config, model, ("qqp",))
    kept = {name: tensor.clone() for name, tensor in optimizer_tensors(optimizer, model).items()}
    assert set(kept) == {f"{name}.{moment}" for name in names for moment in MOMENTS}
    give_gradients(config, other, ("sst", "qqp"), 7)
    again.step()  # its moments are replaced
    other.load_state_dict(model.state_dict())
    restore_optimizer(again, other, kept)
    for one, takes in ((model, optimizer), (other, again)):
        give_gradients(config, one, ("sst", "qqp"), 99)
        takes.step()
    assert all(torch.equal(value, values_of(other)[name]) for name, value in values_of(model).items())
    after = optimizer_tensors(again, other)
    assert all(torch.equal(tensor, after[name]) for name, tensor in optimizer_tensors(optimizer, model).items())
    restore_optimizer(again, other, {})
    assert optimizer_tensors(again, other) == {}


def test_learned_weights_never_decay_and_parameters_of_one_rate_share_a_group(new: New) -> None:
    config, model = new(RICH)
    groups = names_by_group(make_optimizer(config, model, ALL), model)
    assert groups.keys() == {("network", 0.1), ("network", 0.0)}
    assert groups["network", 0.0] == [name for name in values_of(model) if name.startswith("log_variances.")]


def triangle(num_steps: int, **changes: Any) -> list[float]:
    config = OptimizerConfig(schedule="slanted_triangular", **changes)
    return [learning_rate_at(config, step, num_steps, 2.0) for step in range(num_steps)]


def test_the_slanted_triangle_by_hand() -> None:
    # Peak after 1 of 10 steps, read at the middle of each: .5 of the way up, then 8.5/9, 7.5/9, ... of the way down.
    assert triangle(10) == pytest.approx([1.0, *(2 * (8.5 - step) / 9 for step in range(9))])
    assert triangle(4, warmup_fraction=0.5) == pytest.approx([0.5, 1.5, 1.5, 0.5])
    assert triangle(4, warmup_fraction=0) == pytest.approx([1.75, 1.25, 0.75, 0.25])


@pytest.mark.parametrize("num_steps", [1, 7, 30, 70])
@pytest.mark.parametrize("warmup_fraction", [0.0, 0.1, 0.5, 0.99])
@pytest.mark.parametrize("name", ["cosine", "constant_with_warmup"])
def test_schedules_are_those_of_transformers(name: Any, warmup_fraction: float, num_steps: int) -> None:
    config = OptimizerConfig(schedule=name, warmup_fraction=warmup_fraction)
    theirs = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)
    num_rising = math.ceil(num_steps * warmup_fraction)  # as `TrainingArguments.get_warmup_steps` has it of a share
    schedule = get_scheduler(name, theirs, num_warmup_steps=num_rising, num_training_steps=num_steps)
    for step in range(num_steps):
        assert learning_rate_at(config, step, num_steps, 2.0) == pytest.approx(theirs.param_groups[0]["lr"], rel=1e-12)
        theirs.step()
        schedule.step()
