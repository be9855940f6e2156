"""Gradients of several tasks, and their combination by each method."""

from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from mtlib.config.gradient_methods import GRADIENT_METHODS
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.loss.gradient_aggregation import Gradients, Weighting, combine, weighting_of

NUM_ENTRIES = 10
SUMMED = StageConfig(tasks=("sst", "qqp"), order="max_size_cycle", sum_losses=True)


def weighting(method: str, **settings: float) -> Weighting:
    """A method that begins without a state, for up to 9 tasks and parameters."""
    config = TrialConfig(stages=(SUMMED,), gradients=method).override(settings)
    return weighting_of(config, [f"task {number}" for number in range(9)], "abcdefghi", {})


def begin_and_weigh(method: str, *arguments: Any) -> Tensor:
    return weighting(method)(*arguments)


METHODS: dict[str, Weighting] = {
    name: partial(begin_and_weigh, name)
    for name, entry in GRADIENT_METHODS.items()
    if entry.function is not None and all(map(find_spec, entry.packages))
}
"""By name, without the sum and those whose packages are missing; each call begins without a state."""


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
