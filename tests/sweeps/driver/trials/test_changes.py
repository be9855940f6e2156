"""How messages change the table: epochs and verdicts, deaths of workers and nodes, the ways a sweep ends, records."""

from dataclasses import replace
from typing import Any

import pytest

from sweeps.driver.trials.messages import Assignment, ErrorCause, MessageKind
from sweeps.driver.trials.table import open_table
from tests.local_table import LocalTable, report
from tests.sweeps.conftest import MakePlan

NOON = 1_700_000_000.0
NOON_TEXT = "2023-11-14T22:13:20.000+00:00"


@pytest.fixture
def local() -> LocalTable:
    return LocalTable()


def status(local: LocalTable, name: str = "t") -> str:
    """How Tune hears that a trial has ended."""
    return str(local.ask("wants_report", name, num_seen=9).answer["status"])


@pytest.mark.parametrize("stop", [True, False])
def test_lane_waits_for_the_verdict_on_its_report(local: LocalTable, stop: bool) -> None:
    local.assign()
    waiting = local.report(1, 0.5)
    passed_on = local.ask("wants_report", "t", num_seen=0).answer
    assert not waiting.is_answered
    assert (passed_on["best"], passed_on["epoch"]) == (0.5, 1)
    local.decide(1, stop)
    local.decide(1, not stop)
    assert waiting.answer == ("stop" if stop else "go"), "the first verdict stays"
    assert local.table.records["t"].status == ("pruned" if stop else "running")


def test_repeated_report_gets_the_first_verdict_and_is_passed_on_once(local: LocalTable) -> None:
    local.assign()
    calls = [local.report(1, score) for score in (0.5, 0.9)]
    local.decide(1, True)
    assert [call.answer for call in [*calls, local.report(1, 0.9)]] == ["stop"] * 3
    assert local.ask("wants_report", "t", num_seen=0).answer["best"] == 0.5
    assert len(local.events("report")) == 1


def test_restarted_process_of_tune_gets_all_reports_again_and_the_end_last(local: LocalTable) -> None:
    local.assign()
    local.decide(1, False)
    local.report(1)
    for how, error in (("failed", "it broke"), ("complete", None)):
        local.tell("left", "t", status=how, error=error, spent={})
    for _ in range(2):
        assert local.ask("wants_report", "t", num_seen=0).answer["status"] == ""
        end = local.ask("wants_report", "t", num_seen=1).answer
        assert (end["status"], end["done"], end["best"]) == ("failed", True, 0.5), "the first end counts"
    (ended,) = local.events("ended")
    assert (ended.facts["how"], ended.facts["was_started"]) == ("failed", True)


def test_trial_whose_process_in_tune_is_started_again_is_not_trained_twice(local: LocalTable) -> None:
    local.assign()
    local.ask("wants_report", "t", num_seen=0)
    assert local.events("note") == []
    local.ask("wants_report", "t", num_seen=0)
    (note,) = local.events("note")
    assert note.facts["text"] == "t goes on: only its process in Ray Tune died, and was started again"
    assert not local.want("b").is_answered


def test_restarted_lane_gets_its_trial_back_as_a_new_attempt(local: LocalTable) -> None:
    local.assign()
    waiting = local.report(1)
    local.suggest("other")
    local.tell("worker_error", "t", why="KeyError: 'lost'", cause="trial")
    local.tell("workers_died", lane="a", why="a worker died")
    assert waiting.answer == "end"
    local.open("a")
    new = local.want("a").answer
    assert (new.trial_id, new.attempt) == ("t", 2), "before those that have not begun"
    found = {event.kind: event.facts.get("why") for event in local.events()}
    told = {found[kind] for kind in ("lane_down", "requeued", "resumed")}
    assert told == {"KeyError: 'lost'"}, "its own error says more"


def test_worker_that_outlives_its_attempt_changes_nothing(local: LocalTable) -> None:
    local.assign()
    local.tell("lane_ended", lane="a", why="gone")

    def speak() -> None:
        """What the old worker may still say."""
        assert local.ask("progress", "t", step=1).answer
        assert local.report(1).answer == "end"
        assert local.ask("past_epochs", "t", epochs=[report(1)]).answer == "end"
        local.tell("starting_point", "t", state="", epochs=3, shared_steps=0, taken_from=None)
        local.tell("left", "t", status="failed", error="from the dead", spent={})

    speak()
    assert local.assign(lane="b").attempt == 2
    speak()
    assert local.events("progress", "report", "ended", "starting_point") == []
    assert not local.ask("progress", "t", 2, step=1).answer
    local.tell("left", "t", 2, status="complete", error=None, spent={})
    assert status(local) == "complete"


def die(local: LocalTable, state: str, error: str | None = None, cause: ErrorCause = "trial") -> None:
    """A lane starts the trial from a state, and its workers die, by an error of their own or unexplained."""
    attempt = local.assign().attempt
    local.tell("starting_point", "t", attempt, state=state, epochs=0, shared_steps=0, taken_from=None)
    if error is not None:
        local.tell("worker_error", "t", attempt, why=error, cause=cause)
    local.tell("workers_died", lane="a", why="possibly out of memory")


@pytest.mark.parametrize(("error", "times"), [("KeyError: 'lost'", 2), (None, 3)])
def test_trial_whose_workers_die_again_from_one_state_on_fails(
    local: LocalTable, error: str | None, times: int
) -> None:
    local.tell("nodes", max_lanes=2, alive=["n"])
    for number in range(times):
        assert local.events("ended") == [], number
        die(local, "state-10", error)
    (ended,) = local.events("ended")
    assert ended.facts["how"] == status(local) == "failed"
    assert (error or "out of memory") in ended.facts["error"]
    assert local.assign("next").trial_id == "next", "the lane goes on"


def test_deaths_from_different_states_do_not_add_up(local: LocalTable) -> None:
    local.tell("nodes", max_lanes=2, alive=["n"])
    for number in range(5):
        die(local, f"state-{number}", "KeyError: 'lost'")
    assert local.events("ended") == []


@pytest.mark.parametrize("kind", ["lane_ended", "drained"])
def test_end_of_a_lanes_run_is_not_its_trials_doing(local: LocalTable, kind: MessageKind) -> None:
    local.tell("nodes", max_lanes=2, alive=["n"])
    for _ in range(5):
        local.assign()
        local.tell(kind, lane="a", why="its controller died, or its node is drained", refused=["n"])
    seen = local.events("ended", "lane_closed")
    assert [event.facts["refused"] for event in seen] == ([["n"]] * 5 if kind == "drained" else [])


def test_trial_of_workers_that_died_of_a_broken_disk_is_interrupted(local: LocalTable) -> None:
    die(local, "", "OSError: read-only", "storage")
    (ended,) = local.events("ended")
    assert (ended.facts["how"], ended.facts["error"]) == ("interrupted", "OSError: read-only")


def test_first_worker_says_why_a_trial_lost_its_lane_and_a_disk_stays_the_cause(local: LocalTable) -> None:
    """The other workers only see that their peer has gone."""
    local.assign()
    local.tell("worker_error", "t", why="no space left", cause="storage")
    local.tell("worker_error", "t", why="connection closed by peer", cause="trial")
    local.tell("workers_died", lane="a", why="unexplained")
    (end,) = local.events("ended")
    assert (end.facts["how"], end.facts["error"]) == ("interrupted", "no space left")


def test_trial_that_was_pruned_stays_so_though_its_workers_die_before_they_say_so(local: LocalTable) -> None:
    local.assign()
    local.report(1)
    local.decide(1, True)
    local.tell("workers_died", lane="a", why="a worker died")
    (ended,) = local.events("ended")
    assert ended.record is not None
    assert (ended.facts["how"], ended.record.status, list(local.table.queue)) == ("pruned", "pruned", [])


def test_deaths_with_a_node_do_not_count(local: LocalTable) -> None:
    for number in range(4):
        local.tell("nodes", max_lanes=1, alive=[f"node{number}"])
        assert local.assign(node=f"node{number}").attempt == number + 1
        local.tell("nodes", max_lanes=1, alive=["another"])
        local.tell("workers_died", lane="a", why="actor died")
    whys = [event.facts["why"] for event in local.events("requeued")]
    assert whys == [f"node node{number} died" for number in range(4)]


def test_death_stops_counting_once_its_node_is_known_to_be_lost(local: LocalTable) -> None:
    local.tell("nodes", max_lanes=1, alive=["m", "n"])
    local.assign(node="n")
    local.tell("workers_died", lane="a", why="actor died")
    local.tell("nodes", max_lanes=1, alive=["m"])
    local.assign(node="m")
    found = {event.kind: event.facts.get("why") for event in local.events()}
    assert (found["requeued"], found["resumed"]) == ("actor died", "node n died")
    local.tell("workers_died", lane="a", why="actor died")
    assert local.assign(node="m").attempt == 3


def test_lane_that_opens_again_unreported_had_dead_workers(local: LocalTable) -> None:
    local.assign()
    assert local.assign().attempt == 2


def test_stop_ends_everything(local: LocalTable) -> None:
    local.assign()
    waiting, tune = local.report(1), local.ask("wants_report", "t", num_seen=1)
    local.suggest("queued")
    local.tell("stop")
    assert waiting.answer == "end"
    assert local.ask("progress", "t", step=3).answer
    assert local.want("b").answer == "close"
    assert not local.open("e")
    local.suggest("late")
    ended = {event.trial_id: event.facts for event in local.events("ended")}
    assert ended.keys() == {"queued", "late"}, "the lane of the other reports its end"
    assert not any(facts["was_started"] for facts in ended.values())
    assert local.table.records["late"].status == "queued"
    assert not tune.is_answered
    local.tell("lane_ended", lane="a", why="closed")
    assert tune.answer["status"] == "interrupted"


def test_winding_down_lets_running_trials_finish_their_epoch(local: LocalTable) -> None:
    local.assign()
    local.suggest("queued")
    local.tell("wind_down")
    assert status(local, "queued") == "interrupted"
    assert not local.ask("progress", "t", step=1).answer
    waiting = local.report(1)
    assert not waiting.is_answered
    local.decide(1, False)
    assert waiting.answer == "leave"
    local.tell("left", "t", status="interrupted", error=None, spent={})
    assert local.want("a").answer == "close"


def test_trial_of_a_dead_lane_does_not_begin_again_while_the_sweep_ends(local: LocalTable) -> None:
    local.assign()
    local.tell("wind_down")
    local.tell("workers_died", lane="a", why="a worker died")
    assert status(local) == "interrupted"
    assert not any(row.runs for row in local.table.rows.values())


def run_out_of_memory(local: LocalTable, name: str, lane: str, attempt: int) -> None:
    """A trial ends its worker, for want of memory on a GPU that it shares."""
    local.tell("worker_error", name, attempt, why="CUDA out of memory", cause="shared_gpu")
    local.tell("workers_died", lane=lane, why="unexplained")


def leave(local: LocalTable, name: str, attempt: int = 1) -> None:
    local.tell("left", name, attempt, status="complete", error=None, spent={})


@pytest.mark.parametrize("times", [1, 2])
def test_trial_that_runs_out_of_memory_alone_on_a_gpu_too_fails(local: LocalTable, times: int) -> None:
    local.tell("nodes", max_lanes=4, alive=["n"])
    local.assign("large")
    run_out_of_memory(local, "large", "a", 1)
    (requeued,) = local.events("requeued")
    assert requeued.facts["why"] == "CUDA out of memory; it is tried again alone on a GPU"
    for attempt in range(2, 2 + times):
        local.open("a", gpus=[("n", "0")])
        assert local.want("a").answer.has_gpu_alone
        run_out_of_memory(local, "large", "a", attempt)
    ended = [event.facts["how"] for event in local.events("ended")]
    assert ended == ["failed"] * (times == 2)


def test_past_epochs_are_recorded_and_decided_on_as_if_just_trained(local: LocalTable) -> None:
    local.assign()
    local.tell("starting_point", "t", state="s", epochs=3, shared_steps=4, taken_from=None)
    past = [report(1, 0.9, scores={"sst": 0.9}), report(2, 0.7), report(3, 0.8)]
    asked = local.ask("past_epochs", "t", epochs=past)
    record = local.table.records["t"]
    assert (record.best, record.epochs, record.shared_steps) == ({"sst": 0.9, "overall": 0.8}, 3, 4)
    assert [local.ask("wants_report", "t", num_seen=seen).answer["trained_epochs"] for seen in (0, 1)] == [2, 3]
    local.decide(2, False)
    assert not asked.is_answered
    local.decide(3, False)
    assert asked.answer is None
    assert local.table.trained_steps == 0
    assert local.events("report") == []


def test_trial_stops_at_the_past_epoch_that_the_scheduler_stops(local: LocalTable) -> None:
    local.assign()
    asked = local.ask("past_epochs", "t", epochs=[report(1), report(2)])
    local.decide(1, True)
    assert asked.answer == 1


def test_record_of_a_trial_whose_lane_was_restarted_has_all_its_epochs(local: LocalTable) -> None:
    local.assign()
    local.decide(1, False)
    local.report(1, 0.9)
    local.report(2, 0.5)
    local.tell("workers_died", lane="a", why="a worker died")
    local.assign()
    local.tell("starting_point", "t", 2, state="s", epochs=1, shared_steps=0, taken_from=None)
    assert local.table.records["t"].best == {}, "it is about to send its past"
    local.ask("past_epochs", "t", 2, epochs=[report(1, 0.9)])
    local.report(2, 0.5, attempt=2)
    record = local.table.records["t"]
    assert (record.best["overall"], record.epochs, record.best_epoch["overall"]) == (0.9, 2, 1)
    assert [event.facts["epoch"] for event in local.events("report")] == [1, 2, 2], "as it is trained"


def test_steps_count_where_they_are_trained_again_and_not_where_they_were_trained_before(local: LocalTable) -> None:
    local.assign()
    local.ask("past_epochs", "t", epochs=[report(1, step=40)])
    local.ask("progress", "t", step=41)
    local.report(2, step=50)
    assert local.table.trained_steps == 10
    local.ask("progress", "t", step=55)
    local.tell("workers_died", lane="a", why="a worker died")
    local.assign()
    local.tell("starting_point", "t", 2, state="s", epochs=1, shared_steps=0, taken_from=None)
    local.ask("progress", "t", 2, step=51)
    assert local.table.trained_steps == 16


# Records, of the trials of a plan


def named(plan: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[LocalTable, dict[str, float]]:
    """The table of a grid, and its clock."""
    clock = {"now": NOON}
    monkeypatch.setattr("time.time", lambda: clock["now"])
    return LocalTable(plan), clock


def begin(local: LocalTable, name: str = "0000-r0", lane: str = "a") -> Assignment:
    """A trial of a grid gets a lane."""
    row = local.table.rows[name]
    if row.attempt == 0:
        local.table.queue.append(row)
    return local.assign(name, lane)


def test_trial_goes_from_queued_over_running_to_its_end(make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    local, _clock = named(make_plan(workers=2), monkeypatch)
    table, name = local.table, "0000-r0"
    assert table.counts == {"queued": 3}
    begin(local)
    local.ask("progress", name, epoch=1, step=3, num_steps=30)
    assert table.progress[name] == {"since": NOON, "epoch": 1, "step": 3, "num_steps": 30}
    assert table.counts == {"running": 1, "queued": 2}
    local.report(1, 0.4, name=name, seconds=2.0, wall_seconds=5.0, peak_memory_bytes=1)
    spent = {"wall_seconds": 6.0, "peak_memory_bytes": 7}
    local.tell("left", name, status="complete", error=None, spent=spent)
    record = table.records[name]
    assert (record.status, record.epochs, record.steps) == ("complete", 1, 10)
    assert (record.wall_seconds, record.device_seconds, record.peak_memory_bytes) == (6.0, 4.0, 7)
    assert (record.started, record.host) == (NOON_TEXT, "here")
    assert (table.progress, table.num_left) == ({}, 2)


def test_best_is_kept_per_score_with_its_first_epoch(local: LocalTable) -> None:
    local.assign()
    for epoch, scores in enumerate(({"qqp": 0.7}, {"qqp": 0.6, "sst": 0.3}, {"qqp": 0.7, "sst": 0.4}), 1):
        local.report(epoch, scores=scores)
    record = local.table.records["t"]
    assert record.best == record.last == {"qqp": 0.7, "sst": 0.4}
    assert record.best_epoch == {"qqp": 1, "sst": 3}


def test_wait_for_another_lane_does_not_count_as_time(make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    local, clock = named(make_plan(), monkeypatch)
    begin(local)
    clock["now"] = NOON + 100
    local.tell("workers_died", lane="a", why="a worker died")
    assert (local.table.counts, local.table.num_left, local.table.progress) == ({"queued": 3}, 3, {})
    clock["now"] = NOON + 500
    begin(local)
    assert local.table.progress["0000-r0"] == {"since": NOON + 400}
    record = local.table.records["0000-r0"]
    assert (record.status, record.started) == ("running", NOON_TEXT)


def test_trial_of_a_resumed_sweep_keeps_its_first_start_and_its_seconds(
    make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, clock = named(make_plan(), monkeypatch)
    begin(before)
    before.report(1, 0.5, name="0000-r0", wall_seconds=9.0)
    queued = [replace(record, status="queued") for record in before.table.records.values()]
    again = LocalTable(before.plan, open_table(before.plan, queued))
    clock["now"] = NOON + 100
    begin(again)
    assert again.table.progress["0000-r0"] == {"since": NOON + 91}
    record = again.table.records["0000-r0"]
    assert record.best["overall"] == 0.5, "as it was, until it sends its past epochs"
    assert record.started == NOON_TEXT
