"""The dispatcher between a channel and a table: who asks is answered, and the loss of the channel is an error."""

from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray.exceptions import RayError

from sweeps.driver.dispatcher import Dispatcher
from sweeps.driver.trials.messages import Assignment, Message
from sweeps.driver.trials.table import TrialTable
from sweeps.lanes.channel import Channel
from tests.local_table import LocalTable, named_trial

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("private_ray")]


@pytest.fixture
def table() -> TrialTable:
    return LocalTable().table


@pytest.fixture
def channel() -> Iterator[Any]:
    actor: Any = ray.remote(num_cpus=0)(Channel)
    made = actor.remote()
    yield made
    ray.kill(made)


def test_messages_reach_the_table_and_answers_come_back(table: TrialTable, channel: Any) -> None:
    dispatcher = Dispatcher(table, channel)
    asked = channel.ask.remote(Message(kind="wants_trial", lane="a", facts={"host": "here"}))
    (event,) = dispatcher.take_events(60.0)
    assert (event.kind, event.lane) == ("lane_open", "a")
    dispatcher.tell(Message(kind="suggested", facts={"trial": named_trial("t")}))
    answer = ray.get(asked, timeout=60)
    assert isinstance(answer, Assignment)
    assert answer.trial_id == "t"
    (event,) = dispatcher.take_events(60.0)
    assert (event.kind, event.trial_id) == ("started", "t")
    assert dispatcher.take_events(0.0) == []
    dispatcher.close(60.0)


def test_channel_that_is_lost_is_an_error_where_events_are_taken(table: TrialTable, channel: Any) -> None:
    dispatcher = Dispatcher(table, channel)
    ray.kill(channel)
    with pytest.raises(RayError):
        dispatcher.take_events(60.0)
