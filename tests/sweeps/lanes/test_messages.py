"""Messages travel between processes: they must survive it, and stay as they were made."""

import dataclasses
import pickle
import time

import pytest

from sweeps.lanes.messages import Assignment, Event, TrialEnd

MESSAGES = (
    Assignment(trial_id="0000-r0", config="{}"),
    TrialEnd(status="failed", error="it broke"),
    Event(kind="report", lane="lane0", trial_id="0000-r0", facts={"epoch": 1}),
)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_arrives_as_it_was_sent(message: object) -> None:
    assert pickle.loads(pickle.dumps(message)) == message


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_cannot_be_changed(message: object) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.trial_id = "other"  # type: ignore[attr-defined]


def test_an_event_knows_when_it_happened() -> None:
    before = time.time()
    assert before <= Event(kind="note").time <= time.time()
