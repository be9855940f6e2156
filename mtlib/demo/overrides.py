"""What a configuration made for a pretrained encoder and real data needs to learn from the demonstration, quickly."""

import dataclasses
from collections.abc import Sequence

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig

DEMO_SETTINGS: dict[str, object] = {
    "data.bucket_by_length": False,
    "encoder.dropout": 0.0,
    "encoder.max_length": 40,
    "optimizer.learning_rate": 1e-3,
    "smart.reduction": "mean",
    "tasks.sst.batch_size": 32,
    "tasks.qqp.batch_size": 32,
    "tasks.sts.batch_size": 32,
    "tasks.sst.scored_train_rows": 500,
    "evaluation.batch_size": 200,
}
"""Settings that do not depend on the plan, by dotted key.

A question's length says much about its kind, so batches of one length would all be alike: no buckets.
"""
DEMO_NOTE = (
    "No --data and no --encoder: the built-in demonstration corpus and tiny encoder are used, nothing is downloaded. "
    "This encoder was never pretrained and needs other settings: learning rate 1e-3, no dropout, batches of 32 drawn "
    "without regard to length, SMART averaged over the batch, few and short epochs; what the space itself varies stays "
    "as it is. The scores show that all works; they say nothing about real text."
)

FIRST_EPOCHS, LAST_EPOCHS = 2, 6
"""At most so many epochs in each stage before the last, and in the last."""
MOST_STEPS = 60
"""Optimizer steps of an epoch, at most."""
MOST_ROUNDS = 25
"""The same where each step is a round of several tasks."""
UNCUT_ORDERS = ("sampled_round_robin", "smallest_round_robin", "sequential")
"""Orders that keep their own length: their epochs are short here, or have their end as their point."""


def demo_overrides(config: TrialConfig) -> dict[str, object]:
    """What a configuration needs for the demonstration corpus and encoder, by dotted key.

    Args:
        config: any configuration; its plan decides how the stages are shortened.
    """
    overrides = dict(DEMO_SETTINGS)
    for index, (stage, short) in enumerate(zip(config.stages, demo_stages(config.stages), strict=True)):
        for name in ("epochs", "steps_per_epoch"):
            if getattr(short, name) != getattr(stage, name):
                overrides[f"stages.{index}.{name}"] = getattr(short, name)
    return overrides


def demo_stages(stages: Sequence[StageConfig]) -> tuple[StageConfig, ...]:
    """A plan that takes seconds on the demonstration: the same stages and orders, fewer and shorter epochs."""
    return tuple(
        dataclasses.replace(stage, epochs=demo_epochs(stage, index == len(stages)), steps_per_epoch=demo_steps(stage))
        for index, stage in enumerate(stages, start=1)
    )


def demo_epochs(stage: StageConfig, is_last: bool) -> int:
    """Epochs on the demonstration; where each is one set, enough for all sets."""
    least = len(stage.tasks) + len(stage.extra_data) if stage.order == "epoch_round_robin" else 1
    return min(stage.epochs, max(least, LAST_EPOCHS if is_last else FIRST_EPOCHS))


def demo_steps(stage: StageConfig) -> int | None:
    """Optimizer steps of an epoch on the demonstration; None for as many as the order needs."""
    if stage.steps_per_epoch is None and stage.order in UNCUT_ORDERS and len(stage.tasks) > 1:
        return None
    most = MOST_ROUNDS if stage.sum_losses and len(stage.tasks) > 1 else MOST_STEPS
    return min(stage.steps_per_epoch or most, most)
