"""The configurations of Triple Threat's tables 15 and 16."""

import dataclasses

from search_spaces.presets import BEST_LAYERS, triple_threat
from search_spaces.questions.long_runs import SPACE
from search_spaces.space import grid_configs, grid_trials

CONFIGS = {t["configuration"]: config for t, config in zip(grid_trials(SPACE), grid_configs(SPACE), strict=True)}


def test_heads_weights_and_epochs_are_those_of_the_tables() -> None:
    found = {
        name: (
            {task.hidden_units for task in config.tasks.values()},
            tuple(config.tasks[task].loss_weight for task in ("sst", "qqp", "sts")),
            sum(stage.epochs for stage in config.stages),
        )
        for name, config in CONFIGS.items()
    }
    assert found == {
        "A": ({120}, (0.1, 1.0, 0.2), 200),
        "B": ({120}, (0.1, 2.0, 0.4), 200),
        "C": ({80}, (0.1, 2.0, 0.4), 200),
        "D": ({None}, (0.1, 2.0, 0.4), 150),
        "E": ({120}, (0.1, 1.0, 0.2), 200),
    }


def test_e_is_a_with_double_rates_on_each_tasks_best_layers_and_steps_of_one_task() -> None:
    config = CONFIGS["E"]
    assert (config.optimizer.other_scale, config.optimizer.chosen_scale) == (1.0, 2.0)
    assert tuple(config.tasks[task].chosen_layers for task in ("sst", "qqp", "sts")) == BEST_LAYERS
    assert not config.stages[0].sum_losses
    plain = {f"tasks.{task}.chosen_layers": () for task in config.tasks}
    as_in_a = {"stages.0.sum_losses": True, "optimizer.other_scale": 1.0, "optimizer.chosen_scale": 1.0}
    assert config.override({**as_in_a, **plain}) == CONFIGS["A"]


def test_the_rest_is_triple_threat() -> None:
    for name in "ABCD":
        config = dataclasses.replace(CONFIGS[name], tasks=triple_threat().tasks, stages=triple_threat().stages)
        assert config == triple_threat()
        assert CONFIGS[name].stages[0].sum_losses
