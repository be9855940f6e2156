"""The mailbox without Ray: queued trials, decisions on reports, and the ways a trial ends."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from sweeps.lanes import mailbox as mailbox_module
from sweeps.lanes.mailbox import Mailbox
from sweeps.lanes.messages import Assignment, Event, TrialEnd


def report(epoch: int, score: float, scored_epoch: int | None = None, is_last: bool = False) -> dict[str, Any]:
    """A lane's report of an epoch."""
    scored = epoch if scored_epoch is None else scored_epoch
    return {"epoch": epoch, "scored_epoch": scored, "score": score, "scores": {}, "is_last": is_last}


def begin(waiting: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    """Starts a call that waits."""
    return asyncio.get_running_loop().create_task(waiting)


async def settle() -> None:
    """Lets everything that can go on go on."""
    for _ in range(10):
        await asyncio.sleep(0)


async def events_of(mailbox: Mailbox, kind: str) -> list[Event]:
    return [event for event in await mailbox.take_events(0.01) if event.kind == kind]


def test_waiting_lane_gets_the_next_trial() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        lane = begin(mailbox.next_trial("a", "host", 1))
        await settle()
        assert not lane.done()
        await mailbox.submit("0000-r0", "{}")
        assert await lane == Assignment(trial_id="0000-r0", config="{}")

    asyncio.run(story())


def test_trial_goes_to_one_lane() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        lanes = [begin(mailbox.next_trial(name, "host", 1)) for name in "ab"]
        await settle()
        await mailbox.submit("first", "{}")
        await mailbox.submit("second", "{}")
        assert {(await lane).trial_id for lane in lanes} == {"first", "second"}

    asyncio.run(story())


def test_report_waits_for_its_decision() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.next_trial("a", "host", 1)
        lane = begin(mailbox.report_epoch("t", report(1, 0.5)))
        passed_on = await mailbox.next_report("t")
        await settle()
        assert not lane.done()
        assert passed_on == {**report(1, 0.5), "best": 0.5}
        await mailbox.set_decision("t", 1, True)
        assert await lane is True

    asyncio.run(story())


def test_best_is_the_highest_score_so_far() -> None:
    async def story() -> list[float]:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        bests = []
        for epoch, score in enumerate([0.5, 0.7, 0.6], start=1):
            begin(mailbox.report_epoch("t", report(epoch, score)))
            passed_on = await mailbox.next_report("t")
            assert isinstance(passed_on, dict)
            bests.append(passed_on["best"])
            await mailbox.set_decision("t", epoch, False)
        return bests

    assert asyncio.run(story()) == [0.5, 0.7, 0.7]


def test_repeated_report_gets_the_first_decision_and_is_not_passed_on() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        begin(mailbox.report_epoch("t", report(1, 0.5)))
        await mailbox.next_report("t")
        await mailbox.set_decision("t", 1, False)
        assert await mailbox.report_epoch("t", report(1, 0.5)) is False
        again = begin(mailbox.next_report("t"))
        await settle()
        assert not again.done()
        again.cancel()

    asyncio.run(story())


def test_report_repeated_before_its_decision_is_passed_on_once() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        before_kill, after_resume = (begin(mailbox.report_epoch("t", report(1, 0.5))) for _ in range(2))
        await mailbox.next_report("t")
        await mailbox.set_decision("t", 1, True)
        assert [await before_kill, await after_resume] == [True, True]
        assert len(await events_of(mailbox, "report")) == 1

    asyncio.run(story())


def test_report_without_overall_score_needs_no_decision() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        assert await mailbox.report_epoch("t", report(1, 0.0, scored_epoch=0)) is False
        trial = begin(mailbox.next_report("t"))
        await settle()
        assert not trial.done()
        trial.cancel()
        assert len(await events_of(mailbox, "report")) == 1

    asyncio.run(story())


def test_reports_arrive_before_the_end() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        begin(mailbox.report_epoch("t", report(1, 0.5, is_last=True)))
        await settle()
        await mailbox.report_end("t", "complete", None, {})
        assert isinstance(await mailbox.next_report("t"), dict)
        assert await mailbox.next_report("t") == TrialEnd(status="complete")

    asyncio.run(story())


def test_restarted_lane_gets_its_trial_back_as_a_new_attempt() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.next_trial("a", "host", 1)
        await mailbox.submit("other", "{}")
        assert await mailbox.register_lane("a", HEAD)
        assert await mailbox.next_trial("a", "host", 2) == Assignment(trial_id="t", config="{}")
        assert [event.trial_id for event in await events_of(mailbox, "resumed")] == ["t"]

    asyncio.run(story())


@pytest.mark.parametrize("suspicion", [None, "RuntimeError: Connection closed by peer"])
def test_trial_that_kills_its_lane_twice_fails_and_the_lane_continues(suspicion: str | None) -> None:
    async def story() -> None:
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

    asyncio.run(story())


def test_waiting_call_of_a_dead_lane_takes_no_trial() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        dead = begin(mailbox.next_trial("a", "host", 1))
        await settle()
        alive = begin(mailbox.next_trial("a", "host", 2))
        await settle()
        await mailbox.submit("t", "{}")
        assert await dead == "close"
        assert (await alive).trial_id == "t"

    asyncio.run(story())


def test_long_wait_times_out_and_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox_module, "IDLE_SECONDS", 0.01)
    assert asyncio.run(Mailbox().next_trial("a", "host", 1)) == "wait"


def test_trial_of_a_lost_lane_is_queued_first() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.next_trial("a", "host", 1)
        await mailbox.submit("later", "{}")
        await mailbox.remove_lane("a", "its node is gone")
        assert await mailbox.next_trial("b", "host", 2) == Assignment(trial_id="t", config="{}")

    asyncio.run(story())


def test_lane_that_opens_three_times_without_a_trial_is_given_up() -> None:
    async def story() -> list[bool]:
        mailbox = Mailbox()
        return [await mailbox.register_lane("a", {"n": "host"}) for _ in range(4)]

    assert asyncio.run(story()) == [True, True, True, False]


def test_asking_for_a_trial_resets_the_opening_count() -> None:
    async def story() -> bool:
        mailbox = Mailbox()
        for number in range(5):
            await mailbox.submit(str(number), "{}")
            is_welcome = await mailbox.register_lane("a", {"n": "host"})
            await mailbox.next_trial("a", "host", 1)
            await mailbox.report_end(str(number), "complete", None, {})
        return is_welcome

    assert asyncio.run(story())


def test_interruption_ends_queued_trials_and_stops_running_ones() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await mailbox.submit("running", "{}")
        await mailbox.next_trial("a", "host", 1)
        await mailbox.submit("queued", "{}")
        assert await mailbox.report_progress("running", {"step": 1}) is False
        at_epoch = begin(mailbox.report_epoch("running", report(1, 0.5)))
        await settle()
        await mailbox.interrupt()
        assert await at_epoch is None, "nobody has judged it"
        assert await mailbox.report_progress("running", {"step": 2}) is True
        assert await mailbox.next_report("queued") == TrialEnd(status="interrupted")
        assert await mailbox.next_trial("b", "host", 2) == "close"
        ends = await events_of(mailbox, "ended")
        assert [(event.trial_id, event.facts["was_started"]) for event in ends] == [("queued", False)]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("told", "answer"),
    [
        (report(1, 0.5), None),
        (report(1, 0.5, is_last=True), False),
        (report(1, 0.5, scored_epoch=0), False),
    ],
)
def test_after_an_interruption_only_scored_epochs_are_unjudged(told: dict[str, Any], answer: bool | None) -> None:
    async def story() -> bool | None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.next_trial("a", "host", 1)
        await mailbox.interrupt()
        return await mailbox.report_epoch("t", told)

    assert asyncio.run(story()) is answer


@pytest.mark.parametrize("stop", [False, True])
def test_decision_before_an_interruption_holds(stop: bool) -> None:
    async def story() -> bool | None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.next_trial("a", "host", 1)
        at_epoch = begin(mailbox.report_epoch("t", report(1, 0.5)))
        await settle()
        await mailbox.set_decision("t", 1, stop)
        await mailbox.interrupt()
        first: bool | None = await at_epoch
        assert await mailbox.report_epoch("t", report(1, 0.5)) is first
        return first

    assert asyncio.run(story()) is stop


def test_trial_submitted_after_the_interruption_ends_at_once() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await mailbox.interrupt()
        await mailbox.submit("t", "{}")
        assert await mailbox.next_report("t") == TrialEnd(status="interrupted")

    asyncio.run(story())


def test_withdrawn_trial_stops_at_its_next_step_and_fails() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.next_trial("a", "host", 1)
        await mailbox.cancel_trial("t", "nobody waits")
        assert await mailbox.report_progress("t", {}) is True
        assert await mailbox.report_epoch("t", report(1, 0.5)) is True
        await mailbox.report_end("t", "interrupted", None, {})
        ends = await events_of(mailbox, "ended")
        assert [(event.facts["how"], event.facts["error"]) for event in ends] == [("failed", "nobody waits")]

    asyncio.run(story())


def test_withdrawn_queued_trial_never_starts() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.submit("next", "{}")
        await mailbox.cancel_trial("t", "nobody waits")
        assignment = await mailbox.next_trial("a", "host", 1)
        assert isinstance(assignment, Assignment)
        assert assignment.trial_id == "next"

    asyncio.run(story())


def test_withdrawing_an_ended_or_unknown_trial_changes_nothing() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.report_end("t", "complete", None, {})
        await mailbox.cancel_trial("t", "too late")
        await mailbox.cancel_trial("unknown", "never came")
        assert await mailbox.next_report("t") == TrialEnd(status="complete")

    asyncio.run(story())


def test_first_end_counts() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.report_end("t", "failed", "KeyError: 'x'", {})
        await mailbox.report_end("t", "complete", None, {})
        assert len(await events_of(mailbox, "ended")) == 1
        assert await mailbox.next_report("t") == TrialEnd(status="failed", error="KeyError: 'x'")

    asyncio.run(story())


def test_events_are_delivered_once_in_order_and_in_time() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await mailbox.register_lane("a", {"n": "host"})
        await mailbox.submit("t", "{}")
        await mailbox.next_trial("a", "host", 7)
        kinds = [event.kind for event in await mailbox.take_events(1.0)]
        assert kinds == ["lane_open", "started"]
        assert await mailbox.take_events(0.01) == []

    asyncio.run(story())


def test_starting_point_and_finished_stages_are_events_with_their_lane() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.next_trial("a", "host", 1)
        await mailbox.report_event("starting_point", "t", {"epochs": 1})
        await mailbox.report_event("stage_finished", "t", {"stage": 0, "why_not": None})
        await mailbox.report_event("waiting", "t", {"what": "stage 1"})
        told = [
            event
            for event in await mailbox.take_events(0.01)
            if event.kind in ("starting_point", "stage_finished", "waiting")
        ]
        assert [(event.kind, event.lane, event.trial_id, event.facts) for event in told] == [
            ("starting_point", "a", "t", {"epochs": 1}),
            ("stage_finished", "a", "t", {"stage": 0, "why_not": None}),
            ("waiting", "a", "t", {"what": "stage 1"}),
        ]

    asyncio.run(story())


@pytest.mark.parametrize("why", ["interrupted", "withdrawn", "ended"])
def test_waiting_trial_learns_that_it_is_withdrawn(why: str) -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.next_trial("a", "host", 1)
        assert await mailbox.is_wanted("t")
        if why == "interrupted":
            await mailbox.interrupt()
        elif why == "withdrawn":
            await mailbox.cancel_trial("t", "nobody waits")
        else:
            await mailbox.report_end("t", "failed", "KeyError", {})
        assert not await mailbox.is_wanted("t")

    asyncio.run(story())


def test_end_carries_the_reused_work() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.next_trial("a", "host", 1)
        await mailbox.report_end("t", "reused", None, {"shared_steps": 9, "taken_from": "other/0000-r0"})
        (end,) = await events_of(mailbox, "ended")
        assert end.facts == {
            **{"how": "reused", "error": None, "was_started": True},
            **{"shared_steps": 9, "taken_from": "other/0000-r0"},
        }
        assert await mailbox.next_report("t") == TrialEnd(status="reused")

    asyncio.run(story())


HEAD, OTHER = {"a" * 56: "head"}, {"b" * 56: "other"}


async def on_lane(mailbox: Mailbox, lane: str, nodes: dict[str, str], trial_id: str | None = None) -> None:
    """Opens a lane and, if there is one, lets it take a trial."""
    assert await mailbox.register_lane(lane, nodes)
    if trial_id is not None:
        await mailbox.submit(trial_id, "{}")
        assert (await mailbox.next_trial(lane, "host", 1)).trial_id == trial_id  # type: ignore[union-attr]


def test_trial_of_a_lost_nodes_lane_goes_to_a_waiting_lane() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await on_lane(mailbox, "lost", OTHER, "t")
        await on_lane(mailbox, "left", HEAD)
        waiting = begin(mailbox.next_trial("left", "host", 2))
        await settle()
        await mailbox.report_dead_workers("lost", "its workers died", alive=list(HEAD))
        assert await waiting == Assignment(trial_id="t", config="{}")
        told = {event.kind: event for event in await mailbox.take_events(0.01)}
        assert told["lane_down"].facts["why"] == "node other (bbbbbbbb) died"
        assert told["requeued"].trial_id == "t"
        assert told["resumed"].facts["why"] == "node other (bbbbbbbb) died"

    asyncio.run(story())


def test_lost_nodes_do_not_count_as_attempts_and_dead_workers_do() -> None:
    async def story() -> None:
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

    asyncio.run(story())


def test_death_does_not_count_once_a_node_of_its_lane_is_known_lost() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await on_lane(mailbox, "a", HEAD | OTHER, "t")
        for _ in range(3):
            await mailbox.report_dead_workers("a", "RuntimeError: Connection closed by peer", alive=[*HEAD, *OTHER])
            await mailbox.set_alive_nodes([*HEAD])
            await on_lane(mailbox, "a", HEAD | OTHER)
            assert (await mailbox.next_trial("a", "host", 1)).trial_id == "t"  # type: ignore[union-attr]

    asyncio.run(story())


def test_dying_workers_error_comes_before_rays() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await on_lane(mailbox, "a", HEAD, "t")
        await mailbox.report_worker_error("t", "RuntimeError: CUDA error")
        await mailbox.report_dead_workers("a", mailbox_module.UNEXPLAINED, alive=list(HEAD))
        await mailbox.next_trial("a", "host", 1)
        (resumed,) = await events_of(mailbox, "resumed")
        assert resumed.facts["why"] == "RuntimeError: CUDA error"

    asyncio.run(story())


def test_down_lane_takes_no_trial_by_an_earlier_call() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await on_lane(mailbox, "a", HEAD)
        dead = begin(mailbox.next_trial("a", "host", 1))
        await settle()
        await mailbox.report_dead_workers("a", "x", alive=list(HEAD))
        await mailbox.submit("t", "{}")
        assert await dead == "close"
        await on_lane(mailbox, "a", HEAD)
        assert (await mailbox.next_trial("a", "host", 2)).trial_id == "t"  # type: ignore[union-attr]

    asyncio.run(story())


def test_worker_that_outlives_its_lane_neither_restarts_nor_ends_its_trial() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await on_lane(mailbox, "a", HEAD, "t")
        await mailbox.report_dead_workers("a", "x", alive=list(HEAD))
        assert await mailbox.report_progress("t", {"step": 7}) is False, (
            "a trial that is told to stop would be interrupted"
        )
        assert await events_of(mailbox, "progress") == []
        await mailbox.submit("next", "{}")
        await mailbox.report_end("t", "complete", None, {})
        await on_lane(mailbox, "b", HEAD)
        assert (await mailbox.next_trial("b", "host", 1)).trial_id == "next"  # type: ignore[union-attr]
        assert await mailbox.next_report("t") == TrialEnd(status="complete"), "what it says of its end is true"

    asyncio.run(story())


def test_trial_that_ended_elsewhere_stops_on_its_second_lane() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await on_lane(mailbox, "a", OTHER, "t")
        await mailbox.report_dead_workers("a", "x", alive=list(HEAD))
        await on_lane(mailbox, "b", HEAD)
        await mailbox.next_trial("b", "host", 1)
        await mailbox.report_end("t", "complete", None, {})
        assert await mailbox.report_progress("t", {"step": 1}) is True
        assert await events_of(mailbox, "progress") == []

    asyncio.run(story())


def test_second_death_over_the_same_nodes_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When a peer's node is lost, all lanes over it die before Ray reports the loss."""
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    async def story() -> None:
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

    asyncio.run(story())


def test_closed_lane_is_not_reopened_and_its_trial_is_kept() -> None:
    async def story() -> None:
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

    asyncio.run(story())


def test_lane_goes_down_once() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await on_lane(mailbox, "a", HEAD, "t")
        for _ in range(3):
            await mailbox.report_dead_workers("a", "x", alive=list(HEAD))
        assert len(await events_of(mailbox, "lane_down")) == 1

    asyncio.run(story())


def test_idle_lanes_beyond_the_maximum_close_and_are_not_lost() -> None:
    async def story() -> None:
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

    asyncio.run(story())


def test_unneeded_lane_closes_when_it_opens() -> None:
    async def story() -> list[bool]:
        mailbox = Mailbox()
        await mailbox.set_max_lanes(1)
        return [await mailbox.register_lane(lane, HEAD) for lane in "ab"]

    assert asyncio.run(story()) == [True, False]


def test_no_lane_closes_while_a_trial_is_queued() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await on_lane(mailbox, "a", HEAD, "t")
        await mailbox.submit("next", "{}")
        await mailbox.set_max_lanes(1)
        assert await mailbox.register_lane("b", HEAD)
        assert (await mailbox.next_trial("b", "host", 1)).trial_id == "next"  # type: ignore[union-attr]

    asyncio.run(story())


def test_interrupted_trial_whose_lane_dies_is_interrupted() -> None:
    async def story() -> None:
        mailbox = Mailbox()
        await on_lane(mailbox, "a", OTHER, "t")
        await mailbox.interrupt()
        await mailbox.report_dead_workers("a", "x", alive=list(HEAD))
        assert await mailbox.next_report("t") == TrialEnd(status="interrupted")

    asyncio.run(story())
