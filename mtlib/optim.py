"""AdamW over the parameters of the tasks that have been active so far, and learning-rate schedules."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from mtlib.config_training import OptimizerConfig
from mtlib.model import MultiTaskModel

MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""AdamW's state of one parameter: number of updates, first and second moment."""


def make_optimizer(config: OptimizerConfig, model: MultiTaskModel, active_tasks: Iterable[str]) -> torch.optim.AdamW:
    """AdamW over the encoder and the heads of `active_tasks`.

    A parameter without a gradient is neither moved nor decayed nor are its moments updated.

    Source: Loshchilov and Hutter 2019; BERT and Beyond 4.3.
    """
    return torch.optim.AdamW(
        list(trained_parameters(model, active_tasks).values()),
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        weight_decay=config.weight_decay,
        fused=True,
    )


def trained_parameters(model: MultiTaskModel, active_tasks: Iterable[str]) -> dict[str, nn.Parameter]:
    """Parameters of the encoder and of the heads of `active_tasks`, by name."""
    prefixes = ("encoder.", *(f"heads.{task}." for task in active_tasks))
    return {name: parameter for name, parameter in model.named_parameters() if name.startswith(prefixes)}


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimizer's state as `<parameter>.<moment>`; parameters that were never updated have none."""
    return {
        f"{name}.{moment}": optimizer.state[parameter][moment]
        for name, parameter in model.named_parameters()
        for moment in MOMENTS
        if moment in optimizer.state.get(parameter, {})
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Puts back what `optimizer_tensors` gave, in place of whatever state there is."""
    optimizer.state.clear()
    for name, parameter in model.named_parameters():
        if f"{name}.{MOMENTS[0]}" in tensors:
            moments = {moment: tensors[f"{name}.{moment}"].to(parameter.device) for moment in MOMENTS}
            optimizer.state[parameter] = moments


def learning_rate_at(config: OptimizerConfig, step: int, num_steps: int) -> float:
    """The learning rate of one step of a stage.

    Args:
        config: peak rate, schedule and its rising part.
        step: which step of the stage, 0 <= step < num_steps.
        num_steps: optimizer steps of the whole stage.

    Returns:
        The rate. The slanted triangle is read at the middle of each step, so that neither end wastes a step at rate 0.

    Source: Howard and Ruder 2018 (slanted triangle); My PAL BERT 4.1: up over the first 10 % of steps, then down to 0.
    """
    if config.schedule == "constant":
        return config.learning_rate
    middle, peak = step + 0.5, config.warmup_fraction * num_steps
    rising, falling = middle / peak, (num_steps - middle) / (num_steps - peak)
    return config.learning_rate * min(rising, falling)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Sets the rate of every parameter group."""
    for group in optimizer.param_groups:
        group["lr"] = rate
