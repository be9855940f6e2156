"""The reports that the scheduler gets at a resume: those it had judged, and none that come again."""

from dataclasses import replace
from typing import Any

import pytest

from mtlib.checkpoints.state import State, save_state
from mtlib.config.trial import TrialConfig
from mtlib.training.epoch_report import Point
from results.records.epochs import curve_rows, curves_path
from results.records.files import open_folder, write_parquet
from results.records.trials import TrialRecord
from sweeps.driver.ledger import open_ledger
from sweeps.driver.scheduler_history import decided_reports
from sweeps.options import SweepPlan
from sweeps.reuse.finished_trials import ReusedWork, trial_folder, write_reused_work
from tests.sweeps.conftest import MakePlan, with_options


def write_scores(plan: SweepPlan, trial_id: str, scores: tuple[float, ...]) -> None:
    """A trial's curves: an epoch of one task alone, then overall scores."""

    def point(epoch: int, task: str, metric: str, value: float, split: str = "dev") -> Point:
        return Point(step=4 * epoch, epoch=epoch, task=task, split=split, metric=metric, value=value, seconds=1.0)

    points = [point(1, "qqp", "accuracy", 0.99)]
    for epoch, score in enumerate(scores, 2):
        points += [point(epoch, "sst", "accuracy", score / 2), point(epoch, "sst", "accuracy", 1.0, "train")]
        points += [point(epoch, "sst", "loss", 9.0), point(epoch, "overall", "overall", score)]
    write_parquet(open_folder(plan.options.folder), curves_path(trial_id), curve_rows(trial_id, points))


def save_numbers(plan: SweepPlan, trial_id: str, stage: int, epoch: int) -> None:
    numbers = {"stage": stage, "epoch": epoch}
    save_state(trial_folder(plan.options, trial_id).states, 4 * (stage + epoch), State(tensors={}, numbers=numbers))


def records_of(plan: SweepPlan, **changes: Any) -> list[TrialRecord]:
    """The first trial's record, of a plan whose trials have 1 + 4 epochs."""
    return [replace(open_ledger(plan).records["0000-r0"], **changes)]


@pytest.fixture
def halved(make_plan: MakePlan, tiny_config: TrialConfig) -> SweepPlan:
    return make_plan(scheduler="asha", base=tiny_config.override({"stages.1.epochs": 4}))


def test_all_reports_of_finished_trials_are_replayed(halved: SweepPlan) -> None:
    write_scores(halved, "0000-r0", (0.4, 0.3, 0.5))
    for status in ("complete", "pruned", "failed", "reused"):
        known = records_of(halved, status=status, epochs=4)
        assert decided_reports(halved, known) == {"0000-r0": [(1, 0.4), (2, 0.4), (3, 0.5)]}


def test_scores_are_counted_where_not_every_epoch_is_scored(make_plan: MakePlan, tiny_config: TrialConfig) -> None:
    base = tiny_config.override({"stages.1.epochs": 5, "stages.1.score_every": 2})
    plan = make_plan(scheduler="asha", base=base)
    scores = {3: 0.4, 5: 0.3, 6: 0.5}  # epochs 2 and 4 of the second stage, and its last
    points = [
        Point(step=epoch, epoch=epoch, task="overall", split="dev", metric="overall", value=score, seconds=1.0)
        for epoch, score in scores.items()
    ]
    write_parquet(open_folder(plan.options.folder), curves_path("0000-r0"), curve_rows("0000-r0", points))
    known = records_of(plan, status="complete", epochs=6)
    assert decided_reports(plan, known) == {"0000-r0": [(1, 0.4), (2, 0.4), (3, 0.5)]}
    assert decided_reports(plan, records_of(plan, status="pruned", epochs=4)) == {"0000-r0": [(1, 0.4)]}


def test_unreported_reused_epochs_of_a_pruned_trial_are_not_replayed(halved: SweepPlan) -> None:
    write_scores(halved, "0000-r0", (0.4, 0.3, 0.5))
    assert decided_reports(halved, records_of(halved, status="pruned", epochs=2)) == {"0000-r0": [(1, 0.4)]}


@pytest.mark.parametrize(("epoch", "remembered"), [(0, 0), (1, 1), (2, 2), (3, 3)])
def test_reports_before_a_resumed_trials_state_are_replayed(halved: SweepPlan, epoch: int, remembered: int) -> None:
    """Its last report may not have been judged; the trial reports it again."""
    write_scores(halved, "0000-r0", (0.4, 0.3, 0.5))
    save_numbers(halved, "0000-r0", 1, epoch)
    bests = [(1, 0.4), (2, 0.4), (3, 0.5)]
    assert decided_reports(halved, records_of(halved, epochs=4)) == {"0000-r0": bests[:remembered]}


def test_reused_epochs_are_not_replayed_until_trained_past(halved: SweepPlan) -> None:
    """The trial reports all of them again before it trains: a kill meanwhile leaves unjudged epochs."""
    write_scores(halved, "0000-r0", (0.4, 0.3, 0.5))
    place = trial_folder(halved.options, "0000-r0")
    place.states.path.mkdir(parents=True)
    write_reused_work(place, ReusedWork(steps=12))
    save_numbers(halved, "0000-r0", 1, 2)
    known = records_of(halved, epochs=3)
    assert decided_reports(halved, known) == {"0000-r0": []}
    save_numbers(halved, "0000-r0", 1, 3)
    assert decided_reports(halved, known) == {"0000-r0": [(1, 0.4), (2, 0.4), (3, 0.5)]}


def test_reports_of_a_trial_without_a_state_are_not_replayed(halved: SweepPlan) -> None:
    write_scores(halved, "0000-r0", (0.4,))
    assert decided_reports(halved, records_of(halved, epochs=2)) == {"0000-r0": []}


def test_scores_of_the_searched_task_are_replayed(make_plan: MakePlan) -> None:
    plan = make_plan(scheduler="asha", metric="sst")
    write_scores(plan, "0000-r0", (0.4, 0.6))
    assert decided_reports(plan, records_of(plan, status="complete", epochs=3)) == {"0000-r0": [(1, 0.2), (2, 0.3)]}


def test_replicates_and_sweeps_without_a_scheduler_replay_nothing(halved: SweepPlan) -> None:
    write_scores(halved, "0000-r0", (0.4,))
    assert decided_reports(halved, records_of(halved, status="complete", epochs=2, replicate=1)) == {}
    plain = with_options(halved, scheduler="none")
    assert decided_reports(plain, records_of(plain, status="complete", epochs=2)) == {}
