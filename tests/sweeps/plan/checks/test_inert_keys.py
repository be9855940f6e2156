"""Searched keys without an effect are refused before the first trial; keys that matter somewhere pass."""

from collections.abc import Mapping
from typing import Any

import pytest

from mtlib.tasks import TASKS
from search_spaces.domain import Choice, Condition, Float
from search_spaces.presets import general
from search_spaces.space import SearchSpace, list_spaces
from sweeps.plan.checks.inert_keys import check_keys_matter

RANK = {"adapter.rank": (4, 8)}
EPSILON = {"smart.epsilon": Float(low=1e-6, high=1e-4, log=True)}


def space_of(**parts: Any) -> SearchSpace:
    """A space around the general settings, which have neither an adapter nor SMART; ranges alone are drawn."""
    changes: Mapping[str, Any] = parts.pop("base", {})
    base = general(TASKS).override({"smart.weight": 0, **changes})
    return SearchSpace(name="mine", question="Which?", base=base, **parts)


@pytest.mark.parametrize(
    "parts",
    [
        {"grid": RANK},
        {"grid": {**RANK, "seed": (0, 1)}},
        {"ranges": EPSILON},
        {"grid": RANK, "ranges": {"optimizer.learning_rate": Float(low=1e-5, high=1e-4)}},
        {"grid": {("adapter.rank", "adapter.alpha"): ((4, 8), (8, 16))}},
    ],
)
def test_a_key_that_trains_the_same_with_all_values_is_refused(parts: Mapping[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"(adapter\.rank|smart\.epsilon).* must change what is trained"):
        check_keys_matter(space_of(**parts))


@pytest.mark.parametrize(
    "parts",
    [
        {"base": {"adapter.method": "lora"}, "grid": RANK},
        {"grid": {**RANK, "adapter.method": ("none", "lora")}},
        {"grid": {"adapter.rank": (4,), "seed": (0, 1)}},  # a single value searches nothing
        {"grid": {"encoder.name": ("first", "second")}},
        {"grid": {"data.hold_out": (0.1, 0.2)}},
        {"ranges": {**EPSILON, "smart.weight": Float(low=0, high=1)}},
        {
            "ranges": {"adapter.method": Choice(values=("none", "lora")), "adapter.rank": Choice(values=(4, 8))},
            "conditions": {"adapter.rank": Condition(key="adapter.method", values=("lora",))},
        },
        {"base": {"precision": "auto"}, "grid": {"optimizer.learning_rate": (1e-4, 1e-3)}},
    ],
)
def test_a_key_that_matters_for_some_value_of_another_passes(parts: Mapping[str, Any]) -> None:
    check_keys_matter(space_of(**parts))


def test_every_key_of_the_built_in_spaces_matters() -> None:
    for space in list_spaces():
        check_keys_matter(space)
