"""A sweep may resume only with unchanged space, data and encoder; changes are named."""

import dataclasses
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

import mtlib.tasks
from mtlib.config.trial import TrialConfig
from results.records.trials import sweep_encoders
from search_spaces.domain import Float
from search_spaces.space import SearchSpace, load_space
from sweeps.driver.compatibility import check_unchanged
from sweeps.options import SweepOptions, SweepPlan
from sweeps.plan.create import sweep_info
from sweeps.plan.inputs import SweepInputs
from tests.prepared import inputs_of, with_base, with_space

ENCODERS = {"tiny": "fingerprint"}
TASKS = ("sst", "qqp", "sts")


@pytest.fixture
def inputs(tiny_config: TrialConfig) -> SweepInputs:
    space = SearchSpace(name="tiny", question="?", base=tiny_config, ranges={"smart.weight": Float(low=0, high=3)})
    rows = {(task, split): 5 for task in TASKS for split in ("train", "dev")}
    return inputs_of(space, rows, fingerprints={"sst-train": "a", "sst-dev": "b", "qqp-train": "c"})


def recorded_info(inputs: SweepInputs, fingerprints: Mapping[str, str] = ENCODERS) -> dict[str, Any]:
    """Contents of `sweep.json` for a sweep with these inputs, and encoders of these fingerprints."""
    encoders: Any = {name: SimpleNamespace(fingerprint=own) for name, own in fingerprints.items()}
    options = SweepOptions(space="tiny", name="mine", storage="/storage")
    plan = SweepPlan(options=options, space=inputs.space, data_folder=inputs.data_folder)
    found: dict[str, Any] = json.loads(json.dumps(sweep_info(plan, inputs, encoders, "")))
    return found


@pytest.fixture
def info(inputs: SweepInputs) -> dict[str, Any]:
    return recorded_info(inputs)


@pytest.mark.parametrize("name", ["joint", "orders", "smart_lambda", "batch_sizes", "synthetic_data"])
def test_every_kind_of_space_is_recognized(name: str, inputs: SweepInputs) -> None:
    real = dataclasses.replace(inputs, space=load_space(name))
    check_unchanged(recorded_info(real), real, ENCODERS)


def test_changed_base_is_refused_with_the_difference(info: dict[str, Any], inputs: SweepInputs) -> None:
    changed = with_base(inputs, optimizer__learning_rate=0.5, tasks__sst__batch_size=9)
    with pytest.raises(ValueError, match="must be what it was when the sweep began") as raised:
        check_unchanged(info, changed, ENCODERS)
    text = str(raised.value)
    assert "base.tasks.sst.batch_size was 8, is 9; base.optimizer.learning_rate was 0.001, is 0.5" in text
    assert "\n" not in text


NAMED = {"low": {"smart.weight": 0.0}, "high": {"smart.weight": 3.0}}
RANGES = {"smart.weight": Float(low=0, high=3), "optimizer.learning_rate": Float(low=1e-5, high=1e-3)}


@pytest.mark.parametrize(
    ("before", "now", "where"),
    [
        (
            {"grid": {"smart.weight": (1.0, 2.0), "seed": (8, 9)}},
            {"grid": {"seed": (8, 9), "smart.weight": (1.0, 2.0)}},
            "grid",
        ),
        ({"grid": {"weight": NAMED}}, {"grid": {"weight": dict(reversed(NAMED.items()))}}, "grid.weight"),
        ({"ranges": RANGES}, {"ranges": dict(reversed(RANGES.items()))}, "ranges"),
    ],
)
def test_changed_order_on_which_numbers_or_samples_depend_is_refused(
    inputs: SweepInputs, before: dict[str, Any], now: dict[str, Any], where: str
) -> None:
    recorded = recorded_info(with_space(inputs, **{"ranges": {}, **before}))
    with pytest.raises(ValueError, match=f"got space.{where} is in another order$"):
        check_unchanged(recorded, with_space(inputs, **{"ranges": {}, **now}), ENCODERS)


def test_field_added_since_is_allowed(info: dict[str, Any], inputs: SweepInputs) -> None:
    del info["base"]["smart"]["noise_std"]
    check_unchanged(info, inputs, ENCODERS)


def test_changed_data_are_refused_with_the_tables(info: dict[str, Any], inputs: SweepInputs) -> None:
    tables = {**inputs.fingerprints, "sst-dev": "other", "sts-dev": "new"}
    changed = dataclasses.replace(inputs, fingerprint="abd", fingerprints=tables)
    with pytest.raises(ValueError, match=r"^the data must be .* began, got other rows of sst-dev; sts-dev in /data$"):
        check_unchanged(info, changed, ENCODERS)


def test_moved_encoder_is_allowed(info: dict[str, Any], inputs: SweepInputs) -> None:
    """The demonstration's encoder is in the storage, which may be moved."""
    moved = with_base(inputs, encoder__name="elsewhere")
    check_unchanged(info, moved, ENCODERS)
    with pytest.raises(ValueError, match=r"the encoder must be what it was .*, got other weights in elsewhere"):
        check_unchanged(info, moved, {"elsewhere": "another"})
    with pytest.raises(ValueError, match=r"base\.encoder\.max_length was \d+, is 99$"):
        check_unchanged(info, with_base(moved, encoder__max_length=99), ENCODERS)


@pytest.mark.parametrize("name", ["joint", "single_task_smart", "smart_lambda"])
def test_added_task_or_data_set_that_the_sweep_does_not_use_is_allowed(name: str, inputs: SweepInputs) -> None:
    before = load_space(name)
    begun_before, hash_before = recorded_info(dataclasses.replace(inputs, space=before)), before.content_hash
    review = dataclasses.replace(mtlib.tasks.TASKS["sst"], name="review", title="Review", file_stem="review")
    data = dataclasses.replace(before.base.data, tasks={**mtlib.tasks.TASKS, "review": review})
    tasks = {**before.base.tasks, "review": before.base.tasks["sst"]}
    more = {f"data.sources.more.{key}": value for key, value in {"task": "sst", "path": "more.csv"}.items()}
    base = dataclasses.replace(before.base, tasks=tasks, data=data).override(more)
    now = dataclasses.replace(before, base=base)
    assert now.content_hash == hash_before
    check_unchanged(begun_before, dataclasses.replace(inputs, space=now), ENCODERS)
    used = dataclasses.replace(now, base=base.override({"stages.0.extra_data": "more", "stages.0.tasks": "sst"}))
    if name == "smart_lambda":
        with pytest.raises(ValueError, match="extra_data"):
            check_unchanged(begun_before, dataclasses.replace(inputs, space=used), ENCODERS)


def test_each_of_several_encoders_is_compared(inputs: SweepInputs) -> None:
    begun = {"a": "first", "b": "second"}
    info = recorded_info(inputs, begun)
    assert sweep_encoders(info) == begun
    check_unchanged(info, inputs, begun)
    with pytest.raises(ValueError, match=r"the encoder must be what it was .*, got other weights in b$"):
        check_unchanged(info, inputs, {"a": "first", "b": "first"})


def with_grids(inputs: SweepInputs, *grids: tuple[float, ...]) -> SweepInputs:
    """Inputs of a sweep over weights to which values were added."""
    *smaller, grid = ({"smart.weight": weights} for weights in grids)
    return with_space(inputs, ranges={}, grid=grid, smaller_grids=tuple(smaller))


def test_values_may_be_added_to_a_grid(inputs: SweepInputs) -> None:
    begun = recorded_info(with_grids(inputs, (0.0, 1.0)))
    wider = with_grids(inputs, (0.0, 1.0), (0.0, 1.0, 3.0))
    check_unchanged(begun, wider, ENCODERS)
    with pytest.raises(ValueError, match="grid"):
        check_unchanged(begun, with_grids(inputs, (0.0, 2.0), (0.0, 2.0, 3.0)), ENCODERS)
    more = dataclasses.replace(wider, fingerprint="abd", fingerprints={**inputs.fingerprints, "sts-train": "new"})
    with pytest.raises(ValueError, match=r"data must be what it was .*--name NEW.*sts-train"):
        check_unchanged(begun, more, ENCODERS)
