"""Logits that the tests of losses and divergences draw."""

import torch
from torch import Tensor

from mtlib.kinds import Kind

WIDTHS: dict[Kind, int] = {"classes": 5, "binary": 1, "multilabel": 4, "regression": 1}
"""Logits of a row by kind of task."""


def drawn(kind: Kind, seed: int, rows: int = 40, scale: float = 3.0) -> Tensor:
    """Random logits in double precision."""
    stream = torch.Generator().manual_seed(seed)
    return scale * torch.randn(rows, WIDTHS[kind], generator=stream, dtype=torch.float64)
