"""Projected attention layers (PALs) and low-rank layers: small modules of one task, parallel to each encoder layer."""

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch.nn import functional
from torch.utils.hooks import RemovableHandle

from mtlib.config.trial import TrialConfig
from mtlib.model.heads import new_linear, new_stream
from mtlib.model.layers import find_layers, norms_of
from mtlib.runtime.errors import require


class Pals(nn.Module):
    """TS(h) = V_D g(V_E h) of one task, with V_D and V_E shared by all layers, and g of each layer its own.

    g is multi-head attention without an output matrix, or the identity, which gives low-rank layers by their formula.
    Source: Stickland and Murray 2019, 3.1. As there and unlike their code, there are no biases, no activation after V_D
    and no dropout; the low-rank layers of their code are `LowRank`.

    Args:
        down: V_E, hidden to size.
        up: V_D, size to hidden.
        mixing: per layer the stacked matrices of queries, keys and values, size to 3 size; empty if g is the identity.
        num_heads: attention heads.
        placement: the sum that it is added to, `attention` or `layer`.
    """

    def __init__(self, down: nn.Linear, up: nn.Linear, mixing: nn.ModuleList, num_heads: int, placement: str) -> None:
        super().__init__()
        self.down, self.up, self.mixing = down, up, mixing
        self.num_heads, self.placement = num_heads, placement

    def forward(self, layer: int, hidden: Tensor, is_text: Tensor) -> Tensor:
        """TS(h) for one layer, (rows, tokens, hidden).

        Args:
            layer: number of the layer, from 0.
            hidden: (rows, tokens, hidden), h, the input of the layer.
            is_text: (rows, tokens), False on padding; at least one True in each row.
        """
        small = self.down(hidden)  # (rows, tokens, size)
        if len(self.mixing) > 0:
            small = self.attend(self.mixing[layer](small), is_text)
        added: Tensor = self.up(small)
        return added

    def attend(self, mixed: Tensor, is_text: Tensor) -> Tensor:
        """Multi-head attention: (rows, tokens, size) from concatenated queries, keys and values."""
        rows, tokens, _ = mixed.shape
        query, key, value = mixed.view(rows, tokens, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        mask = is_text[:, None, None, :]
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return attended.transpose(1, 2).flatten(2)  # from (rows, heads, tokens, size / heads)


class LowRank(nn.Module):
    """TS(h) = V_D gelu(V_E h + b_E) + b_D of one task, with V_D, V_E and the biases each layer's own.

    Source: `BERTLowRank` in the code of Stickland and Murray 2019, whose paper's formula has neither gelu nor biases.

    Args:
        down: of each layer V_E and b_E, hidden to size.
        up: of each layer V_D and b_D, size to hidden.
        placement: the sum that it is added to, `attention` or `layer`; their code has the second.
    """

    def __init__(self, down: nn.ModuleList, up: nn.ModuleList, placement: str) -> None:
        super().__init__()
        self.down, self.up, self.placement = down, up, placement

    def forward(self, layer: int, hidden: Tensor, _is_text: Tensor) -> Tensor:
        """As `Pals.forward`."""
        added: Tensor = self.up[layer](functional.gelu(self.down[layer](hidden)))
        return added


def make_pals(config: TrialConfig, task: str, hidden_size: int, num_layers: int) -> Pals | LowRank:
    """Returns a task's modules; matrices N(0, .02), V_D zero if so configured, from streams of the task,
    and biases 0."""
    settings, name, layers = config.pals, new_stream(config, "pals", task), range(num_layers)
    size, placement = settings.size, settings.placement
    if settings.function == "low_rank":
        downs = nn.ModuleList(new_linear(hidden_size, size, *name, "down", layer) for layer in layers)
        ups = nn.ModuleList(new_linear(size, hidden_size, *name, "up", layer) for layer in layers)
        pals: Pals | LowRank = LowRank(downs, ups, placement)
    else:
        down = new_linear(hidden_size, size, *name, "down", bias=False)
        up = new_linear(size, hidden_size, *name, "up", bias=False)
        mixed = layers if settings.function == "attention" else ()
        mixing = nn.ModuleList(new_linear(size, 3 * size, *name, layer, bias=False) for layer in mixed)
        pals = Pals(down, up, mixing, settings.num_heads, placement)
    if settings.zero_start:
        for parameter in pals.up.parameters():
            nn.init.zeros_(parameter)
    return pals


@contextlib.contextmanager
def beside_layers(pals: Pals | LowRank, encoder: nn.Module, attention_mask: Tensor) -> Iterator[None]:
    """Adds a task's modules to every layer of the encoder while the context lasts.

    `attention`: LN(h + SA(h) + TS(h)), then the rest of the layer. `layer`: LN(a + FFN(a) + TS(h)), for the layer's
    input h and its attention's output a. `attention_mask` is (rows, tokens), 1 on text and 0 on padding.

    Raises:
        ValueError: the architecture has no known layers or norms, or, in a forward pass, changes the number of tokens:
            Longformer pads them, CANINE shortens them.

    Source: My PAL BERT 4.1 (`attention`); Stickland and Murray 2019 (`layer`).
    """
    (_, layers), norms = find_layers(encoder, "PALs"), norms_of(encoder, pals.placement)
    is_text = attention_mask.bool()
    handles: list[RemovableHandle] = []
    try:
        for number, (layer, norm) in enumerate(zip(layers, norms, strict=True)):
            handles += hook_layer(pals, number, layer, norm, is_text)
        yield
    finally:
        for handle in handles:
            handle.remove()


def hook_layer(
    pals: Pals | LowRank, number: int, layer: nn.Module, norm: nn.Module, is_text: Tensor
) -> tuple[RemovableHandle, RemovableHandle]:
    """Registers hooks that keep a layer's input h and add TS(h) to the input of its norm."""
    entered: list[Tensor] = []

    def keep(layer: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        hidden: Tensor = arguments[0] if arguments else named["hidden_states"]
        rule = f"PALs need layers that keep the number of tokens, which {type(layer).__name__} does not"
        require(hidden.shape[:2] == is_text.shape, rule, f"{hidden.shape[1]} for {is_text.shape[1]}")
        entered.append(hidden)

    def add(_norm: nn.Module, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (arguments[0] + pals(number, entered.pop(), is_text), *arguments[1:])

    return layer.register_forward_pre_hook(keep, with_kwargs=True), norm.register_forward_pre_hook(add)
