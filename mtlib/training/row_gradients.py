"""The gradient of an embedding table in memory that is kept between steps.

A batch touches some hundred rows of a table, but its dense gradient is as large as the table, and a new one for each
step costs more than the step's dropout and LayerNorms together, most of it for fresh memory pages. Here only the rows
that the step before has touched are set to zero again; the gradient is the same.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn


class RowGradient:
    """A table whose forward passes within `kept` get dense gradients that are made of sparse ones in one buffer."""

    def __init__(self, table: nn.Embedding) -> None:
        self.table = table
        self.dense: Tensor | None = None
        self.rows: Tensor | None = None
        """Rows of `dense` that may be other than 0."""
        table.weight.register_post_accumulate_grad_hook(self.keep)  # type: ignore[no-untyped-call]

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Forward passes in here are for one `backward`, which leaves the dense gradient in `weight.grad`."""
        self.table.sparse = True
        try:
            yield
        finally:
            self.table.sparse = False

    def keep(self, weight: Tensor) -> None:
        """Makes a sparse gradient dense, after each backward pass."""
        gradient = weight.grad
        assert gradient is not None
        if not gradient.is_sparse:  # that of a pass before, to which this one has added
            self.dense = None
            return
        if self.dense is None or self.rows is None:
            self.dense = torch.zeros_like(weight)
        else:
            self.dense.index_fill_(0, self.rows, 0)
        self.rows = gradient._indices()[0]
        weight.grad = self.dense.index_add_(0, self.rows, gradient._values())


def keep_word_gradient(encoder: Any) -> RowGradient | None:
    """The gradient of the encoder's table of word pieces; None if it is frozen or of another kind."""
    found = encoder.get_input_embeddings()
    return RowGradient(found) if type(found) is nn.Embedding and found.weight.requires_grad else None
