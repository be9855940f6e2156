"""Changes of a configuration that let it learn quickly from the demonstration corpus with its untrained encoder."""

import dataclasses
from collections.abc import Sequence

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig

DEMO_SETTINGS: dict[str, object] = {
    "data.bucket_by_length": False,
    "encoder.dropout": 0.0,
    "encoder.max_length": 40,
    "optimizer.learning_rate": 1e-3,
    "precision": "fp32",
    "smart.reduction": "mean",
    "tasks.sst.batch_size": 32,
    "tasks.qqp.batch_size": 32,
    "tasks.sts.batch_size": 32,
    "tasks.sst.scored_train_rows": 500,
    "evaluation.batch_size": 200,
}
"""Settings that do not depend on the plan, by dotted key.

A question's length reveals its kind, so batches of similar length would hold questions of one kind only.
"""
DEMO_NOTE = (
    "No --data and no --encoder: the built-in demonstration corpus and tiny encoder are used, nothing is downloaded. "
    "This encoder was never pretrained and needs other settings: learning rate 1e-3, no dropout, batches of 32 drawn "
    "without regard to length, SMART averaged over the batch, few and short epochs; what the space itself varies stays "
    "as it is. The scores show that everything works; they are no evidence about real text."
)

FIRST_EPOCHS, LAST_EPOCHS = 2, 6
"""Epochs of each stage before the last, and of the last, at most."""
MAX_STEPS = 60
"""Optimizer steps of an epoch, at most."""
MAX_ROUNDS = 25
"""Optimizer steps of an epoch, at most, where each step sums the losses of several tasks."""


def demo_overrides(config: TrialConfig) -> dict[str, object]:
    """Overrides of a configuration for the demonstration, by dotted key; they shorten its stages too."""
    overrides = {
        key: value
        for key, value in DEMO_SETTINGS.items()
        if not key.startswith("tasks.") or key.split(".")[1] in config.tasks
    }
    for index, (stage, short) in enumerate(zip(config.stages, demo_stages(config.stages), strict=True)):
        for name in ("epochs", "steps_per_epoch"):
            if getattr(short, name) != getattr(stage, name):
                overrides[f"stages.{index}.{name}"] = getattr(short, name)
    return overrides


def demo_stages(stages: Sequence[StageConfig]) -> tuple[StageConfig, ...]:
    """Returns the same stages and orders with fewer and shorter epochs, for seconds of training."""
    return tuple(
        dataclasses.replace(stage, epochs=demo_epochs(stage, index == len(stages)), steps_per_epoch=demo_steps(stage))
        for index, stage in enumerate(stages, start=1)
    )


def demo_epochs(stage: StageConfig, is_last: bool) -> int:
    """Epochs of a stage; enough for all sets where an epoch trains one set."""
    least = len(stage.tasks) + len(stage.extra_data) if stage.order_entry.is_one_set_per_epoch else 1
    return min(stage.epochs, max(least, LAST_EPOCHS if is_last else FIRST_EPOCHS))


def demo_steps(stage: StageConfig) -> int | None:
    """Optimizer steps of an epoch; None for as many as the order needs."""
    if stage.steps_per_epoch is None and stage.order_entry.has_own_length and len(stage.tasks) > 1:
        return None
    most = MAX_ROUNDS if stage.sum_losses and len(stage.tasks) > 1 else MAX_STEPS
    return min(stage.steps_per_epoch or most, most)
