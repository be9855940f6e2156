"""The objective: from batches to one loss. DDP wraps it, so one forward holds clean, noise and perturbed pass."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mtlib.config.penalties import ProximalConfig, SimcseConfig, SmartConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.batches import Batch
from mtlib.loss.losses import divergence_to_teacher, loss_per_example
from mtlib.loss.simcse import contrastive_loss
from mtlib.loss.smart import Smoothness, smoothness
from mtlib.model.dropout import hidden_dropout_set_to, random_state, restore_random_state
from mtlib.model.multitask import MultiTaskModel, Output
from mtlib.runtime.workers import num_workers
from mtlib.tasks import TASKS

TERMS = ("loss", "smart_penalty", "noise_norm", "proximal", "simcse")
"""What a batch's details hold, in this order: sums over its rows."""
PENALTIES = ("smart_penalty", "proximal", "simcse")
"""Those that are added to the loss."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a batch stands: what its random draws and its share of the loss follow from."""

    noise_seed: int
    """Of SMART's first noise, the same on every worker."""
    turn: int
    """Which batch of its task within the epoch, from 0."""
    full_size: int
    """Rows of a full batch of its set, over all workers: the batch size, or all rows where the set has fewer."""


class Objective(nn.Module):
    """Sum over a step's batches of weight (loss + penalties), each a mean over the global batch.

    The mean divides by the rows of a full batch, so that the short batch at a pass's end counts by its rows. DDP
    averages gradients over workers; this worker's part is scaled by their number, so that the average is the gradient
    of the global mean whatever the number of workers and the sizes of their shards.

    Args:
        config: the trial's configuration.
        model: the network.
        teacher: the mean teacher of the proximal term, in evaluation mode and without gradients; None without the term.
    """

    def __init__(self, config: TrialConfig, model: MultiTaskModel, teacher: MultiTaskModel | None = None) -> None:
        super().__init__()
        self.config = config
        self.model = model
        self.teacher = teacher

    def forward(self, batches: Sequence[Batch], places: Sequence[Place]) -> tuple[Tensor, Tensor]:
        """The loss of one optimizer step.

        Args:
            batches: this worker's shard of each batch of the step.
            places: where each batch stands.

        Returns:
            The loss to differentiate, a scalar; and (batches, len(TERMS)) sums over the shard's rows, without gradient,
            0 for the terms that a batch does not carry (see `terms_of`).
        """
        parts = [self.batch_loss(batch, place) for batch, place in zip(batches, places, strict=True)]
        total = torch.stack([loss for loss, _ in parts]).sum()
        return total * num_workers(), torch.stack([details for _, details in parts])

    def batch_loss(self, batch: Batch, place: Place) -> tuple[Tensor, Tensor]:
        """This shard's part of one batch's weighted loss, and of its details, (len(TERMS),)."""
        counts = 0.0 if batch.is_empty else 1.0  # an empty shard takes part with weight 0
        values = self.terms(batch, place)
        sums = {name: value.sum() * counts for name, value in values.items()}
        total = sums["loss"]
        for name in (name for name in PENALTIES if name in sums):
            total = total + self.factor(name, place) * sums[name]
        details = [sums[name].detach() if name in sums else total.new_zeros(()) for name in TERMS]
        return self.weighted(batch, total, counts) / place.full_size, torch.stack(details)

    def terms(self, batch: Batch, place: Place) -> dict[str, Tensor]:
        """Every term that the batch carries, (rows,) each."""
        carried = terms_of(self.config, batch.task, place.turn)
        state = random_state(batch.labels.device) if self.config.smart.masks == "shared" else None
        with self.precision(batch):
            output: Output = self.model(batch, keep="smart_penalty" in carried)
        kind = TASKS[batch.task].kind
        values = {"loss": loss_per_example(self.config.tasks[batch.task], kind, output.logits, batch.labels)}
        if "smart_penalty" in carried:
            smooth = self.smoothness_of(batch, output, place.noise_seed, state)
            values |= {"smart_penalty": smooth.penalty, "noise_norm": smooth.noise_norm}
        if "proximal" in carried:
            values["proximal"] = divergence_to_teacher(kind, output.logits, self.teacher_logits(batch))
        if "simcse" in carried:
            values["simcse"] = self.contrast(batch, output)
        return values

    def factor(self, name: str, place: Place) -> float:
        """What a term counts beside the loss."""
        if name == "smart_penalty":
            return self.config.smart.weight * (place.full_size if self.config.smart.reduction == "sum" else 1)
        return self.config.proximal.weight if name == "proximal" else self.config.simcse.weight

    def weighted(self, batch: Batch, total: Tensor, counts: float) -> Tensor:
        """A batch's total with its task's weight, fixed or learned.

        Source: Kendall et al. 2018, equations 7 and 10: for a squared error L / (2 sigma^2) + log sigma, for a cross
        entropy L / sigma^2 + log sigma, with s = log sigma^2.
        """
        task = self.config.tasks[batch.task]
        if self.config.loss_weighting == "fixed":
            return task.loss_weight * total
        log_variance: Tensor = self.model.log_variances[batch.task]
        return learned_weight(log_variance, task.loss) * total + log_variance / 2 * len(batch.rows) * counts

    def smoothness_of(self, batch: Batch, output: Output, noise_seed: int, state: Tensor | None) -> Smoothness:
        """SMART's penalty for this shard, its noise sliced from that of the global batch.

        Args:
            batch: the shard.
            output: of the clean pass, with its embeddings.
            noise_seed: of the first noise.
            state: random state before the clean pass, to draw its dropout masks again; None for new masks.
        """

        def perturbed(noise: Sequence[Tensor]) -> Tensor:
            # fp32 also under autocast: a noise of 1e-5 would vanish in bfloat16.
            moved = [text.float() + part for text, part in zip(output.embeddings, noise, strict=True)]
            if state is not None:
                restore_random_state(batch.labels.device, state)
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

    def teacher_logits(self, batch: Batch) -> Tensor:
        """What the mean teacher says of the batch, without dropout and gradient; (rows, num_logits)."""
        assert self.teacher is not None, "the proximal term comes with a teacher"
        with torch.no_grad(), self.precision(batch):
            logits: Tensor = self.teacher(batch).logits
        return logits

    def contrast(self, batch: Batch, output: Output) -> Tensor:
        """SimCSE's term, (rows,): each text's two dropout views against the other texts of the global batch."""
        simcse, project = self.config.simcse, self.model.projection
        assert project is not None, "the contrastive term comes with a projection"
        with self.precision(batch), hidden_dropout_set_to(self.model.encoder, simcse.dropout):
            first = output.vectors if simcse.dropout is None else self.model.read_texts(batch)[0]
            views = [project(view) for view in (first, self.model.read_texts(batch)[0])]
        return contrastive_loss(
            *views,
            positions=batch.positions,
            num_rows=batch.num_rows,
            temperature=simcse.temperature,
            is_empty=batch.is_empty,
        )

    def precision(self, batch: Batch) -> torch.autocast:
        """The context in which matrix products run."""
        device = batch.labels.device.type
        return torch.autocast(device, dtype=torch.bfloat16, enabled=self.config.precision == "bf16")


def mean_teacher(model: MultiTaskModel) -> MultiTaskModel:
    """A copy of the model to start the mean teacher from, in evaluation mode and without gradients."""
    return copy.deepcopy(model).eval().requires_grad_(False)


def terms_of(config: TrialConfig, task: str, turn: int) -> tuple[str, ...]:
    """Names in `TERMS` that the batch number `turn` of a task in an epoch carries."""
    is_smooth = carries(config.smart, task) and turn % config.smart.every_batches == 0
    names = ["loss", *(("smart_penalty", "noise_norm") if is_smooth else ())]
    names += [name for name in ("proximal", "simcse") if carries(getattr(config, name), task)]
    return tuple(names)


def carries(term: SmartConfig | ProximalConfig | SimcseConfig, task: str) -> bool:
    """Whether a term counts for a task."""
    return term.weight > 0 and task in term.tasks


def learned_weight(log_variance: Tensor, loss: str) -> Tensor:
    """The factor of a loss whose log variance is learned: exp(-s), half that for a squared error."""
    return torch.exp(-log_variance) * (0.5 if loss == "mean_squared_error" else 1.0)


def first_noise(batch: Batch, embeddings: Sequence[Tensor], seed: int) -> list[Tensor]:
    """Standard normal noise, drawn for the global batch and sliced to this shard; (rows, tokens, hidden) each."""
    device = batch.labels.device
    stream = torch.Generator(device=device).manual_seed(seed)
    positions = torch.as_tensor(batch.positions, device=device)
    drawn = [torch.randn((batch.num_rows, *text.shape[1:]), generator=stream, device=device) for text in embeddings]
    return [noise[positions] for noise in drawn]
