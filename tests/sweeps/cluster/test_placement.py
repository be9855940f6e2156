"""Tasks and actors run on the node that is named, though it is busy."""

import os

import pytest
import ray

from sweeps.cluster.placement import on_node


class Counter:
    """An actor."""

    def __init__(self, start: int) -> None:
        self._value = start

    def add(self) -> int:
        self._value += 1
        return self._value


def where() -> tuple[str, int]:
    return ray.get_runtime_context().get_node_id(), os.getpid()


@pytest.mark.ray
@pytest.mark.usefixtures("private_ray")
def test_tasks_and_actors_run_on_their_node_and_reserve_nothing() -> None:
    here, cpus = ray.get_runtime_context().get_node_id(), ray.available_resources()["CPU"]
    node, process = ray.get(on_node(where, here, max_calls=1, max_retries=0).remote())
    assert node == here
    assert process != os.getpid()
    counter = on_node(Counter, here, max_concurrency=7).options(name="counter").remote(2)
    assert [ray.get(counter.add.remote()) for _ in range(2)] == [3, 4]
    assert ray.available_resources()["CPU"] == cpus
    assert ray.get(ray.get_actor("counter").add.remote()) == 5
    ray.kill(counter)


@pytest.mark.ray
@pytest.mark.usefixtures("private_ray")
def test_no_other_node_takes_the_place_of_one_that_is_gone() -> None:
    with pytest.raises(ray.exceptions.TaskUnschedulableError):
        ray.get(on_node(where, "0" * 56, max_retries=0).remote(), timeout=60)
