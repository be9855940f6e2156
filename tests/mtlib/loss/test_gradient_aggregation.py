"""Gradients of several tasks: computed by themselves, averaged over workers, combined where they are shared."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mtlib.loss.gradient_aggregation
from mtlib.data.batches import Batch
from mtlib.loss.clean_pass import Place
from mtlib.loss.gradient_aggregation import Gradients, combine, gradients_by_task, gramian_of
from mtlib.runtime.errors import TrainingDiverged
from mtlib.training.run import Run
from tests.mtlib.loss.by_hand import PLAIN, NewRun, shards_of
from tests.mtlib.loss.gradient_tables import METHODS, combined, conflicting, cut


def joined(gradients: Sequence[Tensor | None]) -> Tensor:
    return torch.cat([part.flatten() for part in gradients if part is not None])


def test_a_parameter_of_one_task_keeps_its_gradient_and_is_ignored_for_the_others() -> None:
    matrix = conflicting(2, 3)
    own = [torch.full((3,), 1e3 * task, dtype=torch.float64) for task in range(1, 4)]
    gradients = [
        [*parts, *(own[k] if k == task else None for k in range(3)), None] for task, parts in enumerate(cut(matrix))
    ]
    *shared, first, second, third, nothing = combine(METHODS["upgrad"], gradients)
    assert nothing is None
    for found, given in zip((first, second, third), own, strict=True):
        assert found is given
    assert torch.allclose(joined(shared), combined("upgrad", matrix))


@pytest.mark.parametrize("method", ["upgrad", "excess_mtl"])
def test_a_parameter_shared_by_some_tasks_is_0_for_the_rest(method: str) -> None:
    matrix = conflicting(3, 3)
    matrix[2, 6:] = 0  # the third task does not reach the second parameter
    gradients = cut(matrix)
    gradients[2][1] = None
    assert torch.allclose(joined(combine(METHODS[method], gradients)), combined(method, matrix))


@pytest.mark.parametrize("method", ["upgrad", "gradvac"])
def test_a_task_that_reaches_no_shared_parameter_does_not_affect_them(method: str) -> None:
    matrix, own = conflicting(8, 2), torch.full((3,), 1e-3, dtype=torch.float64)
    torch.manual_seed(0)
    expected = combined(method, matrix)
    gradients: list[Gradients] = [[*parts, None] for parts in cut(matrix)]
    gradients.insert(1, [None, None, own])
    torch.manual_seed(0)
    *shared, found = combine(METHODS[method], gradients)
    assert torch.allclose(joined(shared), expected)
    assert found is own


def test_a_gradient_that_is_not_finite_is_refused() -> None:
    matrix = conflicting(9, 3)
    matrix[2, 7] = float("nan")
    with pytest.raises(TrainingDiverged, match="not finite"):
        combine(METHODS["upgrad"], cut(matrix))


def test_inner_products_are_those_of_the_stacked_gradients_in_double_precision() -> None:
    matrix = conflicting(5, 3)
    assert torch.allclose(gramian_of(list(zip(*cut(matrix), strict=True)), 3), matrix @ matrix.T)
    matrix = torch.randn(2, 100_000, generator=torch.Generator().manual_seed(0))
    matrix[1] = -matrix[0] + 1e-4 * matrix[1]  # nearly opposite
    assert torch.allclose(gramian_of([list(matrix)], 2), matrix.double() @ matrix.double().T, rtol=1e-12)


def test_gradients_are_averaged_over_the_workers_by_one_exchange_before_they_are_combined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = torch.tensor([[1.0, 0.0], [-1.0, 0.5]])  # in conflict on this worker
    others = iter(torch.tensor([[1.0, 0.0, 9.0], [3.0, 0.5, 7.0]]))  # without conflict on average
    monkeypatch.setattr(mtlib.loss.gradient_aggregation, "num_workers", lambda: 2)
    monkeypatch.setattr(mtlib.loss.gradient_aggregation, "sum_over_workers", lambda values: values + next(others))
    given: list[Gradients] = [[mine[0], torch.ones(1, 1), None], [mine[1], None, torch.ones(1)]]
    shared, one, other = combine(METHODS["pcgrad"], given)
    assert shared is not None
    assert one is not None
    assert other is not None
    assert shared.tolist() == pytest.approx([2.0, 0.5])
    assert (one.tolist(), other.tolist()) == ([[5]], [4])


@pytest.fixture
def run(new_run: NewRun) -> Run:
    """A trial whose first stage sums the losses of all tasks; without dropout."""
    return new_run({**PLAIN, "stages.0.tasks": "sst,qqp,sts", "stages.0.sum_losses": True, "tasks.sst.loss_weight": 2})


def parts_of(run: Run, *tasks: str) -> tuple[list[Batch], list[Place]]:
    """A batch of each task, with different rows; and its place."""
    batches = [shards_of(run, task, len(tasks), world_size=len(tasks))[turn] for turn, task in enumerate(tasks)]
    return batches, [Place(noise_seed=turn, turn=turn, full_size=5) for turn in range(len(tasks))]


class Wrapped(nn.Module):
    """A stand-in for DDP that records whether it is called inside `no_sync`."""

    def __init__(self, objective: nn.Module) -> None:
        super().__init__()
        self.objective = objective
        self.is_quiet = False
        self.calls: list[bool] = []

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        self.is_quiet = True
        yield
        self.is_quiet = False

    def forward(self, *arguments: Any) -> Any:
        self.calls.append(self.is_quiet)
        return self.objective(*arguments)


def test_the_batches_of_a_task_give_one_gradient_and_details_keep_their_order(run: Run) -> None:
    batches, places = parts_of(run, "qqp", "sst", "sts", "sst", "qqp")
    parameters, wrapped = list(run.model.parameters()), Wrapped(run.objective)
    gradients, details = gradients_by_task(wrapped, parameters, batches, places)
    assert wrapped.calls == [True, True, True]
    assert torch.allclose(details, run.objective(batches, places)[1])
    assert len({round(number, 4) for number in details[:, 0].tolist()}) == 5
    for found, indices in zip(gradients, ([0, 4], [1, 3], [2]), strict=True):
        loss, _ = run.objective([batches[index] for index in indices], [places[index] for index in indices])
        expected = torch.autograd.grad(loss, parameters, allow_unused=True)
        for one, other in zip(found, expected, strict=True):
            assert (one is None) == (other is None)
            assert one is None or other is None or torch.allclose(one, other, rtol=1e-4, atol=1e-5)
    assert all(parameter.grad is None for parameter in parameters)
    plain, _ = gradients_by_task(run.objective, parameters, batches, places)
    assert all(map(torch.equal, *([part for part in parts[0] if part is not None] for parts in (plain, gradients))))
