"""Presets: what papers have by default, settings for any tasks, and values that pages suggest."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mtlib.config.trial import TrialConfig
from mtlib.demo.overrides import demo_overrides
from mtlib.tasks import TASKS
from search_spaces.domain import Float
from search_spaces.presets import (
    bert_and_beyond,
    by_task,
    general,
    joined_name,
    triple_threat,
    tuning_up_bert,
)
from search_spaces.space import value_in
from search_spaces.vary import vary


@pytest.mark.parametrize("preset", [bert_and_beyond, triple_threat, tuning_up_bert])
def test_what_papers_leave_at_its_default_is_as_they_have_it(preset: Callable[[], TrialConfig]) -> None:
    config = preset()
    assert {task.batch_size for task in config.tasks.values()} == {16}
    assert (config.optimizer.beta1, config.optimizer.beta2, config.optimizer.schedule) == (0.9, 0.999, "constant")
    assert (config.tasks["sst"].loss, config.tasks["sts"].loss) == ("cross_entropy", "mean_squared_error")
    assert {task.head for task in config.tasks.values()} == {"linear"}
    if preset is not triple_threat:
        assert {config.tasks[name].encoding for name in ("qqp", "sts")} == {"cross"}


@pytest.mark.parametrize("tasks", [("sst", "qqp", "sts"), ("sts",), ("sst", "qqp"), ("qqp",)])
def test_general_settings_are_for_any_tasks(tasks: tuple[str, ...]) -> None:
    config = general({task: TASKS[task] for task in tasks})
    assert config.active_tasks == tasks
    assert {task: config.tasks[task].target_scale for task in tasks} == {
        task: "unit" if task == "sts" else "raw" for task in tasks
    }


def test_one_key_turns_on_a_penalty_or_pals_of_the_general_settings() -> None:
    for tasks in (("sst", "qqp", "sts"), ("sts",)):
        for key in ("smart.weight", "proximal.weight", "simcse.weight", "pals.size"):
            changed = general({task: TASKS[task] for task in tasks}).override({key: 12})
            assert changed.tasks_by_group[f"{key.split('.')[0]}.tasks"], key
    assert general(TASKS).smart.tasks == ("sst", "qqp")
    assert general({"sts": TASKS["sts"]}).smart.tasks == ("sts",)


def test_a_field_of_several_tasks_has_a_value_for_each() -> None:
    assert by_task("batch_size", (1, 2), ("qqp", "sts")) == {"tasks.qqp.batch_size": 1, "tasks.sts.batch_size": 2}
    with pytest.raises(ValueError):
        by_task("batch_size", (1, 2))
    assert joined_name((16, 16.0, 0.1)) == "16-16-0.1"


SUGGESTING = ("README.md", "docs/tasks.md", "docs/searching.md", "mtlib/data/__main__.py", "sweeps/cli/arguments.py")


@pytest.mark.parametrize("page", SUGGESTING)
def test_suggested_values_have_the_presets_own_among_them(page: str) -> None:
    """Of `auto`, which is decided as one of the values, as well."""
    text = (Path(__file__).parents[2] / page).read_text()
    typed = re.findall(r"^(.*)--vary ([a-z_]+[a-z_.0-9]*)=([\w.,:-]+\w)", text, re.MULTILINE)
    assert typed
    for command, key, values in typed:
        base = general(TASKS)
        if page == "README.md" and "--data" not in command:  # it varies settings of the demonstration
            base = base.override(demo_overrides(base))
        space, own = vary(base, "overall", {key: values}), value_in(base, key)
        listed = [value for values in space.grid.values() for value in values]
        ranges = [one for one in space.ranges.values() if isinstance(one, Float) and one.low <= own <= one.high]
        assert own in (*listed, "auto") or ranges, (key, values, own)
