"""Nodes of a cluster that a worker fits say whether bf16 pays there."""

from pathlib import Path
from typing import Any

import pytest
import ray

from mtlib.runtime.bf16 import Bf16Answer, does_bf16_pay
from sweeps.cluster import node_precision
from sweeps.cluster.node_precision import ask_nodes
from sweeps.options import SweepOptions

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("private_ray")]


def test_node_answers_as_this_machine_does_though_its_cpus_are_taken() -> None:
    taken = ray.util.placement_group([{"CPU": 2}])
    assert taken.wait(30)
    (answer,) = ask_nodes(options(), 16)
    ray.util.remove_placement_group(taken)
    mine = does_bf16_pay(16, 1, on_gpu=False)
    assert answer.why.split("is")[0] == mine.why.split("is")[0]  # the measured number may differ


def test_nodes_that_no_worker_fits_are_not_asked() -> None:
    assert ask_nodes(options(cpus_per_worker=3), 16) == []
    assert ask_nodes(options(gpus_per_worker=1), 16) == []


def options(**changes: Any) -> SweepOptions:
    return SweepOptions(name="first", storage=Path("/storage"), address="auto", **changes)


def die(_width: int, _num_threads: int, *, on_gpu: bool) -> Bf16Answer:
    raise SystemExit(int(on_gpu))


def test_node_that_is_lost_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_precision, "does_bf16_pay", die)
    assert ask_nodes(options(), 16) == []
