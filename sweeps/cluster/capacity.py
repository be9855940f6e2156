"""How many lanes fit a cluster, by CPUs, GPUs and memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import ray

from sweeps.cluster.ray_internals import available_resources_by_node
from sweeps.options import SweepPlan

BASE_BYTES = 800 * 2**20
"""Memory of a worker that has loaded its libraries."""
CPU_BYTES_PER_PARAMETER = 36
"""On a CPU: the pretrained copy, weights, gradient, AdamW's two moments and a copy while saving, four bytes each, and
half as much again for activations."""
GPU_BYTES_PER_PARAMETER = 12
"""Beside a GPU: the pretrained copy and what is copied there and back."""
USABLE = 0.9
"""Part of a node's memory that lanes may take."""


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What a node has, or what a worker needs."""

    cpus: float
    gpus: float
    memory: float
    """Bytes."""


def resources_per_worker(plan: SweepPlan, num_parameters: int | None) -> Resources:
    """What one worker of a lane needs; memory is guessed from the encoder's size, where that is known."""
    per_parameter = GPU_BYTES_PER_PARAMETER if plan.gpus_per_worker else CPU_BYTES_PER_PARAMETER
    memory = BASE_BYTES + per_parameter * (num_parameters or 0)
    return Resources(cpus=plan.cpus_per_worker, gpus=plan.gpus_per_worker, memory=memory)


def workers_that_fit(node: Resources, need: Resources) -> int:
    """Workers that one node has room for."""
    parts = (("cpus", 1.0), ("gpus", 1.0), ("memory", USABLE))
    # 1e-9: three workers of a third of a GPU each fit one.
    return int(
        min(share * getattr(node, part) / getattr(need, part) + 1e-9 for part, share in parts if getattr(need, part))
    )


def lanes_that_fit(nodes: Sequence[Resources], need: Resources, num_workers: int) -> int:
    """Lanes of `num_workers` workers that the nodes have room for; the workers of a lane may be on several."""
    return sum(workers_that_fit(node, need) for node in nodes) // num_workers


def num_lanes(plan: SweepPlan, num_parameters: int | None) -> int:
    """How many lanes the sweep opens: what fits the part of the cluster that is free, at least one.

    Raises:
        ValueError: not even one lane fits the whole cluster.
    """
    need = resources_per_worker(plan, num_parameters)
    if not fits_cluster(plan, num_parameters):
        raise ValueError(
            f"a trial must fit the cluster, which has {describe_cluster()}; it needs {describe_lane(plan, need)}"
        )
    fitting = max(1, lanes_that_fit(available_resources(), need, plan.workers))
    most = plan.num_configurations * plan.replicates
    return min(fitting, most, plan.concurrent or most)


def fits_cluster(plan: SweepPlan, num_parameters: int | None) -> bool:
    """Whether the nodes that are alive could hold a lane, were they free."""
    return lanes_that_fit(total_resources(), resources_per_worker(plan, num_parameters), plan.workers) > 0


def num_more_lanes(plan: SweepPlan, num_parameters: int | None, num_lanes: int, num_waiting: int) -> int:
    """How many lanes there is room for beside those that the sweep has.

    Args:
        plan: the sweep.
        num_parameters: size of the encoder, where it is known.
        num_lanes: lanes that the sweep has. What they hold of memory is not reserved in Ray, so that all lanes together
            must fit the whole cluster, too.
        num_waiting: those of them that may still wait for room.
    """
    need = resources_per_worker(plan, num_parameters)
    free, total = (lanes_that_fit(rooms, need, plan.workers) for rooms in (available_resources(), total_resources()))
    return max(0, min(free - num_waiting, total - num_lanes))


def alive_nodes() -> dict[str, str]:
    """The host of each node that is alive, by the node's id."""
    return {node["NodeID"]: node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]}


def total_resources() -> list[Resources]:
    """What each node that is alive has."""
    return [room_of(node["Resources"]) for node in ray.nodes() if node["Alive"]]


def available_resources() -> list[Resources]:
    """What is free of each node that is alive."""
    free = available_resources_by_node()
    return [room_of(free.get(node["NodeID"], {})) for node in ray.nodes() if node["Alive"]]


def room_of(resources: dict[str, float]) -> Resources:
    """A node's resources as Ray tells them."""
    return Resources(cpus=resources.get("CPU", 0), gpus=resources.get("GPU", 0), memory=resources.get("memory", 0))


def describe_cluster() -> str:
    """What the nodes that are alive have together, for people."""
    rooms = total_resources()
    cpus, gpus, memory = (sum(getattr(room, part) for room in rooms) for part in ("cpus", "gpus", "memory"))
    return f"{cpus:g} CPUs, {gpus:g} GPUs and {memory / 1e9:.0f} GB of memory"


def describe_lane(plan: SweepPlan, need: Resources) -> str:
    """What a lane needs, for people."""
    gpus = f", {need.gpus:g} GPUs" if need.gpus else ""
    each = f"{need.cpus:g} CPUs{gpus} and about {need.memory / 1e9:.1f} GB of memory"
    return f"{plan.workers} workers of {each} each"
