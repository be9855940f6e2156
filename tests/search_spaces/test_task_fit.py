"""Spaces for the tasks that the data has: the paper's base, definitions of the data's own, or a base for any tasks."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from mtlib.tasks import TASKS, Task, TaskFiles
from search_spaces.presets import general
from search_spaces.space import SearchSpace, load_space, space_names
from search_spaces.space_file import find_space
from search_spaces.task_fit import fit_space, trained_tasks
from tests.one_line_error import one_line_error

TONE = Task(
    name="tone",
    title="Tone",
    kind="classes",
    label_range=(0.0, 2.0),
    labels=("bad", "fine", "good"),
    text_columns=("text",),
    label_column="tone",
    files=TaskFiles(train="train.jsonl", dev="dev.jsonl"),
)
GRADES = replace(TONE, name="grades", kind="regression", label_range=(0.0, 100.0), labels=(), metric="rmse")
OWN: Mapping[str, Task] = {"tone": TONE, "grades": GRADES}

ANY_TASKS = (
    "batch_sizes",
    "general_settings",
    "joint",
    "layer_decay",
    "learning_rates",
    "loss_weights",
    "orders",
    "pals",
    "smart_lambda",
    "surgery",
)
"""Spaces that are not about one paper."""
NEED_TWO = ("loss_weights", "orders", "surgery")


@pytest.mark.parametrize("name", space_names())
def test_built_in_tasks_keep_the_space_of_the_paper(name: str) -> None:
    assert find_space(name, TASKS) == (load_space(name), None)


@pytest.mark.parametrize("name", ANY_TASKS)
def test_spaces_that_are_not_about_a_paper_are_for_any_tasks(name: str) -> None:
    for tasks in (OWN, {**TASKS, **OWN}, {"tone": TONE}, {"grades": GRADES}):
        if len(tasks) < 2 and name in NEED_TWO:
            assert one_line_error(find_space, name, tasks).endswith("of at least 2 tasks, got 1")
            continue
        space, _ = find_space(name, tasks)
        assert (space.name, space.base.data.tasks) == (name, tasks)
        assert {config.active_tasks for config in space.configs} == {general(tasks).active_tasks}
        assert space.base.optimizer.schedule == "slanted_triangular"
        assert space.published == ()


@pytest.mark.parametrize("name", sorted(set(space_names()) - set(ANY_TASKS)))
def test_spaces_about_a_paper_name_the_tasks_that_they_need(name: str) -> None:
    message = one_line_error(find_space, name, OWN)
    assert message.startswith(f"space '{name}' is about sst")
    assert message.endswith("which the data must have, got grades, tone")


def test_a_papers_settings_are_kept_with_definitions_of_the_data() -> None:
    own = {**TASKS, "sts": replace(TASKS["sts"], metric="spearman", files=TaskFiles(train="a.csv", dev="b.csv"))}
    before = load_space("smart_lambda")
    space, _ = find_space("smart_lambda", own)
    assert space.base.data.tasks == own
    assert (space.base.tasks, space.base.stages, space.grid) == (before.base.tasks, before.base.stages, before.grid)
    assert space.base.content_hash != before.base.content_hash
    assert space.published == before.published


def test_further_tasks_of_the_data_do_not_change_a_papers_configurations() -> None:
    before, (space, _) = load_space("encodings"), find_space("encodings", {**TASKS, **OWN})
    assert [config.content_hash for config in space.configs] == [config.content_hash for config in before.configs]


def test_all_tasks_that_some_trial_trains_must_be_there() -> None:
    assert trained_tasks(load_space("sentiment_losses")) == {"sst"}
    kept, _ = find_space("sentiment_losses", {"sst": TASKS["sst"], **OWN})
    assert kept.base.active_tasks == ("sst",)
    assert trained_tasks(load_space("single_task_smart")) == {"sst", "qqp", "sts"}
    message = one_line_error(find_space, "single_task_smart", {"sst": TASKS["sst"], "qqp": TASKS["qqp"]})
    assert message.endswith("about sst, qqp, sts, which the data must have, got sst, qqp")


def test_a_space_is_made_unless_the_data_has_exactly_its_tasks() -> None:
    calls: list[Mapping[str, Task]] = []

    def make(tasks: Mapping[str, Task]) -> SearchSpace:
        calls.append(tasks)
        return replace(load_space("layer_decay"), base=general(tasks))

    space = load_space("layer_decay")
    assert fit_space(space, make, TASKS) is space
    assert not calls
    assert fit_space(space, make, OWN).base == general(OWN)
    assert fit_space(None, make, TASKS).base == general(TASKS)
    assert calls == [OWN, TASKS]


def test_a_space_is_made_for_the_tasks_that_are_chosen_for_all_its_stages() -> None:
    tasks = {**OWN, "spam": replace(TONE, name="spam")}
    space, _ = find_space("loss_weights", tasks, {"stages.0.tasks": "tone,spam"})
    assert set(space.base.data.tasks) == {"tone", "spam"}
    assert set(space.grid["loss_weights"]) == {"equal", "tone_half", "tone_double", "spam_half", "spam_double"}
    for text in ("tone,spma", ""):
        assert set(find_space("loss_weights", tasks, {"stages.0.tasks": text})[0].base.data.tasks) == set(tasks)


def test_a_stage_whose_tasks_are_not_chosen_keeps_all() -> None:
    def make(tasks: Mapping[str, Task]) -> SearchSpace:
        base = general(tasks)
        return replace(load_space("layer_decay"), base=replace(base, stages=base.stages * 2))

    first = {"stages.0.tasks": "tone"}
    assert fit_space(None, make, OWN, first).base.active_tasks == ("grades", "tone")
    assert fit_space(None, make, OWN, {**first, "stages.1.tasks": "tone"}).base.active_tasks == ("tone",)


def test_chosen_tasks_of_the_paper_keep_its_settings() -> None:
    assert find_space("smart_lambda", TASKS, {"stages.0.tasks": "sst"})[0] is load_space("smart_lambda")


OTHER_SST = replace(TASKS["sst"], label_range=(0.0, 1.0), files=TaskFiles(train="a.csv", dev="b.csv"))


@pytest.mark.parametrize("other", [OTHER_SST, replace(TASKS["sst"], text_columns=("one", "two"))])
def test_tasks_with_a_papers_names_but_of_other_shapes_do_not_get_its_settings(other: Task) -> None:
    tasks = {**TASKS, "sst": other}
    assert find_space("smart_lambda", tasks)[0].base == general(tasks)
    shape = "classes of 2, one text" if other is OTHER_SST else "classes of 5, two texts"
    message = one_line_error(find_space, "encodings", tasks)
    assert message == f"space 'encodings' is about sst as classes of 5, one text, got {shape}"
