"""The demonstration's settings: every plan is shortened."""

import dataclasses

import pytest

from mtlib.config.data import DataConfig
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig, default_task_config
from mtlib.demo.overrides import DEMO_SETTINGS, demo_overrides, demo_stages, demo_steps
from mtlib.tasks import TASKS

ALL = ("sst", "qqp", "sts")


def test_overrides_are_the_settings_and_what_shortens_the_stages() -> None:
    stages = (StageConfig(tasks=("qqp",), epochs=2), StageConfig(tasks=ALL, order="sampled_round_robin", epochs=13))
    config = TrialConfig(stages=stages)
    overrides = demo_overrides(config)
    assert overrides == {**DEMO_SETTINGS, "stages.0.steps_per_epoch": 60, "stages.1.epochs": 6}
    changed = config.override(overrides)
    assert changed.stages == demo_stages(stages)
    assert changed.override(demo_overrides(changed)) == changed


def test_tasks_that_a_configuration_lacks_have_no_overrides() -> None:
    config = TrialConfig(
        stages=(StageConfig(tasks=("sst",)),),
        data=DataConfig(tasks={"sst": TASKS["sst"]}),
        tasks={"sst": default_task_config(TASKS["sst"])},
    )
    overrides = demo_overrides(config)
    assert {key.split(".")[1] for key in overrides if key.startswith("tasks.")} == {"sst"}
    assert config.override(overrides).tasks["sst"].batch_size == 32


@pytest.mark.parametrize(
    ("epochs", "shortened"), [((1,), [1]), ((6,), [6]), ((7,), [6]), ((10, 2, 10), [2, 2, 6]), ((1, 25), [1, 6])]
)
def test_the_last_stage_has_at_most_six_epochs_and_earlier_ones_two(
    epochs: tuple[int, ...], shortened: list[int]
) -> None:
    stages = [StageConfig(tasks=("sst",), epochs=count) for count in epochs]
    assert [stage.epochs for stage in demo_stages(stages)] == shortened


def test_a_stage_that_trains_one_set_in_an_epoch_has_an_epoch_for_each() -> None:
    stage = StageConfig(tasks=ALL, order="epoch_round_robin", extra_data=("snli",), epochs=9)
    assert [short.epochs for short in demo_stages([stage, stage])] == [4, 6]


@pytest.mark.parametrize(
    ("stage", "steps"),
    [
        (StageConfig(tasks=("qqp",)), 60),
        (StageConfig(tasks=("qqp",), steps_per_epoch=61), 60),
        (StageConfig(tasks=("qqp",), steps_per_epoch=59), 59),
        (StageConfig(tasks=ALL, sum_losses=True), 25),
        (StageConfig(tasks=ALL, sum_losses=True, steps_per_epoch=3), 3),
        (StageConfig(tasks=("sst",), sum_losses=True), 60),
        (StageConfig(tasks=ALL, order="sampled_round_robin"), None),
        (StageConfig(tasks=ALL, order="smallest_round_robin", steps_per_epoch=1800), 60),
        (StageConfig(tasks=("qqp",), order="sampled_round_robin"), 60),
    ],
)
def test_an_epoch_is_shortened_unless_its_order_prevents_it(stage: StageConfig, steps: int | None) -> None:
    assert demo_steps(stage) == steps


def test_other_settings_of_a_stage_stay() -> None:
    stage = StageConfig(tasks=ALL, extra_data=("snli",), order="annealed", annealing=0.5, start_from="best", epochs=9)
    (short,) = demo_stages([stage])
    assert dataclasses.replace(short, epochs=9, steps_per_epoch=stage.steps_per_epoch) == stage
