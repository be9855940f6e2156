"""Stage sharing computed from configurations equals the sharing of trials that are really trained."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from search_spaces.space import SearchSpace, grid_configs
from sweeps.options import SweepPlan
from sweeps.search.stage_order import find_cuts
from sweeps.setup.stage_tree import Segment, distinct, path_to, simulate_training
from tests.sweeps.conftest import MakePlan
from tests.sweeps.lanes.plain_sweep import train_sweep

QQP = StageConfig(tasks=("qqp",), epochs=2, steps_per_epoch=5)
SST = StageConfig(tasks=("sst",), epochs=3, steps_per_epoch=7)
BASE = TrialConfig(stages=(QQP, SST))
FROM_BEST: dict[str, Any] = {"stages.1.start_from": "best"}
SLANTED: dict[str, Any] = {"optimizer.schedule": "slanted_triangular"}


def paths_of(*changes: dict[str, Any], base: TrialConfig = BASE, shares: bool = True) -> list[list[Segment]]:
    configs = [base.override(own) for own in changes]
    cuts = [find_cuts(config, Path("/d"), 1, dict.fromkeys(config.train_sets, 100)) for config in configs]
    return simulate_training(configs, cuts, shares)


def steps_trained(paths: list[list[Segment]]) -> int:
    return sum(segment.steps for segment in distinct(paths))


def test_single_trial_trains_all_its_stages() -> None:
    ((first, second),) = paths_of({})
    assert (first.before, first.cut.total_epochs, first.steps) == (None, 2, 10)
    assert (second.before, second.cut.total_epochs, second.steps) == (first, 5, 21)
    assert path_to(second) == [first, second]
    assert simulate_training([], [], True) == []


def test_common_stage_is_one_object_in_every_path() -> None:
    paths = paths_of(*({"tasks.sst.batch_size": size} for size in (8, 16, 32)))
    assert len({id(path[0]) for path in paths}) == 1
    assert len(distinct(paths)) == 4
    assert steps_trained(paths) == 10 + 3 * 21
    alone = paths_of(*({"tasks.sst.batch_size": size} for size in (8, 16, 32)), shares=False)
    assert steps_trained(alone) == 3 * 31
    assert not any(segment.is_kept for segment in distinct(alone))


def test_changes_that_reach_the_first_stage_prevent_sharing() -> None:
    assert steps_trained(paths_of(*({"tasks.qqp.batch_size": size} for size in (8, 16)))) == 2 * 31


def test_replicates_of_a_configuration_share_nothing() -> None:
    assert steps_trained(paths_of({}, {"replicate": 1})) == 2 * 31


def test_equal_configurations_are_trained_once() -> None:
    inert = {"smart.epsilon": 0.5}  # without SMART
    for changes in ({}, SLANTED):
        paths = paths_of(changes, {**changes, **inert})
        assert paths[0] == paths[1]
        assert steps_trained(paths) == 31


@pytest.mark.parametrize("lengths", list(itertools.permutations((3, 5, 9))))
def test_longer_runs_continue_shorter_ones_in_any_order(lengths: tuple[int, ...]) -> None:
    paths = paths_of(*({"stages.1.epochs": epochs} for epochs in lengths))
    assert steps_trained(paths) == 10 + 9 * 7
    assert [path[-1].cut.total_epochs for path in paths] == [2 + epochs for epochs in lengths]
    assert steps_trained(paths_of(*({**SLANTED, "stages.1.epochs": epochs} for epochs in lengths))) == 10 + 17 * 7


def test_last_stage_is_stored_for_longer_runs_only_where_one_can_follow() -> None:
    ((_, last),) = paths_of({})
    assert last.is_kept
    ((first, last),) = paths_of(SLANTED)
    assert (first.is_kept, last.is_kept) == (True, False)


def test_stage_with_best_weights_also_serves_trials_that_need_none() -> None:
    assert steps_trained(paths_of(FROM_BEST, {})) == 10 + 2 * 21
    assert steps_trained(paths_of({}, FROM_BEST)) == 2 * 31


def test_a_hundred_trials_share_their_first_stage() -> None:
    paths = paths_of(*({"tasks.sst.batch_size": 1 + number} for number in range(100)))
    assert steps_trained(paths) == 10 + 100 * 21


GRIDS: dict[str, dict[Any, Any]] = {
    "batch sizes": {"tasks.sst.batch_size": (8, 15, 30)},
    "lengths": {"stages.1.epochs": (3, 1, 2)},
    "starts and lengths": {"stages.1.start_from": ("last", "best"), "stages.0.epochs": (2, 1)},
    "what does not matter and what does": {"tasks.sts.batch_size": (4, 5), "optimizer.learning_rate": (1e-3, 1e-4)},
}


@pytest.mark.parametrize("grid", GRIDS)
def test_saved_steps_match_the_estimate(
    grid: str, make_plan: MakePlan, tiny_config: TrialConfig, tiny_folder: Path, tiny_encoder_folder: Path
) -> None:
    short = {"smart.weight": 0, "stages.1.steps_per_epoch": 4}
    base = tiny_config.override({"encoder.name": str(tiny_encoder_folder), **short})
    plan: SweepPlan = make_plan(base=base, grid=GRIDS[grid], data_folder=tiny_folder)
    space: SearchSpace = plan.space
    configs = grid_configs(space)
    rows = {"sst": 30, "qqp": 70, "sts": 22}
    paths = simulate_training(configs, [find_cuts(config, tiny_folder, 1, rows) for config in configs], True)
    records = train_sweep(plan, configs)
    assert [record.steps for record in records] == [path[-1].cut.total_steps for path in paths]
    assert sum(record.steps - record.shared_steps for record in records) == steps_trained(paths)
