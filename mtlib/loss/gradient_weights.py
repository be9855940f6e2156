"""The formulas of the gradient methods: from the Gramian of the tasks' gradients to the weights of their sum."""

import sys

import numpy as np
import torch
from qpsolvers import solve_qp
from torch import Tensor
from torchjd import aggregation
from torchjd.linalg import QuadprogProjector

RIDGE = 1e-10
"""Added to the diagonal of cosines, which a solver needs positive definite: far above their rounding errors of 1e-14.
Unless two gradients are opposite to within .01 rad, it moves no combination by more than 1e-4 of its length."""
PROJECTOR = QuadprogProjector(norm_eps=sys.float_info.min, reg_eps=RIDGE)
"""Torchjd's own takes gradients shorter than .01 for 0, which leaves them in conflict. `reg_eps` is a part of the
trace, which would hide short gradients behind long ones: it is given cosines, for which all are equally long."""


def weights_pcgrad(gramian: Tensor) -> Tensor:
    """Each gradient loses its part against every other that it conflicts with, in random order (Yu et al. 2020)."""
    return aggregation.PCGradWeighting()(gramian)


def weights_mgda(gramian: Tensor) -> Tensor:
    """The shortest vector in the gradients' convex hull; weights sum to 1 (Désidéri 2012).

    The quadratic program min w^T G w over w >= 0, sum w = 1, is solved for v = D w / min D, as in `norms_and_cosines`:
    min v^T C v over v >= 0, sum_i v_i min D / D_i = 1. Torchjd's solver (Frank-Wolfe, 100 steps) stops too early where
    gradients of very different length are in conflict. Where a gradient is 0, so is the shortest vector.
    """
    is_zero = gramian.diagonal() == 0
    if is_zero.any():
        return is_zero.to(gramian) / is_zero.sum()
    norms, cosines = norms_and_cosines(gramian)
    shares, zeros = norms.min() / norms, np.zeros(len(norms))
    ridged = cosines.numpy() + RIDGE * np.eye(len(norms))
    solution = solve_qp(ridged, zeros, A=shares.unsqueeze(0).numpy(), b=np.ones(1), lb=zeros, solver="quadprog")
    assert solution is not None, "a strictly convex program on a simplex has a solution"
    weights = torch.from_numpy(solution).clamp_min(0) * shares
    return weights / weights.sum()


def weights_upgrad(gramian: Tensor) -> Tensor:
    """The sum of the gradients, each projected on the cone that hurts no task (Quinton and Rey 2024)."""
    norms, cosines = norms_and_cosines(gramian)
    return aggregation.UPGradWeighting(norms, PROJECTOR)(cosines) / norms


def weights_dualproj(gramian: Tensor) -> Tensor:
    """The sum of the gradients, projected on the cone that hurts no task (Lopez-Paz and Ranzato 2017)."""
    norms, cosines = norms_and_cosines(gramian)
    return aggregation.DualProjWeighting(norms, PROJECTOR)(cosines) / norms


def weights_imtl_g(gramian: Tensor) -> Tensor:
    """Equal projections on every gradient; weights sum to 1 (Liu et al. 2021)."""
    return aggregation.IMTLGWeighting()(gramian)


def weights_aligned_mtl(gramian: Tensor) -> Tensor:
    """The gradients' principal components at equal length (Senushkin et al. 2023)."""
    return aggregation.AlignedMTLWeighting(pref_vector=torch.ones_like(gramian[0]))(gramian)


def norms_and_cosines(gramian: Tensor) -> tuple[Tensor, Tensor]:
    """D and C of a Gramian G = D C D: the gradients' lengths, (tasks,), and their cosines, (tasks, tasks).

    A projection on the cone that hurts no task has the weights w that minimise w^T G w over w >= u, of which u makes
    the vector that is projected. With v = D w that is v^T C v over v >= D u: the same projection, from equal lengths.
    A gradient of 0 counts as one of length 1 that is at right angles to all others.
    """
    norms = gramian.diagonal().sqrt()
    norms = torch.where(norms > 0, norms, 1.0)
    return norms, gramian / norms / norms.unsqueeze(1)
