"""Linear probing: a new head is fitted to the frozen encoder before the task's first step.

A head with random weights sends random gradients into a pretrained encoder, which forgets before the head has learned.
Source: Kumar et al. 2022 (linear probing, then fine-tuning).
"""

import math
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import SIDES, Corpus, TokenTable
from mtlib.loss.losses import loss_per_example
from mtlib.model.multitask import MultiTaskModel
from mtlib.runtime.seeds import numpy_stream
from mtlib.runtime.workers import gather_from_workers
from mtlib.training.evaluation import embed_batch, evaluate_batches

VALIDATION_SHARE = 0.2
"""Of the rows, for the choice of the penalty on squared weights."""
DECREASE = 10**-0.5
"""From one penalty to the next."""
FEWEST_ROWS = 10
"""With fewer a head stays as it is."""
MAX_WORSE = 2
"""Weaker penalties that are tried after the one with the lowest loss so far."""
NUM_PENALTIES = 14
MAX_ITERATIONS = 50


def fit_heads(
    model: MultiTaskModel, config: TrialConfig, corpus: Corpus, tasks: Iterable[str], device: torch.device
) -> None:
    """Fits the heads of tasks to `probe_rows` of their train rows, the same on every worker; no random stream moves.

    Heads that `encoder.start_heads` loads, those without weights, and those with too few rows stay as they are.

    Args:
        model: on `device`; its other weights stay.
        config: gives the rows, losses, encodings, precision, seed and replicate.
        corpus: holds train of each task.
        tasks: names of tasks that are about to be trained for the first time.
    """
    for task in tasks:
        rows = probe_rows(config, corpus[task, "train"])
        if len(rows) >= FEWEST_ROWS and not config.encoder.start_heads and list(model.heads[task].parameters()):
            fit_head(model, config, corpus[task, "train"], rows, device)


def probe_rows(config: TrialConfig, table: TokenTable) -> np.ndarray:
    """The rows of a train table to which its task's head is fitted, in random order."""
    order = numpy_stream(config.seed, config.replicate, "probe rows", table.task).permutation(table.num_own_rows)
    return order[: config.tasks[table.task].probe_rows]


def fit_head(
    model: MultiTaskModel, config: TrialConfig, table: TokenTable, rows: np.ndarray, device: torch.device
) -> None:
    """Fits a task's head to rows of its train table, with a penalty that is chosen on a part of them."""
    task = table.task
    found = evaluate_batches(model, config, table, rows, device, embed_batch)
    positions, parts = (np.concatenate(column) for column in zip(*found, strict=True))
    num_inputs = len(SIDES[config.tasks[task].encoding])
    vectors = torch.from_numpy(parts[np.argsort(positions)].reshape(len(rows), num_inputs, -1)).to(device)
    labels = model.to_unit(task, torch.from_numpy(table.labels[rows]).to(device))
    head, was_training = model.heads[task], model.training
    model.eval()
    try:
        HeadFit(model, config, task, vectors, labels).fit()
    finally:
        model.train(was_training)
    head.load_state_dict(gather_from_workers(head.state_dict())[0])
    model.zero_grad()


class HeadFit:
    """The fit of one head to pooled texts, in fp32, with a penalty on squared weights.

    The penalty falls from one under which the weights are nearly 0, each fit starting from the one before, until the
    loss on the validation rows rises. The strongest penalty is taken whose loss there is within a standard error of the
    lowest (Hastie et al. 2009, 7.10), and all rows are fitted with it. The first penalty is in proportion to the
    squared length of the vectors, so that no choice depends on their scale.

    Args:
        vectors: (rows, inputs, hidden), on the model's device.
        labels: (rows,), in the scale of the loss.
    """

    def __init__(self, model: MultiTaskModel, config: TrialConfig, task: str, vectors: Tensor, labels: Tensor) -> None:
        self.model, self.config, self.task = model, config, task
        self.vectors, self.labels = vectors, labels
        self.weights = [weight for weight in model.heads[task].parameters() if weight.dim() > 1]
        self.first_penalty = float(vectors.square().sum(dim=(1, 2)).mean())

    def fit(self) -> None:
        """Fits the head; it stays as it is if no fit is better on the validation rows."""
        head, num_fitted = self.model.heads[self.task], len(self.labels) - round(VALIDATION_SHARE * len(self.labels))
        validation = slice(num_fitted, None)
        tried = [Fit(penalty=math.inf, losses=self.losses(validation), weights=copy_of(head))]
        for power in range(NUM_PENALTIES):
            penalty = self.first_penalty * DECREASE**power
            self.minimize(slice(num_fitted), penalty)
            tried.append(Fit(penalty=penalty, losses=self.losses(validation), weights=copy_of(head)))
            lowest = min(tried, key=lambda fit: fit.loss)
            if lowest not in tried[-1 - MAX_WORSE :]:
                break
        chosen = next(fit for fit in tried if fit.loss <= lowest.loss + lowest.error)
        head.load_state_dict(chosen.weights)
        if chosen is not tried[0]:
            self.minimize(slice(None), chosen.penalty)

    def losses(self, rows: slice) -> Tensor:
        """The task's loss of each of some rows."""
        logits = self.model.logits_of(self.task, self.vectors[rows]).float()
        kind = self.config.task(self.task).kind
        return loss_per_example(self.config.tasks[self.task], kind, logits, self.labels[rows])

    def minimize(self, rows: slice, penalty: float) -> None:
        """Minimises mean loss and penalty over the head's parameters, starting from their values."""
        parameters = list(self.model.heads[self.task].parameters())
        optimizer = torch.optim.LBFGS(parameters, max_iter=MAX_ITERATIONS, line_search_fn="strong_wolfe")

        def closure() -> Tensor:
            optimizer.zero_grad()
            squares = torch.stack([weight.square().sum() for weight in self.weights]).sum()
            total = self.losses(rows).mean() + penalty * squares
            total.backward()  # type: ignore[no-untyped-call]
            return total

        optimizer.step(closure)  # type: ignore[no-untyped-call]


class Fit:
    """Weights fitted with a penalty, and their losses on the validation rows."""

    def __init__(self, penalty: float, losses: Tensor, weights: dict[str, Tensor]) -> None:
        self.penalty, self.weights = penalty, weights
        self.loss = float(torch.nan_to_num(losses.detach(), nan=math.inf).mean())
        self.error = float(torch.nan_to_num(losses.detach().std() / len(losses) ** 0.5))


def copy_of(head: nn.Module) -> dict[str, Tensor]:
    """Its weights by name."""
    return {name: weight.clone() for name, weight in head.state_dict().items()}
