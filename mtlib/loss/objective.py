"""The objective: from batches to one loss. DDP wraps it, so one forward call includes all passes of a step."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor, nn

from mtlib.config.penalties import Penalty
from mtlib.config.schema import settings_of
from mtlib.config.trial import TrialConfig
from mtlib.data.batches import Batch
from mtlib.loss.clean_pass import Place, autocast, clean_pass
from mtlib.loss.distillation import label_weights
from mtlib.loss.losses import loss_per_example, losses_of_known, returned_shape
from mtlib.model.multitask import MultiTaskModel
from mtlib.runtime.errors import WrongResult
from mtlib.runtime.lazy_functions import load_function, name_of
from mtlib.runtime.workers import num_workers, sum_over_workers

NEGATIVE_ROUNDING = 1e-4
"""By how much the mean of values that are at least 0, such as divergences, may be below 0 by rounding."""


class Objective(nn.Module):
    """Sum over a step's batches of weight (loss + penalties), each a mean over the global batch.

    The mean divides by the rows of a full batch, so that the short batch at a pass's end counts by its rows. DDP
    averages gradients over workers; this worker's part is scaled by their number, so that the average is the gradient
    of the global mean whatever the number of workers and the sizes of their shards. The mean teacher of the proximal
    term is in evaluation mode and has no gradients; it is None without the term. `state` is that of a loss weighting,
    by name, which training changes. `class_weights` and `class_counts` are by task, from `mtlib.loss.class_weights`.
    """

    def __init__(
        self,
        config: TrialConfig,
        model: MultiTaskModel,
        teacher: MultiTaskModel | None = None,
        state: dict[str, Tensor] | None = None,
        class_weights: Mapping[str, Tensor] = MappingProxyType({}),
        class_counts: Mapping[str, Tensor] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        self.config = config
        self.all_terms = all_terms(config)
        self.model = model
        self.teacher = teacher
        self.state = {} if state is None else state
        self.class_weights, self.class_counts = class_weights, class_counts

    def forward(self, batches: Sequence[Batch], places: Sequence[Place]) -> tuple[Tensor, Tensor]:
        """Returns the loss of one optimizer step, from this worker's shard of each batch and its place.

        Returns:
            The loss to differentiate, a scalar; and (batches, terms) sums over the shard's rows of `all_terms`, without
            gradient, 0 for the terms that a batch does not carry (see `terms_of`).
        """
        device = batches[0].labels.device
        # The outer context lets all passes of the step share each weight's cast; the inner one keeps losses in fp32.
        with autocast(self.config, device), torch.autocast(device.type, enabled=False):
            parts = [self.batch_loss(batch, place) for batch, place in zip(batches, places, strict=True)]
        losses, details = (torch.stack(values) for values in zip(*parts, strict=True))
        if self.config.weighting_entry.function is not None and len({batch.task for batch in batches}) > 1:
            row_sums = sum_over_workers(details[:, 0].clone())
            weights = weights_by_task(self.config, losses_by_task(batches, places, row_sums), self.state)
            losses = losses * torch.stack([weights[batch.task] for batch in batches])
        return losses.sum() * num_workers(), details

    def batch_loss(self, batch: Batch, place: Place) -> tuple[Tensor, Tensor]:
        """This shard's part of one batch's weighted loss, and of its details, (terms,)."""
        counts = 0.0 if batch.is_empty else 1.0  # an empty shard takes part with weight 0
        terms = self.terms(batch, place)
        sums = {name: value.sum() * counts for name, value in terms.items()}
        factors = label_weights(self.config, batch)
        total = sums["loss"] if factors is None else (factors * terms["loss"]).sum() * counts
        for name in penalties_of(self.config, batch.task, place.turn):
            settings = getattr(self.config, name)
            is_sum = getattr(settings, "reduction", "mean") == "sum"
            factor = settings.weight * (place.full_size if is_sum else 1)  # that of the loss is 1
            total = total + factor * sums[self.config.methods.penalties[name].terms[0]]
        details = [sums[name].detach() if name in sums else total.new_zeros(()) for name in self.all_terms]
        return self.weighted(batch, total, counts) / place.full_size, torch.stack(details)

    def terms(self, batch: Batch, place: Place) -> dict[str, Tensor]:
        """Returns every term that the batch carries, (rows,) each."""
        carried = penalties_of(self.config, batch.task, place.turn)
        keep = any(self.config.methods.penalties[name].needs_embeddings for name in carried)
        clean = clean_pass(self.config, self.model, self.teacher, batch, place, keep)
        labels = self.model.to_unit(batch.task, batch.labels)
        settings = self.config.tasks[batch.task]
        weights, counts = self.class_weights.get(batch.task), self.class_counts.get(batch.task)
        loss = loss_per_example if batch.teacher is None else losses_of_known
        values = {"loss": loss(settings, clean.kind, clean.output.logits, labels, weights, counts)}
        for name in carried:
            penalty = self.config.methods.penalties[name]
            found = load_function(penalty.function)(clean, getattr(self.config, name))
            check_term_shapes(penalty, found, num_rows=len(values["loss"]))
            values |= dict(zip(penalty.terms, found, strict=True))
        return values

    def weighted(self, batch: Batch, total: Tensor, counts: float) -> Tensor:
        """Returns a batch's total with its task's weight, fixed or learned with the model.

        Source: Kendall et al. 2018, equations 7 and 10: for a squared error L / (2 sigma^2) + log sigma, for a cross
        entropy L / sigma^2 + log sigma, with s = log sigma^2. Liu et al. 2021 (IMTL-L): L exp(-s) + s.
        """
        regularizer = self.config.weighting_entry.regularizer
        if regularizer is None:
            return self.config.tasks[batch.task].loss_weight * total
        log_variance: Tensor = self.model.log_variances[batch.task]
        weight = learned_weight(self.config, batch.task, log_variance)
        return weight * total + log_variance * regularizer * len(batch.rows) * counts


def check_term_shapes(penalty: Penalty, found: Sequence[Tensor], num_rows: int) -> None:
    """Raises WrongResult unless a penalty's function has returned a value for each row for each of its terms."""
    terms = ", ".join(penalty.terms)
    rule = f"{name_of(penalty.function)} must return (rows,) for each of {terms}, not a mean or a sum"
    shapes = [returned_shape(values) for values in found]
    if shapes != [(num_rows,)] * len(penalty.terms):
        raise WrongResult(f"{rule}, got {shapes} for {num_rows} rows")


def check_sign(config: TrialConfig, term: str, mean: float) -> None:
    """Raises WrongResult if a term is a penalty whose values must not be below 0 and the mean over a batch is."""
    for penalty in config.methods.penalties.values():
        if term == penalty.terms[0] and not penalty.is_signed:
            rule = f"{name_of(penalty.function)} must return values of at least 0, unless its entry is_signed"
            if not mean >= -NEGATIVE_ROUNDING:  # nor NaN
                raise WrongResult(f"{rule}, got {mean:.2g} on average over a batch")


def penalties_of(config: TrialConfig, task: str, turn: int) -> list[str]:
    """Returns the penalties that the batch number `turn` of a task in an epoch carries."""
    return [
        name
        for name, settings in config.active_penalties.items()
        if task in settings.tasks and turn % getattr(settings, "every_batches", 1) == 0
    ]


def all_terms(config: TrialConfig) -> tuple[str, ...]:
    """Returns what a batch's details hold, in this order: sums over its rows."""
    return ("loss", *(term for penalty in config.methods.penalties.values() for term in penalty.terms))


def terms_of(config: TrialConfig, task: str, turn: int) -> tuple[str, ...]:
    """Returns the terms that the batch number `turn` of a task in an epoch carries."""
    penalties = config.methods.penalties
    return ("loss", *(term for name in penalties_of(config, task, turn) for term in penalties[name].terms))


def learned_weight(config: TrialConfig, task: str, log_variance: Tensor) -> Tensor:
    """Returns the factor of a task's loss whose log variance is learned: exp(-s), or half that for a squared error."""
    is_halved = config.weighting_entry.halves_squared_errors and config.tasks[task].loss_entry.is_squared_error
    return torch.exp(-log_variance) * (0.5 if is_halved else 1.0)


def losses_by_task(batches: Sequence[Batch], places: Sequence[Place], row_sums: Tensor) -> dict[str, Tensor]:
    """Returns the loss of each task of a step, as the objective sums it without weights and penalties.

    `row_sums`, (batches,), are the sums of the losses over the rows of the global batches.
    """
    losses: dict[str, Tensor] = {}
    for batch, place, total in zip(batches, places, row_sums, strict=True):
        losses[batch.task] = losses.get(batch.task, total.new_zeros(())) + total / place.full_size
    return losses


def weights_by_task(config: TrialConfig, losses: Mapping[str, Tensor], state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the weights that a step of several tasks sets, from their losses."""
    entry = config.weighting_entry
    assert entry.function is not None, f"{config.loss_weighting} does not set weights"
    weights = load_function(entry.function)(losses, state, **settings_of(entry.settings, config))
    return dict(zip(losses, weights, strict=True))
