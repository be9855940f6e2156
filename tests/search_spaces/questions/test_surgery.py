"""Sums, tuned weights, learned weights and gradient methods have as many trials each."""

from collections import Counter

import pytest

from mtlib.tasks import TASKS
from search_spaces.questions.surgery import SPACE, make_space
from search_spaces.space import grid_configs, grid_trials


@pytest.mark.parametrize("tasks", [("sst", "qqp", "sts"), ("sst", "sts"), tuple(TASKS)])
def test_every_group_has_as_many_trials(tasks: tuple[str, ...]) -> None:
    space = make_space({task: TASKS[task] for task in tasks})
    groups = Counter(str(trial["method"]).partition("_")[0] for trial in grid_trials(space))
    assert groups == dict.fromkeys(("sum", "tuned", "learned", "surgery"), 4)


def test_every_trial_takes_the_same_steps() -> None:
    assert {config.stages for config in grid_configs(SPACE)} == {SPACE.base.stages}
    assert SPACE.base.stages[0].sums_tasks
