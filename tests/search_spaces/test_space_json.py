"""A space that was built in Python: read again it has the same trials, and what JSON cannot hold is refused."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from mtlib.config.methods import read_methods
from mtlib.config.trial import with_methods
from mtlib.tasks import TASKS
from search_spaces.domain import Condition, Float
from search_spaces.presets import general
from search_spaces.space import SearchSpace, grid_trials, list_spaces
from search_spaces.space_file import find_space
from search_spaces.space_json import space_from_json, space_to_json
from tests.mtlib.config.test_own_methods import FILE
from tests.one_line_error import one_line_error


def space_with(grid: Any, **changes: Any) -> SearchSpace:
    base = general({"sst": TASKS["sst"]})
    return SearchSpace(**{"name": "mine", "question": "?", "base": base, "grid": grid, **changes})


@pytest.mark.parametrize("space", list_spaces(), ids=lambda space: space.name)
def test_every_built_in_space_has_the_same_trials_when_it_is_read_again(space: SearchSpace) -> None:
    again = space_from_json(space_to_json(space))
    assert (again.content_hash, again.configs, again.published) == (space.content_hash, space.configs, space.published)


def test_ranges_conditions_and_keys_that_vary_together_are_read_back() -> None:
    both = ("smart.step_size", "smart.num_steps")
    space = space_with(
        {"smart.weight": (0.0, 1.0), both: ((1e-5, 1), (1e-3, 2)), "tasks.sst.prefix": ("a, b: ", "")},
        ranges={"optimizer.learning_rate": Float(low=1e-5, high=1e-3, log=True)},
        conditions={"optimizer.learning_rate": Condition(key="smart.weight", values=(1.0,))},
    )
    found, kept = find_space(space, {"sst": TASKS["sst"]})
    assert found == space
    assert kept is not None
    assert space_from_json(kept) == space


def test_grid_that_was_wider_step_by_step_keeps_its_numbers() -> None:
    space = space_with({"smart.weight": (0.0, 0.5, 1.0)}, smaller_grids=({"smart.weight": (0.0, 1.0)},))
    assert grid_trials(space_from_json(space_to_json(space))) == grid_trials(space)


def test_name_of_a_built_in_space_is_refused() -> None:
    space = space_with({"smart.weight": (0.0, 1.0)}, name="smart_lambda")
    message = one_line_error(find_space, space, {"sst": TASKS["sst"]})
    assert (
        message
        == "a space that is built in Python must have a name that no built-in space has, got name='smart_lambda'"
    )


def test_lists_and_numpy_floats_are_read_as_tuples_and_numbers() -> None:
    space = space_with({"pals.tasks": [["sst"], []], "smart.weight": list(np.linspace(0.5, 1, 2))})
    again = space_from_json(space_to_json(space))
    assert grid_trials(again)[0] == {"pals.tasks": ("sst",), "smart.weight": 0.5}
    assert again.configs == space.configs


def test_base_keeps_methods_of_the_users_own(tmp_path: Any) -> None:
    file = tmp_path / "mine.py"
    file.write_text(FILE)
    space = space_with({"smart.weight": (0.0, 1.0)})
    space = dataclasses.replace(space, base=with_methods(space.base, read_methods([file])))
    again = space_from_json(space_to_json(space))
    assert again.base.methods.files == space.base.methods.files


@pytest.mark.parametrize("value", [np.int64(3), object(), float("nan")])
def test_value_that_json_cannot_hold_is_refused(value: Any) -> None:
    space = space_with({"smart.weight": (0.0, 1.0)})
    object.__setattr__(space, "grid", {"smart.weight": (value,)})
    assert one_line_error(space_to_json, space).startswith(
        "space 'mine' must hold plain values, as it is kept with the sweep, got: "
    )


def test_anything_else_is_no_space() -> None:
    for content in (b"{}", b"[]", b"x"):
        assert one_line_error(space_from_json, content).startswith("a search space must be as it was written, got: ")
