"""Dropout: cheap masks on the CPU, saving and restoring their random state, and temporary probabilities.

On the CPU `torch.nn.Dropout` draws every mask value by itself, which is a tenth of a step of a small encoder. Here four
are cut from one draw of 64 bits, and a mask is applied to the bits of the values: a fifth of the time.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

MASK_LEVELS = 1 << 16
"""On the CPU the probability of dropout is rounded to a multiple of 1 / MASK_LEVELS."""
BITS_OF = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By bytes of a floating-point type, the integers of that size."""

ATTENTION_DROPOUT_NAMES = ("attention_dropout", "attn_dropout")
"""Names of attention dropout outside modules of self-attention."""


def random_state(device: torch.device) -> Tensor:
    """The state of the device's default generator, which dropout uses; bytes, on the CPU."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def restore_random_state(device: torch.device, state: Tensor) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


class BulkDropout(nn.Dropout):
    """`nn.Dropout` with cheaper masks on the CPU, from the same generator."""

    def forward(self, input: Tensor) -> Tensor:
        return dropout(input, self.p if self.training else 0.0)


def dropout(values: Tensor, probability: float) -> Tensor:
    """The values with dropout: each is 0 with this probability and otherwise divided by its complement.

    Args:
        values: of any shape and floating-point type.
        probability: 0 <= p < 1; 0 draws nothing.
    """
    if probability == 0:
        return values
    if values.device.type != "cpu":
        return functional.dropout(values, probability)
    num_dropped = round(probability * MASK_LEVELS)
    mask = kept_mask(values.shape, num_dropped)
    masked: Tensor = Masked.apply(values, mask, MASK_LEVELS / (MASK_LEVELS - num_dropped))  # type: ignore[no-untyped-call]
    return masked


def kept_mask(shape: torch.Size, num_dropped: int) -> Tensor:
    """16 bits for each value of a tensor, all 0 with probability `num_dropped` / `MASK_LEVELS`, otherwise all 1."""
    count = shape.numel()
    drawn = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None).view(torch.int16)[:count]
    kept = torch.empty(count, dtype=torch.int16)
    torch.ge(drawn, num_dropped - MASK_LEVELS // 2, out=kept)  # 1 or 0
    return kept.neg_().view(shape)


class Masked(torch.autograd.Function):
    """The values that a mask of bits keeps, times a factor; 0 for the others."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, mask: Tensor, factor: float) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.factor = factor
        return apply_mask(values, mask, factor)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (mask,) = ctx.saved_tensors
        return apply_mask(gradient, mask, ctx.factor), None, None


def apply_mask(values: Tensor, mask: Tensor, factor: float) -> Tensor:
    """The values whose mask is 1 in all bits times a factor, 0 where it is 0 in all bits."""
    integers = BITS_OF[values.element_size()]
    return (values.contiguous().view(integers) & mask.to(integers)).view(values.dtype).mul_(factor)


def use_bulk_dropout(module: nn.Module) -> None:
    """Replaces every `nn.Dropout` inside a module by `BulkDropout` of the same probability."""
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Dropout:
                setattr(parent, name, BulkDropout(child.p))


@contextlib.contextmanager
def hidden_dropout_set_to(module: nn.Module, probability: float | None) -> Iterator[None]:
    """Sets the dropout of hidden states inside a module while the context lasts.

    Args:
        module: such as an encoder. Every `nn.Dropout` in it changes except those of attention weights: in BERT that of
            the embeddings, and those after attention and feed-forward of every layer. Functional dropout is unchanged.
        probability: 0 <= p < 1; None changes nothing.
    """
    own = {dropout: dropout.p for dropout in hidden_dropouts(module)}
    try:
        for dropout, before in own.items():
            dropout.p = before if probability is None else probability
        yield
    finally:
        for dropout, before in own.items():
            dropout.p = before


def hidden_dropouts(module: nn.Module) -> list[nn.Dropout]:
    """Every `nn.Dropout` inside a module, each once, except those of attention weights.

    The exceptions are children of modules whose class is a `...SelfAttention` (BERT, RoBERTa, ELECTRA, DistilBERT,
    MPNet, DeBERTa), or those named in `ATTENTION_DROPOUT_NAMES` (ALBERT).
    """
    found = {
        child: None
        for parent in module.modules()
        if "SelfAttention" not in type(parent).__name__
        for name, child in parent.named_children()
        if isinstance(child, nn.Dropout) and name not in ATTENTION_DROPOUT_NAMES
    }
    return list(found)
