"""Number of lanes that fit, by CPUs, GPUs and memory, on one node or several."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray

from mtlib.runtime import bf16
from mtlib.runtime.bf16 import has_bf16
from sweeps.cluster.capacity import (
    BASE_BYTES,
    CPU_BF16_BYTES,
    CPU_BYTES_PER_PARAMETER,
    Resources,
    lanes_that_fit,
    nodes_have_bf16,
    num_more_lanes,
    resources_per_worker,
    workers_that_fit,
)
from sweeps.options import SweepOptions
from tests.sweeps.conftest import MakePlan, with_options

GB = 10**9
PLENTY = 1000 * GB


def test_cpus_limit_the_lanes() -> None:
    node = Resources(cpus=7, gpus=0, memory=PLENTY)
    assert lanes_that_fit([node], Resources(cpus=2, gpus=0, memory=GB), num_workers=1) == 3


def test_workers_of_a_lane_may_be_on_several_nodes() -> None:
    nodes = [Resources(cpus=1, gpus=0, memory=PLENTY)] * 3
    assert lanes_that_fit(nodes, Resources(cpus=1, gpus=0, memory=GB), num_workers=2) == 1


def test_worker_is_on_one_node_only() -> None:
    nodes = [Resources(cpus=1, gpus=0, memory=PLENTY)] * 4
    assert lanes_that_fit(nodes, Resources(cpus=2, gpus=0, memory=GB), num_workers=1) == 0


@pytest.mark.parametrize(("share", "fitting"), [(1, 2), (0.5, 4), (1 / 3, 6)])
def test_workers_share_gpus(share: float, fitting: int) -> None:
    node = Resources(cpus=100, gpus=2, memory=PLENTY)
    assert workers_that_fit(node, Resources(cpus=1, gpus=share, memory=GB)) == fitting


def test_memory_limits_the_lanes_and_some_is_spared() -> None:
    node = Resources(cpus=100, gpus=0, memory=10 * GB)
    assert workers_that_fit(node, Resources(cpus=1, gpus=0, memory=3 * GB)) == 3
    assert workers_that_fit(node, Resources(cpus=1, gpus=0, memory=10 * GB)) == 0


def test_node_without_a_gpu_holds_no_gpu_worker() -> None:
    assert workers_that_fit(Resources(cpus=8, gpus=0, memory=PLENTY), Resources(cpus=1, gpus=1, memory=GB)) == 0


def test_larger_encoder_needs_more_memory_per_worker(make_plan: MakePlan) -> None:
    plan = make_plan(cpus_per_worker=3)
    need = resources_per_worker(replace(plan, num_parameters=110_000_000))
    assert (need.cpus, need.gpus) == (3, 0)
    assert need.memory == BASE_BYTES + 110_000_000 * CPU_BYTES_PER_PARAMETER
    assert resources_per_worker(plan).memory == BASE_BYTES


def test_bf16_needs_more_memory_on_a_cpu(make_plan: MakePlan) -> None:
    plan = make_plan()
    in_bf16 = replace(plan, space=replace(plan.space, base=plan.space.base.override({"precision": "bf16"})))
    assert resources_per_worker(in_bf16).memory - resources_per_worker(plan).memory == CPU_BF16_BYTES
    on_gpu, on_gpu_in_bf16 = (replace(one, options=replace(one.options, gpus_per_worker=1)) for one in (plan, in_bf16))
    assert resources_per_worker(on_gpu_in_bf16) == resources_per_worker(on_gpu)


def test_gpu_worker_needs_less_memory(make_plan: MakePlan) -> None:
    plan = replace(make_plan(), num_parameters=10**8)
    on_cpu, on_gpu = resources_per_worker(plan), resources_per_worker(with_options(plan, gpus_per_worker=1.0))
    assert on_gpu.memory < on_cpu.memory


@pytest.mark.parametrize(
    ("free_cpus", "memory", "num_lanes", "num_waiting", "more"),
    [
        (2, PLENTY, 2, 0, 2),
        (2, PLENTY, 3, 1, 1),
        (1, PLENTY, 4, 2, 0),
        (4, 3 * BASE_BYTES, 2, 0, 0),  # Ray counts memory that lanes use as free
    ],
)
def test_new_lanes_fit_free_resources_and_all_lanes_total_ones(
    make_plan: MakePlan,
    monkeypatch: pytest.MonkeyPatch,
    free_cpus: int,
    memory: int,
    num_lanes: int,
    num_waiting: int,
    more: int,
) -> None:
    monkeypatch.setattr(
        "sweeps.cluster.capacity.available_resources", lambda: [Resources(cpus=free_cpus, gpus=0, memory=memory)]
    )
    monkeypatch.setattr("sweeps.cluster.capacity.total_resources", lambda: [Resources(cpus=8, gpus=0, memory=memory)])
    assert num_more_lanes(make_plan(), num_lanes, num_waiting) == more


def options(**changes: Any) -> SweepOptions:
    return SweepOptions(name="first", storage=Path("/storage"), address="auto", **changes)


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
