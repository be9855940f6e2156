"""The grid of Triple Threat's table 9."""

from search_spaces.presets import triple_threat
from search_spaces.questions.loss_weights import SPACE
from search_spaces.space import grid_configs, grid_trials

TABLE_9 = [(0.1, 1, 0.1), (0.1, 1, 0.2), (0.1, 2, 0.4), (0.1, 3, 0.6), (0.1, 1, 0.4)]


def test_the_grid_is_the_first_column_of_table_9() -> None:
    weights = [
        tuple(config.tasks[task].loss_weight for task in ("sst", "qqp", "sts")) for config in grid_configs(SPACE)
    ]
    assert weights == TABLE_9
    assert grid_trials(SPACE)[3] == {"loss_weights": "0.1-3-0.6"}


def test_losses_are_summed_into_one_step() -> None:
    assert all(stage.sum_losses for config in grid_configs(SPACE) for stage in config.stages)
    assert SPACE.base == triple_threat()
