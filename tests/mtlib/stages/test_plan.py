"""Plans: lengths by hand, and equal to the batches that the order gives."""

from typing import Any

import numpy as np
import pytest

from mtlib.config.batch_orders import BATCH_ORDERS
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.stages.plan import (
    num_epochs,
    overall_epochs,
    plan_stages,
    scored_epochs,
    tasks_active_by,
)
from mtlib.stages.sampler import epoch_steps

ALL = ("sst", "qqp", "sts")
CS224N_ROWS = {"sst": 8544, "qqp": 141498, "sts": 6040}


def test_staggered_fine_tuning_on_the_cs224n_data_by_hand() -> None:
    stages = (StageConfig(tasks=("qqp",), epochs=2), StageConfig(tasks=ALL, order="sampled_round_robin", epochs=13))
    first, second = plan_stages(TrialConfig(stages=stages), CS224N_ROWS)
    assert (first.epochs, second.epochs) == (2, 13)
    assert first.steps == (8844, 8844)  # 141498 / 16, rounded up
    assert second.steps == (534 + 534 + 378,) * 13  # SST's batches, as many of QQP, STS's
    assert (first.num_steps, second.num_steps) == (2 * 8844, 13 * 1446)


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({"sum_losses": True}, (8844,) * 4),
        ({"order": "sampled_round_robin", "sum_losses": True}, (534,) * 4),
        ({"order": "epoch_round_robin"}, (534, 8844, 378, 534)),
        ({"order": "uniform"}, (9756,) * 4),
        ({"order": "unimax"}, (2 * 534 + 378,) * 4),
        ({"steps_per_epoch": 1000}, (1000,) * 4),
    ],
)
def test_lengths_on_the_cs224n_data_by_hand(changes: dict[str, Any], steps: tuple[int, ...]) -> None:
    (planned,) = plan_stages(TrialConfig(stages=(StageConfig(tasks=ALL, epochs=4, **changes),)), CS224N_ROWS)
    assert planned.steps == steps
    assert [planned.first_step(epoch) for epoch in range(5)] == np.cumsum([0, *steps]).tolist()


@pytest.mark.parametrize("order", BATCH_ORDERS)
@pytest.mark.parametrize("steps_per_epoch", [None, 6])
def test_a_plan_has_the_length_of_the_training(order: str, steps_per_epoch: int | None) -> None:
    has_rounds = BATCH_ORDERS[order].has_rounds
    stage = StageConfig(tasks=ALL, order=order, sum_losses=has_rounds, epochs=3, steps_per_epoch=steps_per_epoch)
    config = TrialConfig(stages=(stage,)).override({"tasks.qqp.batch_size": 3, "tasks.sts.batch_size": 5})
    for counts in ((1, 9, 24), (24, 9, 1), (9, 9, 9)):
        num_rows = dict(zip(ALL, counts, strict=True))
        lengths = {name: np.ones(count, dtype=np.int64) for name, count in num_rows.items()}
        (planned,) = plan_stages(config, num_rows)
        trained = [len(epoch_steps(config, 0, epoch, lengths, num_rows)) for epoch in range(3)]
        assert trained == list(planned.steps)


def sequence(*tasks: tuple[str, ...]) -> TrialConfig:
    """A stage of two epochs for each group of tasks."""
    return TrialConfig(stages=tuple(StageConfig(tasks=names, epochs=2) for names in tasks))


def test_a_task_stays_active_from_the_first_stage_that_trains_it() -> None:
    config = sequence(("sts",), ("qqp",), ("sts", "sst"), ("qqp",))
    assert [tasks_active_by(config, index) for index in range(4)] == [("sts",), ("qqp", "sts"), ALL, ALL]
    assert num_epochs(config) == 8


def test_scored_epochs_are_counted_over_all_stages() -> None:
    changes = {"stages.0.epochs": 5, "stages.0.score_every": 2, "stages.1.epochs": 3, "stages.1.score_every": 3}
    config = sequence(("qqp",), ALL, ALL).override(changes)
    assert scored_epochs(config) == ((2, 0), (4, 0), (5, 0), (8, 1), (9, 2), (10, 2))
    assert overall_epochs(config) == (8, 9, 10)
