"""Progress for the user: lines in a log, a table on a terminal, times."""

import io
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from mtlib.runtime.command_line import duration
from sweeps.cli.progress import live_lines, show_progress, summary
from sweeps.driver.trials.table import Event, LaneRow, TrialTable, open_table
from sweeps.driver.trials.trial import make_trial
from tests.local_table import LocalTable, report
from tests.sweeps.conftest import MakePlan
from tests.sweeps.driver.trials.test_changes import NOON, begin

Step = Callable[[LocalTable], None]
"""Something that happens in a sweep."""


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of day, which steps change."""
    monkeypatch.setitem(NOW, "time", NOON)
    monkeypatch.setattr("time.time", lambda: NOW["time"])


NOW: dict[str, float] = {}


def started(name: str = "0000-r0", at: float = NOON) -> Step:
    def step(local: LocalTable) -> None:
        NOW["time"] = at
        begin(local, name, "lane0")

    return step


def moved(name: str = "0000-r0", **facts: Any) -> Step:
    return lambda local: (local.ask("progress", name, **facts), None)[1]


def scored(epoch: int, name: str = "0000-r0", **scores: float) -> Step:
    return lambda local: (local.report(epoch, name=name, scores=scores, step=epoch), None)[1]


def ended(how: str, at: float = NOON, wall: float | None = None, name: str = "0000-r0") -> Step:
    """`wall`: seconds that the trial has had a lane, by default all since noon."""

    def step(local: LocalTable) -> None:
        NOW["time"] = at
        spent = {"wall_seconds": at - NOON if wall is None else wall}
        local.tell("left", name, status=how, error=None, spent=spent)

    return step


def two_lanes(local: LocalTable) -> None:
    """Two lanes are open."""
    local.table.lanes |= {name: LaneRow(host="here") for name in ("lane0", "lane1")}


def after(local: LocalTable, *steps: Step) -> TrialTable:
    for step in steps:
        step(local)
    return local.table


def printed(local: LocalTable, *steps: Step) -> list[str]:
    """What `show_progress` prints without a terminal, but of lanes."""
    console = Console(file=io.StringIO(), width=200)
    with show_progress(console, local.table) as on_event:
        for step in steps:
            step(local)
            for event in local.events():
                if event.kind != "lane_open":
                    on_event(event)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_log_has_a_line_per_start_score_and_end(make_plan: MakePlan) -> None:
    lines = printed(
        LocalTable(make_plan()),
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


def test_end_says_that_a_patience_has_run_out(make_plan: MakePlan) -> None:
    place: dict[str, Any] = {"stage": 0, "epoch": 1, "step": 1, "num_steps": 2}
    early = printed(LocalTable(make_plan()), started(), moved(**place), scored(1), ended("complete", NOON + 65))
    assert early[2:4] == [
        "0000-r0 complete after 1:05",
        "0000-r0: a stage ended early, as its dev score no longer rose: 1 of 2 steps",
    ]
    whole = printed(
        LocalTable(make_plan(name="other")), started(), moved(**place), scored(2), ended("complete", NOON + 65)
    )
    assert not any("early" in line for line in whole)


def trained_once(name: str, constant: dict[float, dict[str, bool]], how: str = "complete") -> Step:
    """A trial from its start to its end, with what is constant in each epoch, by the epoch's overall score."""

    def step(local: LocalTable) -> None:
        number, replicate = int(name[:4]), int(name[6:])
        local.table.add(make_trial(local.table.plan.space, number, replicate, {"smart.weight": number}))
        begin(local, name, "lane0")
        for epoch, (score, own) in enumerate(constant.items(), start=1):
            local.report(epoch, name=name, scores={"overall": score}, step=epoch, constant=own)
        local.tell("left", name, status=how, error=None, spent={"wall_seconds": 1.0})

    return step


def test_end_says_that_a_trial_predicts_one_label_and_that_others_of_its_configuration_do_not(
    make_plan: MakePlan,
) -> None:
    """At the epoch with the highest overall score."""
    none = {"sst": False, "qqp": False}
    lines = printed(
        LocalTable(make_plan()),
        trained_once("0000-r0", {0.5: {"sst": True, "qqp": True}, 0.4: none}),
        trained_once("0000-r1", {0.5: {"sst": True, "qqp": False}, 0.6: {"sst": False, "qqp": True}}),
        trained_once("0000-r2", {0.5: {"sst": True, "qqp": False}}),
        trained_once("0001-r0", {0.5: {"sst": True, "qqp": False}}, how="failed"),
        trained_once("0001-r1", {0.5: none}),
    )
    assert [line for line in lines if "one prediction" in line] == [
        "0000-r0 gives nearly all dev rows of SST and QQP one prediction",
        "0000-r1 gives nearly all dev rows of QQP one prediction",
        "0000-r2 gives nearly all dev rows of SST one prediction; it collapsed: other trainings of its configuration "
        "learned",
    ]


def test_overall_scores_of_different_tasks_are_not_compared(make_plan: MakePlan) -> None:
    grid = {"stages.0.tasks": (("sst",), ("sst", "qqp"))}
    table = after(
        LocalTable(make_plan(grid=grid)),
        *(started(), scored(1, sst=0.5, overall=0.5), ended("complete")),
        *(started("0001-r0"), scored(1, "0001-r0", sst=0.4, qqp=0.5, overall=0.45)),
    )
    line = live_lines(table, NOON)[0]
    assert "best overall 0.450 of SST+QQP (0001-r0), overall 0.500 of SST (0000-r0)" in line


def logged(local: LocalTable, timed: Iterable[tuple[float, Step]], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of a log in which steps come at these seconds."""
    now = [0.0]
    monkeypatch.setattr("sweeps.cli.progress.time.monotonic", lambda: now[0])

    def at(second: float, step: Step) -> Step:
        def do(local: LocalTable) -> None:
            now[0] = second
            step(local)

        return do

    return printed(local, *(at(*one) for one in timed))


def test_log_of_a_long_epoch_has_its_steps_from_time_to_time(
    make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = ((step / 10, moved(epoch=1, step=step, num_steps=1200)) for step in range(100, 1200, 100))
    lines = logged(LocalTable(make_plan()), [(0.0, started()), *steps], monkeypatch)[1:]
    assert [line.split("; ")[-1] for line in lines] == [
        f"0000-r0 epoch 1, step {step:,} of 1,200" for step in (200, 400, 600, 800, 1000)
    ]
    assert all(line.startswith("1 running, 2 queued; ") for line in lines)


def test_log_has_a_line_from_time_to_time_though_nothing_happens(
    make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    local, now = LocalTable(make_plan()), [0.0]
    monkeypatch.setattr("sweeps.cli.progress.time.monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), width=200)
    with show_progress(console, local.table) as on_event:
        for second in range(100):
            now[0] = second
            on_event(Event(kind="tick"))
    assert isinstance(console.file, io.StringIO)
    assert [line.split("; ")[0] for line in console.file.getvalue().splitlines()] == ["3 queued"] * 6


def test_live_lines_shows_each_running_trials_progress(make_plan: MakePlan) -> None:
    local = LocalTable(make_plan())
    table = after(local, started(), moved(epoch=2, step=30, num_steps=120), scored(1, qqp=0.75))
    shown = "\n".join(live_lines(table, NOON))
    for part in ("1 running, 2 queued", "0000-r0", "smart.weight=0", "epoch 2, step 30 of 120", "QQP 0.750"):
        assert part in shown


def left_at(now: float, table: TrialTable) -> str:
    """The remaining time that is shown at a time."""
    NOW["time"] = now
    return summary(table, NOON).rpartition("about ")[2].removesuffix(" left")


def test_remaining_time_follows_from_finished_trials(make_plan: MakePlan) -> None:
    table = after(LocalTable(make_plan()), started(), ended("complete", NOON + 20))
    assert left_at(NOON + 20, table) == duration(2 * 20)


def test_pause_between_two_runs_does_not_lengthen_trials(make_plan: MakePlan) -> None:
    """Each of three trials takes 20 seconds; the first had 8 of them, and 40 % of its steps, before the pause."""
    morning, evening = NOON + 50_000, LocalTable(make_plan())
    after(evening, started(), ended("interrupted", NOON + 8))

    def resumed() -> LocalTable:
        records = [replace(own, status="queued") for own in evening.table.records.values()]
        return LocalTable(evening.plan, open_table(evening.plan, records))

    again = resumed()
    table = after(again, started(at=morning), moved(epoch=1, step=50, num_steps=100))
    assert left_at(morning + 2, table) == duration(10 + 2 * 20)
    after(again, ended("complete", morning + 12, wall=20))
    assert left_at(morning + 12, table) == duration(2 * 20)
    lines = printed(resumed(), started(at=morning), ended("complete", morning + 12, wall=20))
    assert "0000-r0 complete after 20 s" in lines


def test_two_lanes_need_half_the_time(make_plan: MakePlan) -> None:
    table = after(LocalTable(make_plan()), two_lanes, started(), ended("complete", NOON + 20))
    assert left_at(NOON + 20, table) == duration(20)


def test_idle_lanes_do_not_shorten_the_last_trial(make_plan: MakePlan) -> None:
    local = LocalTable(make_plan(grid={"smart.weight": (0.0, 1.0)}))
    table = after(local, two_lanes, started(), ended("complete", NOON + 20), started("0001-r0", NOON + 20))
    assert left_at(NOON + 20, table) == duration(20)


def test_past_epochs_add_no_lines(make_plan: MakePlan) -> None:
    local = LocalTable(make_plan())

    def replay(local: LocalTable) -> None:
        local.ask("past_epochs", "0000-r0", epochs=[report(1, scores={"sst": 0.5}, is_last=True)])

    assert len(printed(local, started(), replay)) == 1
    assert local.table.records["0000-r0"].best == {"sst": 0.5}


def test_output_that_closes_while_progress_is_shown_is_a_broken_pipe(make_plan: MakePlan) -> None:
    """Rich raises SystemExit there."""
    with pytest.raises(BrokenPipeError), show_progress(Console(file=io.StringIO()), open_table(make_plan())):
        raise SystemExit(1)
