"""AdamW for an embedding table of which training touches few rows: only the rows touched so far are stepped.

A row that no batch has touched has a gradient and moments of exactly 0, so that AdamW does nothing to it but decay it.
Rows that have been touched stand in buffers of their own, next to each other, with their moments and gradients; the
decay of the others is kept as a list of factors and applied, factor by factor, when a row is needed. Every number is
the one that `torch.optim.AdamW` gives for the whole table.

A bf16 step at SST's lengths takes 1.11 times as long if all rows are stepped
(MiniLM, one thread of an AMD EPYC, `benchmarks/step_speed.py`).

The table itself is behind between steps. Forward passes bring the rows that they read up to date, `state_dict` all.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

MOST_FACTORS = 128
"""After so many steps the rows that have not been touched are brought up to date."""
BLOCK_ROWS = 128
"""How many rows are brought up to date at a time: few enough for the processor's cache."""
ALIGNED_ROWS = 64
"""The rows that are stepped are a multiple: AdamW rounds the last numbers of an odd size in another way."""


class TouchedRows:
    """An embedding table, and values, gradients and moments of the rows that training has read."""

    def __init__(self, table: nn.Embedding) -> None:
        self.table = table
        self.slots = torch.full((table.num_embeddings,), -1)
        """(rows of the table,) where each row is in the buffers; -1 for a row that has not been touched."""
        self.reset()
        table.register_forward_pre_hook(lambda _table, arguments: self.bring(arguments[0]))
        table.register_state_dict_pre_hook(lambda *_: self.settle())  # type: ignore[no-untyped-call]
        table.register_load_state_dict_post_hook(lambda *_: self.reload())  # type: ignore[no-untyped-call]

    def reset(self) -> None:
        """Forgets all moments; no row counts as touched."""
        self.slots.fill_(-1)
        self.num_steps = torch.zeros(())
        self.factors: list[float] = []
        """What rows that have not been touched are still to be multiplied by, one after the other."""
        self.is_settled = True
        """Whether the table is up to date."""
        self.rows = self.filled = torch.zeros(0, dtype=torch.int64)
        """By slot, the row of the table; and the slots whose gradients may be other than 0."""
        self.values = self.gradient = self.exp_avg = self.exp_avg_sq = self.table.weight.new_zeros(0, self.width)

    @property
    def width(self) -> int:
        return self.table.embedding_dim

    @contextlib.contextmanager
    def sparse_gradient(self) -> Iterator[None]:
        """Forward passes in here leave a sparse gradient in `weight.grad`, made of one row per token."""
        self.table.sparse = True
        try:
            yield
        finally:
            self.table.sparse = False

    @torch.no_grad()
    def step(self, settings: Mapping[str, Any]) -> None:
        """One step of AdamW by `weight.grad`, which is sparse or dense; none without it.

        Args:
            settings: the optimizer's group of the table.
        """
        gradient = self.table.weight.grad
        if gradient is None:
            return
        if gradient.is_sparse:
            rows, values = gradient._indices()[0], gradient._values()
        else:
            rows = (gradient != 0).any(dim=1).nonzero().flatten()
            values = gradient[rows]
        self.touch(rows)
        self.gradient.index_fill_(0, self.filled, 0)
        self.filled = self.slots[rows]
        self.gradient.index_add_(0, self.filled, values)
        self.is_settled = False
        count = aligned(len(self.rows))
        adamw(
            [self.values[:count]],
            [self.gradient[:count]],
            [self.exp_avg[:count]],
            [self.exp_avg_sq[:count]],
            max_exp_avg_sqs=[],
            state_steps=[self.num_steps],
            fused=True,
            amsgrad=False,
            maximize=False,
            beta1=settings["betas"][0],
            beta2=settings["betas"][1],
            lr=settings["lr"],
            weight_decay=settings["weight_decay"],
            eps=settings["eps"],
        )
        self.factors.append(1 - settings["lr"] * settings["weight_decay"])
        if len(self.factors) == MOST_FACTORS:
            self.decay_others()

    def touch(self, rows: Tensor) -> None:
        """Gives rows that have no slot one at the end of the buffers."""
        new: Tensor = torch.unique(rows[self.slots[rows] < 0])
        if not len(new):
            return
        start, end = len(self.rows), len(self.rows) + len(new)
        if end > len(self.values):
            capacity = aligned(min(2 * end, self.table.num_embeddings))
            for name in ("values", "gradient", "exp_avg", "exp_avg_sq"):
                grown = self.values.new_zeros(capacity, self.width)
                grown[:start] = getattr(self, name)[:start]
                setattr(self, name, grown)
        self.slots[new] = torch.arange(start, end)
        self.rows = torch.cat([self.rows, new])
        self.values[start:end] = self.decayed(self.table.weight[new])

    def decayed(self, values: Tensor) -> Tensor:
        """Values of rows that have not been touched, brought up to date in place."""
        for factor in self.factors:
            values.mul_(factor)
        return values

    @torch.no_grad()
    def bring(self, rows: Tensor) -> None:
        """Brings the rows that are about to be read up to date, in evaluation mode all."""
        if self.is_settled:
            return
        if not self.table.training:
            self.settle()
            return
        read = rows.flatten()
        self.touch(read)
        self.table.weight.index_copy_(0, read, self.values[self.slots[read]])

    @torch.no_grad()
    def settle(self) -> None:
        """Brings the whole table up to date."""
        if not self.is_settled:
            self.decay_others()
            self.table.weight.index_copy_(0, self.rows, self.values[: len(self.rows)])
            self.is_settled = True

    def decay_others(self) -> None:
        """Brings the rows that have not been touched up to date."""
        if any(factor != 1 for factor in self.factors):
            others = (self.slots < 0).nonzero().flatten()
            for rows in torch.split(others, BLOCK_ROWS):
                self.table.weight.index_copy_(0, rows, self.decayed(self.table.weight[rows]))
        self.factors = []

    @torch.no_grad()
    def reload(self) -> None:
        """Takes the values that were loaded into the table; the moments stay."""
        self.values[: len(self.rows)] = self.table.weight[self.rows]
        self.factors, self.is_settled = [], True

    def moments(self) -> dict[str, Tensor]:
        """AdamW's state of the whole table; nothing before the first step."""
        if not self.num_steps:
            return {}
        zeros = torch.zeros_like(self.table.weight)
        return {
            "step": self.num_steps,
            **{
                name: zeros.index_copy(0, self.rows, getattr(self, name)[: len(self.rows)])
                for name in ("exp_avg", "exp_avg_sq")
            },
        }

    @torch.no_grad()
    def restore(self, moments: Mapping[str, Tensor]) -> None:
        """Replaces AdamW's state by one that `moments` returned; the table keeps its values."""
        self.settle()
        self.reset()
        if moments:
            self.num_steps = moments["step"].clone()
            self.touch(((moments["exp_avg"] != 0) | (moments["exp_avg_sq"] != 0)).any(dim=1).nonzero().flatten())
            for name in ("exp_avg", "exp_avg_sq"):
                getattr(self, name)[: len(self.rows)] = moments[name][self.rows]


def aligned(num_rows: int) -> int:
    """Returns the next multiple of `ALIGNED_ROWS`."""
    return -(-num_rows // ALIGNED_ROWS) * ALIGNED_ROWS


def touched_words(encoder: Any) -> TouchedRows | None:
    """Returns the touched rows of the encoder's table of word pieces; None if it is frozen or of another kind."""
    found = encoder.get_input_embeddings()
    return TouchedRows(found) if type(found) is nn.Embedding and found.weight.requires_grad else None
