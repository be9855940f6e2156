"""Every change of the general settings is a configuration of its own, for the course's tasks and for others."""

from collections.abc import Mapping

import pytest

from mtlib.tasks import TASKS, Task
from search_spaces.presets import general
from search_spaces.questions.general_settings import SPACE, make_space
from search_spaces.space import grid_configs
from tests.search_spaces.test_task_fit import GRADES, OWN, TONE

FOR_SEVERAL_TASKS = {"learned_loss_weights", "any_number_of_passes"}
BY_TASKS = {"raw_targets", "pairs_in_one_input"} | FOR_SEVERAL_TASKS
ALWAYS = {"none", "first_token", "half_rate", "double_rate", "one_rate_for_all_layers", "constant_rate", "short_warmup"}


def test_first_configuration_is_the_general_one() -> None:
    assert grid_configs(SPACE)[0] == general(TASKS)


@pytest.mark.parametrize(
    ("tasks", "applying"),
    [
        (TASKS, BY_TASKS),
        (OWN, {"raw_targets"} | FOR_SEVERAL_TASKS),
        ({"tone": TONE}, set()),
        ({"grades": GRADES}, {"raw_targets"}),
    ],
)
def test_only_changes_that_apply_to_the_tasks_are_made(tasks: Mapping[str, Task], applying: set[str]) -> None:
    space = make_space(tasks)
    found = set(space.grid["change"])
    assert found >= ALWAYS
    assert found & BY_TASKS == applying
    configs = grid_configs(space)
    assert len({config.content_hash for config in configs}) == len(configs) == len(found)
