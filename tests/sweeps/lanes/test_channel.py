"""The channel without Ray: assignment, verdicts, deaths of workers and nodes, and the ways a sweep ends."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sweeps.lanes.channel import Assignment, Channel, ErrorCause, Event

Call = Coroutine[Any, Any, Any]


def running(test: Callable[..., Call]) -> Callable[..., None]:
    """Runs a test that is a coroutine."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **named), 60))

    return run


def begin(call: Call) -> "asyncio.Task[Any]":
    """Starts a call that waits."""
    return asyncio.get_running_loop().create_task(call)


async def settle() -> None:
    """Lets all tasks run until they wait."""
    for _ in range(20):
        await asyncio.sleep(0)


def report(epoch: int, score: float = 0.5, scored_epoch: int | None = None, is_last: bool = False) -> dict[str, Any]:
    """A lane's report of an epoch."""
    scored = epoch if scored_epoch is None else scored_epoch
    scores = {"sst": score} | ({"overall": score} if scored else {})
    return {"epoch": epoch, "scored_epoch": scored, "score": score, "scores": scores, "is_last": is_last}


def trial(name: str) -> dict[str, Any]:
    return {"trial_id": name, "config": "{}"}


def place(node: str = "n") -> dict[str, Any]:
    return {"host": "here", "workers": [(node, 1)]}


async def assign(channel: Channel, name: str = "t", lane: str = "a", node: str = "n") -> Assignment:
    """A lane on a node that has got a trial."""
    await channel.submit(trial(name))
    await channel.open_lane(lane, [node])
    found = await channel.next_trial(lane, place(node))
    assert isinstance(found, Assignment)
    return found


async def events(channel: Channel, *kinds: str) -> list[Event]:
    return [event for event in await channel.take_events(0.0) if not kinds or event.kind in kinds]


@running
async def test_each_trial_goes_to_one_waiting_lane() -> None:
    channel = Channel()
    lanes = [begin(channel.next_trial(name, place())) for name in "ab"]
    await settle()
    assert not any(lane.done() for lane in lanes)
    for name in ("first", "second", "second"):
        await channel.submit(trial(name))
    found = [await lane for lane in lanes]
    assert sorted((one.trial_id, one.attempt) for one in found) == [("first", 1), ("second", 1)]
    started = [(event.lane, event.trial_id) for event in await events(channel, "started")]
    assert set(started) == set(zip("ab", (one.trial_id for one in found), strict=True))
    assert await channel.has_running()


@pytest.mark.parametrize("stop", [True, False])
@running
async def test_lane_waits_for_the_verdict_on_its_report(stop: bool) -> None:
    channel = Channel()
    own = await assign(channel)
    waiting = begin(channel.report_epoch("t", own.attempt, report(1, 0.5)))
    passed_on = await channel.next_report("t", 0)
    await settle()
    assert not waiting.done()
    assert (passed_on["best"], passed_on["bests"]) == (0.5, {"sst": 0.5, "overall": 0.5})
    await channel.decide("t", 1, stop)
    await channel.decide("t", 1, not stop)
    assert await waiting == ("stop" if stop else "go"), "the first verdict stays"


@running
async def test_repeated_report_gets_the_first_verdict_and_is_passed_on_once() -> None:
    channel = Channel()
    own = await assign(channel)
    calls = [begin(channel.report_epoch("t", own.attempt, report(1, score))) for score in (0.5, 0.9)]
    await settle()
    await channel.decide("t", 1, True)
    assert [await call for call in calls] == ["stop", "stop"]
    assert await channel.report_epoch("t", own.attempt, report(1, 0.9)) == "stop"
    assert (await channel.next_report("t", 0))["score"] == 0.5
    assert len(await events(channel, "report")) == 1


@running
async def test_restarted_process_of_tune_is_told_all_reports_again_and_the_end_last() -> None:
    channel = Channel()
    own = await assign(channel)
    await channel.decide("t", 1, False)
    await channel.report_epoch("t", own.attempt, report(1))
    await channel.report_end("t", own.attempt, "failed", "it broke", {})
    await channel.report_end("t", own.attempt, "complete", None, {})
    for _ in range(2):
        await channel.submit(trial("t"))
        assert "status" not in await channel.next_report("t", 0)
        end = await channel.next_report("t", 1)
        assert (end["status"], end["error"], end["best"]) == ("failed", "it broke", 0.5), "the first end counts"
    (ended,) = await events(channel, "ended")
    assert (ended.facts["how"], ended.facts["was_started"]) == ("failed", True)


@running
async def test_restarted_lane_gets_its_trial_back_as_a_new_attempt() -> None:
    channel = Channel()
    old = await assign(channel)
    waiting = begin(channel.report_epoch("t", old.attempt, report(1)))
    await settle()
    await channel.submit(trial("other"))
    await channel.report_error("t", old.attempt, "KeyError: 'lost'", "trial")
    await channel.report_dead_workers("a", "a worker died")
    assert await waiting == "end"
    await channel.open_lane("a", ["n"])
    new = await channel.next_trial("a", place())
    assert isinstance(new, Assignment)
    assert (new.trial_id, new.attempt) == ("t", 2), "before those that have not begun"
    found = {event.kind: event.facts.get("why") for event in await events(channel)}
    assert found["lane_down"] == "a worker died"
    assert found["requeued"] == found["resumed"] == "KeyError: 'lost'", "its own error says more"


@running
async def test_worker_that_outlives_its_attempt_changes_nothing() -> None:
    channel = Channel()
    old = await assign(channel)
    await channel.lane_ended("a", "gone")
    assert await channel.report_progress("t", old.attempt, {"step": 1})
    assert await channel.report_epoch("t", old.attempt, report(1)) == "end"
    await channel.report_end("t", old.attempt, "interrupted", None, {})
    new = await assign(channel, lane="b")
    assert await channel.report_progress("t", old.attempt, {"step": 1})
    assert await channel.report_epoch("t", old.attempt, report(1)) == "end"
    await channel.report_end("t", old.attempt, "failed", "from the dead", {})
    assert await events(channel, "progress", "report", "ended") == []
    assert not await channel.report_progress("t", new.attempt, {"step": 1})
    await channel.report_end("t", new.attempt, "complete", None, {})
    assert (await channel.next_report("t", 0))["status"] == "complete"


@running
async def test_call_of_dead_workers_takes_no_trial() -> None:
    channel = Channel()
    await channel.open_lane("a", ["n"])
    dead = begin(channel.next_trial("a", place()))
    await settle()
    await channel.report_dead_workers("a", "a worker died")
    await settle()
    await channel.open_lane("a", ["n"])
    alive = begin(channel.next_trial("a", place()))
    await settle()
    await channel.submit(trial("t"))
    assert await dead == "close"
    assert (await alive).trial_id == "t"


async def die(channel: Channel, state: str, error: str | None = None, cause: ErrorCause = "trial") -> None:
    """A lane starts the trial from a state, and its workers die, by an error of their own or unexplained."""
    own = await assign(channel)
    await channel.report_event("starting_point", "t", {"state": state})
    if error is not None:
        await channel.report_error("t", own.attempt, error, cause)
    await channel.report_dead_workers("a", "possibly out of memory")


@running
@pytest.mark.parametrize(("error", "times"), [("KeyError: 'lost'", 2), (None, 3)])
async def test_trial_whose_workers_die_again_from_one_state_on_fails(error: str | None, times: int) -> None:
    channel = Channel()
    await channel.set_places(2, ["n"])
    for _ in range(times):
        await die(channel, "state-10", error)
    end = await channel.next_report("t", 0)
    assert end["status"] == "failed"
    assert (error or "out of memory") in end["error"]
    assert (await assign(channel, "next")).trial_id == "next", "the lane goes on"


@running
async def test_end_of_a_lanes_run_is_not_its_trials_doing() -> None:
    channel = Channel()
    await channel.set_places(2, ["n"])
    for _ in range(5):
        await assign(channel)
        await channel.lane_ended("a", "its controller died")
    assert await events(channel, "ended") == []


@running
async def test_trial_of_workers_that_died_of_a_broken_disk_is_interrupted() -> None:
    channel = Channel()
    await die(channel, "", "OSError: read-only", "storage")
    (ended,) = await events(channel, "ended")
    assert (ended.facts["how"], ended.facts["error"]) == ("interrupted", "OSError: read-only")


@running
async def test_trial_whose_process_in_tune_is_started_again_is_not_trained_twice() -> None:
    channel = Channel()
    await assign(channel)
    await channel.submit(trial("t"))
    (note,) = await events(channel, "note")
    assert note.facts["text"] == "t goes on: only its process in Ray Tune died, and was started again"


@running
async def test_deaths_with_a_node_do_not_count() -> None:
    channel = Channel()
    for number in range(4):
        await channel.set_places(1, [f"node{number}"])
        own = await assign(channel, node=f"node{number}")
        assert own.attempt == number + 1
        await channel.set_places(1, ["another"])
        await channel.report_dead_workers("a", "actor died")
    whys = [event.facts["why"] for event in await events(channel, "requeued")]
    assert whys == [f"node node{number} died" for number in range(4)]


@running
async def test_death_stops_counting_once_its_node_is_known_to_be_lost() -> None:
    channel = Channel()
    await channel.set_places(1, ["m", "n"])
    await assign(channel, node="n")
    await channel.report_dead_workers("a", "actor died")
    await channel.set_places(1, ["m"])
    await assign(channel, node="m")
    found = {event.kind: event.facts.get("why") for event in await events(channel)}
    assert (found["requeued"], found["resumed"]) == ("actor died", "node n died")
    await channel.report_dead_workers("a", "actor died")
    assert (await assign(channel, node="m")).attempt == 3


@running
async def test_lane_that_opens_again_unreported_had_dead_workers() -> None:
    channel = Channel()
    await assign(channel)
    await channel.open_lane("a", ["n"])
    again = await channel.next_trial("a", place())
    assert isinstance(again, Assignment)
    assert again.attempt == 2


@running
async def test_idle_lanes_beyond_the_work_close_but_not_while_a_trial_waits() -> None:
    channel = Channel()
    await assign(channel, "t", "a")
    idle = begin(channel.next_trial("b", place()))
    await settle()
    await channel.set_places(1, ["n"])
    assert await idle == "close"
    assert [event.lane for event in await events(channel, "lane_closed")] == ["b"]
    await channel.submit(trial("u"))
    assert (await channel.next_trial("b", place())).trial_id == "u"  # type: ignore[union-attr]


@running
async def test_stop_ends_everything() -> None:
    channel = Channel()
    own = await assign(channel)
    await channel.submit(trial("queued"))
    idle = begin(channel.next_trial("b", place()))
    assert (await idle).trial_id == "queued"
    await channel.submit(trial("waiting"))
    idle = begin(channel.next_trial("c", place()))
    assert (await idle).trial_id == "waiting"
    await channel.submit(trial("last"))
    waiting, tune = begin(channel.report_epoch("t", own.attempt, report(1))), begin(channel.next_report("last", 0))
    idle = begin(channel.next_trial("d", place()))
    await channel.submit(trial("more"))
    await settle()
    await channel.stop()
    assert await waiting == "end"
    assert await channel.report_progress("t", own.attempt, {})
    assert await channel.next_trial("a", place()) == "close"
    assert not await channel.open_lane("e", ["n"])
    await channel.submit(trial("late"))
    ended = {event.trial_id: event.facts for event in await events(channel, "ended")}
    assert ended["late"]["how"] == "interrupted"
    assert not ended["late"]["was_started"]
    assert "t" not in ended, "its lane reports its end"
    assert (await idle).trial_id == "last"
    assert not tune.done()
    await channel.lane_ended("d", "closed")
    assert (await tune)["status"] == "interrupted"


@running
async def test_winding_down_lets_running_trials_finish_their_epoch() -> None:
    channel = Channel()
    own = await assign(channel)
    await channel.submit(trial("queued"))
    assert not await channel.is_ending()
    await channel.wind_down()
    assert (await channel.next_report("queued", 0))["status"] == "interrupted"
    assert not await channel.report_progress("t", own.attempt, {"step": 1})
    waiting = begin(channel.report_epoch("t", own.attempt, report(1)))
    await settle()
    assert not waiting.done()
    await channel.decide("t", 1, False)
    assert await waiting == "go"
    assert await channel.is_ending()
    await channel.report_end("t", own.attempt, "interrupted", None, {})
    assert await channel.next_trial("a", place()) == "close"


@running
async def test_trial_of_a_dead_lane_does_not_begin_again_while_the_sweep_ends() -> None:
    channel = Channel()
    await assign(channel)
    await channel.wind_down()
    await channel.report_dead_workers("a", "a worker died")
    assert (await channel.next_report("t", 0))["status"] == "interrupted"
    assert not await channel.has_running()


@running
async def test_trial_that_nothing_is_heard_of_is_silent_until_it_is_heard() -> None:
    channel = Channel()
    own = await assign(channel)
    assert await channel.silent_lanes(3600.0) == []
    assert await channel.silent_lanes(-1.0) == [("a", "t", ())]
    await channel.report_end("t", own.attempt, "complete", None, {})
    assert await channel.silent_lanes(-1.0) == []


async def open_on(channel: Channel, lane: str, gpu: str) -> "asyncio.Task[Any]":
    """Opens a lane on a GPU; its request for a trial."""
    await channel.open_lane(lane, ["n"], gpus=[("n", gpu)])
    request = begin(channel.next_trial(lane, place()))
    await settle()
    return request


@running
async def test_trial_that_ran_out_of_memory_on_a_shared_gpu_gets_one_alone_before_it_fails() -> None:
    """Lanes a and b share a GPU, c has another one."""
    channel = Channel()
    await channel.set_places(4, ["n"])
    for name in ("large", "t1", "t2", "t3", "t4"):
        await channel.submit(trial(name))
    large, _b, _c = [(await open_on(channel, lane, gpu)).result() for lane, gpu in (("a", "0"), ("b", "0"), ("c", "1"))]
    assert (large.trial_id, large.has_gpu_alone) == ("large", False)
    await channel.report_error("large", large.attempt, "CUDA out of memory", "shared_gpu")
    await channel.report_dead_workers("a", "unexplained")
    (requeued,) = await events(channel, "requeued")
    assert requeued.facts["why"] == "CUDA out of memory; it is tried again alone on a GPU"

    again = await open_on(channel, "a", "0")
    assert not again.done(), "t1 is on its GPU"
    await channel.report_end("t2", 1, "complete", None, {})
    alone = await channel.next_trial("c", place())
    assert isinstance(alone, Assignment)
    assert (alone.trial_id, alone.has_gpu_alone) == ("large", True)
    await settle()
    assert again.result().trial_id == "t3", "a and b go on"
    beside = await open_on(channel, "d", "1")
    assert not beside.done(), "nothing joins it"

    for _ in range(2):
        await channel.report_error("large", alone.attempt, "CUDA out of memory", "shared_gpu")
        await channel.report_dead_workers("c", "unexplained")
        await settle()
        if beside.done() and (alone := beside.result()).trial_id == "large":
            await channel.report_error("large", alone.attempt, "CUDA out of memory", "shared_gpu")
            await channel.report_dead_workers("d", "unexplained")
    (ended,) = [event for event in await events(channel, "ended") if event.trial_id == "large"]
    assert (ended.facts["how"], "out of memory" in ended.facts["error"]) == ("failed", True)


@running
async def test_other_gpus_go_on_while_a_trial_waits_for_the_freest_one_alone() -> None:
    """Lanes a and b share a GPU, c and d another one."""
    channel = Channel()
    await channel.set_places(4, ["n"])
    for name in ("large", "t1", "t2", "t3", "t4", "t5", "t6"):
        await channel.submit(trial(name))
    for lane, gpu in (("a", "0"), ("b", "0"), ("c", "1"), ("d", "1")):
        await open_on(channel, lane, gpu)
    await channel.report_error("large", 1, "CUDA out of memory", "shared_gpu")
    await channel.report_dead_workers("a", "unexplained")

    waiting = await open_on(channel, "a", "0")
    await channel.report_end("t2", 1, "complete", None, {})
    going_on = begin(channel.next_trial("c", place()))
    await settle()
    assert not waiting.done(), "t1 is on the freest GPU, where no trial begins meanwhile"
    assert going_on.result().trial_id == "t4"

    await channel.report_end("t1", 1, "complete", None, {})
    await settle()
    assert waiting.result().trial_id == "large"
    assert waiting.result().has_gpu_alone
    held_back = begin(channel.next_trial("b", place()))
    await settle()
    assert not held_back.done()
    await channel.report_end("large", 2, "complete", None, {})
    await settle()
    assert held_back.result().trial_id == "t5"


@running
async def test_first_worker_says_why_a_trial_lost_its_lane_and_a_disk_stays_the_cause() -> None:
    """The other workers only see that their peer has gone."""
    channel = Channel()
    own = await assign(channel)
    await channel.report_error("t", own.attempt, "no space left", "storage")
    await channel.report_error("t", own.attempt, "connection closed by peer", "trial")
    await channel.report_dead_workers("a", "unexplained")
    (end,) = [event for event in await events(channel) if event.kind == "ended"]
    assert (end.facts["how"], end.facts["error"]) == ("interrupted", "no space left")
