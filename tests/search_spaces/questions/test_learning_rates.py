"""The grid of Triple Threat's table 12."""

from mtlib.tasks import TASKS
from search_spaces.presets import general, triple_threat
from search_spaces.questions.learning_rates import SPACE, make_space
from search_spaces.space import grid_configs

RATES = [1e-6, 5e-6, 1e-5, 2e-5, 4e-5, 8e-5, 16e-5]


def test_the_grid_is_the_first_column_of_table_12() -> None:
    assert [config.optimizer.learning_rate for config in grid_configs(SPACE)] == RATES
    assert SPACE.base == triple_threat()


def test_the_rate_of_the_general_settings_is_among_those_for_other_tasks() -> None:
    tasks = {"sst": TASKS["sst"]}
    assert general(tasks) in grid_configs(make_space(tasks))
