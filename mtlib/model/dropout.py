"""Dropout: its random state, saved and restored, and temporary probabilities."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

ATTENTION_DROPOUT_NAMES = ("attention_dropout", "attn_dropout")
"""Names of attention dropout outside modules of self-attention."""


def random_state(device: torch.device) -> Tensor:
    """Returns the state of the device's default generator, which dropout uses; bytes, on the CPU."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def restore_random_state(device: torch.device, state: Tensor) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


@contextlib.contextmanager
def hidden_dropout_set_to(module: nn.Module, probability: float | None) -> Iterator[None]:
    """Sets the dropout of hidden states inside a module while the context lasts.

    Args:
        module: such as an encoder. Every `nn.Dropout` in it changes except those of attention weights: in BERT that of
            the embeddings, and those after attention and feed-forward of every layer. The exceptions are children of
            modules whose class is a `...SelfAttention` (BERT, RoBERTa, ELECTRA, DistilBERT, MPNet, DeBERTa), or those
            named in `ATTENTION_DROPOUT_NAMES` (ALBERT). Functional dropout is unchanged.
        probability: 0 <= p < 1; None changes nothing.
    """
    own = {
        child: child.p
        for parent in module.modules()
        if "SelfAttention" not in type(parent).__name__
        for name, child in parent.named_children()
        if isinstance(child, nn.Dropout) and name not in ATTENTION_DROPOUT_NAMES
    }
    try:
        for dropout, before in own.items():
            dropout.p = before if probability is None else probability
        yield
    finally:
        for dropout, before in own.items():
            dropout.p = before
