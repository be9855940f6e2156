"""The mailbox without Ray: queued trials, decisions on reports, and the ways a trial ends."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

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
    """Lets all tasks run until they wait."""
    for _ in range(10):
        await asyncio.sleep(0)


async def events_of(mailbox: Mailbox, kind: str) -> list[Event]:
    return [event for event in await mailbox.take_events(0.01) if event.kind == kind]


def test_progress_waits_for_the_next_event_or_the_end_of_the_time() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await mailbox.submit("0000-r0", "{}")
        await mailbox.next_trial("a", "host", 1)
        await mailbox.take_events(0.01)
        events = begin(mailbox.take_events(30.0))
        await mailbox.report_progress("0000-r0", {"step": 1})
        await settle()
        assert not events.done()
        await mailbox.report_epoch("0000-r0", report(1, 0.5, scored_epoch=0))
        assert [event.kind for event in await events] == ["progress", "report"]
        await mailbox.report_progress("0000-r0", {"step": 2})
        assert [event.kind for event in await mailbox.take_events(0.01)] == ["progress"]

    asyncio.run(scenario())


def test_waiting_lane_gets_the_next_trial() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        lane = begin(mailbox.next_trial("a", "host", 1))
        await settle()
        assert not lane.done()
        await mailbox.submit("0000-r0", "{}")
        assert await lane == Assignment(trial_id="0000-r0", config="{}")

    asyncio.run(scenario())


def test_trial_goes_to_one_lane() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        lanes = [begin(mailbox.next_trial(name, "host", 1)) for name in "ab"]
        await settle()
        await mailbox.submit("first", "{}")
        await mailbox.submit("second", "{}")
        assert {(await lane).trial_id for lane in lanes} == {"first", "second"}

    asyncio.run(scenario())


def test_report_waits_for_its_decision() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.next_trial("a", "host", 1)
        lane = begin(mailbox.report_epoch("t", report(1, 0.5)))
        passed_on = await mailbox.next_report("t")
        await settle()
        assert not lane.done()
        assert passed_on == {**report(1, 0.5), "best": 0.5, "bests": {}}
        await mailbox.set_decision("t", 1, True)
        assert await lane is True

    asyncio.run(scenario())


def test_best_is_the_highest_score_so_far() -> None:
    async def scenario() -> list[float]:
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

    assert asyncio.run(scenario()) == [0.5, 0.7, 0.7]


def test_bests_are_the_highest_scores_of_all_epochs_by_name() -> None:
    scores = [{"qqp": 0.9}, {"qqp": 0.8, "sst": 0.3, "overall": 0.5}, {"qqp": 0.7, "sst": 0.4, "overall": 0.4}]

    async def scenario() -> list[Any]:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        found = []
        for number, own in enumerate(scores):
            given = {**report(number + 1, 0.5, scored_epoch=number), "scores": own}
            begin(mailbox.report_epoch("t", given))
            if number > 0:  # the first has no overall score
                passed_on = await mailbox.next_report("t")
                assert isinstance(passed_on, dict)
                found.append(passed_on["bests"])
                await mailbox.set_decision("t", number + 1, False)
            await settle()
        return found

    assert asyncio.run(scenario()) == [
        {"qqp": 0.9, "sst": 0.3, "overall": 0.5},
        {"qqp": 0.9, "sst": 0.4, "overall": 0.5},
    ]


def test_repeated_report_gets_the_first_decision_and_is_not_passed_on() -> None:
    async def scenario() -> None:
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

    asyncio.run(scenario())


def test_report_repeated_before_its_decision_is_passed_on_once() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        before_kill, after_resume = (begin(mailbox.report_epoch("t", report(1, 0.5))) for _ in range(2))
        await mailbox.next_report("t")
        await mailbox.set_decision("t", 1, True)
        assert [await before_kill, await after_resume] == [True, True]
        assert len(await events_of(mailbox, "report")) == 1

    asyncio.run(scenario())


def test_report_without_overall_score_needs_no_decision() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        assert await mailbox.report_epoch("t", report(1, 0.0, scored_epoch=0)) is False
        trial = begin(mailbox.next_report("t"))
        await settle()
        assert not trial.done()
        trial.cancel()
        assert len(await events_of(mailbox, "report")) == 1

    asyncio.run(scenario())


def test_reports_arrive_before_the_end() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        begin(mailbox.report_epoch("t", report(1, 0.5, is_last=True)))
        await settle()
        await mailbox.report_end("t", "complete", None, {})
        assert isinstance(await mailbox.next_report("t"), dict)
        assert await mailbox.next_report("t") == TrialEnd(status="complete")

    asyncio.run(scenario())


def test_interruption_ends_queued_trials_and_stops_running_ones() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await mailbox.submit("running", "{}")
        await mailbox.next_trial("a", "host", 1)
        await mailbox.submit("queued", "{}")
        assert await mailbox.report_progress("running", {"step": 1}) is False
        at_epoch = begin(mailbox.report_epoch("running", report(1, 0.5)))
        await settle()
        await mailbox.interrupt()
        assert await at_epoch is None, "there is no decision"
        assert await mailbox.report_progress("running", {"step": 2}) is True
        assert await mailbox.next_report("queued") == TrialEnd(status="interrupted")
        assert await mailbox.next_trial("b", "host", 2) == "close"
        ends = await events_of(mailbox, "ended")
        assert [(event.trial_id, event.facts["was_started"]) for event in ends] == [("queued", False)]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("message", "decision"),
    [
        (report(1, 0.5), None),
        (report(1, 0.5, is_last=True), False),
        (report(1, 0.5, scored_epoch=0), False),
    ],
)
def test_after_an_interruption_only_scored_epochs_are_unjudged(message: dict[str, Any], decision: bool | None) -> None:
    async def scenario() -> bool | None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.next_trial("a", "host", 1)
        await mailbox.interrupt()
        return await mailbox.report_epoch("t", message)

    assert asyncio.run(scenario()) is decision


@pytest.mark.parametrize("stop", [False, True])
def test_decision_before_an_interruption_holds(stop: bool) -> None:
    async def scenario() -> bool | None:
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

    assert asyncio.run(scenario()) is stop


def test_trial_submitted_after_the_interruption_ends_at_once() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await mailbox.interrupt()
        await mailbox.submit("t", "{}")
        assert await mailbox.next_report("t") == TrialEnd(status="interrupted")

    asyncio.run(scenario())


def test_withdrawn_trial_stops_at_its_next_step_and_fails() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.next_trial("a", "host", 1)
        await mailbox.cancel_trial("t", "nobody waits")
        assert await mailbox.report_progress("t", {}) is True
        assert await mailbox.report_epoch("t", report(1, 0.5)) is True
        await mailbox.report_end("t", "interrupted", None, {})
        ends = await events_of(mailbox, "ended")
        assert [(event.facts["how"], event.facts["error"]) for event in ends] == [("failed", "nobody waits")]

    asyncio.run(scenario())


def test_withdrawn_queued_trial_never_starts() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.submit("next", "{}")
        await mailbox.cancel_trial("t", "nobody waits")
        assignment = await mailbox.next_trial("a", "host", 1)
        assert isinstance(assignment, Assignment)
        assert assignment.trial_id == "next"

    asyncio.run(scenario())


def test_withdrawing_an_ended_or_unknown_trial_changes_nothing() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.report_end("t", "complete", None, {})
        await mailbox.cancel_trial("t", "too late")
        await mailbox.cancel_trial("unknown", "never came")
        assert await mailbox.next_report("t") == TrialEnd(status="complete")

    asyncio.run(scenario())


def test_first_end_counts() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.report_end("t", "failed", "KeyError: 'x'", {})
        await mailbox.report_end("t", "complete", None, {})
        assert len(await events_of(mailbox, "ended")) == 1
        assert await mailbox.next_report("t") == TrialEnd(status="failed", error="KeyError: 'x'")

    asyncio.run(scenario())


def test_events_are_delivered_once_in_order_and_in_time() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await mailbox.register_lane("a", {"n": "host"})
        await mailbox.submit("t", "{}")
        await mailbox.next_trial("a", "host", 7)
        kinds = [event.kind for event in await mailbox.take_events(1.0)]
        assert kinds == ["lane_open", "started"]
        assert await mailbox.take_events(0.01) == []

    asyncio.run(scenario())


def test_starting_point_and_finished_stages_are_events_with_their_lane() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.next_trial("a", "host", 1)
        await mailbox.report_event("starting_point", "t", {"epochs": 1})
        await mailbox.report_event("stage_finished", "t", {"stage": 0, "why_not": None})
        await mailbox.report_event("waiting", "t", {"what": "stage 1"})
        events = [
            event
            for event in await mailbox.take_events(0.01)
            if event.kind in ("starting_point", "stage_finished", "waiting")
        ]
        assert [(event.kind, event.lane, event.trial_id, event.facts) for event in events] == [
            ("starting_point", "a", "t", {"epochs": 1}),
            ("stage_finished", "a", "t", {"stage": 0, "why_not": None}),
            ("waiting", "a", "t", {"what": "stage 1"}),
        ]

    asyncio.run(scenario())


@pytest.mark.parametrize("why", ["interrupted", "winding down", "withdrawn", "ended"])
def test_waiting_trial_learns_that_it_is_withdrawn(why: str) -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.next_trial("a", "host", 1)
        assert await mailbox.is_wanted("t")
        if why == "interrupted":
            await mailbox.interrupt()
        elif why == "winding down":
            await mailbox.wind_down()
        elif why == "withdrawn":
            await mailbox.cancel_trial("t", "nobody waits")
        else:
            await mailbox.report_end("t", "failed", "KeyError", {})
        assert not await mailbox.is_wanted("t")

    asyncio.run(scenario())


def test_end_carries_the_reused_work() -> None:
    async def scenario() -> None:
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

    asyncio.run(scenario())


def test_winding_down_starts_no_trial_and_lets_a_running_one_report_its_epoch() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        for name in ("running", "queued"):
            await mailbox.submit(name, "{}")
        assert (await mailbox.next_trial("a", "host", 1)).trial_id == "running"  # type: ignore[union-attr]
        await mailbox.wind_down()
        await mailbox.submit("late", "{}")
        for name in ("queued", "late"):
            assert await mailbox.next_report(name) == TrialEnd(status="interrupted")
        assert not await mailbox.report_progress("running", {"step": 3}), "it is not stopped in mid-epoch"
        lane = begin(mailbox.report_epoch("running", report(1, 0.5)))
        await mailbox.next_report("running")
        await settle()
        assert not lane.done(), "the scheduler still decides"
        await mailbox.set_decision("running", 1, False)
        assert await lane is False
        await mailbox.report_end("running", "interrupted", None, {})
        assert await mailbox.next_report("running") == TrialEnd(status="interrupted")
        assert await mailbox.next_trial("a", "host", 1) == "close"
        ends = {event.trial_id: event.facts["was_started"] for event in await events_of(mailbox, "ended")}
        assert ends == {"running": True, "queued": False, "late": False}

    asyncio.run(scenario())


def test_trial_of_a_dead_lane_is_not_started_again_while_winding_down() -> None:
    async def scenario() -> None:
        mailbox = Mailbox()
        await mailbox.submit("t", "{}")
        await mailbox.register_lane("a", {"node": "host"})
        await mailbox.next_trial("a", "host", 1)
        await mailbox.wind_down()
        await mailbox.report_dead_workers("a", "out of memory", ["node"])
        assert await mailbox.next_report("t") == TrialEnd(status="interrupted")

    asyncio.run(scenario())
