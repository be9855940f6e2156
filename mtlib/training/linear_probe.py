"""Linear probing: a new head is fitted to the frozen encoder before the task's first step.

A head with random weights sends random gradients into a pretrained encoder, which forgets before the head has learned.
Source: Kumar et al. 2022, section 3.4 (linear probing, then fine-tuning), who probe on all rows until convergence; here
on some, by L-BFGS with a penalty.
"""

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mtlib.config.trial import TrialConfig
from mtlib.data.batches import Batch
from mtlib.data.token_cache import Corpus, TokenTable
from mtlib.loss.losses import loss_per_example
from mtlib.model.heads import LinearHead
from mtlib.model.multitask import MultiTaskModel
from mtlib.runtime.errors import TrainingDiverged
from mtlib.runtime.seeds import numpy_stream
from mtlib.runtime.workers import gather_from_workers
from mtlib.training.evaluation import evaluate_rows

VALIDATION_SHARE = 0.2
"""The share of the rows that chooses the penalty on squared weights."""
DECREASE = 10**-0.5
"""From one penalty to the next."""
FEWEST_ROWS = 10
"""With fewer a head stays as it is."""
MAX_WORSE = 2
"""Weaker penalties that are tried after the one with the lowest loss so far."""
NUM_PENALTIES = 14
"""That are tried at most."""
MAX_ITERATIONS = 50
"""The most iterations of L-BFGS for each penalty."""
SMALLEST_DEVIATION = 0.01
"""The smallest standard deviation of a feature, relative to the median of all: a feature that hardly varies gets no
large weight."""
TINY = 1e-12
"""In place of a deviation of 0."""
BIAS_PENALTY = 1e-3
"""On squared biases, so that a class that none of the rows has does not get probability 0."""


def fit_heads(
    model: MultiTaskModel, config: TrialConfig, corpus: Corpus, tasks: Iterable[str], device: torch.device
) -> list[str]:
    """Fits the heads of tasks to `probe_rows` of their train rows, the same on every worker; no random stream moves.

    Of a head with a ReLU layer, the layer after it is fitted. Cosine heads and those with too few rows stay as they
    are.

    Args:
        model: on `device`; its other weights stay.
        config: gives the rows, losses, encodings, precision, seed and replicate.
        corpus: holds train of each task.
        tasks: names of tasks that are about to be trained for the first time.

    Returns:
        The tasks whose heads were fitted.

    Raises:
        TrainingDiverged: what a head reads is NaN or infinite, on every worker.
    """
    fitted = []
    for task in tasks:
        head, table = model.heads[task], corpus[task, "train"]
        rows = choose_rows(config, table)
        if not isinstance(head, LinearHead) or len(rows) < FEWEST_ROWS:
            continue
        inputs = evaluate_rows(model, config, table, rows, device, partial(read_batch, head))
        if not np.isfinite(inputs).all():
            raise TrainingDiverged(f"{task}: what its head reads of train is not finite")
        labels = model.to_unit(task, torch.from_numpy(table.labels[rows]).to(device))
        loss = partial(loss_per_example, config.tasks[task], config.task(task).kind)
        fit = HeadFit(head, torch.from_numpy(inputs).to(device), labels, loss)
        fit.fit()
        weight, bias = gather_from_workers([part.cpu() for part in fit.layer()])[0]
        with torch.no_grad():
            head.weight.copy_(weight)
            head.bias.copy_(bias)
        fitted.append(task)
    return fitted


def choose_rows(config: TrialConfig, table: TokenTable) -> np.ndarray:
    """Returns the rows of a train table to which its task's head is fitted, in random order."""
    order = numpy_stream(config.seed, config.replicate, "probe rows", table.task).permutation(table.num_own_rows)
    return order[: config.tasks[table.task].probe_rows]


def read_batch(head: LinearHead, model: MultiTaskModel, batch: Batch) -> Tensor:
    """Returns what the head's output layer reads of one batch, (rows, features) float32."""
    vectors, _ = model.encode_texts(batch.task, batch.inputs)
    return head.features_of(model.head_inputs(batch.task, vectors)).float()


class HeadFit:
    """The fit of a head's output layer, in fp64, with a penalty on squared weights of standardised features.

    Features of several kinds, such as a pair's state and a comparison of its texts, differ in scale: with one penalty
    on the weights of raw features, those of small ones would stay near 0.

    The penalty falls from one under which the weights are nearly 0, each fit starting from the one before, until the
    loss on the validation rows rises. The strongest penalty is taken whose loss there is within a standard error of the
    lowest (Hastie et al. 2009, 7.10), and all rows are fitted with it. The first penalty is in proportion to the
    squared length of the standardised features.

    `weight`, (outputs, features), and `bias`, (outputs,), are the fit for standardised features.

    Args:
        head: gives the first weights, which stay as they are in it.
        features: (rows, features), what the layer reads.
        labels: (rows,), in the scale of the loss.
        loss: from logits (rows, num_logits) and labels to one loss per row.
    """

    def __init__(
        self, head: LinearHead, features: Tensor, labels: Tensor, loss: Callable[[Tensor, Tensor], Tensor]
    ) -> None:
        self.head, self.loss, self.labels = head, loss, labels.double()
        features, weight, bias = features.double(), head.weight.detach().double(), head.bias.detach().double()
        self.mean, deviation = features.mean(dim=0), features.std(dim=0)
        self.deviation = deviation.clamp(min=max(SMALLEST_DEVIATION * float(deviation.median()), TINY))
        self.features = (features - self.mean) / self.deviation
        self.weight = (weight * self.deviation).requires_grad_()
        self.bias = (bias + weight @ self.mean).requires_grad_()
        self.first_penalty = float(self.features.square().sum(dim=1).mean())

    def fit(self) -> None:
        """Fits `weight` and `bias` with the chosen penalty."""
        num_fitted = len(self.labels) - round(VALIDATION_SHARE * len(self.labels))
        tried: list[tuple[float, float, float]] = []  # penalty, mean loss and its standard error
        for power in range(NUM_PENALTIES):
            penalty = self.first_penalty * DECREASE**power
            self.minimize(slice(num_fitted), penalty)
            with torch.no_grad():
                losses = self.losses(slice(num_fitted, None))
            tried.append((penalty, losses.mean().item(), losses.std().item() / len(losses) ** 0.5))
            _, lowest, error = min(tried, key=lambda found: found[1])
            if lowest < min(loss for _, loss, _ in tried[-MAX_WORSE:]):
                break
        self.minimize(slice(None), next(penalty for penalty, loss, _ in tried if loss <= lowest + error))

    def layer(self) -> tuple[Tensor, Tensor]:
        """Returns the fit for features as they are: a weight, (outputs, features), and a bias, (outputs,)."""
        weight = self.weight.detach() / self.deviation
        return weight, self.bias.detach() - weight @ self.mean

    def losses(self, rows: slice) -> Tensor:
        """Returns the loss of each of some rows."""
        return self.loss(self.head.logits_of(self.features[rows], self.weight, self.bias), self.labels[rows])

    def minimize(self, rows: slice, penalty: float) -> None:
        """Minimises mean loss and penalty, starting from the weights so far."""
        layer = [self.weight, self.bias]
        optimizer = torch.optim.LBFGS(layer, max_iter=MAX_ITERATIONS, line_search_fn="strong_wolfe")

        def closure() -> Tensor:
            optimizer.zero_grad()
            squares = penalty * self.weight.square().sum() + BIAS_PENALTY * self.bias.square().sum()
            total = self.losses(rows).mean() + squares
            total.backward()  # type: ignore[no-untyped-call]
            return total

        optimizer.step(closure)  # type: ignore[no-untyped-call]
