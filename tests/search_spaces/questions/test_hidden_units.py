"""The grid of Triple Threat's tables 13 and 14."""

from search_spaces.presets import triple_threat
from search_spaces.questions.hidden_units import SPACE
from search_spaces.space import grid_configs, grid_trials


def test_the_grid_is_the_first_column_of_table_13_with_none_first() -> None:
    assert [trial["hidden_units"] for trial in grid_trials(SPACE)] == ["none", "10", "20", "40", "80", "120"]
    units = [{task.hidden_units for task in config.tasks.values()} for config in grid_configs(SPACE)]
    assert units == [{None}, {10}, {20}, {40}, {80}, {120}]


def test_a_trial_without_a_hidden_layer_is_triple_threat() -> None:
    assert grid_configs(SPACE)[0] == SPACE.base == triple_threat()
