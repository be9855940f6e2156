"""AdamW and schedules against torch's unfused AdamW and formulas by hand."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mtlib.config import TrialConfig
from mtlib.config_training import OptimizerConfig
from mtlib.encoder import PretrainedEncoder
from mtlib.model import MultiTaskModel
from mtlib.optim import (
    MOMENTS,
    learning_rate_at,
    make_optimizer,
    optimizer_tensors,
    restore_optimizer,
    set_learning_rate,
    trained_parameters,
)

CONFIG = OptimizerConfig(learning_rate=1e-2, weight_decay=0.1, beta1=0.8, beta2=0.95, epsilon=1e-6)
NewModel = Callable[[], MultiTaskModel]


@pytest.fixture
def new_model(tiny_config: TrialConfig, tiny_encoder: PretrainedEncoder) -> NewModel:
    return lambda: MultiTaskModel(tiny_config, tiny_encoder)


def give_gradients(model: MultiTaskModel, tasks: tuple[str, ...], seed: int) -> dict[str, Tensor]:
    """Random gradients on the encoder and the heads of `tasks`, none elsewhere; by name."""
    stream, given = torch.Generator().manual_seed(seed), {}
    model.zero_grad(set_to_none=True)
    for name, parameter in trained_parameters(model, tasks).items():
        given[name] = parameter.grad = torch.randn(parameter.shape, generator=stream)
    return given


def values_of(model: MultiTaskModel) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


class AdamWByHand:
    """Loshchilov and Hutter 2019, algorithm 2, in double precision."""

    def __init__(self, values: dict[str, Tensor]) -> None:
        self.values = {name: value.double() for name, value in values.items()}
        self.first = {name: torch.zeros_like(value) for name, value in self.values.items()}
        self.second = {name: torch.zeros_like(value) for name, value in self.values.items()}
        self.steps = dict.fromkeys(values, 0)

    def step(self, gradients: dict[str, Tensor], rate: float = CONFIG.learning_rate) -> None:
        beta1, beta2 = CONFIG.beta1, CONFIG.beta2
        for name, gradient in gradients.items():
            g = gradient.double()
            self.steps[name] += 1
            self.first[name] = beta1 * self.first[name] + (1 - beta1) * g
            self.second[name] = beta2 * self.second[name] + (1 - beta2) * g**2
            mean = self.first[name] / (1 - beta1 ** self.steps[name])
            root = (self.second[name] / (1 - beta2 ** self.steps[name])).sqrt()
            self.values[name] *= 1 - rate * CONFIG.weight_decay
            self.values[name] -= rate * mean / (root + CONFIG.epsilon)

    def assert_close(self, model: MultiTaskModel) -> None:
        for name, parameter in model.named_parameters():
            assert torch.allclose(parameter.detach().double(), self.values[name], rtol=1e-5, atol=1e-6), name


def test_the_optimizer_takes_the_steps_of_adamw_by_hand(new_model: NewModel) -> None:
    model = new_model()
    hand, optimizer = AdamWByHand(values_of(model)), make_optimizer(CONFIG, model, ("sst", "qqp", "sts"))
    for seed in range(4):
        hand.step(give_gradients(model, ("sst", "qqp", "sts"), seed))
        optimizer.step()
    hand.assert_close(model)


def test_the_optimizer_takes_the_steps_of_torchs_plain_adamw(new_model: NewModel) -> None:
    model, other = new_model(), new_model()
    optimizer = make_optimizer(CONFIG, model, ("sst", "qqp", "sts"))
    plain = torch.optim.AdamW(
        other.parameters(), lr=1e-2, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1, fused=False, foreach=False
    )
    for seed in range(4):
        for one, takes in ((model, optimizer), (other, plain)):
            give_gradients(one, ("sst", "qqp", "sts"), seed)
            takes.step()
    for first, second in zip(values_of(model).values(), values_of(other).values(), strict=True):
        assert torch.allclose(first, second, rtol=1e-5, atol=1e-7)


def test_only_the_encoder_and_the_heads_of_active_tasks_are_trained(new_model: NewModel) -> None:
    model = new_model()
    encoder = {name for name, _ in model.named_parameters() if name.startswith("encoder.")}
    assert set(trained_parameters(model, ())) == encoder
    assert set(trained_parameters(model, ("qqp",))) == encoder | {"heads.qqp.weight", "heads.qqp.bias"}
    assert set(trained_parameters(model, ("sst", "qqp", "sts"))) == {name for name, _ in model.named_parameters()}
    groups = make_optimizer(CONFIG, model, ("qqp",)).param_groups
    held = {id(parameter) for group in groups for parameter in group["params"]}
    assert held == {id(parameter) for parameter in trained_parameters(model, ("qqp",)).values()}


def test_heads_of_inactive_tasks_are_neither_moved_nor_decayed(new_model: NewModel) -> None:
    model = new_model()
    before, optimizer = values_of(model), make_optimizer(CONFIG, model, ("qqp",))
    for seed in range(2):
        give_gradients(model, ("sst", "qqp", "sts"), seed)  # even if something left gradients there
        optimizer.step()
    moved = {name for name, value in values_of(model).items() if not torch.equal(value, before[name])}
    assert moved == set(trained_parameters(model, ("qqp",)))


def test_a_parameter_without_a_gradient_stays_with_its_moments_as_it_is(new_model: NewModel) -> None:
    model = new_model()
    optimizer = make_optimizer(CONFIG, model, ("sst", "qqp"))
    give_gradients(model, ("sst", "qqp"), 0)
    optimizer.step()
    before = values_of(model)
    moments = {name: tensor.clone() for name, tensor in optimizer_tensors(optimizer, model).items()}
    give_gradients(model, ("qqp",), 1)
    optimizer.step()
    after = optimizer_tensors(optimizer, model)
    for name in ("heads.sst.weight", "heads.sst.bias"):
        assert torch.equal(model.get_parameter(name), before[name])
        assert all(torch.equal(after[f"{name}.{moment}"], moments[f"{name}.{moment}"]) for moment in MOMENTS)
    assert not torch.equal(model.get_parameter("heads.qqp.weight"), before["heads.qqp.weight"])
    assert after["heads.qqp.weight.step"] == 2


def test_the_state_holds_three_tensors_for_each_parameter_that_was_updated(new_model: NewModel) -> None:
    model = new_model()
    optimizer = make_optimizer(CONFIG, model, ("sst", "qqp"))
    assert optimizer_tensors(optimizer, model) == {}
    give_gradients(model, ("qqp",), 0)
    optimizer.step()
    names = trained_parameters(model, ("qqp",))
    assert set(optimizer_tensors(optimizer, model)) == {f"{name}.{moment}" for name in names for moment in MOMENTS}


def test_an_optimizer_that_is_put_back_goes_on_bit_for_bit(new_model: NewModel) -> None:
    model, other = new_model(), new_model()
    optimizer = make_optimizer(CONFIG, model, ("sst", "qqp"))
    for seed, tasks in enumerate((("qqp",), ("sst",), ("sst", "qqp"))):
        give_gradients(model, tasks, seed)
        optimizer.step()
    kept = {name: tensor.clone() for name, tensor in optimizer_tensors(optimizer, model).items()}
    other.load_state_dict(model.state_dict())
    again = make_optimizer(CONFIG, other, ("sst", "qqp"))
    give_gradients(other, ("sst", "qqp"), 99)
    give_gradients(model, ("sst", "qqp"), 99)
    restore_optimizer(again, other, kept)
    for one in (optimizer, again):
        one.step()
    assert all(torch.equal(value, values_of(other)[name]) for name, value in values_of(model).items())
    for name, tensor in optimizer_tensors(optimizer, model).items():
        assert torch.equal(tensor, optimizer_tensors(again, other)[name])


def test_putting_a_state_back_leaves_nothing_of_the_one_before(new_model: NewModel) -> None:
    model = new_model()
    optimizer = make_optimizer(CONFIG, model, ("sst", "qqp"))
    give_gradients(model, ("sst", "qqp"), 0)
    optimizer.step()
    restore_optimizer(optimizer, model, {})
    assert optimizer_tensors(optimizer, model) == {}


def test_moments_carried_into_the_next_stage_go_on_and_a_new_head_starts_afresh(new_model: NewModel) -> None:
    model = new_model()
    hand, first = AdamWByHand(values_of(model)), make_optimizer(CONFIG, model, ("qqp",))
    for seed in range(3):
        hand.step(give_gradients(model, ("qqp",), seed))
        first.step()
    second = make_optimizer(CONFIG, model, ("qqp", "sst"))
    restore_optimizer(second, model, optimizer_tensors(first, model))
    for seed in (7, 8):
        hand.step(give_gradients(model, ("qqp", "sst"), seed))
        second.step()
    hand.assert_close(model)
    tensors = optimizer_tensors(second, model)
    steps = {name: tensors[f"{name}.step"].item() for name in ("heads.qqp.weight", "heads.sst.weight")}
    assert steps == {"heads.qqp.weight": 5, "heads.sst.weight": 2}


def test_the_rate_that_is_set_is_the_rate_of_the_step(new_model: NewModel) -> None:
    model = new_model()
    hand, optimizer = AdamWByHand(values_of(model)), make_optimizer(CONFIG, model, ("qqp",))
    for seed, rate in enumerate((1e-3, 5e-2)):
        hand.step(give_gradients(model, ("qqp",), seed), rate)
        set_learning_rate(optimizer, rate)
        optimizer.step()
    hand.assert_close(model)


def rates(num_steps: int, **changes: Any) -> list[float]:
    config = OptimizerConfig(learning_rate=2.0, schedule="slanted_triangular", **changes)
    return [learning_rate_at(config, step, num_steps) for step in range(num_steps)]


def test_the_slanted_triangle_by_hand() -> None:
    # Peak after 1 of 10 steps, read at the middle of each: .5 of the way up, then 8.5/9, 7.5/9, ... of the way down.
    assert rates(10) == pytest.approx([1.0, *(2 * part / 9 for part in (8.5, 7.5, 6.5, 5.5, 4.5, 3.5, 2.5, 1.5, 0.5))])
    assert rates(4, warmup_fraction=0.5) == pytest.approx([0.5, 1.5, 1.5, 0.5])


@pytest.mark.parametrize(("num_steps", "fraction"), [(10, 0.1), (1000, 0.1), (40, 0.25), (7, 3 / 7), (2, 0.5)])
def test_the_rates_of_a_triangle_add_up_to_half_the_peak_times_the_steps(num_steps: int, fraction: float) -> None:
    assert sum(rates(num_steps, warmup_fraction=fraction)) == pytest.approx(2.0 * num_steps / 2)


@pytest.mark.parametrize("num_steps", [1, 2, 3, 9, 10, 11, 101])
@pytest.mark.parametrize("fraction", [1e-6, 0.1, 0.5, 1 - 1e-6])
def test_a_triangle_rises_then_falls_and_no_step_is_wasted(num_steps: int, fraction: float) -> None:
    found = rates(num_steps, warmup_fraction=fraction)
    top = found.index(max(found))
    assert all(0 < rate <= 2.0 for rate in found)
    assert found[: top + 1] == sorted(found[: top + 1])
    assert found[top:] == sorted(found[top:], reverse=True)
    assert abs(top + 0.5 - fraction * num_steps) <= 1


def test_a_constant_rate_is_the_peak_at_every_step() -> None:
    config = OptimizerConfig(learning_rate=3e-4)
    assert {learning_rate_at(config, step, 9) for step in range(9)} == {3e-4}


def test_every_parameter_group_gets_the_rate() -> None:
    groups = [{"params": [nn.Parameter(torch.zeros(1))]} for _ in range(2)]
    optimizer = torch.optim.AdamW(groups, lr=1.0)
    set_learning_rate(optimizer, 0.25)
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.25]
