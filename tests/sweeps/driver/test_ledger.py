"""Events become records: statuses, best and last scores, times, and what is counted."""

from dataclasses import replace
from typing import Any

import pytest

from results.records.tables import read_trials
from search_spaces.domain import Float
from sweeps.driver.ledger import Ledger, add_trial, apply_event, close_ledger, open_ledger, save_ledger
from sweeps.lanes.messages import Event
from sweeps.search.trial_spec import make_spec
from tests.sweeps.conftest import MakePlan

NOON = 1_700_000_000.0


def handle(ledger: Ledger, kind: Any, trial_id: str = "0000-r0", at: float = NOON, **facts: Any) -> None:
    apply_event(ledger, Event(kind=kind, lane="lane0", trial_id=trial_id, facts=facts, time=at))


def start(ledger: Ledger, trial_id: str = "0000-r0", at: float = NOON, kind: str = "started") -> None:
    handle(ledger, kind, trial_id, at, host="here", pid=1, attempt=1, why=None)


def report(ledger: Ledger, epoch: int, at: float = NOON, trial_id: str = "0000-r0", **scores: float) -> None:
    handle(ledger, "report", trial_id, at, epoch=epoch, scores=scores, step=10 * epoch, seconds=2.0 * epoch)


def end(ledger: Ledger, how: str, at: float = NOON, trial_id: str = "0000-r0", was_started: bool = True) -> None:
    error = "it broke" if how == "failed" else None
    handle(ledger, "ended", trial_id, at, how=how, error=error, was_started=was_started, peak_memory_bytes=7)


def test_grid_is_queued_from_the_start(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan())
    assert {name: record.status for name, record in ledger.records.items()} == dict.fromkeys(
        ("0000-r0", "0001-r0", "0002-r0"), "queued"
    )
    assert ledger.counts == {"queued": 3}


def test_replicates_that_had_begun_when_the_first_failed_count(make_plan: MakePlan) -> None:
    plan = make_plan(replicates=3)
    ledger = open_ledger(plan)
    start(ledger)
    add_trial(ledger, make_spec(plan.space, 0, 1, {"smart.weight": 0.0}))
    start(ledger, "0000-r1")
    assert ledger.counts == {"running": 2, "queued": 7}
    end(ledger, "failed")
    assert ledger.counts == {"failed": 1, "running": 1, "queued": 6}
    end(ledger, "complete", trial_id="0000-r1")
    assert ledger.num_unfinished == 6


def test_trial_goes_from_queued_over_running_to_its_end(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan(workers=2))
    start(ledger)
    assert ledger.counts == {"running": 1, "queued": 2}
    report(ledger, 1, NOON + 5, sst=0.3, overall=0.4)
    end(ledger, "complete", NOON + 6)
    record = ledger.records["0000-r0"]
    assert (record.status, record.epochs, record.steps) == ("complete", 1, 10)
    assert (record.wall_seconds, record.device_seconds, record.peak_memory_bytes) == (6.0, 4.0, 7)
    assert (record.started, record.host) == ("2023-11-14T22:13:20.000+00:00", "here")
    assert ledger.progress == {}


def test_best_is_kept_per_score_with_its_first_epoch(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan())
    start(ledger)
    report(ledger, 1, qqp=0.7)
    report(ledger, 2, qqp=0.6, sst=0.3, overall=0.45)
    report(ledger, 3, qqp=0.7, sst=0.4, overall=0.55)
    record = ledger.records["0000-r0"]
    assert record.best == {"qqp": 0.7, "sst": 0.4, "overall": 0.55}
    assert record.last == {"qqp": 0.7, "sst": 0.4, "overall": 0.55}
    assert record.best_epoch == {"qqp": 1, "sst": 3, "overall": 3}


def test_trial_with_a_restarted_lane_keeps_its_first_start(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan())
    start(ledger, at=NOON)
    start(ledger, at=NOON + 100, kind="resumed")
    assert ledger.progress["0000-r0"] == {"since": NOON}
    end(ledger, "complete", NOON + 150)
    assert ledger.records["0000-r0"].wall_seconds == 150


def test_returned_trial_is_queued_and_its_wait_does_not_count(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan())
    start(ledger, at=NOON)
    report(ledger, 1, NOON + 50, sst=0.5)
    handle(ledger, "requeued", at=NOON + 100)
    assert ledger.counts == {"queued": 3}
    assert ledger.num_unfinished == 3
    assert not ledger.progress
    start(ledger, at=NOON + 500, kind="resumed")
    assert ledger.records["0000-r0"].best == {"sst": 0.5}, "its reports are not repeated"
    end(ledger, "complete", NOON + 550)
    assert ledger.records["0000-r0"].wall_seconds == 150
    assert ledger.num_unfinished == 2


def test_failed_trial_keeps_its_reason(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan())
    start(ledger)
    end(ledger, "failed")
    assert (ledger.records["0000-r0"].status, ledger.records["0000-r0"].error) == ("failed", "it broke")


def test_unstarted_trials_stay_queued_after_an_interruption(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan())
    start(ledger)
    end(ledger, "interrupted")
    end(ledger, "interrupted", trial_id="0001-r0", was_started=False)
    assert ledger.counts == {"interrupted": 1, "queued": 2}


def test_trials_running_at_the_sweeps_end_are_interrupted(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan())
    start(ledger)
    close_ledger(ledger)
    assert ledger.counts == {"interrupted": 1, "queued": 2}


def test_replicates_are_expected_until_their_configuration_fails(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan(replicates=3))
    assert ledger.counts == {"queued": 9}
    start(ledger)
    end(ledger, "pruned")
    assert ledger.counts == {"pruned": 1, "queued": 6}
    spec = ledger.records["0001-r0"]
    add_trial(ledger, make_spec(ledger.plan.space, 1, 1, dict(spec.params)))
    start(ledger, "0001-r1")
    assert ledger.counts == {"pruned": 1, "running": 1, "queued": 5}


def test_replicates_of_an_interrupted_configuration_are_still_expected(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan(replicates=3))
    start(ledger)
    close_ledger(ledger)
    assert ledger.counts == {"interrupted": 1, "queued": 8}


def test_replicates_of_the_best_alone_are_expected(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan(replicates=4, replicate_best=2))
    assert ledger.counts == {"queued": 3 + 2 * 3}
    for trial_id in ("0000-r0", "0001-r0"):
        start(ledger, trial_id)
        end(ledger, "pruned", trial_id=trial_id)
    assert ledger.counts == {"pruned": 2, "queued": 1 + 3}


def test_drawn_trials_appear_when_suggested(make_plan: MakePlan) -> None:
    plan = make_plan(search="random", trials=5, grid={}, ranges={"smart.weight": Float(low=0, high=1)})
    ledger = open_ledger(plan)
    assert (ledger.records, ledger.counts) == ({}, {"queued": 5})
    add_trial(ledger, make_spec(plan.space, 0, 0, {"smart.weight": 0.2}))
    assert (list(ledger.records), ledger.counts) == (["0000-r0"], {"queued": 5})


def test_best_trial_is_by_the_searched_metric(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan(metric="qqp"))
    assert ledger.best is None
    report(ledger, 1, qqp=0.8, overall=0.5)
    report(ledger, 1, trial_id="0001-r0", qqp=0.7, overall=0.9)
    assert ledger.best == ("0000-r0", 0.8)


def test_progress_is_kept_only_while_a_trial_runs(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan())
    start(ledger)
    handle(ledger, "progress", epoch=1, step=3, num_steps=30)
    assert ledger.progress["0000-r0"] == {"since": NOON, "epoch": 1, "step": 3, "num_steps": 30}


def test_records_are_written_only_after_changes(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan())
    path = ledger.plan.options.folder / "trials.parquet"
    save_ledger(ledger, ledger.plan.options.folder)
    before = path.stat().st_mtime_ns
    handle(ledger, "lane_open", host="here", pid=1)
    save_ledger(ledger, ledger.plan.options.folder)
    assert path.stat().st_mtime_ns == before
    start(ledger)
    report(ledger, 1, sst=0.5, overall=0.5)
    save_ledger(ledger, ledger.plan.options.folder)
    assert read_trials(ledger.plan.options.folder) == list(ledger.records.values())


def test_records_are_ordered_by_configuration_and_replicate(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan(replicates=2))
    add_trial(ledger, make_spec(ledger.plan.space, 0, 1, {"smart.weight": 0.0}))
    save_ledger(ledger, ledger.plan.options.folder)
    names = [record.trial_id for record in read_trials(ledger.plan.options.folder)]
    assert names == ["0000-r0", "0000-r1", "0001-r0", "0002-r0"]


@pytest.mark.parametrize("kind", ["lane_open", "lane_lost", "lane_down", "lane_closed"])
def test_open_lanes_are_counted(make_plan: MakePlan, kind: str) -> None:
    ledger = open_ledger(make_plan())
    handle(ledger, "lane_open", host="here", pid=1)
    handle(ledger, kind, host="here", why="gone")
    assert ledger.lanes == ({"lane0": "here"} if kind == "lane_open" else {})


def test_resumed_trial_reports_again_and_keeps_its_first_start(make_plan: MakePlan) -> None:
    before = open_ledger(make_plan())
    start(before)
    report(before, 1, NOON + 5, qqp=0.9)
    report(before, 2, NOON + 9, qqp=0.7, overall=0.5)
    queued = [replace(record, status="queued") for record in before.records.values()]
    ledger = open_ledger(before.plan, queued)
    assert ledger.records["0000-r0"].best == {"qqp": 0.9, "overall": 0.5}, "until a lane has it, it is shown as it was"
    start(ledger, at=NOON + 100)
    again = ledger.records["0000-r0"]
    assert (again.status, again.best, again.last, again.best_epoch, again.epochs, again.steps) == (
        *("running", {}, {}, {}),
        *(0, 0),
    )
    assert again.started == "2023-11-14T22:13:20.000+00:00"
    report(ledger, 1, NOON + 101, qqp=0.9)
    report(ledger, 2, NOON + 101, qqp=0.7, overall=0.5)
    report(ledger, 3, NOON + 120, qqp=0.8, overall=0.6)
    end(ledger, "complete", NOON + 121)
    record = ledger.records["0000-r0"]
    assert (record.best, record.best_epoch) == ({"qqp": 0.9, "overall": 0.6}, {"qqp": 1, "overall": 3})
    assert record.wall_seconds == 9 + 21


def test_time_between_two_runs_does_not_count(make_plan: MakePlan) -> None:
    evening, morning = NOON, NOON + 14 * 3600
    before = open_ledger(make_plan())
    start(before, at=evening)
    end(before, "interrupted", evening + 60)
    ledger = open_ledger(before.plan, [replace(record, status="queued") for record in before.records.values()])
    start(ledger, at=morning)
    assert ledger.progress["0000-r0"] == {"since": morning - 60}
    start(ledger, at=morning + 2, kind="resumed")
    report(ledger, 1, morning + 5, overall=0.5)
    assert ledger.records["0000-r0"].wall_seconds == 65
    end(ledger, "complete", morning + 10)
    record = ledger.records["0000-r0"]
    assert (record.wall_seconds, record.started) == (70, "2023-11-14T22:13:20.000+00:00")


def test_trial_that_fails_without_a_lane_keeps_its_seconds(make_plan: MakePlan) -> None:
    before = open_ledger(make_plan())
    start(before)
    end(before, "interrupted", NOON + 60)
    ledger = open_ledger(before.plan, before.records.values())
    end(ledger, "failed", NOON + 5000, was_started=False)
    assert (ledger.records["0000-r0"].status, ledger.records["0000-r0"].wall_seconds) == ("failed", 60)


def test_known_trials_stay_and_missing_grid_points_are_added(make_plan: MakePlan) -> None:
    before = open_ledger(make_plan())
    start(before, "0001-r0")
    report(before, 1, trial_id="0001-r0", overall=0.5)
    end(before, "complete", trial_id="0001-r0")
    ledger = open_ledger(before.plan, [before.records["0001-r0"]])
    assert ledger.records["0001-r0"] == before.records["0001-r0"]
    assert ledger.counts == {"complete": 1, "queued": 2}
    save_ledger(ledger, ledger.plan.options.folder)
    assert [record.number for record in read_trials(ledger.plan.options.folder)] == [0, 1, 2]


def test_retried_trial_is_no_longer_failed_once_it_runs(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan())
    start(ledger)
    end(ledger, "failed")
    start(ledger)
    assert (ledger.records["0000-r0"].status, ledger.records["0000-r0"].error) == ("running", None)


def test_reused_work_is_recorded(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan())
    start(ledger)
    handle(ledger, "starting_point", epochs=1, shared_steps=4, shared_seconds=0.5, taken_from=None, note=None)
    assert (ledger.records["0000-r0"].shared_steps, ledger.records["0000-r0"].taken_from) == (4, None)
    handle(ledger, "stage_finished", stage=0, why_not=None)
    handle(
        ledger, "starting_point", epochs=3, shared_steps=9, shared_seconds=0.5, taken_from="other/0002-r0", note=None
    )
    end(ledger, "reused")
    record = ledger.records["0000-r0"]
    assert (record.status, record.shared_steps, record.taken_from) == ("reused", 9, "other/0002-r0")


@pytest.mark.parametrize(
    ("kind", "facts"), [("stage_finished", {"stage": 0, "why_not": "no"}), ("waiting", {"what": "x"})]
)
def test_events_for_the_user_change_no_record(make_plan: MakePlan, kind: str, facts: dict[str, Any]) -> None:
    ledger = open_ledger(make_plan())
    start(ledger)
    before = dict(ledger.records)
    ledger.is_changed = False
    handle(ledger, kind, **facts)
    assert (ledger.records, ledger.is_changed) == (before, False)
