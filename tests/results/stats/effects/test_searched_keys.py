"""Searched keys, their values, base values and ranges are read from a sweep's records."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from mtlib.config.schema import to_dict
from results.records.trials import TrialRecord
from results.stats.effects.searched_keys import (
    NO_VALUE,
    SearchedKey,
    base_number,
    searched_keys,
    with_bases,
)
from search_spaces.domain import Float
from search_spaces.space import SearchSpace, describe_space, grid_trials, list_spaces
from sweeps.search.base_point import base_point

MakeRecord = Callable[..., TrialRecord]
BASE = {"smart": {"weight": 0.45}, "tasks": {"sst": {"batch_size": 16}}, "stages": [{"epochs": 3}]}


def info_of(grid: Sequence[Any] = (), ranges: Sequence[Any] = (), search: str = "grid") -> dict[str, Any]:
    return {"base": BASE, "search": search, "space": {"grid": list(grid), "ranges": list(ranges)}}


def records_of(make_record: MakeRecord, *params: Mapping[str, Any]) -> list[TrialRecord]:
    return [replace(make_record(number), params=own) for number, own in enumerate(params)]


def test_base_value_is_that_of_the_base_configuration_where_it_is_searched(make_record: MakeRecord) -> None:
    records = records_of(make_record, *({"smart.weight": weight} for weight in (0.0, 0.45, 1.0)))
    (key,) = searched_keys(info_of([["smart.weight", [0.0, 0.45, 1.0]]]), records)
    assert key == SearchedKey(name="smart.weight", values=(0.0, 0.45, 1.0), own_base=0.45, base=0.45)
    assert key.base_title == "base value"
    assert with_bases([key], {"smart.weight": 0.0})[0].base_title == "given value"


def test_no_value_takes_the_place_of_a_base_value_that_was_not_trained(make_record: MakeRecord) -> None:
    records = records_of(make_record, *({"smart.weight": weight} for weight in (0.0, 1.0)))
    (key,) = searched_keys(info_of([["smart.weight", [0.0, 1.0]]]), records)
    assert (key.own_base, key.base, key.base_title) == (0.45, NO_VALUE, "value with the best mean")
    assert with_bases([key], {"smart.weight": 1.0})[0].base_title == "given value"


def test_named_overrides_that_change_the_base_have_no_base(make_record: MakeRecord) -> None:
    grid = [["loss", {"cross_entropy": {"a": 1}, "ordinal": {"a": 2}}]]
    (key,) = searched_keys(info_of(grid), records_of(make_record, {"loss": "ordinal"}, {"loss": "cross_entropy"}))
    assert (key.values, key.base) == (("cross_entropy", "ordinal"), NO_VALUE)


def test_keys_that_vary_together_are_one(make_record: MakeRecord) -> None:
    name = "tasks.sst.batch_size + stages.0.epochs"
    params = [{"tasks.sst.batch_size": size, "stages.0.epochs": epochs} for size, epochs in ((8, 2), (16, 3))]
    records = records_of(make_record, *params)
    (key,) = searched_keys(info_of([[name, [[8, 2], [16, 3]]]]), records)
    assert (key.values, key.base) == (((8, 2), (16, 3)), (16, 3))
    assert [key.value_of(own) for own in params] == [(8, 2), (16, 3)]


@pytest.mark.parametrize(("sizes", "base"), [((16, 16, 99), 16), ((16, 32, 99), NO_VALUE)])
def test_base_value_of_a_star_is_what_all_trained_tasks_have(
    sizes: Sequence[int], base: Any, make_record: MakeRecord
) -> None:
    tasks = {task: {"batch_size": size} for task, size in zip(("sst", "qqp", "sts"), sizes, strict=True)}
    info = info_of([["tasks.*.batch_size", [8, 16]]])
    info["base"] = {"tasks": tasks, "stages": [{"tasks": ["sst"]}, {"tasks": ["sst", "qqp"]}]}
    (key,) = searched_keys(info, records_of(make_record, {"tasks.*.batch_size": 8}, {"tasks.*.batch_size": 16}))
    assert key == SearchedKey(name="tasks.*.batch_size", values=(8, 16), own_base=base, base=base)


@pytest.mark.parametrize(
    ("params", "number"),
    [
        ([{"smart.weight": 0.0}, {"smart.weight": 1.0}], None),
        ([{"smart.weight": 0.0}, {"smart.weight": 0.45}, {"smart.weight": 0.45}], 1),
        ([{"smart.weight": 0.45, "tasks.sst.batch_size": 8}, {"smart.weight": 0.45, "tasks.sst.batch_size": 16}], 1),
        ([{"loss": "ordinal"}], None),
        ([{"smart.weight": None}, {"smart.weight": 0.45}], 1),  # a value None is no value of the base
        ([{"smart.weight": 1.0, "tasks.sst.batch_size": None}, {"smart.weight": 0.45}], 1),  # not all draw every key
    ],
)
def test_base_configuration_is_the_first_with_its_value_of_every_key(
    params: Sequence[Mapping[str, Any]], number: int | None, make_record: MakeRecord
) -> None:
    """A name of the space's own that stands for no value of the base never matches."""
    records = records_of(make_record, *params)
    grid: list[tuple[str, Any]] = [("smart.weight", [0.0, 0.45, 1.0]), ("tasks.sst.batch_size", [8, 16])]
    grid.append(("loss", {"ordinal": {"a": 2}}))
    keys = searched_keys(info_of([[name, values] for name, values in grid if name in params[0]]), records)
    assert base_number(keys, records) == number


@pytest.mark.parametrize("space", list_spaces(), ids=lambda space: space.name)
def test_the_base_of_every_built_in_space_is_the_point_that_is_its_base_configuration(
    space: SearchSpace, make_record: MakeRecord
) -> None:
    point = base_point(space)
    info = json.loads(json.dumps({"space": describe_space(space), "base": to_dict(space.base), "search": "grid"}))
    keys = searched_keys(info, records_of(make_record, *grid_trials(space)))
    if point is not None:
        assert {key.name: key.value_of(point) for key in keys} == {key.name: key.own_base for key in keys}
    else:
        assert any(key.base is NO_VALUE for key in keys)


def test_ranges_count_in_a_search_and_not_in_a_grid(make_record: MakeRecord) -> None:
    grid, ranges = (
        [["smart.weight", [0.0, 3.0]]],
        [["smart.weight", {"Float": {"low": 0.0, "high": 3.0, "log": False}}]],
    )
    records = records_of(make_record, {"smart.weight": 0.0}, {"smart.weight": 3.0})
    (key,) = searched_keys(info_of(grid, ranges, "tpe"), records)
    assert (key.values, key.range) == ((), Float(low=0.0, high=3.0, log=False))
    (key,) = searched_keys(info_of(grid, ranges), records)
    assert (key.values, key.range) == ((0.0, 3.0), None)


def test_sweep_that_does_not_record_its_search_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^sweep.json must record space, base, search, got no base, search$"):
        searched_keys({"space": {"grid": [], "ranges": []}}, [])


KEYS = (
    SearchedKey(name="smart.weight", values=(0.0, 0.45), base=0.0),
    SearchedKey(name="a.x + a.y", values=((8, 2), (16, None)), base=(8, 2)),
    SearchedKey(name="optimizer.layer_decay", values=(), range=Float(low=0.5, high=1.0, log=False)),
)


@pytest.mark.parametrize(
    ("bases", "expected"),
    [
        ({"smart.weight": "0.45", "a.x + a.y": "16-none"}, [0.45, (16, None)]),
        ({"smart.weight": 0.45, "a.x + a.y": [16, None]}, [0.45, (16, None)]),
        ({"smart.weight": "45e-2"}, [0.45, (8, 2)]),
        ({"smart.weight": "0.0"}, [0.0, (8, 2)]),
        ({}, [0.0, (8, 2)]),
    ],
)
def test_another_base_value_is_given_as_a_value_or_as_its_text(bases: dict[str, Any], expected: list[Any]) -> None:
    assert [key.base for key in with_bases(KEYS, bases)][:2] == expected
    assert with_bases(KEYS, bases)[2].base is NO_VALUE


@pytest.mark.parametrize(
    ("bases", "error"),
    [
        (
            {"smart.wait": "0"},
            "unknown searched key 'smart.wait'; did you mean 'smart.weight'? known: smart.weight, a.x",
        ),
        (
            {"smart.weight": "0.5"},
            "the base value of smart.weight must be one that a finished trial has, got '0.5'; did you mean '0.45'? "
            "known: 0.45, 0",
        ),
        ({"optimizer.layer_decay": "1"}, "must be of a key with listed values, got optimizer.layer_decay, which has a"),
    ],
)
def test_base_values_that_cannot_be_are_refused(bases: dict[str, str], error: str) -> None:
    with pytest.raises(ValueError, match=re.escape(error)):
        with_bases(KEYS, bases)
