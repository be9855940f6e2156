"""Gradient methods against literal algorithms, closed forms, properties, and torchjd."""

import numpy as np
import pytest
import torch
from scipy.optimize import nnls
from torch import Tensor
from torch.nn import functional
from torchjd import aggregation

from mtlib.loss.gradient_aggregation import combine
from mtlib.loss.gradient_weights import weights_mgda
from tests.mtlib.loss.gradient_tables import METHODS, NUM_ENTRIES, combined, conflicting, cut, weighting


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


RATIOS = [1.0, 300.0, 1e6]


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


@pytest.mark.parametrize("num_tasks", [2, 5])
def test_pcgrad_matches_its_paper_with_the_same_permutations(num_tasks: int) -> None:
    seen = set()
    for seed in range(6):
        matrix = pairwise_conflicting(num_tasks)
        torch.manual_seed(seed)
        expected = pcgrad_by_hand(matrix)
        torch.manual_seed(seed)
        found = combined("pcgrad", matrix)
        assert torch.allclose(found, expected)
        seen.add(round(found.norm().item(), 9))
    assert (len(seen) > 1) == (num_tasks > 2)  # the order comes from the global stream


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("num_tasks", [2, 3, 6])
def test_mgda_is_the_shortest_vector_of_the_hull_for_any_ratio_of_lengths(num_tasks: int, ratio: float) -> None:
    for seed in range(5):
        matrix = unequal_conflicting(seed, num_tasks, ratio)
        weights = weights_mgda(matrix @ matrix.T)
        assert weights.min() >= 0
        assert weights.sum().item() == pytest.approx(1)
        shortest = weights @ matrix
        # Wolfe's criterion: a vector is the shortest if the hull lies beyond the plane through it, orthogonal to it.
        assert worst_cosine(shortest, matrix - shortest) > -1e-6


def test_mgda_of_parallel_gradients_is_the_shortest_and_0_where_a_gradient_is_0() -> None:
    matrix = conflicting(0, 4)
    assert torch.allclose(combined("mgda", torch.stack([3 * matrix[0], matrix[0]])), matrix[0])
    matrix[[1, 3]] = 0
    assert weights_mgda(matrix @ matrix.T).tolist() == [0, 0.5, 0, 0.5]


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("num_tasks", [2, 3, 5])
def test_upgrad_is_the_sum_of_projected_gradients_and_dualproj_their_projected_sum(
    num_tasks: int, ratio: float
) -> None:
    for seed in range(3):
        matrix = unequal_conflicting(seed, num_tasks, ratio)
        each, joint = (
            torch.stack([on_dual_cone(row, matrix) for row in matrix]).sum(0),
            on_dual_cone(matrix.sum(0), matrix),
        )
        assert (combined("upgrad", matrix) - each).norm() < 1e-6 * each.norm()
        assert (combined("dualproj", matrix) - joint).norm() < 1e-6 * joint.norm()


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("method", ["upgrad", "dualproj", "mgda"])
def test_projections_of_opposite_gradients_conflict_with_none(method: str, ratio: float) -> None:
    stream = torch.Generator().manual_seed(0)
    for angle in (1e-2, 1e-3):
        matrix = torch.randn(3, NUM_ENTRIES, generator=stream, dtype=torch.float64)
        matrix = functional.normalize(matrix, dim=1)
        matrix[1] = -ratio * (matrix[0] + angle * matrix[1])
        assert worst_cosine(combined(method, matrix), matrix) > -1e-5


@pytest.mark.parametrize("method", ["upgrad", "dualproj"])
def test_a_gradient_of_0_does_not_change_a_projection(method: str) -> None:
    matrix = conflicting(1, 3)
    with_zeros = torch.cat([torch.zeros(1, NUM_ENTRIES, dtype=torch.float64), matrix])
    assert torch.allclose(combined(method, with_zeros), combined(method, matrix), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("num_tasks", [2, 5])
def test_imtl_g_has_the_same_projection_on_every_gradient(num_tasks: int) -> None:
    matrix = conflicting(0, num_tasks)
    found = combined("imtl_g", matrix)
    projections = matrix @ found / matrix.norm(dim=1)
    assert torch.allclose(projections, projections.mean().expand(num_tasks))
    weights = torch.linalg.lstsq(matrix.T, found[:, None]).solution
    assert weights.sum().item() == pytest.approx(1)


@pytest.mark.parametrize("num_tasks", [2, 5])
def test_aligned_mtl_scales_every_principal_component_to_the_shortest(num_tasks: int) -> None:
    matrix = conflicting(0, num_tasks)
    left, lengths, right = np.linalg.svd(matrix.numpy(), full_matrices=False)
    expected = lengths.min() * np.ones(num_tasks) @ left @ right
    assert np.allclose(combined("aligned_mtl", matrix).numpy(), expected)


@pytest.mark.parametrize("num_tasks", [2, 4])
def test_fairgrad_solves_its_equation_and_cagrad_is_torchjds(num_tasks: int) -> None:
    matrix = conflicting(7, num_tasks)
    assert torch.allclose(combined("fairgrad", matrix), aggregation.FairGrad(alpha=1.0)(matrix))
    weights = weighting("fairgrad", fairgrad_alpha=2)(matrix @ matrix.T, range(num_tasks), {})
    assert torch.allclose(matrix @ matrix.T @ weights, weights**-0.5, rtol=1e-3)
    if "cagrad" in METHODS:  # with its packages
        assert torch.allclose(combined("cagrad", matrix), aggregation.CAGrad(c=0.4)(matrix))


@pytest.mark.parametrize(
    ("method", "settings", "theirs"),
    [
        ("gradvac", {"gradvac_beta": 0.3}, aggregation.GradVac(beta=0.3)),
        (
            "excess_mtl",
            {"excess_mtl_step_size": 0.2, "excess_mtl_warmup_steps": 3},
            aggregation.ExcessMTL(robust_step_size=0.2, n_warmup_steps=3),
        ),
    ],
)
def test_a_method_with_a_state_matches_torchjd_over_several_steps(
    method: str, settings: dict[str, float], theirs: aggregation.Aggregator
) -> None:
    ours = weighting(method, **settings)
    for seed in range(8):
        matrix = conflicting(seed, 3)
        torch.manual_seed(seed)
        found = torch.cat([part.flatten() for part in combine(ours, cut(matrix)) if part is not None])
        torch.manual_seed(seed)
        assert torch.allclose(found, theirs(matrix), rtol=1e-5)
    assert not torch.allclose(found, combined(method, matrix))


def test_a_state_belongs_to_tasks_by_name() -> None:
    first, other = weighting("gradvac", gradvac_beta=1), weighting("gradvac", gradvac_beta=1)
    matrix, pair = conflicting(0, 3), conflicting(1, 2)
    for step in (matrix, pair):  # the pair's averages follow those of the same tasks in the step before
        combine(first, cut(step))
    combine(other, cut(matrix[:2]))
    combine(other, cut(pair))
    last = conflicting(2, 2)
    found, expected = (
        torch.cat([part.flatten() for part in combine(one, cut(last)) if part is not None]) for one in (first, other)
    )
    assert torch.allclose(found, expected)
    assert not torch.allclose(found, combined("gradvac", last))


@pytest.mark.parametrize("method", [method for method in METHODS if method not in ("cagrad", "fairgrad")])
def test_a_single_gradient_has_weight_1(method: str) -> None:
    for length in (1e-6, 1.0, 1e6):
        gradient = torch.tensor([length], dtype=torch.float64)
        gramian = gradient.square().unsqueeze(0)
        assert METHODS[method](gramian, [0], {0: [gradient]}).tolist() == pytest.approx([1])


@pytest.mark.parametrize("scale", [1e-8, 1e3])
@pytest.mark.parametrize("method", METHODS)
def test_scaling_all_gradients_does_not_change_the_direction(method: str, scale: float) -> None:
    matrix = conflicting(6, 3)
    torch.manual_seed(0)
    expected = combined(method, matrix)
    torch.manual_seed(0)
    found = combined(method, scale * matrix)
    assert torch.allclose(functional.normalize(found, dim=0), functional.normalize(expected, dim=0), rtol=1e-4)
    if method != "fairgrad":
        assert (found / scale).norm().item() == pytest.approx(expected.norm().item(), rel=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_a_gradient_of_0_gives_no_nan_and_a_long_one_a_finite_combination(method: str) -> None:
    matrix = conflicting(4, 3)
    for zeros in ([1], [0, 1, 2]):
        matrix[zeros] = 0
        assert torch.isfinite(combined(method, matrix)).all()
    if method != "imtl_g":  # torchjd's gives 0 for lengths from 1e12 on
        # In fp32 its inner product with itself would be infinite.
        found = combine(METHODS[method], [[torch.tensor([1e25, 0.0])], [torch.tensor([0.0, 1e25])]])[0]
        assert found is not None
        assert found.isfinite().all()
        assert (found > 0).all()
