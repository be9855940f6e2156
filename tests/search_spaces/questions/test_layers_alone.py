"""The grid of Triple Threat's table 5."""

from search_spaces.presets import triple_threat
from search_spaces.questions.layers_alone import SPACE
from search_spaces.space import grid_configs, grid_trials

CONFIGS = grid_configs(SPACE)


def test_every_task_trains_every_layer_alone() -> None:
    found = [(config.active_tasks, config.encoder.trained_layers) for config in CONFIGS]
    assert found == [((task,), (layer,)) for task in ("sst", "qqp", "sts") for layer in range(12)]
    assert grid_trials(SPACE)[13] == {"task": "qqp", "layer": "1"}


def test_each_trial_has_10_epochs_over_all_rows_at_the_settings_of_section_5_5() -> None:
    for config in CONFIGS:
        (stage,) = config.stages
        assert (stage.epochs, stage.steps_per_epoch) == (10, None)
        assert (config.optimizer.learning_rate, config.optimizer.layer_decay) == (1e-5, 1.0)
        assert config.tasks["qqp"].encoding == config.tasks["sts"].encoding == "cross_no_separator"
        assert {task.loss_weight for task in config.tasks.values()} == {1.0}
    assert SPACE.base.stages == triple_threat().stages
