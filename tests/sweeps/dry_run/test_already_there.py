"""What a dry run says that the storage holds is what trials that are then really trained take from it."""

import shutil
from dataclasses import replace
from typing import Any

import pytest

from mtlib.config.trial import TrialConfig
from search_spaces.space import grid_configs
from sweeps.dry_run.already_there import Foreseen, describe_there, foresee, list_configs
from sweeps.options import SweepOptions, SweepPlan, make_plan
from sweeps.reuse.finished_trials import FINISHED_FOLDER
from sweeps.reuse.stage_store import STORE_FOLDER
from sweeps.reuse.weight_pruning import clean
from sweeps.setup.inputs import Material
from tests.sweeps.conftest import MakePlan
from tests.sweeps.plain_sweep import train_sweep
from tests.sweeps.trained_trials import FAST

SIZES: dict[Any, Any] = {"tasks.sst.batch_size": (8, 15)}
"""Of the second stage alone, which is of 8 steps; the first is of 4."""


@pytest.fixture
def plan(make_plan: MakePlan, tiny_config: TrialConfig, tiny_folder: Any, tiny_encoder_folder: Any) -> SweepPlan:
    base = tiny_config.override({**FAST, "encoder.name": str(tiny_encoder_folder)})
    return make_plan(base=base, grid=SIZES, data_folder=tiny_folder)


def another(plan: SweepPlan, grid: dict[Any, Any], **changes: Any) -> SweepPlan:
    """Another sweep of the same storage."""
    space = replace(plan.space, grid=grid)
    return replace(plan, name="other", folder=plan.folder.parent / "other", space=space, **changes)


def foreseen(plan: SweepPlan) -> Foreseen:
    return foresee(plan, list_configs(plan))


LATER: dict[str, dict[Any, Any]] = {
    "the same": SIZES,
    "one more": {"tasks.sst.batch_size": (8, 15, 30)},
    "longer": {"stages.1.epochs": (2, 4)},
    "shorter": {"stages.1.epochs": (1, 2)},
    "only the first stage": {"tasks.sst.loss_weight": (2.0, 3.0)},
    "nothing": {"seed": (5, 6)},
}


@pytest.mark.parametrize("later", LATER)
def test_as_much_is_taken_over_as_was_foreseen(plan: SweepPlan, later: str) -> None:
    train_sweep(plan, grid_configs(plan.space))
    after = another(plan, LATER[later])
    found = foreseen(after)
    records = train_sweep(after, grid_configs(after.space))
    assert found.num_steps_left == sum(record.steps - record.shared_steps for record in records)
    assert found.num_whole == sum(record.status == "reused" for record in records)
    assert found.num_trials == len(records)
    assert (found.num_steps_there > 0) == (later != "nothing")


def test_an_empty_storage_holds_nothing(plan: SweepPlan) -> None:
    assert foreseen(plan) == Foreseen(num_trials=2, num_whole=0, num_steps_there=0, num_steps_left=4 + 2 * 8)


def test_replicates_are_counted_each(plan: SweepPlan) -> None:
    train_sweep(plan, grid_configs(plan.space))
    found = foreseen(another(plan, SIZES, replicates=3))
    assert found == Foreseen(num_trials=6, num_whole=2, num_steps_there=20, num_steps_left=2 * 20)


@pytest.mark.parametrize("changes", [{"num_workers": 2}, {"cpus_per_worker": 2}])
def test_what_other_bits_would_come_of_is_not_there(plan: SweepPlan, changes: dict[str, Any]) -> None:
    train_sweep(plan, grid_configs(plan.space))
    assert foreseen(another(plan, SIZES, **changes)).num_steps_there == 0


def test_where_stages_had_to_go_whole_trials_are_still_there(plan: SweepPlan) -> None:
    train_sweep(plan, grid_configs(plan.space))
    shutil.rmtree(plan.cache_folder / STORE_FOLDER)
    found = foreseen(another(plan, {"tasks.sst.batch_size": (8, 30)}))
    assert found == Foreseen(num_trials=2, num_whole=1, num_steps_there=8, num_steps_left=12)


@pytest.fixture
def asked(plan: SweepPlan) -> tuple[SweepOptions, Material]:
    """The same sweep once more, under another name, before anything is known of it but its command line."""
    options = SweepOptions(space="tiny", name="again", storage=plan.cache_folder.parent)
    material = Material(
        space=plan.space, data_folder=plan.data_folder, num_rows={}, fingerprint="abc", skipped=(), notes=()
    )
    return options, material


def test_a_trial_whose_weights_were_deleted_is_not_whole(plan: SweepPlan) -> None:
    records = train_sweep(plan, grid_configs(plan.space))
    better = max(records, key=lambda record: record.best["overall"])
    best = {record.trial_id: dict.fromkeys(record.best, float(record is better)) for record in records}
    clean(plan.folder, [replace(record, best=best[record.trial_id]) for record in records], 1)
    shutil.rmtree(plan.cache_folder / STORE_FOLDER)
    after = another(plan, SIZES)
    assert foreseen(after) == Foreseen(num_trials=2, num_whole=1, num_steps_there=8, num_steps_left=12)
    again = train_sweep(after, grid_configs(after.space))
    assert sorted(record.status for record in again) == ["complete", "reused"]


def test_a_dry_run_says_what_is_there_and_what_remains(plan: SweepPlan, asked: tuple[SweepOptions, Material]) -> None:
    options, material = asked
    assert describe_there(options, material) == []
    own = replace(plan, cache_folder=options.cache_folder, folder=options.storage / "first")
    train_sweep(own, grid_configs(plan.space))
    wider = replace(material, space=replace(material.space, grid={"tasks.sst.batch_size": (8, 15, 30)}))
    assert describe_there(options, wider) == [
        "Other sweeps of this storage have already trained 20 of these 28 steps (2 of the 3 trials whole):"
        " 8 are left to train."
    ]
    other = replace(material, space=replace(material.space, grid={"tasks.sst.loss_weight": (2.0, 3.0)}))
    assert describe_there(options, other) == [
        "Other sweeps of this storage have already trained 4 of these 20 steps: 16 are left to train."
    ]
    foreign = replace(material, space=replace(material.space, grid={"seed": (5, 6)}))
    assert describe_there(options, foreign) == []


@pytest.mark.parametrize("changes", [{"reuse": False}, {"search": "tpe"}, {"address": "auto"}])
def test_nothing_is_said_where_nothing_is_shared_or_can_be_known(
    plan: SweepPlan, asked: tuple[SweepOptions, Material], changes: dict[str, Any]
) -> None:
    options, material = asked
    own = replace(plan, cache_folder=options.cache_folder, folder=options.storage / "first")
    train_sweep(own, grid_configs(plan.space))
    assert describe_there(options, material) != []
    assert describe_there(replace(options, **changes), material) == []


def test_whole_trials_are_taken_over_where_no_stage_is_shared(
    plan: SweepPlan, asked: tuple[SweepOptions, Material]
) -> None:
    options, material = replace(asked[0], keep_gb=0.0), asked[1]
    own = replace(plan, cache_folder=options.cache_folder, folder=options.storage / "first")
    train_sweep(own, grid_configs(plan.space))
    wider = replace(material, space=replace(material.space, grid={"tasks.sst.batch_size": (8, 15, 30, 31)}))
    assert describe_there(options, wider) == [
        "Other sweeps of this storage have already trained 24 of these 48 steps (2 of the 4 trials whole):"
        " 24 are left to train."
    ]
    after = make_plan(options, wider.space, plan.data_folder)
    records = train_sweep(after, grid_configs(after.space))
    assert sum(record.steps - record.shared_steps for record in records) == 24


def test_an_encoder_that_is_not_here_and_rows_that_are_not_tokenised_have_trained_nothing(
    plan: SweepPlan, asked: tuple[SweepOptions, Material], monkeypatch: pytest.MonkeyPatch
) -> None:
    options, material = asked
    own = replace(plan, cache_folder=options.cache_folder, folder=options.storage / "first")
    train_sweep(own, grid_configs(plan.space))
    assert describe_there(options, material) != []
    tokens = [path for path in options.cache_folder.iterdir() if path.name not in (STORE_FOLDER, FINISHED_FOLDER)]
    for path in tokens:
        shutil.rmtree(path)
    assert describe_there(options, material) == []
    assert not any(path.exists() for path in tokens), "a dry run does not tokenise"
    monkeypatch.setattr("sweeps.dry_run.already_there.measure_encoder", lambda _name: None)
    monkeypatch.setattr(
        "sweeps.dry_run.already_there.encoder_of", lambda _name: pytest.fail("a dry run does not download")
    )
    assert describe_there(options, material) == []
