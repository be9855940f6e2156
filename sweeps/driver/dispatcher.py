"""Takes the messages of a sweep to its table of trials, and the answers back, in a thread of the driver.

The thread does nothing else: a terminal that is paused, or a storage that is away, keeps no lane waiting.
"""

import queue
import time
from collections.abc import Iterable
from typing import Any

import ray
from ray.actor import ActorHandle

from sweeps.cluster.background_run import BackgroundRun
from sweeps.driver.trials.answers import settle
from sweeps.driver.trials.changes import apply
from sweeps.driver.trials.messages import Message
from sweeps.driver.trials.table import Event, TrialTable

TAKE_SECONDS = 0.5
"""The longest that a trial's progress waits for its answer, and so a stop until it is noticed."""


class Dispatcher:
    """Changes the table by messages, answers those who wait, and keeps what has happened for the driver."""

    def __init__(self, table: TrialTable, channel: ActorHandle[Any]) -> None:
        self._table, self._channel = table, channel
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        """None once the thread has ended, by an error."""
        self._error: Exception | None = None
        self._run = BackgroundRun(self._take_messages, "messages")

    def tell(self, *messages: Message) -> None:
        """Changes the table by messages; may be called in any thread."""
        with self._table.lock:  # answers leave in the order of the changes
            for message in messages:
                self._keep(apply(self._table, message))
            answers, events = settle(self._table)
            self._keep(events)
            if answers:
                self._channel.answer.remote(answers)

    def take_events(self, timeout: float) -> list[Event]:
        """Events since the last call; waits up to `timeout` seconds for one that is more than a trial's progress.

        Raises:
            Exception: what Ray raised in the thread, such as RayError where it is lost.
        """
        deadline, found, is_urgent = time.monotonic() + timeout, list[Event](), False
        while self._error is None and not (is_urgent and self._events.empty()):
            try:
                event = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            if event is not None:
                found.append(event)
                is_urgent = is_urgent or event.kind != "progress"
        if self._error is not None and not found:
            raise self._error
        return found

    def close(self, seconds: float) -> None:
        """Ends the channel, and with it the thread, which may take so long."""
        ray.kill(self._channel)
        self._run.wait(seconds)

    def _keep(self, events: Iterable[Event]) -> None:
        for event in events:
            self._events.put(event)

    def _take_messages(self) -> None:
        try:
            while True:
                self.tell(*ray.get(self._channel.take.remote(TAKE_SECONDS)))
        except Exception as error:  # left to the driver's own thread
            self._error = error
            self._events.put(None)  # wakes it
