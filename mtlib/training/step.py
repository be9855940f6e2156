"""One optimizer step: batches, loss, agreement of the workers, gradients, update."""

import contextlib
import math

import torch
from torch import Tensor

from mtlib.data.batches import Batch, make_batch
from mtlib.loss.clean_pass import Place
from mtlib.loss.gradient_aggregation import combine, gradients_by_task, weighting_of
from mtlib.loss.objective import TERMS, terms_of
from mtlib.loss.proximal import decay_at, update_teacher
from mtlib.runtime.errors import TrainingDiverged
from mtlib.runtime.seeds import stream_seed
from mtlib.runtime.workers import num_workers, sum_over_workers, worker_rank
from mtlib.stages.sampler import Step, StepBatch
from mtlib.training.gradient_norms import is_measured, note_step_norm, note_task_norms
from mtlib.training.optimizer import set_learning_rates
from mtlib.training.run import Run


class Interrupted(Exception):  # noqa: N818
    """The run was asked to end; its state is saved."""


def take_step(run: Run, step: Step) -> None:
    """One optimizer step on all workers; if it raises, weights and moments are unchanged.

    Raises:
        TrainingDiverged: a loss is NaN or infinite (names task, step and loss), or a gradient that a method combines.
        Interrupted: on some worker the run should not continue.
    """
    batches = [batch_of(run, part) for part in step]
    places = [batch_place(run, part) for part in step]
    tasks = {batch.task for batch in batches}
    torch.manual_seed(stream_of(run, "dropout", worker_rank()))
    if run.config.gradients == "sum" or len(tasks) == 1:
        compute_sum(run, batches, places)
    else:
        compute_combination(run, batches, places)
    if is_measured(run, len(tasks)):
        measure_gradients(run, batches, places)
    num_steps = run.plan[run.stage].num_steps
    task = batches[0].task  # steps of several tasks have no rates of their own
    set_learning_rates(run.optimizer, run.config, run.stage_step, num_steps, task)
    drop_zero_rate_gradients(run)
    run.optimizer.step()
    if run.teacher is not None:
        update_teacher(run.teacher, run.model, decay_at(run.config.proximal, run.stage_step, num_steps))
    run.step += 1


def compute_sum(run: Run, batches: list[Batch], places: list[Place]) -> None:
    """Sets the gradients of the step's summed loss; DDP averages them over the workers."""
    with run.words.kept() if run.words else contextlib.nullcontext():
        loss, details = run.objective(batches, places)
    check_step(run, batches, places, details)
    run.optimizer.zero_grad(set_to_none=True)
    loss.backward()


def compute_combination(run: Run, batches: list[Batch], places: list[Place]) -> None:
    """Sets the combination of the tasks' gradients by the configured method."""
    parameters = [parameter for group in run.optimizer.param_groups for parameter in group["params"]]
    gradients, details = gradients_by_task(run.objective, parameters, batches, places)
    check_step(run, batches, places, details)
    torch.manual_seed(stream_of(run, "gradients", 0))  # the same on every worker
    combined = combine(weighting_of(run.config), gradients)
    for parameter, gradient in zip(parameters, combined, strict=True):
        parameter.grad = gradient


def measure_gradients(run: Run, batches: list[Batch], places: list[Place]) -> None:
    """Notes the norm of each task's gradient in this step; gradients, and so the trained numbers, stay as they are."""
    if len({batch.task for batch in batches}) == 1:
        note_step_norm(run, batches[0].task)
    else:
        torch.manual_seed(stream_of(run, "dropout", worker_rank()))  # the masks that the step drew
        note_task_norms(run, batches, places)


def check_step(run: Run, batches: list[Batch], places: list[Place], details: Tensor) -> None:
    """Sums a step's details over the workers and adds them to the epoch's sums.

    Raises:
        TrainingDiverged, Interrupted: as in `take_step`.
    """
    if not sum_details(details, run.is_wanted):
        raise Interrupted(f"ended after step {run.total_step}")
    count_details(run, batches, places, details.tolist())


def drop_zero_rate_gradients(run: Run) -> None:
    """Removes the gradients of parameters whose rate is 0 in this step, so that they do not enter the moments."""
    for group in run.optimizer.param_groups:
        for parameter in group["params"] if group["lr"] == 0 else ():
            parameter.grad = None


def batch_of(run: Run, part: StepBatch) -> Batch:
    """This worker's shard of a global batch, on the device."""
    return make_batch(
        run.corpus[part.set, "train"],
        part.rows,
        encoding=run.config.tasks[run.config.task_of(part.set)].encoding,
        max_length=run.config.encoder.max_length,
        rank=worker_rank(),
        world_size=num_workers(),
        device=run.device,
    )


def batch_place(run: Run, part: StepBatch) -> Place:
    """The batch's position, which decides its random draws and its share of the loss."""
    seed, num_rows = stream_of(run, "noise", part.set), run.corpus[part.set, "train"].num_rows
    full_size = min(run.config.batch_size_of(part.set), num_rows)  # few rows count as one full batch, not as a part
    return Place(noise_seed=seed, turn=part.turn, full_size=full_size)


def stream_of(run: Run, purpose: str, part: int | str) -> int:
    """The seed of a stream at the run's current step."""
    return stream_seed(run.config.seed, run.config.replicate, purpose, run.stage, run.stage_step, part)


def sum_details(details: Tensor, is_wanted: bool) -> bool:
    """Sums the details over the workers, in place; returns whether the run should continue on every worker."""
    refusal = details.new_tensor([0.0 if is_wanted else 1.0])
    agreed = sum_over_workers(torch.cat([details.flatten(), refusal]))
    details.copy_(agreed[:-1].view_as(details))
    return bool(agreed[-1] == 0)


def stop_if_unwanted(run: Run) -> None:
    """Raises Interrupted on all workers if the run should not continue on some worker."""
    if not sum_details(torch.zeros(0, device=run.device), run.is_wanted):
        raise Interrupted(f"ended after step {run.total_step}")


def count_details(run: Run, batches: list[Batch], places: list[Place], details: list[list[float]]) -> None:
    """Adds a step's losses to the epoch's sums; `details` are for each batch sums over its rows of what `TERMS` names.

    Raises:
        TrainingDiverged: one of them is NaN or infinite; nothing has been added.
    """
    for batch, numbers in zip(batches, details, strict=True):
        for name, value in zip(TERMS, numbers, strict=True):
            if not math.isfinite(value):
                raise TrainingDiverged(f"{batch.task}: {name} is {value} at step {run.total_step + 1}")
    for batch, place, numbers in zip(batches, places, details, strict=True):
        sums, by_name = run.sums.setdefault(batch.task, {}), dict(zip(TERMS, numbers, strict=True))
        for name in terms_of(run.config, batch.task, place.turn):
            total, rows = sums.get(name, (0.0, 0))
            sums[name] = (total + by_name[name], rows + batch.num_rows)
