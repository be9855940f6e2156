"""The formulas of the gradient methods: from the Gramian of the tasks' gradients to the weights of their sum."""

import sys
from collections.abc import Mapping

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

EXCESS_EPSILON = 1e-7
"""Added to the squares and baselines of ExcessMTL, as torchjd does."""


def weights_pcgrad(gramian: Tensor) -> Tensor:
    """Returns the weights of gradients of which each loses its part against every other that it conflicts with, in
    random order (Yu et al. 2020)."""
    return aggregation.PCGradWeighting()(gramian)


def weights_mgda(gramian: Tensor) -> Tensor:
    """Returns the shortest vector in the gradients' convex hull; weights sum to 1 (Désidéri 2012).

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
    """Returns the sum of the gradients, each projected on the cone that hurts no task (Quinton and Rey 2024)."""
    norms, cosines = norms_and_cosines(gramian)
    return aggregation.UPGradWeighting(norms, PROJECTOR)(cosines) / norms


def weights_dualproj(gramian: Tensor) -> Tensor:
    """Returns the sum of the gradients, projected on the cone that hurts no task (Lopez-Paz and Ranzato 2017)."""
    norms, cosines = norms_and_cosines(gramian)
    return aggregation.DualProjWeighting(norms, PROJECTOR)(cosines) / norms


def weights_imtl_g(gramian: Tensor) -> Tensor:
    """Equal projections on every gradient; weights sum to 1 (Liu et al. 2021)."""
    return aggregation.IMTLGWeighting()(gramian)


def weights_aligned_mtl(gramian: Tensor) -> Tensor:
    """Returns the gradients' principal components at equal length (Senushkin et al. 2023)."""
    return aggregation.AlignedMTLWeighting(pref_vector=torch.ones_like(gramian[0]))(gramian)


def weights_cagrad(gramian: Tensor, cagrad_c: float) -> Tensor:
    """Returns the best direction for the worst task in a ball around the mean gradient (Liu et al. 2021, algorithm
    1)."""
    return aggregation.CAGradWeighting(cagrad_c)(gramian / mean_square(gramian))


def weights_fairgrad(gramian: Tensor, fairgrad_alpha: float) -> Tensor:
    """Returns the solution of G w = w^(-1/alpha) (Ban and Ji 2024, equation 4); at alpha 0 the mean.

    It is found for G / s, as the solver begins at 1 / tasks: if G v / s = v^(-1/alpha), w = s^(-alpha / (1 + alpha)) v.
    """
    square = mean_square(gramian)
    return aggregation.FairGradWeighting(fairgrad_alpha)(gramian / square) * square ** (
        -fairgrad_alpha / (1 + fairgrad_alpha)
    )


def weights_gradvac(
    gramian: Tensor, gradients: Mapping[str, Mapping[str, Tensor]], state: dict[str, Tensor], gradvac_beta: float
) -> Tensor:
    """Turns each gradient towards the others up to the moving averages of their cosines (Wang et al. 2021).

    The state has the average of each pair of tasks, as the tasks of a step may vary; torchjd's own ends with its object
    and with the number of tasks. Its object makes room for averages when it is first called.
    """
    names = [[f"gradvac.cosine.{task}.{other}" for other in gradients] for task in gradients]
    targets = torch.stack([torch.stack([state.get(name, gramian.new_zeros(())) for name in row]) for row in names])
    weighting = aggregation.GradVacWeighting(gradvac_beta)
    with torch.random.fork_rng(devices=[]):
        weighting(torch.eye(len(gramian), dtype=gramian.dtype))
    (kept,) = weighting.state_dict()
    weighting.load_state_dict({kept: targets})
    weights: Tensor = weighting(gramian / mean_square(gramian))
    for row, found in zip(names, weighting.state_dict()[kept], strict=True):
        state |= {name: average.clone() for name, average in zip(row, found, strict=True)}
    return weights


def weights_excess_mtl(
    gramian: Tensor,
    gradients: Mapping[str, Mapping[str, Tensor]],
    state: dict[str, Tensor],
    excess_mtl_step_size: float,
    excess_mtl_warmup_steps: int,
) -> Tensor:
    """exp of the sum of a task's relative excess risks so far; weights sum to 1 (He et al. 2024, equations 6, 7, 9).

    Not by torchjd, whose object counts its steps outside its `state_dict`, joins all gradients in one matrix, and
    cannot raise a weight again that has been rounded to 0. Here the logarithms are kept.
    """
    logits = []
    for task, parts in gradients.items():
        risk = excess_risk(task, parts, state).to(gramian)
        zero = gramian.new_zeros(())
        baseline, logit, step = (state.get(f"excess_mtl.{name}.{task}", zero) for name in ("baseline", "logit", "step"))
        if step < excess_mtl_warmup_steps:
            state[f"excess_mtl.baseline.{task}"] = baseline + risk / excess_mtl_warmup_steps
        else:
            logit = logit + excess_mtl_step_size * risk / (baseline + EXCESS_EPSILON)
        state |= {f"excess_mtl.logit.{task}": logit, f"excess_mtl.step.{task}": step + 1}
        logits.append(logit)
    return torch.stack(logits).softmax(dim=0)


def excess_risk(task: str, gradients: Mapping[str, Tensor], state: dict[str, Tensor]) -> Tensor:
    """Returns the sum over weights of g^2 / sqrt(sum of g^2 over the steps so far), to which this step is added."""
    risks = []
    for name, gradient in gradients.items():
        key, square = f"excess_mtl.squares.{task}.{name}", gradient.square()
        squares = state[key] = square + state[key].to(square) if key in state else square
        risks.append((square / (squares + EXCESS_EPSILON).sqrt()).sum())
    return torch.stack(risks).double().sum()


def mean_square(gramian: Tensor) -> Tensor:
    """Returns the mean of the gradients' squared lengths, 1 if all are 0:
    torchjd's small constants suit a scale near 1."""
    square = gramian.diagonal().mean()
    return torch.where(square > 0, square, 1.0)


def norms_and_cosines(gramian: Tensor) -> tuple[Tensor, Tensor]:
    """Splits a Gramian G = D C D into the gradients' lengths D, (tasks,), and their cosines C, (tasks, tasks).

    A projection on the cone that hurts no task has the weights w that minimise w^T G w over w >= u, of which u makes
    the vector that is projected. With v = D w that is v^T C v over v >= D u: the same projection, from equal lengths.
    A gradient of 0 counts as one of length 1 that is at right angles to all others.
    """
    norms = gramian.diagonal().sqrt()
    norms = torch.where(norms > 0, norms, 1.0)
    return norms, gramian / norms / norms.unsqueeze(1)
