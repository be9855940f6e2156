"""What a resumed sweep knows: its trials by their folders, and the reports that the scheduler has decided on."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from mtlib.checkpoints.best_weights import keep_best, weights_file
from mtlib.checkpoints.state import State, save_state
from mtlib.config.trial import TrialConfig
from mtlib.runtime.storage import local_path
from mtlib.tasks import TASKS
from results.records.trials import TrialRecord, write_sweep
from sweeps.driver.history import KnownTrials, read_known
from sweeps.driver.trials.trial import make_trial
from sweeps.options import SweepPlan
from sweeps.reuse.finished_trials import trial_folder
from tests.recorded_trials import write_trial
from tests.sweeps.conftest import MakePlan

SCORES = (None, 0.4, 0.3, 0.5)
BESTS = [(1, 0.4), (2, 0.4), (3, 0.5)]


@pytest.fixture
def plan(make_plan: MakePlan, tiny_config: TrialConfig) -> SweepPlan:
    """Trials of one epoch without an overall score, and four with it."""
    return begun(make_plan(scheduler="asha", base=tiny_config.override({"stages.1.epochs": 4})))


def begun(plan: SweepPlan) -> SweepPlan:
    write_sweep(plan.options.folder, {})
    return plan


def spec_of(plan: SweepPlan, number: int, replicate: int = 0) -> TrialRecord:
    return make_trial(plan.space, number, replicate, {"smart.weight": 0.3})


def known_of(plan: SweepPlan, metric: str = "overall") -> KnownTrials:
    return read_known(plan.options, metric, TASKS)


def save_numbers(plan: SweepPlan, stage: int, epoch: int) -> None:
    """The first trial's newest state, after an epoch of a stage."""
    state = State(tensors={}, numbers={"stage": stage, "epoch": epoch, "step": 0})
    save_state(trial_folder(plan.options, "0000-r0").states, 4 * (stage + epoch), state)


def test_trials_are_known_by_their_folders_and_unfinished_ones_queued(plan: SweepPlan) -> None:
    statuses = ("complete", "reused", "pruned", "failed", "interrupted")
    for number, status in enumerate(statuses):
        write_trial(plan.options.folder, spec_of(plan, number), status, SCORES)
    write_trial(plan.options.folder, spec_of(plan, 6), "interrupted")
    write_trial(plan.options.folder, spec_of(plan, 0, 1), "complete", SCORES)
    known = known_of(plan)
    found = {record.trial_id: (record.status, record.epochs) for record in known.records}
    ended = {f"{number:04d}-r0": (status, 4) for number, status in enumerate(statuses[:4])}
    assert found == {**ended, "0000-r1": ("complete", 4), "0004-r0": ("queued", 4), "0006-r0": ("queued", 0)}
    assert list(found)[:2] == ["0000-r0", "0000-r1"]
    assert {record.error for record in known.records} == {None, "it broke"}
    assert set(known.reports) == {name for name in found if name.endswith("r0")}, "none of replicates"
    assert known.notes == ()


def epoch_file(folder: str) -> Path:
    return Path(folder, "trials", "0000-r0", "epochs", "0003.parquet")


def test_ended_trial_with_a_damaged_epoch_is_queued_again_and_noted(plan: SweepPlan) -> None:
    write_trial(plan.options.folder, spec_of(plan, 0), "complete", SCORES)
    epoch_file(plan.options.folder).write_bytes(b"PAR1")
    known = known_of(plan)
    (record,) = known.records
    assert (record.status, record.epochs) == ("queued", 2)
    assert any("0003.parquet" in note for note in known.notes)
    assert any("0000-r0" in note and "again" in note for note in known.notes)


def test_ended_trial_with_damaged_best_weights_is_queued_again_and_noted(plan: SweepPlan) -> None:
    write_trial(plan.options.folder, spec_of(plan, 0), "complete", SCORES)
    states = trial_folder(plan.options, "0000-r0").states
    place = local_path(states.path)
    assert place is not None
    shutil.rmtree(place, ignore_errors=True)
    keep_best(states, 3, {"overall": 3}, {"weight": torch.zeros(4)})
    assert (known_of(plan).records[0].status, known_of(plan).notes) == ("complete", ())
    (place / weights_file(3)).write_bytes(b"")
    known = known_of(plan)
    assert known.records[0].status == "queued"
    assert any("epoch-0003.safetensors" in note for note in known.notes)


def test_trial_with_a_damaged_description_is_not_known_but_noted(plan: SweepPlan) -> None:
    write_trial(plan.options.folder, spec_of(plan, 0), "complete", SCORES)
    Path(plan.options.folder, "trials", "0000-r0", "trial.json").write_text("{")
    known = known_of(plan)
    assert (known.records, known.reports) == ((), {})
    assert any("trial.json" in note for note in known.notes)


@pytest.mark.parametrize("status", ["complete", "reused", "failed"])
def test_all_scored_epochs_of_an_ended_trial_have_been_decided_on(plan: SweepPlan, status: str) -> None:
    write_trial(plan.options.folder, spec_of(plan, 0), status, SCORES)
    assert known_of(plan).reports == {"0000-r0": BESTS}
    assert known_of(plan, "sst").reports == {"0000-r0": [(1, 0.2), (2, 0.2), (3, 0.25)]}


@pytest.mark.parametrize("epoch", [None, 0, 1, 2, 3])
def test_epochs_before_an_unfinished_trials_state_have_been_decided_on(plan: SweepPlan, epoch: int | None) -> None:
    """Its last report may not have been; the trial reports it again."""
    write_trial(plan.options.folder, spec_of(plan, 0), "interrupted", SCORES)
    if epoch is not None:
        save_numbers(plan, 1, epoch)
    assert known_of(plan).reports == {"0000-r0": BESTS[: epoch or 0]}


@pytest.mark.parametrize(("scores", "bests"), [(SCORES[:3], []), (SCORES, BESTS)])
def test_reused_epochs_have_not_been_decided_on_until_it_trained_past_them(
    plan: SweepPlan, scores: Any, bests: Any
) -> None:
    """The trial reports all of them again before it trains: a kill meanwhile leaves some without a verdict."""
    write_trial(plan.options.folder, spec_of(plan, 0), "interrupted", scores, shared_steps=12)
    save_numbers(plan, 1, len(scores) - 1)
    assert known_of(plan).reports == {"0000-r0": bests}
