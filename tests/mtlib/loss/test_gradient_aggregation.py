"""Gradients of several tasks: computed by themselves, averaged over workers, combined where they are shared."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import mtlib.loss.gradient_aggregation
from mtlib.data.batches import Batch
from mtlib.loss.clean_pass import Place
from mtlib.loss.gradient_aggregation import (
    Gradients,
    average_over_workers,
    combine,
    gradients_by_task,
    gramian_of,
)
from mtlib.runtime.errors import TrainingDiverged
from mtlib.stages.sampler import StepBatch
from mtlib.training.run import Run
from mtlib.training.step import batch_of, batch_place
from tests.mtlib.loss.gradient_tables import METHODS, combined, conflicting, cut

NewRun = Callable[..., Run]
STILL = {"encoder.dropout": 0, "encoder.attention_dropout": 0, "smart.weight": 0}


@pytest.mark.parametrize("method", METHODS)
def test_a_parameter_of_one_task_keeps_its_gradient_and_is_ignored_for_the_others(method: str) -> None:
    matrix = conflicting(2, 3)
    own = [torch.full((3,), 1e3 * task, dtype=torch.float64) for task in range(1, 4)]
    gradients = [
        [*parts, *(own[k] if k == task else None for k in range(3)), None] for task, parts in enumerate(cut(matrix))
    ]
    torch.manual_seed(0)
    *shared, first, second, third, nothing = combine(METHODS[method], gradients)
    assert nothing is None
    for found, given in zip((first, second, third), own, strict=True):
        assert found is not None
        assert torch.equal(found, given)
    torch.manual_seed(0)
    joined = torch.cat([part.flatten() for part in shared if part is not None])
    assert torch.allclose(joined, combined(method, matrix))


@pytest.mark.parametrize("method", METHODS)
def test_a_parameter_shared_by_some_tasks_is_0_for_the_rest(method: str) -> None:
    matrix = conflicting(3, 3)
    matrix[2, 6:] = 0  # the third task does not reach the second parameter
    gradients = cut(matrix)
    gradients[2][1] = None
    torch.manual_seed(0)
    expected = combined(method, matrix)
    torch.manual_seed(0)
    found = [part.flatten() for part in combine(METHODS[method], gradients) if part is not None]
    assert torch.allclose(torch.cat(found), expected)


@pytest.mark.parametrize("method", METHODS)
def test_tasks_without_shared_parameters_keep_their_gradients(method: str) -> None:
    one, other = torch.arange(3.0), torch.ones(2)
    first, second, nothing = combine(METHODS[method], [[one, None, None], [None, other, None]])
    assert nothing is None
    assert first is not None
    assert second is not None
    assert torch.equal(first, one)
    assert torch.equal(second, other)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("method", METHODS)
def test_a_task_that_reaches_no_shared_parameter_does_not_affect_them(method: str, place: int) -> None:
    matrix = conflicting(8, 2)
    torch.manual_seed(0)
    expected = combined(method, matrix)
    assert expected.norm() > 0.1
    gradients: list[Gradients] = [[*parts, None] for parts in cut(matrix)]
    gradients.insert(place, [None, None, torch.full((3,), 1e-3, dtype=torch.float64)])
    torch.manual_seed(0)
    *shared, own = combine(METHODS[method], gradients)
    assert torch.allclose(torch.cat([part.flatten() for part in shared if part is not None]), expected)
    assert own is not None
    assert torch.equal(own, torch.full((3,), 1e-3, dtype=torch.float64))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_refuses_a_gradient_that_is_not_finite(method: str, value: float) -> None:
    for task, parameter in ((0, 0), (2, 1)):
        gradients = cut(conflicting(9, 3))
        part = gradients[task][parameter]
        assert part is not None
        part.view(-1)[1] = value
        with pytest.raises(TrainingDiverged, match=r"^the gradient of a task is not finite$"):
            combine(METHODS[method], gradients)


@pytest.mark.parametrize("method", [method for method in METHODS if method != "imtl_g"])
def test_a_long_finite_gradient_is_combined(method: str) -> None:
    # In fp32 its inner product with itself would be infinite. Torchjd's IMTL-G gives 0 for lengths from 1e12 on.
    found = combine(METHODS[method], [[torch.tensor([1e25, 0.0])], [torch.tensor([0.0, 1e25])]])[0]
    assert found is not None
    assert found.isfinite().all()
    assert (found > 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_gradient_of_0_gives_no_nan(method: str) -> None:
    matrix = conflicting(4, 3)
    for zeros in ([1], [0, 1, 2]):
        matrix[zeros] = 0
        assert torch.isfinite(combined(method, matrix)).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_combination_keeps_type_and_shape(method: str) -> None:
    gradients: list[Gradients] = [[torch.randn(2, 3), torch.randn(())] for _ in range(2)]
    found = combine(METHODS[method], gradients)
    assert [(part.dtype, part.shape) for part in found if part is not None] == [
        (torch.float32, (2, 3)),
        (torch.float32, ()),
    ]


def test_inner_products_are_those_of_the_stacked_gradients() -> None:
    matrix = conflicting(5, 3)
    by_parameter = list(zip(*cut(matrix), strict=True))
    found = gramian_of(by_parameter, 3)
    assert found.dtype == torch.float64
    assert torch.allclose(found, matrix @ matrix.T)
    assert torch.equal(gramian_of([], 2), torch.zeros(2, 2, dtype=torch.float64))


def test_inner_products_of_fp32_gradients_are_in_double_precision() -> None:
    matrix = torch.randn(2, 100_000, generator=torch.Generator().manual_seed(0))
    matrix[1] = -matrix[0] + 1e-4 * matrix[1]  # nearly opposite
    wide = matrix.double()
    found = gramian_of([list(matrix)], 2)
    assert torch.allclose(found, wide @ wide.T, rtol=1e-12)
    assert torch.linalg.eigvalsh(found).min().item() == pytest.approx(1e-8 * 100_000 / 2, rel=0.05)


def test_one_worker_exchanges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_values: Tensor) -> Tensor:
        raise AssertionError("nothing to sum over")

    monkeypatch.setattr(mtlib.loss.gradient_aggregation, "sum_over_workers", refuse)
    given: Gradients = [torch.ones(2), None]
    assert average_over_workers(given) is given


def test_the_mean_over_workers_is_one_exchange_and_none_stays_none(monkeypatch: pytest.MonkeyPatch) -> None:
    exchanged: list[Tensor] = []

    def sum_with_others(values: Tensor) -> Tensor:
        exchanged.append(values.clone())
        return values.add_(torch.arange(7.0))

    monkeypatch.setattr(mtlib.loss.gradient_aggregation, "num_workers", lambda: 4)
    monkeypatch.setattr(mtlib.loss.gradient_aggregation, "sum_over_workers", sum_with_others)
    matrix = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    first, second, third = average_over_workers([matrix, None, torch.tensor([5.0, 6.0, 7.0])])
    assert len(exchanged) == 1
    assert second is None
    assert first is not None
    assert third is not None
    assert torch.equal(first, torch.tensor([[1.0, 3.0], [5.0, 7.0]]) / 4)
    assert torch.equal(third, torch.tensor([9.0, 11.0, 13.0]) / 4)
    assert torch.equal(matrix, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))


def test_gradients_are_averaged_over_the_workers_before_they_are_combined(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = torch.tensor([[1.0, 0.0], [-1.0, 0.5]])  # in conflict on this worker
    others = iter(torch.tensor([[1.0, 0.0], [3.0, 0.5]]))  # without conflict on average
    monkeypatch.setattr(mtlib.loss.gradient_aggregation, "num_workers", lambda: 2)
    monkeypatch.setattr(mtlib.loss.gradient_aggregation, "sum_over_workers", lambda values: values + next(others))
    (found,) = combine(METHODS["pcgrad"], [[row] for row in mine])
    assert found is not None
    assert found.tolist() == pytest.approx([2.0, 0.5])


@pytest.fixture
def run(new_run: NewRun) -> Run:
    """A trial whose first stage sums the losses of all tasks; without dropout."""
    return new_run({**STILL, "stages.0.tasks": "sst,qqp,sts", "stages.0.sum_losses": True, "tasks.sst.loss_weight": 2})


def parts_of(run: Run, *sets: str) -> tuple[list[Batch], list[Place]]:
    """A batch of each named set, with different rows."""
    parts = [StepBatch(set=name, rows=np.arange(5) + 5 * turn, turn=turn) for turn, name in enumerate(sets)]
    return [batch_of(run, part) for part in parts], [batch_place(run, part) for part in parts]


def assert_near(one: Sequence[Tensor | None], other: Sequence[Tensor | None]) -> None:
    for first, second in zip(one, other, strict=True):
        assert (first is None) == (second is None)
        if first is not None and second is not None:
            assert torch.allclose(first, second, rtol=1e-4, atol=1e-5)


def test_the_batches_of_a_task_give_one_gradient_and_details_keep_their_order(run: Run) -> None:
    batches, places = parts_of(run, "qqp", "sst", "sts", "sst", "qqp")
    parameters = list(run.model.parameters())
    gradients, details = gradients_by_task(run.objective, parameters, batches, places)
    assert len(gradients) == 3
    assert torch.allclose(details, run.objective(batches, places)[1])
    assert len({round(number, 4) for number in details[:, 0].tolist()}) == 5
    for found, indices in zip(gradients, ([0, 4], [1, 3], [2]), strict=True):
        loss, _ = run.objective([batches[index] for index in indices], [places[index] for index in indices])
        assert_near(found, torch.autograd.grad(loss, parameters, allow_unused=True))
    assert all(parameter.grad is None for parameter in parameters)


def test_the_gradients_of_the_tasks_sum_to_that_of_the_step(run: Run) -> None:
    batches, places = parts_of(run, "sst", "qqp", "sts")
    parameters = list(run.model.parameters())
    gradients, _ = gradients_by_task(run.objective, parameters, batches, places)
    whole = torch.autograd.grad(run.objective(batches, places)[0], parameters, allow_unused=True)
    summed = [
        sum((part for part in parts[1:] if part is not None), start=parts[0]) if parts[0] is not None else None
        for parts in ([part for part in parts if part is not None] or [None] for parts in zip(*gradients, strict=True))
    ]
    assert_near(summed, whole)


def test_a_task_does_not_reach_the_heads_of_others(run: Run) -> None:
    batches, places = parts_of(run, "sst", "qqp")
    named = dict(run.model.named_parameters())
    gradients, _ = gradients_by_task(run.objective, list(named.values()), batches, places)
    for task, found in zip(("sst", "qqp"), gradients, strict=True):
        reached = {name for name, part in zip(named, found, strict=True) if part is not None}
        assert {name.split(".")[1] for name in reached if name.startswith("heads.")} == {task}
        assert "encoder.embeddings.word_embeddings.weight" in reached


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


def test_a_wrapped_objective_runs_inside_no_sync(run: Run) -> None:
    wrapped = Wrapped(run.objective)
    batches, places = parts_of(run, "sst", "qqp")
    parameters = list(run.model.parameters())
    found, _ = gradients_by_task(wrapped, parameters, batches, places)
    assert wrapped.calls == [True, True]
    assert not wrapped.is_quiet
    plain, _ = gradients_by_task(run.objective, parameters, batches, places)
    for one, other in zip(found, plain, strict=True):
        assert_near(one, other)
