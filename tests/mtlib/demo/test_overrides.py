"""The demonstration's settings: every plan is shortened; the staggered one is pinned."""

import pytest

from mtlib.config.data import DataConfig
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig, default_task_config
from mtlib.demo.overrides import DEMO_NOTE, DEMO_SETTINGS, demo_overrides, demo_stages, demo_steps
from mtlib.tasks import TASKS
from tests.method_tables import ROUND_ORDERS

ALL = ("sst", "qqp", "sts")


def test_the_overrides_of_the_staggered_plan_are_pinned() -> None:
    stages = (StageConfig(tasks=("qqp",), epochs=2), StageConfig(tasks=ALL, order="sampled_round_robin", epochs=13))
    config = TrialConfig(stages=stages)
    as_it_was = {**DEMO_SETTINGS, "stages.0.epochs": 2, "stages.0.steps_per_epoch": 60, "stages.1.epochs": 6}
    assert config.override(demo_overrides(config)) == config.override(as_it_was)


def test_tasks_that_a_configuration_lacks_have_no_overrides() -> None:
    config = TrialConfig(
        stages=(StageConfig(tasks=("sst",)),),
        data=DataConfig(tasks={"sst": TASKS["sst"]}),
        tasks={"sst": default_task_config(TASKS["sst"])},
    )
    overrides = demo_overrides(config)
    assert [key for key in overrides if key.startswith("tasks.")] == [
        "tasks.sst.batch_size",
        "tasks.sst.scored_train_rows",
    ]
    assert config.override(overrides).tasks["sst"].batch_size == 32


@pytest.mark.parametrize(
    ("epochs", "shortened"), [((1,), [1]), ((6,), [6]), ((7,), [6]), ((10, 10, 10), [2, 2, 6]), ((1, 25), [1, 6])]
)
def test_the_last_stage_has_at_most_six_epochs_and_earlier_ones_two(
    epochs: tuple[int, ...], shortened: list[int]
) -> None:
    stages = [StageConfig(tasks=("sst",), epochs=count) for count in epochs]
    assert [stage.epochs for stage in demo_stages(stages)] == shortened


@pytest.mark.parametrize(
    ("stage", "steps"),
    [
        (StageConfig(tasks=("qqp",)), 60),
        (StageConfig(tasks=("qqp",), steps_per_epoch=2500), 60),
        (StageConfig(tasks=("qqp",), steps_per_epoch=59), 59),
        (StageConfig(tasks=ALL, order="uniform", steps_per_epoch=1000), 60),
        (StageConfig(tasks=ALL, order="max_size_cycle"), 60),
        (StageConfig(tasks=ALL, order="epoch_round_robin", epochs=3), 60),
        (StageConfig(tasks=ALL, sum_losses=True), 25),
        (StageConfig(tasks=ALL, sum_losses=True, steps_per_epoch=3), 3),
        (StageConfig(tasks=("sst",), sum_losses=True), 60),
        (StageConfig(tasks=ALL, order="sampled_round_robin"), None),
        (StageConfig(tasks=ALL, order="sampled_round_robin", sum_losses=True), None),
        (StageConfig(tasks=ALL, order="sequential"), None),
        (StageConfig(tasks=ALL, order="smallest_round_robin", steps_per_epoch=1800), 60),
        (StageConfig(tasks=("qqp",), order="sampled_round_robin"), 60),
    ],
)
def test_an_epoch_is_shortened_unless_its_order_prevents_it(stage: StageConfig, steps: int | None) -> None:
    assert demo_steps(stage) == steps


def test_other_settings_of_a_stage_stay() -> None:
    stages = [
        StageConfig(tasks=("qqp",), epochs=25),
        StageConfig(tasks=ALL, extra_data=("snli",), order="annealed", annealing=0.5, start_from="best"),
    ]
    first, second = demo_stages(stages)
    assert (first.tasks, first.order) == (("qqp",), "batch_round_robin")
    assert (second.tasks, second.extra_data, second.order, second.annealing, second.start_from) == (
        ALL,
        ("snli",),
        "annealed",
        0.5,
        "best",
    )


@pytest.mark.parametrize("order", ROUND_ORDERS)
def test_the_overrides_fit_any_plan(order: str) -> None:
    stage = {"tasks": ALL, "order": order, "sum_losses": True, "epochs": 9}
    config = TrialConfig(stages=(StageConfig(tasks=("sst",)),)).override({"stages": [stage, stage, stage]})
    changed = config.override(demo_overrides(config))
    assert changed.stages == demo_stages(config.stages)
    assert (changed.optimizer.learning_rate, changed.encoder.max_length) == (1e-3, 40)
    assert changed.override(demo_overrides(changed)) == changed


def test_the_note_lists_the_differences() -> None:
    for word in ("learning rate 1e-3", "no dropout", "batches of 32", "averaged", "short epochs"):
        assert word in DEMO_NOTE
