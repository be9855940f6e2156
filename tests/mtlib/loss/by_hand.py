"""Losses and divergences of a run by hand, and the batches and settings of the tests of objective and penalties."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, kl_divergence
from torch.nn import functional

from mtlib.data.batches import Batch, make_batch
from mtlib.loss.clean_pass import Place
from mtlib.training.run import Run
from tests.method_tables import TERMS

NewRun = Callable[..., Run]
SIZES = {"sst": 8, "qqp": 8, "sts": 5}
"""The batch size of each task."""
ALL = ",".join(SIZES)
PLAIN: dict[str, Any] = {"encoder.dropout": 0, "encoder.attention_dropout": 0, "smart.weight": 0}
NOISY = {"encoder.dropout": 0.3, "encoder.attention_dropout": 0.3}
BI = {"tasks.qqp.encoding": "bi", "tasks.sts.encoding": "bi"}
SMART = PLAIN | {"smart.weight": 7, "smart.tasks": ALL, "smart.mode": "random", "smart.epsilon": 0.1}
SMART["smart.noise_std"] = 0.1
TEACHER = PLAIN | {"proximal.weight": 3, "proximal.tasks": ALL}
CONTRAST = PLAIN | {"simcse.weight": 2, "simcse.tasks": ALL, "simcse.temperature": 0.5}
LEARNED = PLAIN | {"loss_weighting": "uncertainty"}


def shards_of(run: Run, task: str, rows: int, world_size: int = 1) -> list[Batch]:
    """The parts of one global batch of the first rows of a task's train."""
    return [
        make_batch(
            run.corpus[task, "train"],
            np.arange(rows),
            encoding=run.config.tasks[task].encoding,
            max_length=run.config.encoder.max_length,
            rank=rank,
            world_size=world_size,
        )
        for rank in range(world_size)
    ]


def evaluate(run: Run, batches: Sequence[Batch], turn: int = 0, full_size: int | None = None) -> tuple[Tensor, Tensor]:
    """Loss and details; all batches have the same noise seed and turn, and full batches their task's size."""
    places = [Place(noise_seed=11, turn=turn, full_size=full_size or SIZES[batch.task]) for batch in batches]
    loss, details = run.objective(batches, places)
    return loss, details


def column(details: Tensor, name: str) -> float:
    """The sum over all rows of one term."""
    return details[:, TERMS.index(name)].sum().item()


def losses_by_hand(run: Run, batch: Batch) -> Tensor:
    """The loss of each row, from torch's own functions."""
    logits, labels = run.model(batch).logits, batch.labels
    if batch.task == "sst":
        return functional.cross_entropy(logits, labels.long(), reduction="none")
    if batch.task == "qqp":
        return functional.binary_cross_entropy(logits[:, 0].sigmoid(), labels, reduction="none")
    return functional.mse_loss(logits[:, 0], labels, reduction="none")


def divergence_by_hand(task: str, one: Tensor, other: Tensor) -> Tensor:
    """Both KL divergences between two predictions, (rows,), from torch's distributions; or their squared gap."""
    if task == "sts":
        return functional.mse_loss(one, other, reduction="none")[:, 0]
    p, q = (Categorical(logits=logits) if task == "sst" else Bernoulli(logits=logits[:, 0]) for logits in (one, other))
    return kl_divergence(p, q) + kl_divergence(q, p)


def gradients_of(run: Run, loss: Tensor) -> dict[str, Tensor]:
    """The gradient of every parameter that the loss reaches."""
    parameters = dict(run.model.named_parameters())
    found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    return {name: gradient for name, gradient in zip(parameters, found, strict=True) if gradient is not None}


def with_moved_weights(run: Run) -> Run:
    """The run with weights that differ from the teacher's and log variances other than 0."""
    stream = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in run.model.named_parameters():
            size = 0.4 if name.startswith("log_variances") else 0.05 * parameter.abs().mean()
            parameter.add_(size * torch.randn(parameter.shape, generator=stream))
    return run


def passes_of(run: Run, task: str, rows: int = 8) -> list[int]:
    """The number of rows of each encoder pass of a batch."""
    seen: list[int] = []
    layer = run.model.get_submodule("encoder.encoder.layer.0.output.dense")
    handle = layer.register_forward_hook(lambda _module, _given, output: seen.append(len(output)))
    evaluate(run, shards_of(run, task, rows))
    handle.remove()
    return seen
