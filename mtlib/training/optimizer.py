"""AdamW over the parameters of the tasks that have been active so far, and the rates of its steps."""

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from mtlib.config.training import OptimizerConfig
from mtlib.config.trial import TrialConfig
from mtlib.model.layers import EMBEDDINGS, has_layer_rates, layer_of
from mtlib.stages.active_weights import active_weights

MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""AdamW's state of one parameter: number of updates, first and second moment."""

Part = int | str
"""Parameters that share a learning rate: a layer of the encoder by number, `EMBEDDINGS`, `head` for all that is not
pretrained, or `network` for those with the plain rate if layers have no rates of their own."""


def make_optimizer(config: TrialConfig, model: nn.Module, active_tasks: Iterable[str]) -> AdamW:
    """AdamW over the encoder and what belongs to `active_tasks`, in as few groups as the rates and the decay need.

    A parameter without a gradient is neither moved nor decayed nor are its moments updated.

    Args:
        config: gives rates and decay, and who shares modules.
        model: its parameters are named `encoder.`, `heads.<task>.` and so on.
        active_tasks: tasks trained so far.

    Returns:
        An optimizer whose groups know, besides AdamW's settings, their `part` and its `peak_rate` (before the schedule
        and the scales of a task's layers).

    Source: Loshchilov and Hutter 2019; BERT and Beyond 4.3.
    """
    tasks, groups = tuple(active_tasks), dict[tuple[Part, float], list[nn.Parameter]]()
    layers = layer_of(model.get_submodule("encoder"), "layer rates") if has_layer_rates(config.optimizer) else {}
    for name, parameter in trained_parameters(config, model, tasks).items():
        is_spared = parameter.ndim < 2 and not config.optimizer.decay_biases_and_norms  # a bias or of a norm
        decays = not is_spared and not name.startswith("log_variances.")  # learned weights of losses never decay
        decay = config.optimizer.weight_decay if decays else 0.0
        groups.setdefault((part_of(config.optimizer, name, layers), decay), []).append(parameter)
    peaks = {part: peak_rate(config.optimizer, part, max(layers.values(), default=0)) for part, _ in groups}
    return AdamW(
        [
            {"params": held, "part": part, "peak_rate": peaks[part], "lr": peaks[part], "weight_decay": decay}
            for (part, decay), held in groups.items()
        ],
        betas=(config.optimizer.beta1, config.optimizer.beta2),
        eps=config.optimizer.epsilon,
        fused=True,  # one pass over the parameters in place of one for each operation
    )


def trained_parameters(config: TrialConfig, model: nn.Module, active_tasks: Iterable[str]) -> dict[str, nn.Parameter]:
    """Parameters that the steps of `active_tasks` may move, by name: the encoder's that are not frozen, and theirs."""
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    return active_weights(config, active_tasks, trained)


def part_of(config: OptimizerConfig, name: str, layers: Mapping[str, int]) -> Part:
    """Returns the part that a parameter belongs to;
    `layers` gives the encoder's by name, and is empty if they share a rate."""
    if name.startswith("encoder."):
        return layers[name.removeprefix("encoder.")] if layers else "network"
    has_plain_rate = not layers and config.head_learning_rate in (None, config.learning_rate)
    return "network" if has_plain_rate else "head"


def peak_rate(config: OptimizerConfig, part: Part, last_layer: int) -> float:
    """Returns the rate of a part at the schedule's peak:
    learning_rate xi^(last_layer - k) for layer k, and embeddings at -1.

    Source: Sun et al. 2019; Triple Threat 4.4.
    """
    if part == "head" and config.head_learning_rate is not None:
        return config.head_learning_rate
    if isinstance(part, str):
        return config.learning_rate
    return config.learning_rate * config.layer_decay ** (last_layer - part)


def optimizer_tensors(optimizer: AdamW, model: nn.Module) -> dict[str, Tensor]:
    """Returns the optimizer's state as `<parameter>.<moment>`; parameters that were never updated have none."""
    return {
        f"{name}.{moment}": tensor
        for name, parameter in model.named_parameters()
        for moment, tensor in optimizer.state.get(parameter, {}).items()
    }


def restore_optimizer(optimizer: AdamW, model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Replaces the optimizer's state by one that `optimizer_tensors` returned."""
    optimizer.state.clear()
    for name, parameter in model.named_parameters():
        if f"{name}.{MOMENTS[0]}" in tensors:
            moments = {moment: tensors[f"{name}.{moment}"].to(parameter.device) for moment in MOMENTS}
            optimizer.state[parameter] = moments


def set_learning_rates(
    optimizer: torch.optim.Optimizer, config: TrialConfig, step: int, num_steps: int, task: str | None
) -> None:
    """Sets the rate of each group of `make_optimizer` for one step: peak rate times schedule times the layer's scale,
    which the group has beside it.

    Args:
        optimizer, config: as in `make_optimizer`.
        step: which step of the stage, 0 <= step < num_steps.
        num_steps: optimizer steps of the whole stage.
        task: whose step it is; None for a step of several tasks, where all scales are 1.
    """
    chosen = None if task is None else config.tasks[task].chosen_layers
    for group in optimizer.param_groups:
        rate = learning_rate_at(config.optimizer, step, num_steps, group["peak_rate"])
        group["scale"] = layer_scale(config.optimizer, group["part"], chosen)
        group["lr"] = rate * group["scale"]


def layer_scale(config: OptimizerConfig, part: Part, chosen: tuple[int, ...] | None) -> float:
    """Returns how much faster a part learns in a task's steps:
    beta in its chosen layers, alpha in its others, 1 elsewhere.

    Source: Triple Threat 4.5.
    """
    if chosen is None or isinstance(part, str) or part == EMBEDDINGS:
        return 1.0
    return config.chosen_scale if part in chosen else config.other_scale


def learning_rate_at(config: OptimizerConfig, step: int, num_steps: int, peak_rate: float) -> float:
    """Returns the learning rate of step `step` (from 0) of a stage's `num_steps`.

    The slanted triangle is read at the middle of each step, so that neither end wastes a step at rate 0. The schedules
    of transformers are read at its start, as there: with a warm-up, their first step has rate 0.

    Source: Howard and Ruder 2018 (slanted triangle); My PAL BERT 4.1: up over the first 10 % of steps, then down to 0.
    Of `cosine` and `constant_with_warmup`: transformers 5, `get_cosine_schedule_with_warmup` and its neighbours, with
    the number of warm-up steps that its Trainer makes of a share.
    """
    if config.schedule == "constant":
        return peak_rate
    if config.schedule == "slanted_triangular":
        middle, peak = step + 0.5, config.warmup_fraction * num_steps
        rising, falling = middle / peak if peak > 0 else 1.0, (num_steps - middle) / (num_steps - peak)
        return peak_rate * min(rising, falling)
    num_rising = math.ceil(config.warmup_fraction * num_steps)
    if step < num_rising:
        return peak_rate * step / num_rising
    if config.schedule == "constant_with_warmup":
        return peak_rate
    return peak_rate * 0.5 * (1 + math.cos(math.pi * (step - num_rising) / (num_steps - num_rising)))
