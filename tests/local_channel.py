"""A channel in this process that is called like the actor that it is in a sweep."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
import ray

from sweeps.lanes.channel import Assignment, Channel, Event

PLACE = {"host": "here", "workers": [("n", 1)]}


class LocalChannel:
    """Makes a call at once, so one that waits must have what it waits for; `decided` verdicts are given beforehand."""

    def __init__(self) -> None:
        self.channel = Channel()
        self.calls: list[str] = []
        """Names of the methods that were called."""
        self._loop = asyncio.new_event_loop()
        self._method = ""

    def __getattr__(self, method: str) -> "LocalChannel":
        if method.startswith("__"):
            raise AttributeError(method)
        self._method = method
        return self

    def remote(self, *arguments: Any) -> Any:
        self.calls.append(self._method)
        return self._loop.run_until_complete(getattr(self.channel, self._method)(*arguments))

    def call(self, method: str, *arguments: Any) -> Any:
        """A call from elsewhere, which is not counted."""
        return self._loop.run_until_complete(getattr(self.channel, method)(*arguments))

    def assign(self, trial: Mapping[str, Any], lane: str = "lane") -> Assignment:
        """Submits a trial and hands it to a lane."""
        self.call("submit", trial)
        found = self.call("next_trial", lane, PLACE)
        assert isinstance(found, Assignment)
        return found

    def decide(self, trial_id: str, verdicts: Mapping[int, bool]) -> None:
        """The scheduler's verdicts, by epoch."""
        for epoch, stop in verdicts.items():
            self.call("decide", trial_id, epoch, stop)

    def events(self, kind: str) -> list[Event]:
        """Events of a kind since the last call; all others are dropped."""
        found: list[Event] = self.call("take_events", 0.0)
        return [event for event in found if event.kind == kind]


def call_at_once(monkeypatch: pytest.MonkeyPatch) -> LocalChannel:
    """A local channel, and a Ray whose answers are there at once."""
    monkeypatch.setattr(ray, "get", lambda answer, **_settings: answer)
    monkeypatch.setattr(ray, "wait", lambda found, **_settings: (found, []))
    return LocalChannel()
