"""The grid of Tuning Up BERT's table 3."""

import dataclasses

from search_spaces.presets import tuning_up_bert
from search_spaces.questions.single_task_smart import SPACE
from search_spaces.space import grid_configs

CONFIGS = grid_configs(SPACE)


def test_each_task_is_trained_alone_with_the_weights_of_table_3() -> None:
    found = [(config.active_tasks, config.smart.weight) for config in CONFIGS]
    assert found == [((task,), weight) for task in ("sst", "qqp", "sts") for weight in (0.0, 1.0, 3.0)]
    assert all(set(config.active_tasks) <= set(config.smart.tasks) for config in CONFIGS)


def test_the_plans_are_those_of_section_5_2() -> None:
    plans = {config.active_tasks[0]: [(s.epochs, s.steps_per_epoch) for s in config.stages] for config in CONFIGS}
    assert plans == {"sst": [(150, 50)], "qqp": [(25, 2500)], "sts": [(150, 50)]}


def test_the_rest_is_tuning_up_bert_and_sst_train_rows_are_scored() -> None:
    plain = tuning_up_bert()
    assert {dataclasses.replace(config, stages=plain.stages, smart=plain.smart) for config in CONFIGS} == {plain}
    assert plain.tasks["sst"].scored_train_rows > 0
