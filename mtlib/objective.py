"""The objective: from batches to one loss. DDP wraps it, so one forward holds clean, noise and perturbed pass."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mtlib.batches import Batch
from mtlib.config import TrialConfig
from mtlib.losses import loss_per_example
from mtlib.model import MultiTaskModel, Output
from mtlib.smart import Smoothness, smoothness
from mtlib.tasks import TASKS
from mtlib.workers import num_workers


class Objective(nn.Module):
    """Sum over a step's batches of loss_weight (loss + smart.weight * penalty), each a mean over the global batch.

    The mean divides by the configured batch size, so that the short batch at a pass's end counts by its rows. DDP
    averages gradients over workers; this worker's part is scaled by their number, so that the average is the gradient
    of the global mean whatever the number of workers and the sizes of their shards.
    """

    def __init__(self, config: TrialConfig, model: MultiTaskModel) -> None:
        super().__init__()
        self.config = config
        self.model = model

    def forward(self, batches: Sequence[Batch], noise_seeds: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The loss of one optimizer step.

        Args:
            batches: this worker's shard of each batch of the step.
            noise_seeds: for each batch the seed of SMART's first noise, the same on every worker.

        Returns:
            The loss to differentiate, a scalar; and (batches, 3) sums over the shard's rows of loss, penalty and noise
            norm, without gradient.
        """
        parts = [self.batch_loss(batch, seed) for batch, seed in zip(batches, noise_seeds, strict=True)]
        total = torch.stack([loss for loss, _ in parts]).sum()
        return total * num_workers(), torch.stack([details for _, details in parts])

    def batch_loss(self, batch: Batch, noise_seed: int) -> tuple[Tensor, Tensor]:
        """This shard's part of one batch's weighted loss, and of its details (3,)."""
        smart, task = self.config.smart, self.config.tasks[batch.task]
        is_smooth = smart.weight > 0 and batch.task in smart.tasks
        counts = 0.0 if batch.is_empty else 1.0  # an empty shard takes part with weight 0
        with self.precision(batch):
            output = self.model(batch, keep=is_smooth)
        loss = loss_per_example(task.loss, output.logits, batch.labels).sum() * counts
        if not is_smooth:
            return task.loss_weight * loss / task.batch_size, torch.stack([loss.detach(), *loss.new_zeros(2)])
        smooth = self.smoothness_of(batch, output, noise_seed)
        penalty = smooth.penalty.sum() * counts
        details = torch.stack([loss.detach(), penalty.detach(), smooth.noise_norm.sum() * counts])
        smart_weight = smart.weight * (task.batch_size if smart.reduction == "sum" else 1)
        return task.loss_weight * (loss + smart_weight * penalty) / task.batch_size, details

    def smoothness_of(self, batch: Batch, output: Output, noise_seed: int) -> Smoothness:
        """SMART's penalty for this shard, its noise sliced from that of the global batch."""

        def perturbed(noise: Sequence[Tensor]) -> Tensor:
            # fp32 also under autocast: a noise of 1e-5 would vanish in bfloat16.
            moved = [text.float() + part for text, part in zip(output.embeddings, noise, strict=True)]
            with self.precision(batch):
                logits: Tensor = self.model(batch, embeddings=moved).logits
            return logits

        return smoothness(
            self.config.smart,
            TASKS[batch.task].kind,
            output.logits,
            first_noise(batch, output.embeddings, noise_seed),
            [inputs.attention_mask for inputs in batch.inputs],
            perturbed,
        )

    def precision(self, batch: Batch) -> torch.autocast:
        """The context in which matrix products run."""
        device = batch.labels.device.type
        return torch.autocast(device, dtype=torch.bfloat16, enabled=self.config.precision == "bf16")


def first_noise(batch: Batch, embeddings: Sequence[Tensor], seed: int) -> list[Tensor]:
    """Standard normal noise, drawn for the global batch and sliced to this shard; (rows, tokens, hidden) each."""
    device = batch.labels.device
    stream = torch.Generator(device=device).manual_seed(seed)
    positions = torch.as_tensor(batch.positions, device=device)
    drawn = [torch.randn((batch.num_rows, *text.shape[1:]), generator=stream, device=device) for text in embeddings]
    return [noise[positions] for noise in drawn]
