"""The channel of a sweep: it carries messages to the driver's table of trials, and the answers back.

It is a plain asyncio class that runs as a Ray actor without a device on the driver's node. It knows nothing of trials:
what is asked waits until the driver answers it, however long that takes.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweeps.driver.trials.messages import Message

MAX_CALLS = 100_000
"""Calls that may wait at the same time: each lane has one or two, each trial in Tune one."""


def channel_name(sweep: str) -> str:
    """Returns the actor's name in Ray, by the sweep's."""
    return f"{sweep}-channel"


class Channel:
    """Carries messages from lanes, Ray Train's controllers and Tune's trials to the driver, and its answers back."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        """Those that the driver has not taken."""
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        """The answers that are awaited, by number of the message."""
        self._numbers = itertools.count(1)
        self._is_urgent = asyncio.Event()

    async def tell(self, message: Message) -> None:
        """Passes a message on."""
        self._pass_on(message)

    async def ask(self, message: Message) -> Any:
        """Passes a message on and waits for its answer."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._pass_on(replace(message, number=number))
        return await answer

    async def take(self, timeout: float) -> list[Message]:
        """Messages since the last call; waits up to `timeout` seconds for one that is more than a trial's progress."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_urgent.wait(), timeout)
        self._is_urgent.clear()
        messages, self._messages = self._messages, []
        return messages

    async def answer(self, answers: Mapping[int, Any]) -> None:
        """Answers messages by their numbers; some senders may have died."""
        for number, answer in answers.items():
            waiting = self._waiting.pop(number)
            if not waiting.done():
                waiting.set_result(answer)

    async def has_file(self, path: str) -> bool:
        """Whether a file is there on the driver's node."""
        return Path(path).exists()

    def _pass_on(self, message: Message) -> None:
        self._messages.append(message)
        if message.kind != "progress":
            self._is_urgent.set()
