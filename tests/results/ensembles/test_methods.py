"""The table of selection methods is complete."""

import pytest

from mtlib.tasks import TASKS, Task
from results.ensembles.methods import COMMAND_LINE_METHODS, SELECTION_METHODS, TITLES, method_lines, methods_for

CLASSES, BINARY, REGRESSION = TASKS["sst"], TASKS["qqp"], TASKS["sts"]


@pytest.mark.parametrize("task", [CLASSES, BINARY])
def test_ranks_are_averaged_for_regression_only(task: Task) -> None:
    assert list(methods_for(REGRESSION)) == list(SELECTION_METHODS)
    assert list(methods_for(task)) == [name for name in SELECTION_METHODS if name != "topk_ranks"]
    with pytest.raises(
        ValueError, match=f"^method topk_ranks must be used for tasks of kind regression .* got {task.name}$"
    ):
        methods_for(task, "topk_ranks")


@pytest.mark.parametrize(
    ("requested", "found"),
    [("greedy", ["single", "greedy"]), ("single", ["single"]), ("one_model", ["single"]), ("soup", ["single"])],
)
def test_requested_method_is_listed_with_the_best_single(requested: str, found: list[str]) -> None:
    assert list(methods_for(BINARY, requested)) == found
    assert all(methods_for(BINARY, requested)[name] is SELECTION_METHODS[name].choose for name in found)


def test_every_method_has_a_title() -> None:
    assert set(TITLES) >= {*SELECTION_METHODS, "auto"}
    assert len(set(TITLES.values())) == len(TITLES)


def test_help_has_a_line_for_every_method() -> None:
    lines = method_lines().splitlines()
    assert [line.split()[0] for line in lines] == list(COMMAND_LINE_METHODS)
    assert [line for line in lines if line.endswith("(tasks of kind regression)")] == [lines[4]]
