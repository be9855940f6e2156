"""The layers of BERT and its relatives, with fewer operations than in the code of `transformers`; the same numbers.

Where a task reads a text's first token alone, the last layer computes that token only: its attention looks at all
others, but their own feed-forward, five sixths of a layer, has no reader. A task's PALs are added without hooks.

A bf16 step at SST's lengths takes 1.16 times as long with the code of `transformers`
(MiniLM, one thread of an AMD EPYC, `benchmarks/step_speed.py`).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from mtlib.model.pals import LowRank, Pals

LAYERS = ("BertLayer", "CamembertLayer", "ElectraLayer", "RobertaLayer", "XLMRobertaLayer")
"""Classes of `transformers` whose layers differ in nothing but their names."""
CHILDREN = {"attention", "intermediate", "output"}
"""Parts of such a layer; a decoder's has more."""
PRODUCT_TOKENS = 64
"""Up to so many tokens torch's kernel for attention takes longer in bf16 on the CPU than products and a softmax."""


def has_bert_layers(encoder: nn.Module) -> bool:
    """Returns whether `encode_bert` computes what the encoder does."""
    layers: Any = getattr(getattr(encoder, "encoder", None), "layer", None)
    return isinstance(layers, nn.ModuleList) and all(
        type(layer).__name__ in LAYERS and {name for name, _ in layer.named_children()} == CHILDREN for layer in layers
    )


def encode_bert(
    encoder: Any, hidden: Tensor, attention_mask: Tensor, pals: Pals | LowRank | None, only_first: bool
) -> Tensor:
    """Returns the output of an encoder's last layer.

    Args:
        encoder: one that `has_bert_layers`.
        hidden: (rows, tokens, width), the output of its embeddings.
        attention_mask: (rows, tokens), 1 on text and 0 on padding.
        pals: the task's modules beside the layers, if it has any.
        only_first: whether the first token of each row is enough.

    Returns:
        (rows, tokens, hidden), or (rows, 1, hidden) of the first tokens.
    """
    if hasattr(encoder, "embeddings_project"):  # ELECTRA's embeddings may be narrower
        hidden = encoder.embeddings_project(hidden)
    is_text, last = attention_mask.bool(), len(encoder.encoder.layer) - 1
    mask = None if is_text.device.type == "cpu" and bool(is_text.all()) else is_text[:, None, None, :]
    for number, layer in enumerate(encoder.encoder.layer):
        added = {} if pals is None else {pals.placement: pals(number, hidden, is_text)}
        own = hidden[:, :1] if only_first and number == last else hidden
        attended = attend(layer.attention.self, own, hidden, mask)
        middle = add_and_norm(layer.attention.output, attended, own, added.get("attention"))
        hidden = add_and_norm(layer.output, layer.intermediate(middle), middle, added.get("layer"))
    return hidden


def attend(attention: Any, own: Tensor, hidden: Tensor, mask: Tensor | None) -> Tensor:
    """Returns the heads' sums of values, (rows, own tokens, width).

    Args:
        attention: the layer's self-attention.
        own: (rows, own tokens, width), what attends.
        hidden: (rows, tokens, width), what it attends to.
        mask: (rows, 1, 1, tokens), False on padding; None where there is none.
    """
    parts: Sequence[Any] = project(attention, own, hidden)
    query, key, value = (part.unflatten(2, (-1, attention.attention_head_size)).transpose(1, 2) for part in parts)
    share = attention.dropout.p if attention.training else 0.0
    is_short_bf16 = value.dtype == torch.bfloat16 and hidden.shape[1] <= PRODUCT_TOKENS
    if own.device.type == "cpu" and (share > 0 or is_short_bf16):  # torch has no kernel there for dropout
        scores = (query * attention.scaling) @ key.transpose(2, 3)  # (rows, heads, own tokens, tokens)
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        probs = functional.dropout(torch.softmax(scores, dim=-1).to(value.dtype), share)
        attended: Tensor = probs @ value
    else:
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=share)
    return attended.transpose(1, 2).flatten(2)


def project(attention: Any, own: Tensor, hidden: Tensor) -> Sequence[Tensor]:
    """Queries, keys and values, (rows, tokens, width) each; arguments as in `attend`.

    By one product in training in bf16 on the CPU: the hidden states and their gradient are then cast once instead of
    three times. Elsewhere it gains nothing, since the weights are joined first.
    """
    layers = attention.query, attention.key, attention.value
    is_bf16 = own.device.type == "cpu" and torch.is_autocast_enabled("cpu")
    are_plain = all(type(layer) is nn.Linear for layer in layers)  # others have an adapter
    if not (is_bf16 and attention.training and own is hidden and are_plain):
        return [layer(values) for layer, values in zip(layers, (own, hidden, hidden), strict=True)]
    weight, bias = (torch.cat([getattr(layer, name) for layer in layers]) for name in ("weight", "bias"))
    return functional.linear(hidden, weight, bias).chunk(3, dim=2)


def add_and_norm(part: Any, values: Tensor, own: Tensor, added: Tensor | None) -> Tensor:
    """LayerNorm of a part's projected values, with dropout, its input and what PALs add; (rows, tokens, hidden)."""
    total = part.dropout(part.dense(values)) + own
    if added is not None:
        total = total + added[:, : total.shape[1]]
    normed: Tensor = part.LayerNorm(total)
    return normed
