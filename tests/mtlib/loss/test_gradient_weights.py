"""Gradient methods against literal algorithms, closed forms, properties, and torchjd."""

import numpy as np
import pytest
import torch
from scipy.optimize import nnls
from torch import Tensor
from torch.nn import functional
from torchjd import aggregation

from mtlib.loss.gradient_aggregation import combine
from tests.mtlib.loss.gradient_tables import METHODS, combined, conflicting, cut, weighting


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


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("num_tasks", [2, 3, 6])
def test_mgda_is_the_shortest_vector_of_the_hull_for_any_ratio_of_lengths(num_tasks: int, ratio: float) -> None:
    for seed in range(5):
        matrix = unequal_conflicting(seed, num_tasks, ratio)
        weights = METHODS["mgda"](matrix @ matrix.T, range(num_tasks), {})
        assert weights.min() >= 0
        assert weights.sum().item() == pytest.approx(1)
        shortest = weights @ matrix
        # Wolfe's criterion: a vector is the shortest if the hull lies beyond the plane through it, orthogonal to it.
        assert worst_cosine(shortest, matrix - shortest) > -1e-6


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


THEIRS: dict[str, aggregation.Aggregator] = {
    "pcgrad": aggregation.PCGrad(),
    "imtl_g": aggregation.IMTLG(),
    "aligned_mtl": aggregation.AlignedMTL(pref_vector=torch.ones(3, dtype=torch.float64)),
    "fairgrad": aggregation.FairGrad(alpha=1.0),
}
if "cagrad" in METHODS:  # with its packages
    THEIRS["cagrad"] = aggregation.CAGrad(c=0.4)


@pytest.mark.parametrize("method", THEIRS)
def test_a_method_without_a_state_is_torchjds(method: str) -> None:
    """The order of PCGrad's projections comes from the global stream."""
    matrix = pairwise_conflicting(3)
    for seed in range(3):
        torch.manual_seed(seed)
        expected = THEIRS[method](matrix)
        torch.manual_seed(seed)
        assert torch.allclose(combined(method, matrix), expected, rtol=1e-4)


def test_fairgrad_solves_its_equation() -> None:
    matrix = conflicting(7, 4)
    weights = weighting("fairgrad", fairgrad_alpha=2)(matrix @ matrix.T, range(4), {})
    assert torch.allclose(matrix @ matrix.T @ weights, weights**-0.5, rtol=1e-3)


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


@pytest.mark.parametrize("method", METHODS)
def test_scaling_all_gradients_does_not_change_the_direction(method: str) -> None:
    matrix, scale = conflicting(6, 3), 1e-8
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
