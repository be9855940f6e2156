"""Progress for the user: lines in a log, a table on a terminal, times."""

import io
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from mtlib.runtime.command_line import duration
from sweeps.cli.progress import live_lines, show_progress, summary
from sweeps.driver.ledger import Ledger, apply_event, open_ledger
from sweeps.lanes.channel import Event
from tests.sweeps.conftest import MakePlan

NOON = 1_700_000_000.0


def event(kind: Any, trial_id: str | None = "0000-r0", at: float = NOON, **facts: Any) -> Event:
    return Event(kind=kind, lane="lane0", trial_id=trial_id, facts=facts, time=at)


def started(trial_id: str = "0000-r0", at: float = NOON) -> Event:
    return event("started", trial_id, at, host="here", pid=1, attempt=1, why=None)


def scored(epoch: int, at: float = NOON, **scores: float) -> Event:
    return event("report", at=at, epoch=epoch, scores=scores, step=epoch, seconds=1.0)


def ended(how: str, at: float = NOON, error: str | None = None, wall: float | None = None) -> Event:
    """`wall`: seconds that the trial has had a lane, by default all since noon."""
    wall_seconds = at - NOON if wall is None else wall
    return event("ended", at=at, how=how, error=error, was_started=True, wall_seconds=wall_seconds)


def after(ledger: Ledger, *events: Event) -> Ledger:
    for one in events:
        apply_event(ledger, one)
    return ledger


def printed(ledger: Ledger, *events: Event) -> list[str]:
    """What `show_progress` prints without a terminal."""
    console = Console(file=io.StringIO(), width=200)
    with show_progress(console) as on_event:
        for one in events:
            apply_event(ledger, one)
            on_event(one, ledger)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_log_has_a_line_per_start_score_and_end(make_plan: MakePlan) -> None:
    lines = printed(
        open_ledger(make_plan()),
        started(),
        scored(1, sts=0.5, sst=0.25, overall=0.5),
        ended("complete", NOON + 65),
    )
    assert lines[:3] == [
        "0000-r0 starts: smart.weight=0",
        "0000-r0 epoch 1: SST 0.250, STS 0.500, overall 0.500",
        "0000-r0 complete after 1:05",
    ]
    assert lines[3].startswith("1 complete, 2 queued; best overall 0.500 (0000-r0); ")
    assert len(lines) == 4


def test_overall_scores_of_different_tasks_are_not_compared(make_plan: MakePlan) -> None:
    grid = {"stages.0.tasks": (("sst",), ("sst", "qqp"))}
    ledger = after(
        open_ledger(make_plan(grid=grid)),
        *(started(), scored(1, sst=0.5, overall=0.5), ended("complete")),
        *(started("0001-r0"), replace(scored(1, sst=0.4, qqp=0.5, overall=0.45), trial_id="0001-r0")),
    )
    line = live_lines([ledger], NOON)[0]
    assert "best overall 0.450 of SST+QQP (0001-r0), overall 0.500 of SST (0000-r0)" in line


def logged(ledger: Ledger, timed: Iterable[tuple[float, Event]], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of a log in which events come at these seconds."""
    now = [0.0]
    monkeypatch.setattr("sweeps.cli.progress.time.monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), width=200)
    with show_progress(console) as on_event:
        for now[0], one in timed:
            apply_event(ledger, one)
            on_event(one, ledger)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_log_of_a_long_epoch_has_its_steps_from_time_to_time(
    make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = ((step / 10, event("progress", epoch=1, step=step, num_steps=1200)) for step in range(100, 1200, 100))
    lines = logged(open_ledger(make_plan()), [(0.0, started()), *steps], monkeypatch)[1:]
    assert [line.split("; ")[-1] for line in lines] == [
        f"0000-r0 epoch 1, step {step:,} of 1,200" for step in (500, 1000)
    ]
    assert all(line.startswith("1 running, 2 queued; ") for line in lines)


def test_log_has_a_line_from_time_to_time_though_nothing_happens(
    make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = ((float(second), event("tick", None)) for second in range(100))
    lines = logged(open_ledger(make_plan()), ticks, monkeypatch)
    assert [line.split("; ")[0] for line in lines] == ["3 queued", "3 queued"]


def test_live_lines_shows_each_running_trials_progress(make_plan: MakePlan) -> None:
    ledger = after(
        open_ledger(make_plan()), started(), event("progress", epoch=2, step=30, num_steps=120), scored(1, qqp=0.75)
    )
    shown = "\n".join(live_lines([ledger], NOON))
    for part in ("1 running, 2 queued", "0000-r0", "smart.weight=0", "epoch 2, step 30 of 120", "QQP 0.750"):
        assert part in shown


def left_at(now: float, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> str:
    """The remaining time that is shown at a time."""
    monkeypatch.setattr("time.time", lambda: now)
    return summary(ledger, NOON).rpartition("about ")[2].removesuffix(" left")


def test_remaining_time_follows_from_finished_trials(make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = after(open_ledger(make_plan()), started(), ended("complete", NOON + 20))
    assert left_at(NOON + 20, ledger, monkeypatch) == duration(2 * 20)


def test_pause_between_two_runs_does_not_lengthen_trials(make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of three trials takes 20 seconds; the first had 8 of them, and 40 % of its steps, before the pause."""
    morning = NOON + 50_000
    evening = after(open_ledger(make_plan()), started(), ended("interrupted", NOON + 8))
    ledger = after(open_ledger(evening.plan, evening.records.values()), started(at=morning))
    after(ledger, event("progress", epoch=1, step=50, num_steps=100))
    assert left_at(morning + 2, ledger, monkeypatch) == duration(10 + 2 * 20)
    after(ledger, ended("complete", morning + 12, wall=20))
    assert left_at(morning + 12, ledger, monkeypatch) == duration(2 * 20)
    evening = after(open_ledger(evening.plan), started(), ended("interrupted", NOON + 8))
    again = open_ledger(evening.plan, evening.records.values())
    assert "0000-r0 complete after 20 s" in printed(
        again, started(at=morning), ended("complete", morning + 12, wall=20)
    )


def test_two_lanes_need_half_the_time(make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = [Event(kind="lane_open", lane=name, facts={"host": "here"}) for name in ("lane0", "lane1")]
    ledger = after(open_ledger(make_plan()), *lanes, started(), ended("complete", NOON + 20))
    assert left_at(NOON + 20, ledger, monkeypatch) == duration(20)


def test_idle_lanes_do_not_shorten_the_last_trial(make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = [Event(kind="lane_open", lane=name, facts={"host": "here"}) for name in ("lane0", "lane1")]
    plan = make_plan(grid={"smart.weight": (0.0, 1.0)})
    last = started("0001-r0", NOON + 20)
    ledger = after(open_ledger(plan), *lanes, started(), ended("complete", NOON + 20), last)
    assert left_at(NOON + 20, ledger, monkeypatch) == duration(20)


def test_replayed_epochs_add_no_lines(make_plan: MakePlan) -> None:
    again = event("report", epoch=1, scores={"sst": 0.5}, step=1, seconds=1.0, is_replayed=True)
    ledger = open_ledger(make_plan())
    assert len(printed(ledger, started(), again, again)) == 1
    assert ledger.records["0000-r0"].best == {"sst": 0.5}


def test_output_that_closes_while_progress_is_shown_is_a_broken_pipe() -> None:
    """Rich raises SystemExit there."""
    with pytest.raises(BrokenPipeError), show_progress(Console(file=io.StringIO())):
        raise SystemExit(1)
