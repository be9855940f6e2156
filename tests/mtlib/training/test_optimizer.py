"""AdamW and schedules against torch's unfused AdamW and formulas by hand."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

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
Changes = dict[str, Any]
New = Callable[..., tuple[TrialConfig, MultiTaskModel]]


@pytest.fixture
def base(tiny_config: TrialConfig) -> TrialConfig:
    return dataclasses.replace(tiny_config, optimizer=SETTINGS)


@pytest.fixture
def new(base: TrialConfig, tiny_encoder: PretrainedEncoder) -> New:
    """Builds a configuration with some changes, and its model."""

    def make(changes: Changes | None = None) -> tuple[TrialConfig, MultiTaskModel]:
        config = base.override(changes or {})
        return config, MultiTaskModel(config, tiny_encoder)

    return make


def give_gradients(config: TrialConfig, model: MultiTaskModel, tasks: tuple[str, ...], seed: int) -> dict[str, Tensor]:
    """Random gradients on what `tasks` train, none elsewhere; by name."""
    stream, given = torch.Generator().manual_seed(seed), {}
    model.zero_grad(set_to_none=True)
    for name, parameter in trained_parameters(config, model, tasks).items():
        given[name] = parameter.grad = torch.randn(parameter.shape, generator=stream)
    return given


def values_of(model: MultiTaskModel) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def moved_by(model: MultiTaskModel, before: dict[str, Tensor]) -> set[str]:
    return {name for name, value in values_of(model).items() if not torch.equal(value, before[name])}


def names_by_group(optimizer: torch.optim.Optimizer, model: MultiTaskModel) -> dict[tuple[Any, float], list[str]]:
    """Parameter names by part and decay."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {
        (group["part"], group["weight_decay"]): [names[id(parameter)] for parameter in group["params"]]
        for group in optimizer.param_groups
    }


def rates_of(optimizer: torch.optim.Optimizer) -> dict[Any, float]:
    """Rates by part; groups of one part must have one rate."""
    rates: dict[Any, set[float]] = {}
    for group in optimizer.param_groups:
        rates.setdefault(group["part"], set()).add(group["lr"])
    return {part: min(found) for part, found in rates.items() if len(found) == 1}


class AdamWByHand:
    """Loshchilov and Hutter 2019, algorithm 2, in double precision."""

    def __init__(self, values: dict[str, Tensor]) -> None:
        self.values = {name: value.double() for name, value in values.items()}
        self.first = {name: torch.zeros_like(value) for name, value in self.values.items()}
        self.second = {name: torch.zeros_like(value) for name, value in self.values.items()}
        self.steps = dict.fromkeys(values, 0)

    def step(
        self,
        gradients: dict[str, Tensor],
        rate_of: Callable[[str], float] = lambda _: SETTINGS.learning_rate,
        decay_of: Callable[[str], float] = lambda _: SETTINGS.weight_decay,
    ) -> None:
        beta1, beta2 = SETTINGS.beta1, SETTINGS.beta2
        for name, gradient in gradients.items():
            g = gradient.double()
            self.steps[name] += 1
            self.first[name] = beta1 * self.first[name] + (1 - beta1) * g
            self.second[name] = beta2 * self.second[name] + (1 - beta2) * g**2
            mean = self.first[name] / (1 - beta1 ** self.steps[name])
            root = (self.second[name] / (1 - beta2 ** self.steps[name])).sqrt()
            self.values[name] *= 1 - rate_of(name) * decay_of(name)
            self.values[name] -= rate_of(name) * mean / (root + SETTINGS.epsilon)

    def assert_close(self, model: MultiTaskModel) -> None:
        for name, parameter in model.named_parameters():
            assert torch.allclose(parameter.detach().double(), self.values[name], rtol=1e-5, atol=1e-6), name


def test_steps_match_adamw_by_hand(new: New) -> None:
    config, model = new()
    hand, optimizer = AdamWByHand(values_of(model)), make_optimizer(config, model, ALL)
    for seed in range(4):
        hand.step(give_gradients(config, model, ALL, seed))
        optimizer.step()
    hand.assert_close(model)


def test_steps_match_torchs_unfused_adamw(new: New) -> None:
    (config, model), (_, other) = new(), new()
    optimizer = make_optimizer(config, model, ALL)
    plain = torch.optim.AdamW(
        other.parameters(), lr=1e-2, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1, fused=False, foreach=False
    )
    for seed in range(4):
        for one, takes in ((model, optimizer), (other, plain)):
            give_gradients(config, one, ALL, seed)
            takes.step()
    for first, second in zip(values_of(model).values(), values_of(other).values(), strict=True):
        assert torch.allclose(first, second, rtol=1e-5, atol=1e-7)


def test_only_the_encoder_and_modules_of_active_tasks_are_trained(new: New) -> None:
    config, model = new(RICH)
    names = [name for name, _ in model.named_parameters()]
    encoder = {name for name in names if name.startswith("encoder.")}

    def with_encoder(*prefixes: str) -> set[str]:
        found = {name for name in names if name.startswith(prefixes)}
        assert all(any(name.startswith(prefix) for name in found) for prefix in prefixes)
        return encoder | found

    expected = {
        (): encoder,
        ("sst",): with_encoder("heads.sst.", "pals.sst.", "projection.", "log_variances.sst"),
        ("qqp",): with_encoder("heads.qqp.", "pals.qqp.", "relational.", "log_variances.qqp"),
        ("sts",): with_encoder("heads.sts.", "relational.", "log_variances.sts"),
        ALL: set(names),
    }
    for tasks, trained in expected.items():
        assert set(trained_parameters(config, model, tasks)) == trained
    groups = make_optimizer(config, model, ("qqp",)).param_groups
    held = [id(parameter) for group in groups for parameter in group["params"]]
    assert set(held) == {id(model.get_parameter(name)) for name in expected[("qqp",)]}
    assert len(set(held)) == len(held)


def test_tasks_with_a_common_prefix_are_distinguished(base: TrialConfig) -> None:
    names = ("encoder.a", "heads.sst.weight", "heads.sst2.weight", "log_variances.sst", "log_variances.sst2")
    model = nn.Module()
    for name in names:
        holder = model
        for part in name.split(".")[:-1]:
            if not hasattr(holder, part):
                holder.add_module(part, nn.Module())
            holder = holder.get_submodule(part)
        holder.register_parameter(name.split(".")[-1], nn.Parameter(torch.zeros(2)))
    assert set(trained_parameters(base, model, ("sst",))) == {"encoder.a", "heads.sst.weight", "log_variances.sst"}


def test_heads_of_inactive_tasks_neither_move_nor_decay(new: New) -> None:
    config, model = new()
    before, optimizer = values_of(model), make_optimizer(config, model, ("qqp",))
    for seed in range(2):
        give_gradients(config, model, ALL, seed)  # even with gradients
        optimizer.step()
    moved = {name for name, value in values_of(model).items() if not torch.equal(value, before[name])}
    assert moved == set(trained_parameters(config, model, ("qqp",)))


def test_a_parameter_without_a_gradient_keeps_its_value_and_moments(new: New) -> None:
    config, model = new()
    optimizer = make_optimizer(config, model, ("sst", "qqp"))
    give_gradients(config, model, ("sst", "qqp"), 0)
    optimizer.step()
    before = values_of(model)
    moments = {name: tensor.clone() for name, tensor in optimizer_tensors(optimizer, model).items()}
    give_gradients(config, model, ("qqp",), 1)
    optimizer.step()
    after = optimizer_tensors(optimizer, model)
    for name in ("heads.sst.weight", "heads.sst.bias"):
        assert torch.equal(model.get_parameter(name), before[name])
        assert all(torch.equal(after[f"{name}.{moment}"], moments[f"{name}.{moment}"]) for moment in MOMENTS)
    assert not torch.equal(model.get_parameter("heads.qqp.weight"), before["heads.qqp.weight"])
    assert after["heads.qqp.weight.step"] == 2


def test_the_state_holds_three_tensors_per_updated_parameter(new: New) -> None:
    config, model = new()
    optimizer = make_optimizer(config, model, ("sst", "qqp"))
    assert optimizer_tensors(optimizer, model) == {}
    give_gradients(config, model, ("qqp",), 0)
    optimizer.step()
    names = trained_parameters(config, model, ("qqp",))
    assert set(optimizer_tensors(optimizer, model)) == {f"{name}.{moment}" for name in names for moment in MOMENTS}


def test_a_restored_optimizer_continues_bit_for_bit(new: New) -> None:
    (config, model), (_, other) = new(), new()
    optimizer = make_optimizer(config, model, ("sst", "qqp"))
    for seed, tasks in enumerate((("qqp",), ("sst",), ("sst", "qqp"))):
        give_gradients(config, model, tasks, seed)
        optimizer.step()
    kept = {name: tensor.clone() for name, tensor in optimizer_tensors(optimizer, model).items()}
    other.load_state_dict(model.state_dict())
    again = make_optimizer(config, other, ("sst", "qqp"))
    give_gradients(config, other, ("sst", "qqp"), 99)
    give_gradients(config, model, ("sst", "qqp"), 99)
    restore_optimizer(again, other, kept)
    for one in (optimizer, again):
        one.step()
    assert all(torch.equal(value, values_of(other)[name]) for name, value in values_of(model).items())
    for name, tensor in optimizer_tensors(optimizer, model).items():
        assert torch.equal(tensor, optimizer_tensors(again, other)[name])


def test_restoring_a_state_replaces_the_previous_one(new: New) -> None:
    config, model = new()
    optimizer = make_optimizer(config, model, ("sst", "qqp"))
    give_gradients(config, model, ("sst", "qqp"), 0)
    optimizer.step()
    restore_optimizer(optimizer, model, {})
    assert optimizer_tensors(optimizer, model) == {}


def test_carried_moments_continue_in_the_next_stage_and_a_new_head_has_none(new: New) -> None:
    config, model = new()
    hand, first = AdamWByHand(values_of(model)), make_optimizer(config, model, ("qqp",))
    for seed in range(3):
        hand.step(give_gradients(config, model, ("qqp",), seed))
        first.step()
    second = make_optimizer(config, model, ("qqp", "sst"))
    restore_optimizer(second, model, optimizer_tensors(first, model))
    for seed in (7, 8):
        hand.step(give_gradients(config, model, ("qqp", "sst"), seed))
        second.step()
    hand.assert_close(model)
    tensors = optimizer_tensors(second, model)
    steps = {name: tensors[f"{name}.step"].item() for name in ("heads.qqp.weight", "heads.sst.weight")}
    assert steps == {"heads.qqp.weight": 5, "heads.sst.weight": 2}


def test_the_rate_that_is_set_is_used_in_the_step(new: New) -> None:
    config, model = new({"optimizer.schedule": "slanted_triangular", "optimizer.warmup_fraction": 0.5})
    hand, optimizer = AdamWByHand(values_of(model)), make_optimizer(config, model, ("qqp",))
    for step, rate in enumerate((0.0025, 0.0075, 0.0075, 0.0025)):
        rate_of = dict.fromkeys(values_of(model), rate).__getitem__
        hand.step(give_gradients(config, model, ("qqp",), step), rate_of)
        set_learning_rates(optimizer, config, step, 4, "qqp")
        optimizer.step()
    hand.assert_close(model)


def test_by_default_there_is_one_group_in_the_models_order(new: New) -> None:
    config, model = new()
    groups = names_by_group(make_optimizer(config, model, ALL), model)
    assert groups == {("network", 0.1): [name for name, _ in model.named_parameters()]}


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({}, {("network", 0.1)}),
        ({"optimizer.head_learning_rate": 1e-2}, {("network", 0.1)}),
        ({"optimizer.head_learning_rate": 1e-1}, {("network", 0.1), ("head", 0.1)}),
        ({"optimizer.decay_biases_and_norms": False}, {("network", 0.1), ("network", 0.0)}),
        ({"optimizer.decay_biases_and_norms": False, "optimizer.weight_decay": 0}, {("network", 0.0)}),
        ({"loss_weighting": "uncertainty"}, {("network", 0.1), ("network", 0.0)}),
        (LAYER_DECAY, {(part, 0.1) for part in (-1, 0, 1, "head")}),
        (CHOSEN, {(part, 0.1) for part in (-1, 0, 1, "head")}),
        (
            {**LAYER_DECAY, "optimizer.decay_biases_and_norms": False},
            {(part, decay) for part in (-1, 0, 1, "head") for decay in (0.1, 0.0)},
        ),
        ({**LAYER_DECAY, "encoder.trained_layers": [1]}, {(1, 0.1), ("head", 0.1)}),
    ],
)
def test_the_number_of_groups_follows_from_rates_and_decays(
    changes: Changes, parts: set[tuple[Any, float]], new: New
) -> None:
    config, model = new(changes)
    groups = names_by_group(make_optimizer(config, model, ALL), model)
    assert groups.keys() == parts
    for (part, _), names in groups.items():
        if part == EMBEDDINGS:
            assert all(name.startswith("encoder.embeddings.") for name in names)
        elif isinstance(part, int):
            assert all(name.startswith(f"encoder.encoder.layer.{part}.") for name in names)
        elif part == "head":
            assert not any(name.startswith("encoder.") for name in names)
    held = [name for names in groups.values() for name in names]
    assert sorted(held) == sorted(trained_parameters(config, model, ALL))


def test_biases_and_norms_decay_by_setting_and_learned_weights_never(new: New) -> None:
    spared = {
        *("embeddings.LayerNorm.weight", "embeddings.LayerNorm.bias"),
        *(
            f"encoder.layer.{layer}.{name}"
            for layer in (0, 1)
            for name in (
                "attention.self.query.bias",
                "attention.self.key.bias",
                "attention.self.value.bias",
                "attention.output.dense.bias",
                "attention.output.LayerNorm.weight",
                "attention.output.LayerNorm.bias",
                "intermediate.dense.bias",
                "output.dense.bias",
                "output.LayerNorm.weight",
                "output.LayerNorm.bias",
            )
        ),
    }
    weights = {f"log_variances.{task}" for task in ALL}
    biases = {*(f"heads.{task}.bias" for task in ALL), "relational.bias", "projection.0.bias"}
    for decays, expected in ((True, weights), (False, weights | biases | {f"encoder.{name}" for name in spared})):
        config, model = new({**RICH, "optimizer.decay_biases_and_norms": decays})
        groups = names_by_group(make_optimizer(config, model, ALL), model)
        assert set(groups["network", 0.0]) == expected
        assert len(groups["network", 0.1]) == len(values_of(model)) - len(expected)


def test_rates_fall_by_a_constant_ratio_from_layer_to_layer(new: New) -> None:
    # Triple Threat 4.4: eta^(k-1) = xi eta^k, here xi = .9 and 1e-2 at the top of two layers.
    config, model = new({**LAYER_DECAY, "optimizer.head_learning_rate": 0.5})
    optimizer = make_optimizer(config, model, ALL)
    expected = {1: 1e-2, 0: 0.9e-2, EMBEDDINGS: 0.81e-2, "head": 0.5}
    assert rates_of(optimizer) == pytest.approx(expected)
    for task in (*ALL, None):
        set_learning_rates(optimizer, config, 0, 10, task)
        assert rates_of(optimizer) == pytest.approx(expected)


def test_each_tasks_chosen_layers_have_one_scale_and_the_others_another(new: New) -> None:
    # Triple Threat 4.5: beta lr in the chosen layers, alpha lr in the others; here 2 and .5 of 1e-2.
    config, model = new(CHOSEN)
    optimizer = make_optimizer(config, model, ALL)
    plain = {EMBEDDINGS: 1e-2, "head": 1e-2}
    for task, rates in {
        "sst": {0: 2e-2, 1: 0.5e-2},
        "qqp": {0: 0.5e-2, 1: 2e-2},
        "sts": {0: 0.5e-2, 1: 0.5e-2},
        None: {0: 1e-2, 1: 1e-2},
    }.items():
        set_learning_rates(optimizer, config, 0, 10, task)
        assert rates_of(optimizer) == pytest.approx({**plain, **rates})


def test_layer_decay_schedule_and_scales_multiply(new: New) -> None:
    triangle = {"optimizer.schedule": "slanted_triangular", "optimizer.warmup_fraction": 0.5}
    config, model = new({**LAYER_DECAY, **CHOSEN, **triangle, "optimizer.head_learning_rate": 1.0})
    optimizer = make_optimizer(config, model, ALL)
    set_learning_rates(optimizer, config, 0, 4, "sst")  # a quarter of the way up, read at its middle of .5 / 2
    assert rates_of(optimizer) == pytest.approx({1: 0.125e-2, 0: 0.45e-2, EMBEDDINGS: 0.2025e-2, "head": 0.25})


def test_steps_with_rates_and_decays_per_group_match_adamw_by_hand(new: New) -> None:
    changes = {**RICH, **LAYER_DECAY, **CHOSEN, "optimizer.head_learning_rate": 0.03}
    config, model = new({**changes, "optimizer.decay_biases_and_norms": False})
    hand, optimizer = AdamWByHand(values_of(model)), make_optimizer(config, model, ALL)
    for seed, task in enumerate(("sst", "qqp", "sst")):
        scales = (2, 0.5) if task == "sst" else (0.5, 2)

        def rate_of(name: str, scales: tuple[float, float] = scales) -> float:
            if not name.startswith("encoder."):
                return 0.03
            layer = int(name.split(".")[3]) if name.startswith("encoder.encoder.") else EMBEDDINGS
            return 1e-2 * 0.9 ** (1 - layer) * (1.0 if layer == EMBEDDINGS else scales[layer])

        def decay_of(name: str) -> float:
            return 0.0 if "bias" in name or "LayerNorm" in name or "log_variances" in name else 0.1

        hand.step(give_gradients(config, model, (task,), seed), rate_of, decay_of)
        set_learning_rates(optimizer, config, seed, 10, task)
        optimizer.step()
    hand.assert_close(model)


def test_steps_with_layer_rates_match_torchs_unfused_adamw(new: New) -> None:
    (config, model), (_, other) = new(LAYER_DECAY), new(LAYER_DECAY)
    optimizer = make_optimizer(config, model, ALL)
    bert: Any = other.encoder
    parts = [(bert.embeddings, 0.0081), (bert.encoder.layer[0], 0.009), (bert.encoder.layer[1], 0.01)]
    parts.append((other.heads, 0.01))
    groups = [{"params": list(module.parameters()), "lr": rate} for module, rate in parts]
    plain = torch.optim.AdamW(groups, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1, fused=False, foreach=False)
    for seed in range(4):
        for one, takes in ((model, optimizer), (other, plain)):
            give_gradients(config, one, ALL, seed)
            takes.step()
    for first, second in zip(values_of(model).values(), values_of(other).values(), strict=True):
        assert torch.allclose(first, second, rtol=1e-5, atol=1e-7)


def test_layers_at_rate_zero_neither_move_nor_decay(new: New) -> None:
    config, model = new({**CHOSEN, "optimizer.other_scale": 0})
    before, optimizer = values_of(model), make_optimizer(config, model, ALL)
    for seed in range(2):
        give_gradients(config, model, ("sst",), seed)
        set_learning_rates(optimizer, config, seed, 10, "sst")
        optimizer.step()
    expected = trained_parameters(config, model, ("sst",)).keys()
    assert moved_by(model, before) == {name for name in expected if ".layer.1." not in name}


@pytest.mark.parametrize(
    ("layers", "prefixes"),
    [
        ([], ()),
        ([0], ("encoder.encoder.layer.0.",)),
        ([1], ("encoder.encoder.layer.1.",)),
        ([0, 1], ("encoder.encoder.",)),
        (None, ("encoder.",)),
    ],
)
def test_after_real_steps_only_trained_layers_and_the_head_have_moved(
    layers: list[int] | None, prefixes: tuple[str, ...], new: New
) -> None:
    config, model = new({"encoder.trained_layers": layers, "encoder.dropout": 0})
    before, optimizer = values_of(model), make_optimizer(config, model, ("sst",))
    ids = torch.tensor([[2, 5, 6, 3], [2, 7, 3, 0]])
    for step in range(3):
        hidden: Tensor = model.encoder(input_ids=ids, attention_mask=(ids > 0).long()).last_hidden_state
        loss = nn.functional.cross_entropy(model.heads["sst"]((hidden[:, 0],)), torch.tensor([0, 4]))
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        set_learning_rates(optimizer, config, step, 3, "sst")
        optimizer.step()
    expected = {name for name in before if name.startswith((*prefixes, "heads.sst."))}
    assert moved_by(model, before) == expected
    assert set(optimizer_tensors(optimizer, model)) == {f"{name}.{moment}" for name in expected for moment in MOMENTS}


def rates(num_steps: int, **changes: Any) -> list[float]:
    config = OptimizerConfig(schedule="slanted_triangular", **changes)
    return [learning_rate_at(config, step, num_steps, 2.0) for step in range(num_steps)]


def test_the_slanted_triangle_by_hand() -> None:
    # Peak after 1 of 10 steps, read at the middle of each: .5 of the way up, then 8.5/9, 7.5/9, ... of the way down.
    assert rates(10) == pytest.approx([1.0, *(2 * part / 9 for part in (8.5, 7.5, 6.5, 5.5, 4.5, 3.5, 2.5, 1.5, 0.5))])
    assert rates(4, warmup_fraction=0.5) == pytest.approx([0.5, 1.5, 1.5, 0.5])


@pytest.mark.parametrize(("num_steps", "fraction"), [(10, 0.1), (1000, 0.1), (40, 0.25), (7, 3 / 7), (2, 0.5)])
def test_the_rates_of_a_triangle_sum_to_half_the_peak_times_the_steps(num_steps: int, fraction: float) -> None:
    assert sum(rates(num_steps, warmup_fraction=fraction)) == pytest.approx(2.0 * num_steps / 2)


@pytest.mark.parametrize("num_steps", [1, 2, 3, 9, 10, 11, 101])
@pytest.mark.parametrize("fraction", [1e-6, 0.1, 0.5, 1 - 1e-6])
def test_a_triangle_rises_then_falls_and_no_rate_is_0(num_steps: int, fraction: float) -> None:
    found = rates(num_steps, warmup_fraction=fraction)
    top = found.index(max(found))
    assert all(0 < rate <= 2.0 for rate in found)
    assert found[: top + 1] == sorted(found[: top + 1])
    assert found[top:] == sorted(found[top:], reverse=True)
    assert abs(top + 0.5 - fraction * num_steps) <= 1


def test_a_constant_rate_is_the_peak_at_every_step() -> None:
    assert {learning_rate_at(OptimizerConfig(), step, 9, 3e-4) for step in range(9)} == {3e-4}
