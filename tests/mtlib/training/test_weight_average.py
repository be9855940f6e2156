"""Averages of weights against closed forms."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.special import gammaln
from torch import Tensor

from mtlib.model.multitask import MultiTaskModel
from mtlib.training.run import Run
from mtlib.training.weight_average import averaged_copy, polynomial_share, update_average

STEPS = 7


@pytest.fixture
def model(new_run: Callable[..., Run]) -> MultiTaskModel:
    return new_run().model


def move(model: MultiTaskModel, step: int) -> None:
    """Draws all weights anew."""
    stream = torch.Generator().manual_seed(step)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(generator=stream)


def weights_of_steps(power: float, num_steps: int) -> np.ndarray:
    """(num_steps,) how much each step counts, by a sum over all steps: Gamma(s + power) / Gamma(s), scaled to 1."""
    steps = np.arange(1, num_steps + 1)
    weights = np.exp(gammaln(steps + power) - gammaln(steps))
    shares: np.ndarray = weights / weights.sum()
    return shares


@pytest.mark.parametrize("power", [0, 0.5, 3])
def test_a_step_counts_by_its_power_and_the_first_replaces_what_was_there(power: float, model: MultiTaskModel) -> None:
    average, seen = averaged_copy(model), list[dict[str, Tensor]]()
    assert model.training
    assert not any(module.training for module in average.modules())
    for step in range(1, STEPS + 1):
        move(model, step)
        update_average(average, model, polynomial_share(step, power))
        seen.append({name: parameter.detach().clone() for name, parameter in model.named_parameters()})
        weights = weights_of_steps(power, step)
        for name, parameter in average.named_parameters():
            expected = sum(weight * own[name] for weight, own in zip(weights.tolist(), seen, strict=True))
            assert torch.allclose(parameter, torch.as_tensor(expected), rtol=1e-5, atol=1e-6), name


def test_frozen_weights_are_shared_not_copied(new_run: Callable[..., Run]) -> None:
    model = new_run({"adapter.method": "lora"}).model
    average, before = averaged_copy(model), {name: one.detach().clone() for name, one in model.named_parameters()}
    shared = {name for name, one in average.named_parameters() if one is model.get_parameter(name)}
    assert shared == {name for name, one in model.named_parameters() if not one.requires_grad} != set()
    move(model, 1)
    update_average(average, model, 0.5)
    for name, parameter in average.named_parameters():
        expected = model.get_parameter(name) if name in shared else (before[name] + model.get_parameter(name)) / 2
        assert torch.allclose(parameter, expected, rtol=1e-5, atol=1e-6), name
