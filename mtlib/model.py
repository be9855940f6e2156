"""The network: one encoder for all tasks and a head for each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mtlib.batches import Batch, Inputs
from mtlib.config import TrialConfig
from mtlib.encoder import PretrainedEncoder, build_encoder, embedding_layer, hidden_dropout
from mtlib.heads import linear_head


@dataclass(frozen=True, kw_only=True)
class Output:
    """What one pass through the network gives."""

    logits: Tensor
    """(rows, num_logits), fp32."""
    embeddings: tuple[Tensor, ...]
    """Embedded text of each input, (rows, tokens, hidden): what entered the first layer. Empty unless kept."""


class MultiTaskModel(nn.Module):
    """Encoder, dropout and a linear head per task.

    Args:
        config: the trial's configuration; heads are made for its active tasks.
        pretrained: the encoder to start from.

    Raises:
        ValueError: the configuration does not fit the encoder.
    """

    def __init__(self, config: TrialConfig, pretrained: PretrainedEncoder) -> None:
        super().__init__()
        self.encoder = build_encoder(pretrained, config.encoder)
        if config.smart.weight > 0:
            embedding_layer(self.encoder)
        hidden_size = int(pretrained.config.hidden_size)
        self.heads = nn.ModuleDict({task: linear_head(config, task, hidden_size) for task in config.active_tasks})
        self.dropout = nn.Dropout(hidden_dropout(self.encoder.config))

    def forward(self, batch: Batch, embeddings: Sequence[Tensor] | None = None, keep: bool = False) -> Output:
        """Logits of a batch.

        Args:
            batch: one task's examples, one input each (two for a bi-encoder).
            embeddings: (rows, tokens, hidden) for each input, to enter the first layer in place of the embedded text.
            keep: whether to return what entered the first layer.
        """
        vectors, kept = [], []
        for index, inputs in enumerate(batch.inputs):
            hidden, embedded = self.encode(inputs, None if embeddings is None else embeddings[index], keep)
            vectors.append(hidden[:, 0])  # (rows, hidden): the state of [CLS]
            kept.append(embedded)
        logits = self.heads[batch.task](self.dropout(torch.cat(vectors, dim=1)))
        return Output(logits=logits.float(), embeddings=tuple(kept) if keep else ())

    def encode(self, inputs: Inputs, entering: Tensor | None, keep: bool) -> tuple[Tensor, Any]:
        """Hidden states (rows, tokens, hidden) of one input and, if kept, what entered the first layer."""
        arguments = {"input_ids": inputs.input_ids, "attention_mask": inputs.attention_mask}
        if getattr(self.encoder.config, "type_vocab_size", 0) > 1:
            arguments["token_type_ids"] = inputs.token_type_ids
        if entering is None and not keep:
            return self.encoder(**arguments).last_hidden_state, None
        seen: list[Tensor] = []

        def swap(_module: nn.Module, _arguments: Any, output: Tensor) -> Tensor:
            seen.append(output if entering is None else entering)
            return seen[-1]

        handle = embedding_layer(self.encoder).register_forward_hook(swap)
        try:
            hidden = self.encoder(**arguments).last_hidden_state
        finally:
            handle.remove()
        return hidden, seen[0]
