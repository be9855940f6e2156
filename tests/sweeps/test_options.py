"""Options of a sweep: the rules that each value must keep, and the plan they become."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from search_spaces.space import load_space
from sweeps.options import DEFAULT_TRIALS, SweepOptions, make_plan


def options_with(**changes: Any) -> SweepOptions:
    return SweepOptions(**{"space": "smart_lambda", "name": "first", "storage": Path("/sweeps"), **changes})


@pytest.mark.parametrize("field", ["workers", "cpus_per_worker", "concurrent", "replicates"])
def test_counts_start_at_one(field: str) -> None:
    assert getattr(options_with(**{field: 1}), field) == 1
    flag = field.replace("_", "-")
    with pytest.raises(ValueError, match=f"^--{flag} must be at least 1, got 0$"):
        options_with(**{field: 0})


def test_a_grid_takes_no_number_of_trials() -> None:
    with pytest.raises(ValueError, match="--trials must be left out with --search grid"):
        options_with(trials=7)
    assert options_with().num_trials is None


@pytest.mark.parametrize("search", ["tpe", "random"])
def test_a_search_draws_the_number_asked_for_or_the_default(search: str) -> None:
    assert options_with(search=search).num_trials == DEFAULT_TRIALS
    assert options_with(search=search, trials=3).num_trials == 3
    with pytest.raises(ValueError, match="--trials must be at least 1, got 0"):
        options_with(search=search, trials=0)


def test_unknown_words_are_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="--search must be one of grid, tpe, random, got bayes"):
        options_with(search="bayes")
    with pytest.raises(ValueError, match="--scheduler must be one of asha, none, got median"):
        options_with(scheduler="median")


@pytest.mark.parametrize("gpus", [0, 0.25, 1])
def test_one_worker_may_have_a_part_of_a_gpu(gpus: float) -> None:
    assert options_with(gpus_per_worker=gpus).gpus_per_worker == gpus


@pytest.mark.parametrize("gpus", [-0.5, 1.5, 2, float("nan")])
def test_gpus_of_a_worker_lie_between_none_and_one(gpus: float) -> None:
    with pytest.raises(ValueError, match="--gpus-per-worker must be from 0 to 1"):
        options_with(gpus_per_worker=gpus)


def test_several_workers_do_not_share_a_gpu() -> None:
    assert options_with(workers=2, gpus_per_worker=1).workers == 2
    with pytest.raises(ValueError, match="each of them needs a GPU of its own"):
        options_with(workers=2, gpus_per_worker=0.5)


@pytest.mark.parametrize("name", ["a", "smart_lambda-20250101-120000", "v1.2", "A" * 100])
def test_plain_names_are_allowed(name: str) -> None:
    assert options_with(name=name).folder == Path("/sweeps") / name


@pytest.mark.parametrize("name", ["", ".", "..", ".cache", "a/b", "../a", "a b", "-a", "ä", "a\n", "A" * 101])
def test_names_that_are_no_safe_folder_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="--name must be letters, digits"):
        options_with(name=name)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="--seed must be at least 0, got -1"):
        options_with(seed=-1)


def test_the_cache_is_a_folder_that_no_sweep_can_be_named_after() -> None:
    cache = options_with().cache_folder
    with pytest.raises(ValueError, match="--name"):
        options_with(name=cache.name)


def test_the_plan_says_what_the_options_and_the_space_say() -> None:
    space = load_space("smart_lambda")
    space = dataclasses.replace(space, base=space.base.override({"seed": 4}))
    options = options_with(workers=2, search="tpe", trials=5, replicates=3, scheduler="asha", seed=4)
    plan = make_plan(options, space, Path("/data"))
    assert (plan.name, plan.folder, plan.data_folder) == ("first", Path("/sweeps/first"), Path("/data"))
    assert (plan.num_workers, plan.search, plan.num_trials, plan.replicates) == (2, "tpe", 5, 3)
    assert (plan.base, plan.seed, plan.scheduler, plan.cache_folder.parent) == (space.base, 4, "asha", Path("/sweeps"))
    assert plan.num_configurations == 5
    assert make_plan(options_with(), space, Path("/data")).num_configurations == 7
