"""One optimizer step: batches, loss, agreement of the workers, gradients, update."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from mtlib.config.schema import settings_of
from mtlib.config.trial import TrialConfig
from mtlib.data.batches import Batch, make_batch, moved, ready_for
from mtlib.data.token_cache import Corpus
from mtlib.loss.clean_pass import Place
from mtlib.loss.gradient_aggregation import add_gradients, combine, gradients_by_task, weighting_of, without_averaging
from mtlib.loss.objective import all_terms, check_sign, losses_by_task, terms_of
from mtlib.loss.proximal import decay_at
from mtlib.runtime.errors import TrainingDiverged
from mtlib.runtime.late_reading import LateReader
from mtlib.runtime.lazy_functions import load_function
from mtlib.runtime.seeds import stream_seed
from mtlib.runtime.workers import num_workers, sum_over_workers, worker_rank
from mtlib.stages.sampler import Step, StepBatch
from mtlib.training.clipping import clip_gradients, count_clipped
from mtlib.training.gradient_norms import add_norm, is_measured, note_task_norms
from mtlib.training.optimizer import set_learning_rates
from mtlib.training.run import Run
from mtlib.training.weight_average import polynomial_share, update_average


class Interrupted(Exception):  # noqa: N818
    """The run was asked to end; its state is saved."""


def take_step(run: Run, step: Step, built: Sequence[Batch] | None = None) -> None:
    """One optimizer step on all workers; if it raises on a CPU, weights and moments are unchanged.

    On a GPU its errors are raised some steps later (`mtlib.runtime.late_reading`).

    Args:
        run, step: the trial and its next step.
        built: the step's batches as `host_batches` builds them; None for building them here.

    Raises:
        TrainingDiverged: a loss is NaN or infinite (names task, step and loss), or a gradient that a method combines,
            or the norm of a gradient that is clipped.
        Interrupted: on some worker the run should not continue.
    """
    moved_parts = [moved(batch, run.device) for batch in (built or host_batches(run, step))]
    parts = [moved_parts[first : first + len(step)] for first in range(0, len(moved_parts), len(step))]
    batches, places = parts[0], [batch_place(run, part) for part in step]
    tasks = {batch.task for batch in batches}
    torch.manual_seed(stream_of(run, "dropout", worker_rank()))
    compute = compute_sum if run.config.gradients == "sum" or len(tasks) == 1 else compute_combination
    details = compute(run, parts, places)
    if is_measured(run, len(tasks)):
        measure_gradients(run, parts, places)
    num_steps = run.plan[run.stage].num_steps
    task = batches[0].task  # steps of several tasks have no rates of their own
    set_learning_rates(run.optimizer, run.config, run.stage_step, num_steps, task)
    for group in run.optimizer.param_groups:  # what does not learn in this task's steps must not enter the moments
        for parameter in group["params"] if group["scale"] == 0 else ():
            parameter.grad = None
    norm = clip_gradients(run.optimizer, run.config.optimizer.clip_norm)
    if norm is not None and run.unread is None:
        count_clipped(run, batches, float(norm), run.total_step + 1)
    run.optimizer.step()
    update_weighting(run, batches, places, details)
    update_averages(run)
    run.step += 1
    if run.unread is not None:
        read_late(run, run.unread, batches, places, details, norm)


def update_weighting(run: Run, batches: list[Batch], places: list[Place], agreed: Tensor) -> None:
    """Passes the losses of a step of several tasks, before and after it, to a loss weighting that learns from them.

    `agreed` are the details of the step.
    """
    weighting = run.config.weighting_entry
    if weighting.after_step is None or len({batch.task for batch in batches}) == 1:
        return
    before = losses_by_task(batches, places, agreed[:-1].view(len(batches), -1)[:, 0])
    torch.manual_seed(stream_of(run, "dropout", worker_rank()))  # the masks that the step drew
    with without_averaging(run.objective):
        _, details = run.objective(batches, places)
    after = losses_by_task(batches, places, sum_over_workers(details[:, 0].clone()))
    settings = settings_of(weighting.settings, run.config)
    load_function(weighting.after_step)(before, after, run.method_state, **settings)


def update_averages(run: Run) -> None:
    """Moves the mean teacher and the average that is scored, where there are any, towards the weights after a step."""
    if run.teacher is not None:
        decay = decay_at(run.config.proximal, run.stage_step, run.plan[run.stage].num_steps)
        update_average(run.teacher, run.model, 1 - decay)
    if run.average is not None:
        power = run.config.optimizer.average_power
        assert power is not None, "an average comes with its power"
        update_average(run.average, run.model, polynomial_share(run.stage_step + 1, power))


def compute_sum(run: Run, parts: list[list[Batch]], places: list[Place]) -> Tensor:
    """Sets the gradients of the step's summed loss, which DDP averages over the workers; returns its agreed details.

    Gradients of the parts of the step's batches add up. DDP averages them once, in the backward pass of the last part.
    """
    run.optimizer.zero_grad(set_to_none=True)
    earlier: list[Tensor] = []
    for batches in parts[:-1]:
        with without_averaging(run.objective):
            loss, details = run.objective(batches, places)
            torch.autograd.backward(loss)
        earlier.append(details)
    loss, details = run.objective(parts[-1], places)
    agreed = agree(run, parts[-1], places, torch.stack([*earlier, details]).sum(dim=0))
    torch.autograd.backward(loss)
    return agreed


def compute_combination(run: Run, parts: list[list[Batch]], places: list[Place]) -> Tensor:
    """Sets the combination of the tasks' gradients by the configured method; returns the step's agreed details."""
    parameters = [parameter for group in run.optimizer.param_groups for parameter in group["params"]]
    gradients, details = gradients_by_task(run.objective, parameters, parts[0], places)
    for batches in parts[1:]:
        further, found = gradients_by_task(run.objective, parameters, batches, places)
        gradients, details = list(map(add_gradients, gradients, further)), details + found
    agreed = agree(run, parts[0], places, details)
    torch.manual_seed(stream_of(run, "gradients", 0))  # the same on every worker
    named = {parameter: name for name, parameter in run.model.named_parameters()}
    tasks, names = list(dict.fromkeys(batch.task for batch in parts[0])), [named[one] for one in parameters]
    combined = combine(weighting_of(run.config, tasks, names, run.method_state), gradients)
    for parameter, gradient in zip(parameters, combined, strict=True):
        parameter.grad = gradient
    return agreed


def measure_gradients(run: Run, parts: list[list[Batch]], places: list[Place]) -> None:
    """Notes the norm of each task's gradient in this step; gradients, and so the trained numbers, stay as they are."""
    if len({batch.task for batch in parts[0]}) == 1:
        add_norm(run, parts[0][0].task, [parameter.grad for parameter in run.model.encoder.parameters()])
    else:
        torch.manual_seed(stream_of(run, "dropout", worker_rank()))  # the masks that the step drew, if it has one part
        note_task_norms(run, parts, places)


def agree(run: Run, batches: list[Batch], places: list[Place], details: Tensor) -> Tensor:
    """Returns a step's details as `sum_details` returns them;
    unless they are read late, they are added to the epoch's sums.

    Raises:
        TrainingDiverged, Interrupted: as in `take_step`.
    """
    agreed = sum_details(details, run.is_wanted)
    if run.unread is None:
        values = agreed.tolist()
        stop_if_asked(run, values[-1])
        count_details(run, batches, places, values, run.total_step + 1)
    return agreed


def read_late(
    run: Run, reader: LateReader, batches: list[Batch], places: list[Place], agreed: Tensor, norm: Tensor | None
) -> None:
    """Submits the details of a step that has been taken, and adds an earlier step's to the epoch's sums.

    `norm` is what `clip_gradients` returned for it.

    Raises:
        TrainingDiverged: a loss of the earlier step, or the norm of its gradients, is NaN or infinite.
        Interrupted: in the earlier step some worker's run should not continue.
    """
    step = run.total_step

    def use(values: list[float]) -> None:
        details, own_norm = values[: len(agreed)], values[len(agreed) :]
        run.is_ending = run.is_ending or details[-1] > 0
        count_details(run, batches, places, details, step)
        for value in own_norm:
            count_clipped(run, batches, value, step)

    reader.submit(agreed if norm is None else torch.cat([agreed, norm.to(agreed).view(1)]), use)
    stop_if_asked(run, run.is_ending)


def read_waiting(run: Run) -> None:
    """Adds the details of all steps so far to the epoch's sums; raises TrainingDiverged as `read_late`."""
    if run.unread is not None:
        run.unread.read()


def host_batches(run: Run, step: Step) -> list[Batch]:
    """This worker's shards of a step's batches, in memory from which the run's device can copy them.

    Where they are too large for `micro_batch_size`, the first part of each batch, then the second of each, and so on.
    """
    num_parts = parts_of(run.config.stages[run.stage].micro_batch_size, [len(part.rows) for part in step])
    return [
        ready_for(shard_of(run.config, run.corpus, part, which, num_parts), run.device)
        for which in range(num_parts)
        for part in step
    ]


def parts_of(micro_batch_size: int | None, num_rows: Sequence[int]) -> int:
    """Into how many parts each worker's shard of a step's batches is cut, by the rows of these; 1 without a limit."""
    longest = -(-max(num_rows) // num_workers())
    return 1 if micro_batch_size is None else -(-longest // micro_batch_size)


def shard_of(config: TrialConfig, corpus: Corpus, part: StepBatch, which: int = 0, num_parts: int = 1) -> Batch:
    """This worker's shard of a global batch, or one of its parts, on the CPU.

    Parts are shards as if there were `num_parts` times as many workers: noise is drawn for the whole batch and sliced,
    and a part without rows takes part with weight 0.
    """
    return make_batch(
        corpus[part.set, "train"],
        part.rows,
        encoding=config.tasks[config.task_of(part.set)].encoding,
        max_length=config.encoder.max_length,
        rank=worker_rank() + which * num_workers(),
        world_size=num_workers() * num_parts,
    )


def batch_place(run: Run, part: StepBatch) -> Place:
    """Returns the batch's position, which decides its random draws and its share of the loss."""
    seed, num_rows = stream_of(run, "noise", part.set), run.corpus[part.set, "train"].num_rows
    full_size = min(run.config.batch_size_of(part.set), num_rows)  # few rows count as one full batch, not as a part
    return Place(noise_seed=seed, turn=part.turn, full_size=full_size)


def stream_of(run: Run, purpose: str, part: int | str) -> int:
    """Returns the seed of a stream at the run's current step."""
    return stream_seed(run.config.seed, run.config.replicate, purpose, run.stage, run.stage_step, part)


def sum_details(details: Tensor, is_wanted: bool) -> Tensor:
    """Returns the sums of the details over the workers, flat, and after them the number of workers that want to end."""
    refusal = details.new_full((1,), 0.0 if is_wanted else 1.0)
    return sum_over_workers(torch.cat([details.flatten(), refusal]))


def stop_if_unwanted(run: Run) -> None:
    """Raises Interrupted on all workers if the run should not continue on some worker."""
    stop_if_asked(run, float(sum_details(torch.zeros(0, device=run.device), run.is_wanted)))


def stop_if_asked(run: Run, num_asking: float) -> None:
    """Raises Interrupted if a number of workers that ask for it is not 0."""
    if num_asking:
        raise Interrupted(f"ended after step {run.total_step}")


def count_details(run: Run, batches: list[Batch], places: list[Place], values: list[float], step: int) -> None:
    """Adds a step's losses to the epoch's sums.

    Args:
        run, batches, places: the trial, and the step's batches with their places.
        values: as `sum_details` gives them: for each batch sums over its rows of `all_terms`.
        step: the step's number over all stages, from 1.

    Raises:
        TrainingDiverged: one of them is NaN or infinite; nothing has been added.
        WrongResult: a penalty is negative that must not be; nothing has been added.
    """
    names = all_terms(run.config)
    details = [values[first : first + len(names)] for first in range(0, len(batches) * len(names), len(names))]
    for batch, numbers in zip(batches, details, strict=True):
        for name, value in zip(names, numbers, strict=True):
            if not math.isfinite(value):
                raise TrainingDiverged(f"{batch.task}: {name} is {value} at step {step}")
            check_sign(run.config, name, value / batch.num_rows)
    for batch, place, numbers in zip(batches, places, details, strict=True):
        sums, by_name = run.sums.setdefault(batch.task, {}), dict(zip(names, numbers, strict=True))
        for name in terms_of(run.config, batch.task, place.turn):
            total, rows = sums.get(name, (0.0, 0))
            sums[name] = (total + by_name[name], rows + batch.num_rows)
