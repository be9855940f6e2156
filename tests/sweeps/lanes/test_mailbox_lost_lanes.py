"""The mailbox without Ray where lanes are lost, closed or replaced, and what happens to their trials."""

import asyncio

import pytest

from sweeps.lanes import mailbox as mailbox_module
from sweeps.lanes.mailbox import Mailbox
from sweeps.lanes.messages import Assignment, TrialEnd
from tests.sweeps.lanes.test_mailbox import begin, events_of, settle

HEAD, OTHER = {"a" * 56: "head"}, {"b" * 56: "other"}


async def on_lane(mailbox: Mailbox, lane: str, nodes: dict[str, str], trial_id: str | None = None) -> None:
    """Opens a lane and, if a trial is given, assigns it."""
    assert await mailbox.register_lane(lane, nodes)
    if trial_id is not None:
        await mailbox.submit(trial_id, "{}")
        assert (await mailbox.next_trial(lane, "host", 1)).trial_id == trial_id  # type: ignore[union-attr]


def test_trial_of_a_lost_nodes_lane_goes_to_a_waiting_lane() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await on_lane(mailbox, "lost", OTHER, "t")
        await on_lane(mailbox, "left", HEAD)
        waiting = begin(mailbox.next_trial("left", "host", 2))
        await settle()
        await mailbox.report_dead_workers("lost", "its workers died", alive=list(HEAD))
        assert await waiting == Assignment(trial_id="t", config="{}")
        events = {event.kind: event for event in await mailbox.take_events(0.01)}
        assert events["lane_down"].facts["why"] == "node other (bbbbbbbb) died"
        assert events["requeued"].trial_id == "t"
        assert events["resumed"].facts["why"] == "node other (bbbbbbbb) died"

    asyncio.run(scenario())


def test_lost_nodes_do_not_count_as_attempts_and_dead_workers_do() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await on_lane(mailbox, "a", OTHER, "t")
        for _ in range(2, 6):
            await mailbox.report_dead_workers("a", "x", alive=list(HEAD))
            await on_lane(mailbox, "a", OTHER)
            assert await mailbox.next_trial("a", "host", 1) == Assignment(trial_id="t", config="{}")
        for _ in range(2):
            await mailbox.report_dead_workers("a", "KeyError: 'x'", alive=[*HEAD, *OTHER])
            await on_lane(mailbox, "a", OTHER)
            begin(mailbox.next_trial("a", "host", 1))
            await settle()
        assert await mailbox.next_report("t") == TrialEnd(status="failed", error="killed its lane twice: KeyError: 'x'")

    asyncio.run(scenario())


def test_death_does_not_count_once_a_node_of_its_lane_is_known_lost() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await on_lane(mailbox, "a", HEAD | OTHER, "t")
        for _ in range(3):
            await mailbox.report_dead_workers("a", "RuntimeError: Connection closed by peer", alive=[*HEAD, *OTHER])
            await mailbox.set_alive_nodes([*HEAD])
            await on_lane(mailbox, "a", HEAD | OTHER)
            assert (await mailbox.next_trial("a", "host", 1)).trial_id == "t"  # type: ignore[union-attr]

    asyncio.run(scenario())


def test_dying_workers_error_comes_before_rays() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await on_lane(mailbox, "a", HEAD, "t")
        await mailbox.report_worker_error("t", "RuntimeError: CUDA error")
        await mailbox.report_dead_workers("a", mailbox_module.UNEXPLAINED, alive=list(HEAD))
        await mailbox.next_trial("a", "host", 1)
        (resumed,) = await events_of(mailbox, "resumed")
        assert resumed.facts["why"] == "RuntimeError: CUDA error"

    asyncio.run(scenario())


def test_down_lane_takes_no_trial_by_an_earlier_call() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await on_lane(mailbox, "a", HEAD)
        dead = begin(mailbox.next_trial("a", "host", 1))
        await settle()
        await mailbox.report_dead_workers("a", "x", alive=list(HEAD))
        await mailbox.submit("t", "{}")
        assert await dead == "close"
        await on_lane(mailbox, "a", HEAD)
        assert (await mailbox.next_trial("a", "host", 2)).trial_id == "t"  # type: ignore[union-attr]

    asyncio.run(scenario())


def test_worker_that_outlives_its_lane_neither_restarts_nor_ends_its_trial() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await on_lane(mailbox, "a", HEAD, "t")
        await mailbox.report_dead_workers("a", "x", alive=list(HEAD))
        assert await mailbox.report_progress("t", {"step": 7}) is False, "a trial that must stop would be interrupted"
        assert await events_of(mailbox, "progress") == []
        await mailbox.submit("next", "{}")
        await mailbox.report_end("t", "complete", None, {})
        await on_lane(mailbox, "b", HEAD)
        assert (await mailbox.next_trial("b", "host", 1)).trial_id == "next"  # type: ignore[union-attr]
        assert await mailbox.next_report("t") == TrialEnd(status="complete"), "its report of the end holds"

    asyncio.run(scenario())


def test_trial_that_ended_elsewhere_stops_on_its_second_lane() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await on_lane(mailbox, "a", OTHER, "t")
        await mailbox.report_dead_workers("a", "x", alive=list(HEAD))
        await on_lane(mailbox, "b", HEAD)
        await mailbox.next_trial("b", "host", 1)
        await mailbox.report_end("t", "complete", None, {})
        assert await mailbox.report_progress("t", {"step": 1}) is True
        assert await events_of(mailbox, "progress") == []

    asyncio.run(scenario())


def test_second_death_over_the_same_nodes_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When a peer's node is lost, all lanes over it die before Ray reports the loss."""
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    async def scenario() -> None:
        mailbox, both = Mailbox(), HEAD | OTHER
        await on_lane(mailbox, "a", both, "t")
        await mailbox.report_dead_workers("a", "RuntimeError: Connection closed by peer", alive=list(both))
        for wait, lane in ((10, "b"), (10, "c"), (20, "d")):
            now[0] += wait
            await on_lane(mailbox, lane, both)
            assert (await mailbox.next_trial(lane, "host", 1)).trial_id == "t"  # type: ignore[union-attr]
            await mailbox.report_dead_workers(lane, "RuntimeError: Connection closed by peer", alive=list(both))
        end = await mailbox.next_report("t")
        assert isinstance(end, TrialEnd)
        assert end.status == "failed", "40 s after the first both nodes are still alive"

    asyncio.run(scenario())


def test_closed_lane_is_not_reopened_and_its_trial_is_kept() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        for lane in "ab":
            await on_lane(mailbox, lane, HEAD)
        idle = [begin(mailbox.next_trial(lane, "host", 1)) for lane in "ab"]
        await settle()
        await mailbox.set_max_lanes(1)
        await settle()
        closed = "a" if idle[0].done() else "b"
        await mailbox.submit("t", "{}")
        await mailbox.submit("u", "{}")
        assert not await mailbox.register_lane(closed, HEAD)

    asyncio.run(scenario())


def test_lane_goes_down_once() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await on_lane(mailbox, "a", HEAD, "t")
        for _ in range(3):
            await mailbox.report_dead_workers("a", "x", alive=list(HEAD))
        assert len(await events_of(mailbox, "lane_down")) == 1

    asyncio.run(scenario())


def test_idle_lanes_beyond_the_maximum_close_and_are_not_lost() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        for lane in "abc":
            await on_lane(mailbox, lane, HEAD)
        waiting = [begin(mailbox.next_trial(lane, "host", 1)) for lane in "abc"]
        await settle()
        await mailbox.set_max_lanes(1)
        await settle()
        closed = [lane for lane, call in zip("abc", waiting, strict=True) if call.done()]
        assert len(closed) == 2
        assert [await call for call in waiting if call.done()] == ["close", "close"]
        assert not await mailbox.remove_lane(closed[0], "its run is over")
        kinds = [event.kind for event in await mailbox.take_events(0.01)]
        assert (kinds.count("lane_closed"), kinds.count("lane_lost")) == (2, 0)
        await mailbox.submit("t", "{}")
        (left,) = [call for call in waiting if not call.done()]
        assert (await left).trial_id == "t"

    asyncio.run(scenario())


def test_unneeded_lane_closes_when_it_opens() -> None:
    async def scenario() -> list[bool]:
        mailbox = Mailbox()
        await mailbox.set_max_lanes(1)
        return [await mailbox.register_lane(lane, HEAD) for lane in "ab"]

    assert asyncio.run(scenario()) == [True, False]


def test_no_lane_closes_while_a_trial_is_queued() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await on_lane(mailbox, "a", HEAD, "t")
        await mailbox.submit("next", "{}")
        await mailbox.set_max_lanes(1)
        assert await mailbox.register_lane("b", HEAD)
        assert (await mailbox.next_trial("b", "host", 1)).trial_id == "next"  # type: ignore[union-attr]

    asyncio.run(scenario())


def test_interrupted_trial_whose_lane_dies_is_interrupted() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await on_lane(mailbox, "a", OTHER, "t")
        await mailbox.interrupt()
        await mailbox.report_dead_workers("a", "x", alive=list(HEAD))
        assert await mailbox.next_report("t") == TrialEnd(status="interrupted")

    asyncio.run(scenario())


def test_restarted_lane_gets_its_trial_back_as_a_new_attempt() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.next_trial("a", "host", 1)
        await mailbox.submit("other", "{}")
        assert await mailbox.register_lane("a", HEAD)
        assert await mailbox.next_trial("a", "host", 2) == Assignment(trial_id="t", config="{}")
        assert [event.trial_id for event in await events_of(mailbox, "resumed")] == ["t"]

    asyncio.run(scenario())


@pytest.mark.parametrize("suspicion", [None, "RuntimeError: Connection closed by peer"])
def test_trial_that_kills_its_lane_twice_fails_and_the_lane_continues(suspicion: str | None) -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await mailbox.submit("bad", "{}")
        await mailbox.submit("good", "{}")
        for _ in range(2):
            await mailbox.next_trial("a", "host", 1)
            if suspicion:
                await mailbox.report_worker_error("bad", suspicion)
            await mailbox.register_lane("a", HEAD)
        assignment = await mailbox.next_trial("a", "host", 3)
        assert isinstance(assignment, Assignment)
        assert assignment.trial_id == "good"
        why = suspicion or mailbox_module.UNEXPLAINED
        assert await mailbox.next_report("bad") == TrialEnd(status="failed", error=f"killed its lane twice: {why}")

    asyncio.run(scenario())


def test_waiting_call_of_a_dead_lane_takes_no_trial() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        dead = begin(mailbox.next_trial("a", "host", 1))
        await settle()
        alive = begin(mailbox.next_trial("a", "host", 2))
        await settle()
        await mailbox.submit("t", "{}")
        assert await dead == "close"
        assert (await alive).trial_id == "t"

    asyncio.run(scenario())


def test_long_wait_times_out_and_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox_module, "IDLE_SECONDS", 0.01)
    assert asyncio.run(Mailbox().next_trial("a", "host", 1)) == "wait"


def test_trial_of_a_lost_lane_is_queued_first() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.next_trial("a", "host", 1)
        await mailbox.submit("later", "{}")
        await mailbox.remove_lane("a", "its node is gone")
        assert await mailbox.next_trial("b", "host", 2) == Assignment(trial_id="t", config="{}")

    asyncio.run(scenario())


def test_lane_that_opens_three_times_without_a_trial_is_given_up() -> None:
    async def scenario() -> list[bool]:
        mailbox = Mailbox()
        return [await mailbox.register_lane("a", {"n": "host"}) for _ in range(4)]

    assert asyncio.run(scenario()) == [True, True, True, False]


def test_asking_for_a_trial_resets_the_opening_count() -> None:
    async def scenario() -> bool:
        mailbox = Mailbox()
        for number in range(5):
            await mailbox.submit(str(number), "{}")
            is_welcome = await mailbox.register_lane("a", {"n": "host"})
            await mailbox.next_trial("a", "host", 1)
            await mailbox.report_end(str(number), "complete", None, {})
        return is_welcome

    assert asyncio.run(scenario())
