"""Events become records: statuses, best and last scores, times, and what is counted."""

from dataclasses import replace
from typing import Any

import pytest

from results.records.race import RaceRecord, RoundDecision
from sweeps.driver.ledger import Ledger, apply_event, close_ledger, open_ledger
from sweeps.lanes.channel import Event
from tests.sweeps.conftest import MakePlan

NOON = 1_700_000_000.0
NOON_TEXT = "2023-11-14T22:13:20.000+00:00"


def handle(ledger: Ledger, kind: Any, trial_id: str = "0000-r0", at: float = NOON, **facts: Any) -> None:
    apply_event(ledger, Event(kind=kind, lane="lane0", trial_id=trial_id, facts=facts, time=at))


def start(ledger: Ledger, trial_id: str = "0000-r0", at: float = NOON, kind: str = "started") -> None:
    handle(ledger, kind, trial_id, at, host="here", pid=1, attempt=1, why=None)


def report(ledger: Ledger, epoch: int, trial_id: str = "0000-r0", wall: float = 0.0, **scores: float) -> None:
    facts = {"step": 10 * epoch, "seconds": 2.0 * epoch, "wall_seconds": wall, "peak_memory_bytes": epoch}
    handle(ledger, "report", trial_id, epoch=epoch, scores=scores, **facts)


def end(ledger: Ledger, how: str, trial_id: str = "0000-r0", was_started: bool = True, **facts: Any) -> None:
    error = "it broke" if how == "failed" else None
    handle(ledger, "ended", trial_id, how=how, error=error, was_started=was_started, **facts)


def test_trial_goes_from_queued_over_running_to_its_end(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan(workers=2))
    assert ledger.counts == {"queued": 3}
    start(ledger)
    handle(ledger, "progress", epoch=1, step=3, num_steps=30)
    assert ledger.progress["0000-r0"] == {"since": NOON, "epoch": 1, "step": 3, "num_steps": 30}
    assert ledger.counts == {"running": 1, "queued": 2}
    report(ledger, 1, wall=5.0, sst=0.3, overall=0.4)
    end(ledger, "complete", wall_seconds=6.0, peak_memory_bytes=7)
    record = ledger.records["0000-r0"]
    assert (record.status, record.epochs, record.steps) == ("complete", 1, 10)
    assert (record.wall_seconds, record.device_seconds, record.peak_memory_bytes) == (6.0, 4.0, 7)
    assert (record.started, record.host) == (NOON_TEXT, "here")
    assert (ledger.progress, ledger.num_left) == ({}, 2)


def test_best_is_kept_per_score_with_its_first_epoch(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan())
    report(ledger, 1, qqp=0.7)
    report(ledger, 2, qqp=0.6, sst=0.3, overall=0.45)
    report(ledger, 3, qqp=0.7, sst=0.4, overall=0.55)
    record = ledger.records["0000-r0"]
    assert record.best == record.last == {"qqp": 0.7, "sst": 0.4, "overall": 0.55}
    assert record.best_epoch == {"qqp": 1, "sst": 3, "overall": 3}


def test_trial_whose_lane_went_down_is_queued_and_its_wait_does_not_count(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan())
    start(ledger)
    handle(ledger, "requeued", at=NOON + 100)
    assert (ledger.counts, ledger.num_left, ledger.progress) == ({"queued": 3}, 3, {})
    start(ledger, at=NOON + 500, kind="resumed")
    assert ledger.progress["0000-r0"] == {"since": NOON + 400}
    assert (ledger.records["0000-r0"].status, ledger.records["0000-r0"].started) == ("running", NOON_TEXT)


def test_trials_without_a_lane_stay_queued_at_an_interruption(make_plan: MakePlan) -> None:
    ledger = open_ledger(make_plan())
    start(ledger)
    start(ledger, "0002-r0")
    end(ledger, "interrupted")
    end(ledger, "interrupted", trial_id="0001-r0", was_started=False)
    assert ledger.counts == {"interrupted": 1, "queued": 1, "running": 1}
    close_ledger(ledger)
    assert ledger.counts == {"interrupted": 2, "queued": 1}


@pytest.mark.parametrize(
    ("options", "ends", "counts"),
    [
        ({"replicates": 3}, (), {"queued": 9}),
        ({"replicates": 3}, ("pruned",), {"pruned": 1, "queued": 6}),
        ({"replicates": 3}, ("failed", "complete"), {"failed": 1, "complete": 1, "queued": 5}),
        ({"replicates": 3}, ("interrupted",), {"interrupted": 1, "queued": 8}),
        ({"replicates": 4, "replicate_best": 2}, (), {"queued": 3 + 2 * 3}),
        ({"replicates": 4, "replicate_best": 2}, ("pruned", "pruned"), {"pruned": 2, "queued": 1 + 3}),
    ],
)
def test_replicates_are_expected_unless_the_first_training_is_pruned_or_fails(
    make_plan: MakePlan, options: dict[str, int], ends: tuple[str, ...], counts: dict[str, int]
) -> None:
    ledger = open_ledger(make_plan(**options))
    for number, how in enumerate(ends):
        start(ledger, f"{number:04d}-r0")
        end(ledger, how, f"{number:04d}-r0")
    assert ledger.counts == counts


def test_trial_of_a_resumed_sweep_reports_again_and_keeps_its_first_start_and_its_seconds(make_plan: MakePlan) -> None:
    before = open_ledger(make_plan())
    start(before)
    report(before, 1, wall=5.0, qqp=0.9)
    report(before, 2, wall=9.0, qqp=0.7, overall=0.5)
    queued = [replace(record, status="queued") for record in before.records.values()]
    ledger = open_ledger(before.plan, queued)
    start(ledger, at=NOON + 100)
    assert ledger.progress["0000-r0"] == {"since": NOON + 91}
    assert ledger.records["0000-r0"].best == {"qqp": 0.9, "overall": 0.5}, "as it was, until it repeats its reports"
    handle(ledger, "starting_point", epochs=2, shared_steps=4, shared_seconds=0.5, taken_from=None)
    again = ledger.records["0000-r0"]
    assert (again.best, again.last, again.best_epoch, again.epochs, again.steps) == ({}, {}, {}, 0, 0)
    assert (again.shared_steps, again.started) == (4, NOON_TEXT)
    report(ledger, 2, wall=9.0, qqp=0.7, overall=0.5)
    report(ledger, 3, wall=20.0, qqp=0.8, overall=0.6)
    end(ledger, "complete")
    record = ledger.records["0000-r0"]
    assert (record.best, record.best_epoch) == ({"qqp": 0.8, "overall": 0.6}, {"qqp": 3, "overall": 3})
    assert record.wall_seconds == 20


def test_known_trials_stay_and_missing_grid_points_are_added(make_plan: MakePlan) -> None:
    before = open_ledger(make_plan())
    report(before, 1, trial_id="0001-r0", overall=0.5)
    end(before, "complete", trial_id="0001-r0")
    ledger = open_ledger(before.plan, [before.records["0001-r0"]])
    assert ledger.records["0001-r0"] == before.records["0001-r0"]
    assert ledger.counts == {"complete": 1, "queued": 2}


def test_race_has_lanes_for_all_rounds_that_it_may_have(make_plan: MakePlan) -> None:
    """Its progress shows those that are expected; a lane must not wait for the end of a round."""
    ledger = open_ledger(make_plan(replicates=9, until_decided=0.0))
    for number in range(3):
        start(ledger, f"{number:04d}-r0")
        report(ledger, 1, f"{number:04d}-r0", overall=0.5)
        end(ledger, "complete", f"{number:04d}-r0")
    second = RoundDecision(num_rounds=2, open=(0, 1), worse=(2,), expected_rounds=(3, 3))
    ledger.race = RaceRecord(decisions=(second,))
    assert (ledger.counts["queued"], ledger.num_left) == (2 + 2 + 1, 8 + 8 + 1)
