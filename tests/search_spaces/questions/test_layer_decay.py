"""The grid of Triple Threat's table 10."""

from search_spaces.presets import triple_threat
from search_spaces.questions.layer_decay import SPACE
from search_spaces.space import grid_configs


def test_the_grid_is_the_first_column_of_table_10() -> None:
    assert [config.optimizer.layer_decay for config in grid_configs(SPACE)] == [1.0, 0.95, 0.9, 0.85, 0.8, 0.75]


def test_losses_have_the_weights_of_section_5_4() -> None:
    assert SPACE.base == triple_threat()
    assert [SPACE.base.tasks[task].loss_weight for task in ("sst", "qqp", "sts")] == [0.1, 1.0, 0.2]
