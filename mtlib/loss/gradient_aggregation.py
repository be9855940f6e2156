"""Combines the gradients of several tasks by methods against conflicts between them.

Each task's gradient is computed by itself and averaged over the workers before the gradients are combined, so that one
worker and two give the same step. Most methods need only the inner products of the gradients (their Gramian); their
formulas (`mtlib.loss.gradient_weights`) are loaded where one is chosen, as their libraries take time. They act on the
parameters that several tasks share; one that a single task reaches keeps its gradient.
"""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from mtlib.config.schema import settings_of
from mtlib.config.trial import TrialConfig
from mtlib.data.batches import Batch
from mtlib.loss.clean_pass import Place
from mtlib.runtime.errors import TrainingDiverged
from mtlib.runtime.lazy_functions import load_function
from mtlib.runtime.workers import num_workers, sum_over_workers

Gradients = list[Tensor | None]
"""One per parameter; None where the loss does not reach it."""
SharedGradients = Mapping[int, Sequence[Tensor | None]]
"""By the position of a parameter that several tasks reach the gradient of each task."""
Weighting = Callable[[Tensor, Sequence[int], SharedGradients], Tensor]
"""From the Gramian of some tasks, (tasks, tasks), the positions of these tasks and the gradients of all to the weights
of the combination, (tasks,)."""


def weighting_of(
    config: TrialConfig, tasks: Sequence[str], parameters: Sequence[str], state: dict[str, Tensor]
) -> Weighting:
    """Returns the configured gradient method, which must have a function, with its settings.

    Args:
        config: names the method.
        tasks, parameters: the names of the tasks and parameters whose gradients are combined.
        state: the method's state, by name, which each call changes; unused by a method without one.
    """
    method = config.gradient_entry
    assert method.function is not None, f"{config.gradients} sums the losses before the backward pass"
    function = partial(load_function(method.function), **settings_of(method.settings, config))
    if method.state == "none":
        return lambda gramian, _positions, _shared: function(gramian)

    def weigh(gramian: Tensor, positions: Sequence[int], shared: SharedGradients) -> Tensor:
        by_task = {
            tasks[task]: {parameters[index]: parts[task] for index, parts in shared.items() if parts[task] is not None}
            for task in positions
        }
        weights: Tensor = function(gramian, by_task, state)
        return weights

    return weigh


def gradients_by_task(
    objective: nn.Module, parameters: Sequence[nn.Parameter], batches: Sequence[Batch], places: Sequence[Place]
) -> tuple[list[Gradients], Tensor]:
    """Returns the gradient of each task's part of a step, by an objective that may be wrapped.

    `batches` are this worker's shard of each batch of the step; those of one task give one gradient.

    Returns:
        For each task, in the order of its first batch, this worker's gradients; and the details of `batches`, as
        `Objective.forward` gives them, in their order.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for index, batch in enumerate(batches):
        groups[batch.task].append(index)
    gradients: list[Gradients] = []
    details: dict[int, Tensor] = {}
    for indices in groups.values():
        # Without DDP's own averaging: each task's gradients are averaged by themselves.
        with without_averaging(objective):
            loss, found = objective([batches[index] for index in indices], [places[index] for index in indices])
        gradients.append(list(torch.autograd.grad(loss, parameters, allow_unused=True)))
        details |= dict(zip(indices, found, strict=True))
    return gradients, torch.stack([details[index] for index in range(len(batches))])


def without_averaging(objective: nn.Module) -> contextlib.AbstractContextManager[None]:
    """Returns the context in which an objective that may be wrapped leaves gradients on their worker."""
    return getattr(objective, "no_sync", contextlib.nullcontext)()


def add_gradients(first: Gradients, second: Gradients) -> Gradients:
    """Returns the sum of two parts of a task's gradient, which reach the same parameters."""
    pairs = zip(first, second, strict=True)
    return [None if one is None or other is None else one + other for one, other in pairs]


def combine(weigh: Weighting, gradients: Sequence[Gradients]) -> Gradients:
    """Combines the tasks' gradients to one for each parameter.

    Args:
        weigh: the method, as `weighting_of` gives it.
        gradients: this worker's, for each task.

    Returns:
        For a parameter that several tasks reach their combination, for one that a single task reaches its gradient,
        None for the rest; the same on every worker.

    Raises:
        TrainingDiverged: a gradient of a shared parameter is NaN or infinite, on every worker.
    """
    averaged = [average_over_workers(parts) for parts in gradients]
    by_parameter = list(zip(*averaged, strict=True))
    shared = {index: parts for index, parts in enumerate(by_parameter) if sum(part is not None for part in parts) > 1}
    weights = task_weights(weigh, shared, len(averaged))
    combined: Gradients = []
    for parts in by_parameter:
        present = {task: part for task, part in enumerate(parts) if part is not None}
        if len(present) > 1:
            combined.append(torch.stack([part * weights[task] for task, part in present.items()]).sum(dim=0))
        else:
            combined.append(next(iter(present.values()), None))
    return combined


def task_weights(weigh: Weighting, shared: SharedGradients, num_tasks: int) -> list[float]:
    """Returns the weight of each task's gradient;
    a task that reaches no shared parameter is left out and has weight 1."""
    reaching = [task for task in range(num_tasks) if any(parts[task] is not None for parts in shared.values())]
    gramian = gramian_of(list(shared.values()), num_tasks).cpu()[reaching][:, reaching]  # a GPU is waited for here only
    if not gramian.isfinite().all():
        raise TrainingDiverged("the gradient of a task is not finite")
    weights = [1.0] * num_tasks
    found = weigh(gramian, reaching, shared).tolist() if reaching else ()
    for task, weight in zip(reaching, found, strict=True):
        weights[task] = weight
    return weights


def gramian_of(shared: Sequence[Sequence[Tensor | None]], num_tasks: int) -> Tensor:
    """Inner products of the tasks' gradients over the shared parameters, (tasks, tasks) float64 on their device.

    `shared` holds for each parameter the gradient of each task; None counts as 0.
    """
    device = next((part.device for parts in shared for part in parts if part is not None), None)
    gramian = torch.zeros(num_tasks, num_tasks, dtype=torch.float64, device=device)
    for parts in shared:
        present = [index for index, part in enumerate(parts) if part is not None]
        rows = torch.stack([part.flatten() for part in parts if part is not None]).double()  # (present, entries)
        places = torch.tensor(present, device=device)
        gramian[places[:, None], places] += rows @ rows.T
    return gramian


def average_over_workers(gradients: Gradients) -> Gradients:
    """Returns the mean over the workers; None stays None, which is so on all of them or on none."""
    if num_workers() == 1:
        return gradients
    present = [gradient for gradient in gradients if gradient is not None]
    joined = sum_over_workers(torch.cat([gradient.flatten() for gradient in present])) / num_workers()
    pieces = iter(torch.split(joined, [gradient.numel() for gradient in present]))
    return [None if gradient is None else next(pieces).view_as(gradient) for gradient in gradients]
