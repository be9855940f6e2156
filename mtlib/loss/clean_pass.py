"""The input of a penalty: a batch and its clean forward pass."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from mtlib.config.trial import TrialConfig
from mtlib.data.batches import Batch, index_on, some_rows
from mtlib.kinds import Kind
from mtlib.model.dropout import random_state
from mtlib.model.multitask import MultiTaskModel, Output


@dataclass(frozen=True, kw_only=True)
class Place:
    """A batch's position in the trial, which decides its random draws, and its share of the loss."""

    noise_seed: int
    """The seed of SMART's first noise, the same on every worker."""
    turn: int
    """Which batch of its task within the epoch, from 0."""
    full_size: int
    """Rows of a full batch of its set, over all workers: the batch size, or all rows where the set has fewer."""


@dataclass(frozen=True, kw_only=True)
class CleanPass:
    """This worker's shard of a batch, and the pass that its loss is taken from."""

    config: TrialConfig
    model: MultiTaskModel
    teacher: MultiTaskModel | None
    """The mean teacher; None without the proximal term."""
    batch: Batch
    place: Place
    output: Output
    """The pass's results, in training mode; with embeddings if a penalty of the batch needs them."""
    random_state: Tensor
    """The random state before the pass, from which its dropout masks were drawn."""

    @property
    def kind(self) -> Kind:
        return self.config.task(self.batch.task).kind

    def logits(self, embeddings: Sequence[Tensor] | None = None, in_fp32: bool = False) -> Tensor:
        """Logits of a further pass, with new dropout masks; (rows, num_logits).

        Args:
            embeddings: (rows, tokens, hidden) for each input, in place of the embedded text.
            in_fp32: whatever the configured precision.
        """
        device = self.batch.labels.device
        with torch.autocast(device.type, enabled=False) if in_fp32 else autocast(self.config, device):
            output: Output = self.model(self.batch, embeddings=embeddings)
        return output.logits

    def some_rows(self, places: np.ndarray) -> "CleanPass":
        """Returns the part of the shard's rows at these places of it, from 0, at least one."""
        index = index_on(self.batch.labels.device, places)
        output = Output(
            logits=self.output.logits[index],
            vectors=self.output.vectors[index],
            embeddings=tuple(text[index] for text in self.output.embeddings),
        )
        return replace(self, batch=some_rows(self.batch, places), output=output)

    def again(self) -> "CleanPass":
        """Returns a further clean pass of the rows, with new dropout masks and embeddings."""
        return clean_pass(self.config, self.model, self.teacher, self.batch, self.place, keep=True)


def clean_pass(
    config: TrialConfig,
    model: MultiTaskModel,
    teacher: MultiTaskModel | None,
    batch: Batch,
    place: Place,
    keep: bool,
) -> CleanPass:
    """Returns the clean pass of a batch, with its embeddings if they are to be kept."""
    device = batch.labels.device
    state = random_state(device)
    with autocast(config, device):
        output: Output = model(batch, keep=keep)
    return CleanPass(
        config=config, model=model, teacher=teacher, batch=batch, place=place, output=output, random_state=state
    )


def autocast(config: TrialConfig, device: torch.device) -> torch.autocast:
    """Returns the context in which matrix products run in the configured precision."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=config.precision == "bf16")
