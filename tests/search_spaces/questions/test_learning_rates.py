"""Learning rates for tasks of no paper."""

from mtlib.tasks import TASKS
from search_spaces.presets import general
from search_spaces.questions.learning_rates import make_space
from search_spaces.space import grid_configs


def test_the_rate_of_the_general_settings_is_among_those_for_other_tasks() -> None:
    tasks = {"sst": TASKS["sst"]}
    assert general(tasks) in grid_configs(make_space(tasks))
