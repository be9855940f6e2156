"""Dropout: the random state that its masks are drawn from, and its probability for a while."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

ATTENTION_DROPOUT_NAMES = ("attention_dropout", "attn_dropout")
"""What dropout of attention weights is called where it does not sit in a module of self-attention of its own."""


def random_state(device: torch.device) -> Tensor:
    """The state of the device's default generator, which dropout draws from; bytes, on the CPU."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def restore_random_state(device: torch.device, state: Tensor) -> None:
    """Takes the device's default generator back to a state: what is drawn next is what was drawn after it."""
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


@contextlib.contextmanager
def hidden_dropout_set_to(module: nn.Module, probability: float | None) -> Iterator[None]:
    """Sets the dropout of hidden states inside a module for a while; then each has its own probability again.

    Args:
        module: an encoder, say. Changed is every `nn.Dropout` in it but those of attention weights: in BERT that of the
            embeddings, and one each behind attention and feed-forward of every layer. Dropout that a module applies
            as a function, with a number of its own, is not changed.
        probability: 0 <= p < 1; None leaves everything as it is.
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
    """Every `nn.Dropout` inside a module, each once, but those of attention weights.

    These are the children of modules whose class is a `...SelfAttention` (BERT, RoBERTa, ELECTRA, DistilBERT, MPNet,
    DeBERTa), or are called one of `ATTENTION_DROPOUT_NAMES` (ALBERT).
    """
    found = {
        child: None
        for parent in module.modules()
        if "SelfAttention" not in type(parent).__name__
        for name, child in parent.named_children()
        if isinstance(child, nn.Dropout) and name not in ATTENTION_DROPOUT_NAMES
    }
    return list(found)
