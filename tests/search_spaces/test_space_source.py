"""The file of a space built in Python: read again it is the same space, and what no file can hold is refused."""

import dataclasses
import types
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mtlib.config.methods import read_methods
from mtlib.config.trial import with_methods
from mtlib.runtime.source_code import run_source
from mtlib.tasks import TASKS
from search_spaces.domain import Condition, Float
from search_spaces.presets import general
from search_spaces.space import Grid, SearchSpace, list_spaces
from search_spaces.space_file import read_space_file
from search_spaces.space_source import space_source
from tests.mtlib.config.test_own_methods import FILE


def read_back(space: SearchSpace) -> Any:
    module = types.ModuleType("written")
    run_source(space_source(space).encode(), "written.py", module)
    return module.SPACE


@pytest.mark.parametrize("space", list_spaces(), ids=lambda space: space.name)
def test_every_built_in_space_is_read_back_equal(space: SearchSpace) -> None:
    again = read_back(space)
    assert again == space
    assert again.content_hash == space.content_hash


def space_with(grid: Any, **changes: Any) -> SearchSpace:
    base = general({"sst": TASKS["sst"]})
    return SearchSpace(**{"name": "mine", "question": "?", "base": base, "grid": grid, **changes})


def test_ranges_conditions_and_keys_that_vary_together_are_read_back(tmp_path: Path) -> None:
    both = ("smart.step_size", "smart.num_steps")
    space = space_with(
        {"smart.weight": (0.0, 1.0), both: [(1e-5, 1), (1e-3, 2)]},
        ranges={"optimizer.learning_rate": Float(low=1e-5, high=1e-3, log=True)},
        conditions={"optimizer.learning_rate": Condition(key="smart.weight", values=(1.0,))},
    )
    path = tmp_path / "mine.py"
    path.write_text(space_source(space))
    assert read_space_file(path, TASKS)[0] == space


class Mode(StrEnum):
    PAPER = "paper"
    RANDOM = "random"


def test_enumerations_and_numpy_floats_are_written_as_plain_values() -> None:
    space = space_with({"smart.mode": tuple(Mode), "smart.weight": tuple(np.linspace(0.5, 1, 2))})
    text = space_source(space)
    assert "Mode" not in text
    assert "float64" not in text
    assert read_back(space).content_hash == space.content_hash


def test_question_with_quotes_and_lines_is_read_back() -> None:
    question = 'Is "it" Jo\'s?\nYes \\ no'
    assert read_back(space_with({"smart.weight": (0.0, 1.0)}, question=question)).question == question


def test_value_that_no_file_can_hold_is_refused() -> None:
    space = space_with({"smart.weight": (0.0, 1.0)})
    odd = dataclasses.replace(space)
    object.__setattr__(odd, "grid", {"smart.weight": (0.0, 1j)})
    with pytest.raises(ValueError, match=r"^space 'mine' must hold plain values, .*, got 1j$"):
        space_source(odd)


def test_stages_and_groups_with_settings_of_own_methods_are_written_as_plain_data(tmp_path: Path) -> None:
    """Their classes are made when a file of methods is read, and no file can import them."""
    (tmp_path / "mine.py").write_text(FILE)
    base = with_methods(general(TASKS), read_methods([tmp_path / "mine.py"]))
    settings: dict[str, Any] = {"order": "warm", "warm_power": 0.7}
    stage = dataclasses.replace(base.stages[0], **settings)
    changed = base.override({"twice.weight": 1.0, "twice.tasks": "sst"})
    group = changed.twice  # type: ignore[attr-defined]
    grid: Grid = {"plan": {"plain": {}, "warm": {"stages": (stage,)}, "both": {"stages": (stage,), "twice": group}}}
    space = SearchSpace(name="mine", question="?", base=base, grid=grid)
    again = read_back(space)
    assert [config.content_hash for config in again.configs] == [config.content_hash for config in space.configs]
    assert "methods_of_a_file" not in space_source(space)
