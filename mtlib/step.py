"""One optimizer step: batches, loss, agreement among the workers, update."""

import math

import numpy as np
import torch
from torch import Tensor

from mtlib.batches import Batch, make_batch
from mtlib.losses import TrainingDiverged
from mtlib.optim import learning_rate_at, set_learning_rate
from mtlib.run_state import CURVES_OF_TRAINING, Run
from mtlib.samplers import Step
from mtlib.seeds import stream_seed
from mtlib.workers import num_workers, sum_over_workers, worker_rank


class Interrupted(Exception):  # noqa: N818
    """The run was asked to end; its state is saved."""


def take_step(run: Run, step: Step) -> None:
    """One optimizer step on all workers; nothing has changed when it raises.

    Args:
        run: the trial.
        step: tasks and rows.

    Raises:
        TrainingDiverged: a loss is NaN or infinite; names task, step and loss.
        Interrupted: some worker does not want to go on.
    """
    batches = [batch_of(run, task, rows) for task, rows in step.batches]
    torch.manual_seed(stream_of(run, "dropout", worker_rank()))
    loss, details = run.objective(batches, [stream_of(run, "noise", task) for task, _ in step.batches])
    if not agree(details, run.is_wanted):
        raise Interrupted(f"ended after step {run.total_step}")
    count_details(run, batches, details.tolist())
    run.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    rate = learning_rate_at(run.config.optimizer, run.stage_step, run.plan[run.stage].num_steps)
    set_learning_rate(run.optimizer, rate)
    run.optimizer.step()
    run.step += 1


def batch_of(run: Run, task: str, rows: np.ndarray) -> Batch:
    """This worker's shard of a global batch, on the device."""
    return make_batch(
        run.corpus.tables[task, "train"],
        rows,
        encoding=run.config.tasks[task].encoding,
        max_length=run.config.encoder.max_length,
        special=run.corpus.special,
        rank=worker_rank(),
        world_size=num_workers(),
        device=run.device,
    )


def stream_of(run: Run, purpose: str, part: int | str) -> int:
    """The seed of a stream at the run's current step."""
    return stream_seed(run.config.seed, run.config.replicate, purpose, run.stage, run.stage_step, part)


def agree(details: Tensor, is_wanted: bool) -> bool:
    """Sums the details over the workers, in place; whether every worker wants to go on."""
    refusal = details.new_tensor([0.0 if is_wanted else 1.0])
    agreed = sum_over_workers(torch.cat([details.flatten(), refusal]))
    details.copy_(agreed[:-1].view_as(details))
    return bool(agreed[-1] == 0)


def stop_if_unwanted(run: Run) -> None:
    """Raises Interrupted on all workers if some worker does not want to go on."""
    if not agree(torch.zeros(0, device=run.device), run.is_wanted):
        raise Interrupted(f"ended after step {run.total_step}")


def count_details(run: Run, batches: list[Batch], details: list[list[float]]) -> None:
    """Adds a step's losses to the epoch's sums.

    Args:
        run: the trial.
        batches: the step's batches.
        details: for each batch, sums over its rows of loss, penalty and noise norm.

    Raises:
        TrainingDiverged: one of them is NaN or infinite; nothing has been added.
    """
    for batch, numbers in zip(batches, details, strict=True):
        for name, value in zip(CURVES_OF_TRAINING, numbers, strict=True):
            if not math.isfinite(value):
                raise TrainingDiverged(f"{batch.task}: {name} is {value} at step {run.total_step + 1}")
    for batch, numbers in zip(batches, details, strict=True):
        sums = run.sums.setdefault(batch.task, [0.0] * (len(CURVES_OF_TRAINING) + 1))
        run.sums[batch.task] = [total + value for total, value in zip(sums, (*numbers, batch.num_rows), strict=True)]
