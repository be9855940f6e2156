"""The network: one encoder for all tasks, with task modules and task heads."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mtlib.config.trial import TrialConfig
from mtlib.data.batches import Batch, Inputs
from mtlib.model.adapters import add_adapter
from mtlib.model.bert_layers import encode_bert, has_bert_layers
from mtlib.model.encoder import PretrainedEncoder, build_encoder, embedding_layer, hidden_dropout
from mtlib.model.encoder_inputs import encoder_arguments
from mtlib.model.heads import compare_texts, make_head, make_projection, make_relational
from mtlib.model.label_scale import LabelScale
from mtlib.model.layers import check_fits, find_layers, freeze
from mtlib.model.pals import LowRank, Pals, beside_layers, make_pals
from mtlib.model.task_parts import TaskParts


@dataclass(frozen=True, kw_only=True)
class Output:
    """The results of a forward pass."""

    logits: Tensor
    """(rows, num_logits), fp32; of a regression with `target_scale` `unit`, in deviations from the mean label."""
    vectors: Tensor
    """(rows, inputs, hidden), the pooled texts before dropout and head."""
    embeddings: tuple[Tensor, ...]
    """Input of the first layer for each input of the batch, (rows, tokens, hidden). Empty unless kept."""


class MultiTaskModel(nn.Module):
    """Encoder, dropout and a head per task; optionally PALs, a relational layer and learned loss weights.

    Modules are created for the active tasks of the configuration.

    Raises:
        ValueError: the configuration does not fit the encoder.
    """

    def __init__(self, config: TrialConfig, pretrained: PretrainedEncoder) -> None:
        super().__init__()
        # cuDNN plans attention for each new shape of a batch, which takes a tenth of a second on an H200: other kernels
        # train 1.4 to 2 times as fast (docs/measurements/gpu.md).
        torch.backends.cuda.enable_cudnn_sdp(False)
        self.encoder = build_encoder(pretrained, config.encoder)
        has_own_code = config.encoder.attention == "auto" and not config.encoder.gradient_checkpointing
        self.has_bert_layers = has_own_code and has_bert_layers(self.encoder)
        check_fits(config, self.encoder)
        if config.needs_embeddings:
            embedding_layer(self.encoder)
        freeze(self.encoder, config.encoder.trained_layers)
        if config.adapter.method != "none":
            add_adapter(self.encoder, config)
        size, tasks = int(pretrained.config.hidden_size), config.active_tasks
        self.pooling = {task: config.tasks[task].pooling for task in tasks}
        self.is_read_last = pretrained.is_read_last
        self.heads = TaskParts({task: make_head(config, task, size) for task in tasks})
        self.giving_labels = frozenset(task for task in tasks if config.tasks[task].head_entry.gives_labels)
        with_pals = [task for task in tasks if config.pals.size > 0 and task in config.pals.tasks]
        depth = len(find_layers(self.encoder, "PALs")[1]) if with_pals else 0
        self.pals = TaskParts({task: make_pals(config, task, size, depth) for task in with_pals})
        self.relational = make_relational(config, size)
        self.relational_tasks = config.relational_tasks
        self.projection = make_projection(config, size)
        learned = tasks if config.weighting_entry.regularizer is not None else ()
        self.log_variances = TaskParts({task: nn.Parameter(torch.zeros(())) for task in learned})
        scaled = [task for task in tasks if config.tasks[task].target_scale == "unit"]
        self.label_scales = TaskParts({task: LabelScale() for task in scaled})
        self.dropout = nn.Dropout(hidden_dropout(self.encoder.config))

    def forward(self, batch: Batch, embeddings: Sequence[Tensor] | None = None, keep: bool = False) -> Output:
        """Logits of a batch.

        Args:
            batch: one task's examples, of one input or several.
            embeddings: (rows, tokens, hidden) for each input, which replace the output of the embedding layer.
            keep: whether to return the input of the first layer.
        """
        vectors, kept = self.encode_texts(batch.task, batch.inputs, embeddings, keep)
        return Output(logits=self.logits_of(batch.task, vectors).float(), vectors=vectors, embeddings=kept)

    def encode_texts(
        self, task: str, texts: Sequence[Inputs], embeddings: Sequence[Tensor] | None = None, keep: bool = False
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Pooled texts (rows, inputs, hidden) and, if kept, the first layer's input for each input."""
        vectors, kept = [], []
        for index, inputs in enumerate(texts):
            entering = None if embeddings is None else embeddings[index]
            hidden, embedded = self.encode((task,), inputs, entering, keep)
            vectors.append(pooled(hidden, inputs.attention_mask, self.pooling[task], self.is_read_last))
            kept.append(embedded)
        return torch.stack(vectors, dim=1), tuple(kept) if keep else ()

    def logits_of_each(self, tasks: Sequence[str], texts: Sequence[Inputs]) -> list[Tensor]:
        """Returns the logits of several tasks for the same texts, each (rows, num_logits) in the scale of its labels.

        They are those of a task alone, to the rounding of the precision: which positions the last layer computes
        depends on all of them.

        Args:
            tasks: with the same layers (`layers_of`): the encoder passes once for all of them.
            texts: inputs of the rows, as all of these tasks read them.
        """
        vectors: dict[str, list[Tensor]] = {task: [] for task in tasks}
        for inputs in texts:  # states of one input at a time are in memory
            hidden, _ = self.encode(tasks, inputs, None, keep=False)
            for task, own in vectors.items():
                own.append(pooled(hidden, inputs.attention_mask, self.pooling[task], self.is_read_last))
        logits = {task: self.logits_of(task, torch.stack(own, dim=1)).float() for task, own in vectors.items()}
        return [self.from_unit(task, logits[task]) for task in tasks]

    def layers_of(self, task: str) -> str | None:
        """Returns the task if it has layers of its own beside the encoder's, else None: tasks with the same value share
        the encoder's states of a text."""
        return task if task in self.pals else None

    def logits_of(self, task: str, vectors: Tensor) -> Tensor:
        """Logits (rows, num_logits) from pooled texts (rows, inputs, hidden)."""
        # Heads compute in fp32 under autocast too: bf16 has so few numbers that many texts would get equal scores. They
        # do so in training as well: its loss is of the logits that dev is scored by, and a head costs little.
        inputs = [part.float() for part in self.head_inputs(task, vectors)]
        with torch.autocast(vectors.device.type, enabled=False):
            logits: Tensor = self.heads[task](tuple(inputs))
        return self.to_unit(task, logits) if task in self.giving_labels else logits

    def head_inputs(self, task: str, vectors: Tensor) -> tuple[Tensor, ...]:
        """Returns what the task's head is called with, after dropout: pooled texts, or the relational layer's output.

        Of a pair and its two texts, the texts are replaced by their comparison, before dropout: with masks of their own
        equal texts would differ in training, and not in evaluation.
        """
        if vectors.shape[1] == 3:
            pair, first, second = vectors.unbind(dim=1)
            vectors = torch.stack((pair.float(), *compare_texts(first, second)), dim=1)
        joined = self.dropout(vectors.flatten(1))  # (rows, inputs * hidden)
        if self.relational is not None and task in self.relational_tasks:
            return (self.relational(joined),)
        parts: tuple[Tensor, ...] = joined.split(vectors.shape[2], dim=1)
        return parts

    def to_unit(self, task: str, labels: Tensor) -> Tensor:
        """Labels in the scale of the task's loss."""
        return self.scale_of(task).to_unit(labels) if task in self.label_scales else labels

    def from_unit(self, task: str, logits: Tensor) -> Tensor:
        """Logits in the scale of the task's labels."""
        return self.scale_of(task).from_unit(logits) if task in self.label_scales else logits

    def scale_of(self, task: str) -> LabelScale:
        """The scale of a task whose `target_scale` is `unit`."""
        found: LabelScale = self.label_scales[task]
        return found

    def encode(self, tasks: Sequence[str], inputs: Inputs, entering: Tensor | None, keep: bool) -> tuple[Tensor, Any]:
        """Hidden states of one input of some tasks with the same layers and, if kept, the first layer's input.

        They are (rows, tokens, hidden), or (rows, 1, hidden) of the first tokens where these tasks read no others.
        """
        task = tasks[0]
        texts = (inputs.input_ids, inputs.attention_mask, inputs.token_type_ids)
        arguments = encoder_arguments(self.encoder.config, *texts)
        pals: Pals | LowRank | None = self.pals[task] if task in self.pals else None  # noqa: SIM401 - it has no get
        if self.has_bert_layers:
            mask = arguments.pop("attention_mask")
            only_first = all(self.pooling[own] == "cls" for own in tasks) and not self.is_read_last
            embedded: Tensor = embedding_layer(self.encoder)(**arguments) if entering is None else self.enter(entering)
            return encode_bert(self.encoder, embedded, mask, pals, only_first), embedded
        with contextlib.nullcontext() if pals is None else beside_layers(pals, self.encoder, inputs.attention_mask):
            return self.encode_by_hooks(arguments, entering, keep)

    def enter(self, embedded: Tensor) -> Tensor:
        """Returns the first layer's input as it is given, after the draws of the embeddings' dropout that it stands
        for: with the random state of a pass before, the layers' masks are that pass's."""
        self.encoder.get_submodule("embeddings.dropout")(embedded.detach())
        return embedded

    def encode_by_hooks(self, arguments: dict[str, Tensor], entering: Tensor | None, keep: bool) -> tuple[Tensor, Any]:
        """As `encode`, by the encoder's own code."""
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


def pooled(hidden: Tensor, mask: Tensor, pooling: str, is_read_last: bool) -> Tensor:
    """Returns one vector per text, (rows, hidden).

    Args:
        hidden: (rows, tokens, hidden).
        mask: (rows, tokens), 1 on text and 0 on padding, which is on the right.
        pooling: `cls` for one token's state, `last` for the last one's, `mean` for the mean over the text's tokens.
        is_read_last: whether `cls` is the last token of the text instead of the first.
    """
    if pooling == "last" or (pooling == "cls" and is_read_last):
        rows = torch.arange(hidden.shape[0], device=hidden.device)
        return hidden[rows, mask.sum(dim=1) - 1]
    if pooling == "cls":
        return hidden[:, 0]
    keep = mask.unsqueeze(2).to(hidden.dtype)
    return (hidden * keep).sum(dim=1) / keep.sum(dim=1)
