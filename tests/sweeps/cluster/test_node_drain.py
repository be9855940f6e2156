"""All workers ask for drained nodes after the same steps; `tests/sweeps/driver/test_nodes.py` drains a real one."""

from types import SimpleNamespace

import pytest
import ray.train
from packaging.version import Version

from sweeps.cluster import node_drain
from sweeps.cluster.node_drain import ASK_STEPS, NodeDrain


def test_ray_is_asked_where_it_answers() -> None:
    answers = hasattr(ray.train, "get_preemption_info")
    assert answers or Version(ray.__version__) < Version("2.58")
    assert not answers or vars(node_drain)["get_preemption_info"] is ray.train.get_preemption_info


def test_all_workers_ask_after_the_same_steps_and_remember_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [None, SimpleNamespace(preempted_node_ids=["n"])]
    monkeypatch.setattr(node_drain, "get_preemption_info", lambda: answers.pop(0))
    drain = NodeDrain()
    announced = [drain.is_announced(step) for step in range(1, 3 * ASK_STEPS + 1)]
    assert announced == [False] * (2 * ASK_STEPS - 1) + [True] * (ASK_STEPS + 1)
    assert drain.nodes == ["n"]
