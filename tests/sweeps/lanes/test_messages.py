"""Messages can be pickled and cannot be changed."""

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
def test_message_arrives_as_sent(message: object) -> None:
    assert pickle.loads(pickle.dumps(message)) == message


@pytest.mark.parametrize("message", MESSAGES)
def test_message_cannot_be_changed(message: object) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.trial_id = "other"  # type: ignore[attr-defined]


def test_event_has_a_time() -> None:
    before = time.time()
    assert before <= Event(kind="note").time <= time.time()
