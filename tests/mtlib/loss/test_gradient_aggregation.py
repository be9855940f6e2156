"""Gradient methods against literal algorithms, closed forms, properties, and torchjd."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import LinearConstraint, minimize, nnls
from torch import Tensor, nn
from torch.nn import functional
from torchjd import aggregation

import mtlib.loss.gradient_aggregation
from mtlib.config.gradient_methods import GRADIENT_METHODS
from mtlib.data.batches import Batch
from mtlib.loss.clean_pass import Place
from mtlib.loss.gradient_aggregation import (
    PROJECTOR,
    Gradients,
    average_over_workers,
    combine,
    gradients_by_task,
    gramian_of,
)
from mtlib.runtime.errors import TrainingDiverged
from mtlib.runtime.lazy_functions import load_function
from mtlib.stages.sampler import StepBatch
from mtlib.training.run import Run
from mtlib.training.step import batch_of, batch_place

NewRun = Callable[..., Run]
STILL = {"encoder.dropout": 0, "encoder.attention_dropout": 0, "smart.weight": 0}
NUM_ENTRIES = 10
METHODS = {name: load_function(method.function) for name, method in GRADIENT_METHODS.items() if method.function}
"""Functions from the Gramian to the weights, by name, without the sum."""


def conflicting(seed: int, num_tasks: int) -> Tensor:
    """Gradients of several tasks, (tasks, entries), of different lengths, each in conflict with another."""
    stream = torch.Generator().manual_seed(seed)
    while True:
        matrix = torch.randn(num_tasks, NUM_ENTRIES, generator=stream, dtype=torch.float64)
        matrix *= torch.logspace(0, 1, num_tasks, dtype=torch.float64)[:, None]
        if ((matrix @ matrix.T).amin(1) < -0.1).all():
            return matrix


def cut(matrix: Tensor) -> list[Gradients]:
    """Each row as the gradients of two parameters, of shapes (2, 3) and (4,)."""
    return [[row[:6].reshape(2, 3).clone(), row[6:].clone()] for row in matrix]


def combined(method: str, matrix: Tensor) -> Tensor:
    """The combination of the rows; (entries,)."""
    parts = [part for part in combine(METHODS[method], cut(matrix)) if part is not None]
    assert [part.shape for part in parts] == [(2, 3), (4,)]
    return torch.cat([part.flatten() for part in parts])


def pcgrad_by_hand(matrix: Tensor) -> Tensor:
    """Algorithm 1 of Yu et al. 2020, on the gradients themselves."""
    total = torch.zeros_like(matrix[0])
    for task, gradient in enumerate(matrix):
        projected = gradient.clone()
        for other in torch.randperm(len(matrix)).tolist():
            product = projected @ matrix[other]
            if other != task and product < 0:
                projected = projected - product / matrix[other].norm() ** 2 * matrix[other]
        total += projected
    return total


def on_dual_cone(vector: Tensor, matrix: Tensor) -> Tensor:
    """The nearest vector without a negative inner product with a row, by Moreau's decomposition and SciPy's NNLS."""
    directions = functional.normalize(matrix, dim=1)
    weights, _ = nnls(directions.T.numpy(), -vector.numpy())
    return vector + directions.T @ torch.from_numpy(weights)


def pairwise_conflicting(num_tasks: int) -> Tensor:
    """Gradients in conflict pairwise, so that the order of projections matters."""
    matrix = conflicting(0, num_tasks)
    return matrix - 0.9 * matrix.mean(0)


RATIOS = [1.0, 10.0, 100.0, 300.0, 1000.0, 1e6]


def unequal_conflicting(seed: int, num_tasks: int, ratio: float) -> Tensor:
    """Gradients in conflict in random order; the longest is `ratio` times as long as the shortest."""
    matrix, stream = pairwise_conflicting(num_tasks), np.random.default_rng(seed)
    matrix += 0.3 * torch.from_numpy(stream.standard_normal(matrix.shape))
    lengths = torch.from_numpy(stream.permutation(np.geomspace(1, ratio, num_tasks)))
    assert ((matrix @ matrix.T).amin(1) < 0).all()
    return functional.normalize(matrix, dim=1) * lengths[:, None]


def worst_cosine(found: Tensor, matrix: Tensor) -> float:
    """The lowest cosine of a combination with a row."""
    return float((matrix @ found / (matrix.norm(dim=1) * found.norm())).min())


@pytest.mark.parametrize("num_tasks", [2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_pcgrad_matches_its_paper_with_the_same_permutations(seed: int, num_tasks: int) -> None:
    for matrix in (conflicting(seed, num_tasks), pairwise_conflicting(num_tasks)):
        torch.manual_seed(seed)
        expected = pcgrad_by_hand(matrix)
        torch.manual_seed(seed)
        found = combined("pcgrad", matrix)
        assert torch.allclose(found, expected)
        assert not torch.allclose(found, matrix.sum(0))


def test_pcgrads_permutations_come_from_the_global_stream() -> None:
    matrix, seen = pairwise_conflicting(4), set()
    for seed in range(8):
        torch.manual_seed(seed)
        seen.add(round(combined("pcgrad", matrix).norm().item(), 9))
    assert len(seen) > 2


@pytest.mark.parametrize("seed", range(4))
def test_pcgrad_of_two_tasks_removes_the_conflicting_component_of_each(seed: int) -> None:
    one, other = matrix = conflicting(seed, 2)
    product = one @ other
    expected = one - product / (other @ other) * other + other - product / (one @ one) * one
    assert torch.allclose(combined("pcgrad", matrix), expected)


@pytest.mark.parametrize("scale", [0.01, 0.5, 1.0, 3.0, 100.0])
@pytest.mark.parametrize("seed", range(3))
def test_mgda_of_two_tasks_is_the_point_of_their_segment_nearest_to_0(seed: int, scale: float) -> None:
    one, other = torch.randn(2, NUM_ENTRIES, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    one = scale * one
    part = ((other - one) @ other / (one - other).norm() ** 2).clamp(0, 1)
    found = combined("mgda", torch.stack([one, other]))
    assert torch.allclose(found, part * one + (1 - part) * other)


def test_mgda_of_parallel_gradients_is_the_shortest() -> None:
    one = torch.randn(NUM_ENTRIES, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.allclose(combined("mgda", torch.stack([one, 3 * one])), one)


@pytest.mark.parametrize("seed", range(3))
def test_mgda_of_several_tasks_is_no_longer_than_any_vector_of_the_hull(seed: int) -> None:
    matrix = conflicting(seed, 4)
    start = np.full(4, 0.25)
    gramian = (matrix @ matrix.T).numpy()
    on_simplex = LinearConstraint(np.ones((1, 4)), 1, 1)

    def squared_length(weights: np.ndarray) -> float:
        return float(weights @ gramian @ weights)

    best = minimize(squared_length, start, bounds=[(0, 1)] * 4, constraints=on_simplex, tol=1e-12)
    assert best.success
    assert combined("mgda", matrix).norm().item() ** 2 == pytest.approx(best.fun, rel=1e-6)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("num_tasks", [2, 3, 4, 6])
def test_mgda_is_the_shortest_vector_of_the_hull_for_any_ratio_of_lengths(num_tasks: int, ratio: float) -> None:
    for seed in range(10):
        matrix = unequal_conflicting(seed, num_tasks, ratio)
        weights = METHODS["mgda"](matrix @ matrix.T)
        assert weights.min() >= 0
        assert weights.sum().item() == pytest.approx(1)
        shortest = weights @ matrix
        # Wolfe's criterion: a vector is the shortest if the hull lies beyond the plane through it, orthogonal to it.
        assert worst_cosine(shortest, matrix - shortest) > -1e-6


def test_mgda_is_0_where_a_gradient_is_0() -> None:
    matrix = conflicting(0, 4)
    matrix[[1, 3]] = 0
    weights = METHODS["mgda"](matrix @ matrix.T)
    assert weights.tolist() == [0, 0.5, 0, 0.5]


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("num_tasks", [2, 3, 5])
def test_upgrad_is_the_sum_of_the_projected_gradients(num_tasks: int, ratio: float) -> None:
    for seed in range(5):
        matrix = unequal_conflicting(seed, num_tasks, ratio)
        expected = torch.stack([on_dual_cone(row, matrix) for row in matrix]).sum(0)
        assert (combined("upgrad", matrix) - expected).norm() < 1e-6 * expected.norm()


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("num_tasks", [2, 3, 5])
def test_dualproj_is_the_projected_sum_of_the_gradients(num_tasks: int, ratio: float) -> None:
    for seed in range(5):
        matrix = unequal_conflicting(seed, num_tasks, ratio)
        expected = on_dual_cone(matrix.sum(0), matrix)
        assert (combined("dualproj", matrix) - expected).norm() < 1e-6 * expected.norm()


@pytest.mark.parametrize("method", ["upgrad", "dualproj", "mgda", "imtl_g"])
@pytest.mark.parametrize("seed", range(4))
def test_projections_conflict_with_no_task(seed: int, method: str) -> None:
    matrix = conflicting(seed, 3)
    assert worst_cosine(combined(method, matrix), matrix) > -1e-5


@pytest.mark.parametrize("method", ["upgrad", "dualproj", "mgda"])
@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("num_tasks", [2, 3, 4, 6])
def test_projections_conflict_with_no_short_gradient(num_tasks: int, ratio: float, method: str) -> None:
    for seed in range(10):
        matrix = unequal_conflicting(seed, num_tasks, ratio).float()
        assert worst_cosine(combined(method, matrix), matrix) > -1e-5


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("method", ["upgrad", "dualproj", "mgda"])
def test_projections_of_opposite_gradients_conflict_with_none(method: str, ratio: float) -> None:
    stream = torch.Generator().manual_seed(0)
    for angle in (1e-2, 1e-3):
        matrix = torch.randn(3, NUM_ENTRIES, generator=stream, dtype=torch.float64)
        matrix = functional.normalize(matrix, dim=1)
        matrix[1] = -ratio * (matrix[0] + angle * matrix[1])
        assert worst_cosine(combined(method, matrix), matrix) > -1e-5


@pytest.mark.parametrize("method", METHODS)
def test_a_single_gradient_has_weight_1(method: str) -> None:
    for square in (1e-12, 1.0, 1e12):
        assert METHODS[method](torch.tensor([[square]], dtype=torch.float64)).tolist() == pytest.approx([1])


@pytest.mark.parametrize("method", ["upgrad", "dualproj"])
def test_a_gradient_of_0_does_not_change_a_projection(method: str) -> None:
    matrix = conflicting(1, 3)
    with_zeros = torch.cat([torch.zeros(1, NUM_ENTRIES, dtype=torch.float64), matrix])
    assert torch.allclose(combined(method, with_zeros), combined(method, matrix), rtol=1e-7, atol=1e-7)


def test_the_sum_conflicts_where_a_projection_does_not() -> None:
    one = torch.tensor([1.0, 0.0, *[0.0] * 8], dtype=torch.float64)
    matrix = torch.stack([one, torch.tensor([-3.0, 4.0, *[0.0] * 8], dtype=torch.float64)])
    assert (matrix @ matrix.sum(0)).tolist() == [-2.0, 22.0]
    assert (matrix @ combined("dualproj", matrix)).tolist() == pytest.approx([0.0, 16.0], abs=1e-2)


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1e3])
@pytest.mark.parametrize("method", METHODS)
def test_scaling_all_gradients_does_not_change_the_direction(method: str, scale: float) -> None:
    matrix = conflicting(6, 3)
    torch.manual_seed(0)
    expected = combined(method, matrix)
    torch.manual_seed(0)
    assert torch.allclose(combined(method, scale * matrix) / scale, expected, rtol=1e-4)


@pytest.mark.parametrize("method", ["pcgrad", "upgrad", "dualproj"])
def test_gradients_without_conflict_are_summed(method: str) -> None:
    matrix = torch.rand(3, NUM_ENTRIES, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert (matrix @ matrix.T).min() > 0
    assert torch.allclose(combined(method, matrix), matrix.sum(0), rtol=1e-3)


@pytest.mark.parametrize("num_tasks", [2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_imtl_g_has_the_same_projection_on_every_gradient(seed: int, num_tasks: int) -> None:
    matrix = conflicting(seed, num_tasks)
    found = combined("imtl_g", matrix)
    projections = matrix @ found / matrix.norm(dim=1)
    assert torch.allclose(projections, projections.mean().expand(num_tasks))
    assert projections.mean().abs() > 1e-3
    weights = torch.linalg.lstsq(matrix.T, found[:, None]).solution
    assert weights.sum().item() == pytest.approx(1)


@pytest.mark.parametrize("num_tasks", [2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_aligned_mtl_scales_every_principal_component_to_the_shortest(seed: int, num_tasks: int) -> None:
    matrix = conflicting(seed, num_tasks).numpy()
    left, lengths, right = np.linalg.svd(matrix, full_matrices=False)
    expected = lengths.min() * np.ones(num_tasks) @ left @ right
    assert np.allclose(combined("aligned_mtl", torch.from_numpy(matrix)).numpy(), expected)


AGGREGATORS: dict[str, Callable[[Tensor], aggregation.Aggregator]] = {
    "pcgrad": lambda _ones: aggregation.PCGrad(),
    "mgda": lambda _ones: aggregation.MGDA(epsilon=1e-12, max_iters=10_000),
    "upgrad": lambda ones: aggregation.UPGrad(ones, PROJECTOR),
    "dualproj": lambda ones: aggregation.DualProj(ones, PROJECTOR),
    "imtl_g": lambda _ones: aggregation.IMTLG(),
    "aligned_mtl": lambda ones: aggregation.AlignedMTL(pref_vector=ones),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("num_tasks", [2, 4])
def test_every_method_matches_torchjd_on_the_stacked_gradients(num_tasks: int, method: str) -> None:
    assert AGGREGATORS.keys() == METHODS.keys()
    matrix = conflicting(7, num_tasks)
    torch.manual_seed(3)
    expected = AGGREGATORS[method](torch.ones(num_tasks, dtype=torch.float64))(matrix)
    torch.manual_seed(3)
    assert torch.allclose(combined(method, matrix), expected)


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
