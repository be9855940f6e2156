"""Gradients of several tasks, and their combination by each method."""

import torch
from torch import Tensor

from mtlib.config.gradient_methods import GRADIENT_METHODS
from mtlib.loss.gradient_aggregation import Gradients, combine
from mtlib.runtime.lazy_functions import load_function

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
