"""The channel without Ray: messages reach the driver in order, and answers those who asked, whoever else has died."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from sweeps.driver.trials.messages import Message
from sweeps.lanes.channel import Channel


def run(test: Callable[[Channel], Coroutine[Any, Any, None]]) -> None:
    """Runs a test that is a coroutine."""
    asyncio.run(asyncio.wait_for(test(Channel()), 60))


async def settle() -> None:
    """Lets all tasks run until they wait."""
    for _ in range(20):
        await asyncio.sleep(0)


async def take_numbers(channel: Channel) -> list[int]:
    """The numbers of the messages that wait for an answer."""
    return [one.number for one in await channel.take(0.0) if one.number is not None]


def message(name: str, kind: Any = "epoch") -> Message:
    return Message(kind=kind, trial_id=name)


def test_messages_are_taken_once_in_their_order() -> None:
    async def test(channel: Channel) -> None:
        waiting = asyncio.create_task(channel.take(60.0))
        await settle()
        assert not waiting.done()
        await channel.tell(message("a"))
        asking = asyncio.create_task(channel.ask(message("b")))
        await settle()
        assert [one.trial_id for one in [*await waiting, *await channel.take(0.0)]] == ["a", "b"]
        assert await channel.take(0.0) == []
        asking.cancel()

    run(test)


def test_answers_reach_those_who_asked() -> None:
    async def test(channel: Channel) -> None:
        asking = [asyncio.create_task(channel.ask(message(name))) for name in "ab"]
        await settle()
        first, second = await take_numbers(channel)
        await channel.answer({second: "two"})
        await settle()
        assert [one.done() for one in asking] == [False, True]
        await channel.answer({first: None})
        assert [await one for one in asking] == [None, "two"]

    run(test)


def test_sender_that_has_died_is_no_error() -> None:
    async def test(channel: Channel) -> None:
        asking = [asyncio.create_task(channel.ask(message(name))) for name in "ab"]
        await settle()
        asking[0].cancel()
        await channel.answer(dict.fromkeys(await take_numbers(channel), "yes"))
        assert await asking[1] == "yes"

    run(test)


def test_progress_waits_for_another_message_or_for_the_time() -> None:
    async def test(channel: Channel) -> None:
        waiting = asyncio.create_task(channel.take(60.0))
        await channel.tell(message("a", "progress"))
        await settle()
        assert not waiting.done()
        await channel.tell(message("b"))
        assert [one.trial_id for one in await waiting] == ["a", "b"]
        await channel.tell(message("c", "progress"))
        assert [one.trial_id for one in await channel.take(0.0)] == ["c"]

    run(test)
