"""Weights of losses against torchjd's scalarizations, driven step by step."""

import pytest
import torch
from torch import Tensor
from torchjd.scalarization import DWA, FAMO, STCH, Scalarizer

from mtlib.loss.loss_weights import note_epoch_dwa, update_famo, weights_dwa, weights_famo, weights_stch

TASKS = ("one", "two", "three")
FAMO_SETTINGS = {"famo_learning_rate": 0.1, "famo_weight_decay": 0.01}


def losses_of(seed: int) -> Tensor:
    """A positive loss of each task, of sizes that differ."""
    return torch.rand(3, generator=torch.Generator().manual_seed(seed)) * torch.tensor([1.0, 3.0, 0.2]) + 0.01


def by_task(losses: Tensor) -> dict[str, Tensor]:
    return dict(zip(TASKS, losses, strict=True))


def weights_by_torchjd(scalarizer: Scalarizer, losses: Tensor) -> Tensor:
    """The derivative of a scalarization by each loss."""
    variables = losses.clone().requires_grad_()
    return torch.autograd.grad(scalarizer(variables), variables)[0]


def test_famo_matches_torchjd_step_by_step() -> None:
    theirs, state = FAMO(3, lr=0.1, weight_decay=0.01), dict[str, Tensor]()
    for step in range(20):
        before, after = losses_of(2 * step), losses_of(2 * step + 1)
        found = weights_famo(by_task(before), state, **FAMO_SETTINGS)
        assert torch.allclose(found, weights_by_torchjd(theirs, before))
        theirs.update(after)
        update_famo(by_task(before), by_task(after), state, **FAMO_SETTINGS)
    first = weights_famo(by_task(before), {}, **FAMO_SETTINGS)
    assert not torch.allclose(found, first, rtol=0.05)


def test_famo_changes_the_tasks_of_a_step_alone() -> None:
    state: dict[str, Tensor] = {}
    update_famo(by_task(losses_of(0)), by_task(losses_of(1)), state, **FAMO_SETTINGS)
    before = {name: tensor.clone() for name, tensor in state.items()}
    pair = {task: torch.tensor(1.0) for task in ("one", "two")}
    update_famo(pair, {"one": torch.tensor(0.5), "two": torch.tensor(0.9)}, state, **FAMO_SETTINGS)
    changed = {name.rpartition(".")[2] for name, tensor in state.items() if not torch.equal(tensor, before[name])}
    assert changed == {"one", "two"}


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_dwa_matches_torchjd_epoch_by_epoch(temperature: float) -> None:
    theirs, state = DWA(temperature), dict[str, Tensor]()
    for epoch in range(5):
        batches = [losses_of(4 * epoch + batch) for batch in range(4)]
        for losses in batches:
            found = weights_dwa(by_task(losses), state, dwa_temperature=temperature)
            assert torch.allclose(found, weights_by_torchjd(theirs, losses))
        assert torch.equal(found, torch.ones(3)) == (epoch < 2)
        theirs.step()
        means = torch.stack(batches).mean(dim=0).tolist()
        note_epoch_dwa(dict(zip(TASKS, means, strict=True)), state)


@pytest.mark.parametrize("mu", [0.01, 0.1, 1.0])
def test_stch_matches_torchjd(mu: float) -> None:
    losses = losses_of(3)
    found = weights_stch(by_task(losses), {}, stch_mu=mu)
    assert torch.allclose(found, weights_by_torchjd(STCH(mu), losses), atol=1e-7)
    assert found.sum().item() == pytest.approx(1 / 3)
