"""Predictions for every example of a split, and their metrics."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mtlib.config.trial import TrialConfig
from mtlib.data.batches import Batch, make_batch, moved, ready_for
from mtlib.data.batches_ahead import build_ahead, num_ahead
from mtlib.data.token_cache import Corpus, TokenTable
from mtlib.loss.clean_pass import autocast
from mtlib.loss.losses import loss_per_example
from mtlib.metrics.metric import read_logits
from mtlib.model.multitask import MultiTaskModel
from mtlib.runtime.errors import TrainingDiverged
from mtlib.runtime.seeds import numpy_stream
from mtlib.runtime.workers import gather_from_workers, num_workers, worker_rank
from mtlib.tasks import Task

CPU_BATCH_TOKENS = 1024
"""Most tokens of a batch on a CPU, where `evaluation.batch_tokens` is None."""


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """Logits of every example of a split."""

    task: str
    split: str
    ids: list[str]
    labels: np.ndarray
    """(rows,) float32; nan where there is no label."""
    logits: np.ndarray
    """(rows, num_logits) float32, as the head gives them, in the scale of the labels: regression is not clipped
    here."""
    deviation: float = 1.0
    """Standard deviation of train labels, in which the loss of a regression counts; 1 where `target_scale` is `raw`."""


def predict(
    model: MultiTaskModel,
    config: TrialConfig,
    corpus: Corpus,
    task: str,
    split: str,
    device: torch.device,
    rows: np.ndarray | None = None,
) -> Predictions:
    """Runs the model in evaluation mode over a split, shared among the workers; its mode is restored.

    Args:
        model: the network, not the DDP wrapper: nothing is differentiated.
        config: gives encodings, longest input, precision and evaluation batch size.
        corpus, task, split: which table of the token cache.
        device: where the model is.
        rows: (rows,) the rows to predict, at least one; all of them if None.

    Returns:
        Predictions in the order of the table (or of `rows`), the same on every worker.

    Raises:
        TrainingDiverged: a prediction is NaN or infinite, on every worker.
    """
    table = corpus[task, split]
    rows = np.arange(table.num_rows) if rows is None else rows
    logits = evaluate_rows(model, config, table, rows, device, predict_batch)
    if not np.isfinite(logits).all():
        raise TrainingDiverged(f"{task}: a prediction on {split} is not finite")
    return Predictions(
        task=task,
        split=split,
        ids=[table.ids[row] for row in rows],
        labels=table.labels[rows],
        logits=logits,
        deviation=float(model.scale_of(task).deviation) if task in model.label_scales else 1.0,
    )


def evaluate_rows(
    model: MultiTaskModel,
    config: TrialConfig,
    table: TokenTable,
    rows: np.ndarray,
    device: torch.device,
    function: Callable[[MultiTaskModel, Batch], Tensor],
) -> np.ndarray:
    """Returns a function's values of each of at least one row in evaluation mode, (rows, ...);
    the same on every worker.

    Batches are shared among the workers. The model's mode is restored.
    """
    was_training = model.training
    model.eval()
    try:
        # One autocast context: it casts each weight once, not in every batch. Not `inference_mode`: some encoders keep
        # tensors of a forward pass (rotary positions), and those could not be used in a training step.
        with torch.no_grad(), autocast(config, device):
            build = partial(build_batch, config, table, rows, device)
            parts = [
                (positions, function(model, moved(batch, device)))
                for positions, batch in build_ahead(my_batches(config, table, rows, device), build, num_ahead(device))
            ]
    finally:
        model.train(was_training)
    own = [(positions, part.cpu().numpy()) for positions, part in parts]  # a GPU is waited for only here
    found = [pair for worker in gather_from_workers(own) for pair in worker]
    positions, values = (np.concatenate(column) for column in zip(*found, strict=True))
    return np.asarray(values[np.argsort(positions)])


def my_batches(config: TrialConfig, table: TokenTable, rows: np.ndarray, device: torch.device) -> list[np.ndarray]:
    """Positions in `rows` of this worker's batches: rows of similar length together, batches dealt in turn."""
    lengths = table.lengths(config.tasks[table.task].encoding, config.encoder.max_length)[rows]
    order = np.argsort(lengths, kind="stable")
    most_tokens = config.evaluation.batch_tokens or (CPU_BATCH_TOKENS if device.type == "cpu" else None)
    starts = batch_starts(lengths[order], config.evaluation.batch_size, most_tokens)
    return np.split(order, starts[1:])[worker_rank() :: num_workers()]


def batch_starts(lengths: np.ndarray, most_rows: int, most_tokens: int | None) -> list[int]:
    """Returns the first row of each batch.

    Args:
        lengths: (rows,) tokens of each row, ascending.
        most_rows: of a batch, at least 1.
        most_tokens: of a batch, padding included; a longer row is alone. None for any number.
    """
    starts = [0]
    for row, length in enumerate(lengths.tolist()):
        num_rows = row - starts[-1] + 1
        is_too_long = most_tokens is not None and num_rows > 1 and num_rows * length > most_tokens
        if num_rows > most_rows or is_too_long:
            starts.append(row)
    return starts


def build_batch(
    config: TrialConfig, table: TokenTable, rows: np.ndarray, device: torch.device, positions: np.ndarray
) -> Batch:
    """Returns the batch of the rows at some positions, in memory from which the device can copy it."""
    encoding, max_length = config.tasks[table.task].encoding, config.encoder.max_length
    return ready_for(make_batch(table, rows[positions], encoding=encoding, max_length=max_length), device)


def predict_tasks(
    model: MultiTaskModel, config: TrialConfig, table: TokenTable, tasks: Sequence[str], device: torch.device
) -> list[np.ndarray]:
    """Returns the logits of several tasks for all rows of a table, at least one, each (rows, num_logits) as `predict`,
    to rounding.

    Args:
        tasks: with the same layers (`MultiTaskModel.layers_of`) and encoding; the encoder passes once for all of them.
        table: the rows as they read them; its task is one of these.

    Raises:
        TrainingDiverged: a prediction is NaN or infinite, on every worker.
    """
    widths = [config.task(task).num_logits for task in tasks]

    def of_each(own: MultiTaskModel, batch: Batch) -> Tensor:
        return torch.cat(own.logits_of_each(tasks, batch.inputs), dim=1)

    logits = evaluate_rows(model, config, table, np.arange(table.num_rows), device, of_each)
    if not np.isfinite(logits).all():
        raise TrainingDiverged(f"{', '.join(tasks)}: a prediction is not finite")
    return np.split(logits, np.cumsum(widths)[:-1], axis=1)


def predict_batch(model: MultiTaskModel, batch: Batch) -> Tensor:
    """Logits of one batch, (rows, num_logits) float32."""
    return model.from_unit(batch.task, model(batch).logits.float())


def scored_train_rows(config: TrialConfig, corpus: Corpus, task: str) -> np.ndarray:
    """Returns the fixed rows of train that are scored each epoch: the same in every trial, seed and replicate."""
    num_rows = corpus[task, "train"].num_own_rows
    count = min(config.tasks[task].scored_train_rows, num_rows)
    return np.sort(numpy_stream("scored train rows", task).permutation(num_rows)[:count])


def score(predictions: Predictions, config: TrialConfig) -> dict[str, float]:
    """Computes the metrics of labelled predictions: `loss`, and what `task_metrics` returns."""
    logits, labels = predictions.logits, predictions.labels
    task, settings = config.task(predictions.task), config.tasks[predictions.task]
    outputs, targets = (torch.from_numpy(np.array(part)) / predictions.deviation for part in (logits, labels))
    losses = loss_per_example(settings, task.kind, outputs, targets)
    return {"loss": float(losses.double().mean()), **task_metrics(task, logits, labels)}


def task_metrics(task: Task, logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Returns the task's metric, and those that are reported of every task of its kind:
    accuracy, or both correlations."""
    return {
        name: metric.evaluate(read_logits(metric, task.kind, task.label_range, logits, labels), labels)
        for name, metric in task.metrics.items()
        if name == task.metric or (metric.is_always_reported and task.kind in metric.kinds)
    }
