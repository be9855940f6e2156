"""Number of lanes that fit, by CPUs, GPUs and memory, on one node or several."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import ray

from mtlib.runtime import bf16
from mtlib.runtime.bf16 import has_bf16
from sweeps.cluster import capacity
from sweeps.cluster.capacity import (
    BASE_BYTES,
    CPU_BF16_BYTES,
    CPU_BYTES_PER_PARAMETER,
    GPU_BASE_BYTES,
    HELPER_BYTES,
    SAVING_BYTES_PER_PARAMETER,
    Resources,
    describe_idle_gpus,
    fits_cluster,
    lanes_that_fit,
    nodes_have_bf16,
    num_lanes,
    resources_per_worker,
    total_resources,
    workers_that_fit,
)
from sweeps.cluster.usable_resources import LANES_MEMORY
from sweeps.options import SweepOptions
from tests.sweeps.conftest import MakePlan, with_options

GB = 10**9
PLENTY = 1000 * GB


def test_workers_of_a_lane_may_be_on_several_nodes_each_on_one() -> None:
    nodes = [Resources(cpus=3, gpus=0, memory=PLENTY)] * 3
    assert lanes_that_fit(nodes, Resources(cpus=2, gpus=0, memory=GB), num_workers=1) == 3
    assert lanes_that_fit(nodes, Resources(cpus=2, gpus=0, memory=GB), num_workers=2) == 1
    assert lanes_that_fit(nodes, Resources(cpus=4, gpus=0, memory=GB), num_workers=1) == 0


@pytest.mark.parametrize(("share", "fitting"), [(1, 2), (0.6, 2), (0.5, 4), (0.4, 4), (1 / 3, 6)])
def test_workers_share_gpus(share: float, fitting: int) -> None:
    node = Resources(cpus=100, gpus=2, memory=PLENTY)
    assert workers_that_fit(node, Resources(cpus=1, gpus=share, memory=GB)) == fitting
    assert workers_that_fit(replace(node, gpus=0), Resources(cpus=1, gpus=share, memory=GB)) == 0


@pytest.mark.parametrize(("memory", "fitting"), [(3 * GB, 3), (10 * GB, 0)])
def test_memory_limits_the_workers_and_some_is_spared(memory: int, fitting: int) -> None:
    node = Resources(cpus=100, gpus=0, memory=10 * GB)
    assert workers_that_fit(node, Resources(cpus=1, gpus=0, memory=memory)) == fitting


def test_memory_of_a_worker_is_by_encoder_precision_and_device(make_plan: MakePlan) -> None:
    plan = make_plan(cpus_per_worker=3)
    need = resources_per_worker(replace(plan, num_parameters=110_000_000))
    assert (need.cpus, need.gpus) == (3, 0)
    assert need.memory == BASE_BYTES + HELPER_BYTES + 110_000_000 * CPU_BYTES_PER_PARAMETER
    assert resources_per_worker(with_options(plan, workers=2)).memory == BASE_BYTES + HELPER_BYTES // 2
    assert resources_per_worker(with_options(plan, address="auto")).memory == BASE_BYTES
    in_bf16 = replace(plan, space=replace(plan.space, base=plan.space.base.override({"precision": "bf16"})))
    assert resources_per_worker(in_bf16).memory - resources_per_worker(plan).memory == CPU_BF16_BYTES
    on_gpu = with_options(replace(in_bf16, num_parameters=110_000_000), gpus_per_worker=1.0)
    assert (
        resources_per_worker(on_gpu).memory == GPU_BASE_BYTES + HELPER_BYTES + 110_000_000 * SAVING_BYTES_PER_PARAMETER
    )
    in_bucket = with_options(replace(plan, num_parameters=110_000_000), storage="s3://bucket/sweeps?region=here")
    assert resources_per_worker(in_bucket).memory == need.memory + 110_000_000 * SAVING_BYTES_PER_PARAMETER


@pytest.mark.parametrize(
    ("free_cpus", "memory", "num_open", "num_waiting", "lanes"),
    [
        (2, PLENTY, 2, 0, 4),
        (2, PLENTY, 2, 3, 5),  # what waits for resources has not taken them from what is free
        (0, PLENTY, 4, 0, 4),
        (4, 3 * (BASE_BYTES + HELPER_BYTES), 2, 0, 2),  # Ray counts memory that lanes use as free
        (9, PLENTY, 8, 0, 8),
        (0, 0, 0, 0, 1),  # an autoscaler sees the demand of the one that waits
    ],
)
def test_new_lanes_fit_free_resources_and_all_lanes_total_ones(
    make_plan: MakePlan,
    monkeypatch: pytest.MonkeyPatch,
    free_cpus: int,
    memory: int,
    num_open: int,
    num_waiting: int,
    lanes: int,
) -> None:
    monkeypatch.setattr(ray, "available_resources", lambda: {"CPU": free_cpus, "memory": memory})
    monkeypatch.setattr(capacity, "total_resources", lambda _refused: [Resources(cpus=8, gpus=0, memory=memory)])
    assert num_lanes(make_plan(), num_open, num_waiting, ()) == lanes


@pytest.mark.parametrize(("usable", "fitting"), [({}, 8), ({LANES_MEMORY: 5 * GB}, 2), ({LANES_MEMORY: 1.5 * GB}, 0)])
def test_lanes_on_this_machine_fit_the_memory_that_the_sweep_may_use(
    usable: dict[str, int], fitting: int, make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = {"NodeID": "n", "Alive": True, "Resources": {"CPU": 8, "memory": PLENTY, **usable}}
    monkeypatch.setattr(ray, "nodes", lambda: [node])
    assert lanes_that_fit(total_resources(), resources_per_worker(make_plan()), 1) == fitting


def options(**changes: Any) -> SweepOptions:
    return SweepOptions(name="first", storage="/storage", address="auto", **changes)


@pytest.mark.usefixtures("private_ray")
def test_nodes_that_a_worker_fits_are_asked_for_bf16_though_their_cpus_are_taken() -> None:
    taken = ray.util.placement_group([{"CPU": 2}])
    assert taken.wait(30)
    assert nodes_have_bf16(options()) == has_bf16(on_gpu=False)
    ray.util.remove_placement_group(taken)


def have_it(*, on_gpu: bool) -> bool:
    return not on_gpu


def die(*, on_gpu: bool) -> bool:
    raise SystemExit(int(on_gpu))


@pytest.mark.usefixtures("private_ray")
@pytest.mark.parametrize(
    ("answer", "changes", "expected"),
    [
        (have_it, {}, True),
        (have_it, {"cpus_per_worker": 3}, False),
        (have_it, {"gpus_per_worker": 1}, False),
        (die, {}, False),
    ],
)
def test_trials_are_in_bf16_where_a_node_fits_and_all_that_do_answer_that_they_have_it(
    answer: Callable[..., bool], changes: dict[str, Any], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bf16, "has_bf16", answer)
    assert nodes_have_bf16(options(**changes)) is expected


def test_refused_nodes_hold_no_lane(make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    node = {"NodeID": "a", "NodeManagerHostname": "here", "Resources": {"CPU": 4, "memory": PLENTY}, "Alive": True}
    monkeypatch.setattr(ray, "nodes", lambda: [node])
    monkeypatch.setattr(ray, "available_resources", lambda: node["Resources"])
    plan = make_plan()
    assert (fits_cluster(plan), fits_cluster(plan, {"a"})) == (True, False)
    assert (num_lanes(plan, 0, 0, {"b"}), num_lanes(plan, 0, 0, {"a"})) == (4, 1)


@pytest.mark.parametrize(
    ("cpus", "gpus", "share", "num_nodes", "idle"),
    [(4, 8, 1.0, 1, "4 of 8 GPUs stay idle"), (8, 8, 1.0, 1, None), (2, 1, 0.25, 2, None), (2, 0, 1.0, 1, None)],
)
def test_gpus_that_lack_cpus_are_named(
    make_plan: MakePlan,
    monkeypatch: pytest.MonkeyPatch,
    cpus: int,
    gpus: int,
    share: float,
    num_nodes: int,
    idle: str | None,
) -> None:
    nodes = [Resources(cpus=cpus, gpus=gpus, memory=PLENTY)] * num_nodes
    monkeypatch.setattr(capacity, "total_resources", lambda: nodes)
    line = describe_idle_gpus(make_plan(gpus_per_worker=share))
    assert (line or "").partition(":")[0] == (idle or "")
    if line is not None:
        assert "each worker needs 1 CPU and 2.7 GB of memory; there are 4 CPUs, 8 GPUs" in line
