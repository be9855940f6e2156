"""The demonstration's settings: every plan is shortened."""

import pytest

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.demo.overrides import DEMO_SETTINGS, demo_overrides, demo_stages, demo_steps

ALL = ("sst", "qqp", "sts")


def test_overrides_are_the_settings_and_what_shortens_the_stages() -> None:
    stages = (StageConfig(tasks=("qqp",), epochs=2), StageConfig(tasks=ALL, order="sampled_round_robin", epochs=13))
    config = TrialConfig(stages=stages)
    overrides = demo_overrides(config)
    assert overrides == {**DEMO_SETTINGS, "stages.0.steps_per_epoch": 60, "stages.1.epochs": 6}
    changed = config.override(overrides)
    assert changed.stages == demo_stages(stages)
    assert changed.override(demo_overrides(changed)) == changed


@pytest.mark.parametrize(("epochs", "shortened"), [((7,), [6]), ((10, 2, 10), [2, 2, 6]), ((1, 5), [1, 5])])
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
        (StageConfig(tasks=("qqp",), steps_per_epoch=61), 60),
        (StageConfig(tasks=("qqp",), steps_per_epoch=59), 59),
        (StageConfig(tasks=ALL, sum_losses=True), 25),
        (StageConfig(tasks=ALL, order="sampled_round_robin"), None),
        (StageConfig(tasks=ALL, order="smallest_round_robin", steps_per_epoch=1800), 60),
    ],
)
def test_an_epoch_is_shortened_unless_its_order_prevents_it(stage: StageConfig, steps: int | None) -> None:
    assert demo_steps(stage) == steps
