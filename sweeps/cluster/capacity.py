"""How many lanes fit a cluster, by CPUs, GPUs and memory, and which nodes hold what trials are trained from."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import ray
from ray.exceptions import RayError

from mtlib.runtime.storage import local_path
from sweeps.cluster.gpu_shares import workers_on_gpus
from sweeps.cluster.placement import on_node
from sweeps.cluster.usable_resources import LANES_MEMORY
from sweeps.options import SweepOptions, SweepPlan

BASE_BYTES = 800 * 2**20
"""Memory of a worker on a CPU that has loaded its libraries."""
HELPER_BYTES = 650 * 2**20
"""Memory of a lane's five helper processes, its controller among them, which are on the driver's node."""
GPU_BASE_BYTES = 2 * 10**9
"""Host memory of a worker with a GPU that has loaded its libraries, as measured on an H200."""
CPU_BYTES_PER_PARAMETER = 30
"""On a CPU: weights, gradient, AdamW's two moments and a copy while saving, four bytes each, and half as much again for
activations. The pretrained weights are in the node's object store, once for all workers."""
CPU_BF16_BYTES = 600 * 2**20
"""On a CPU in bf16, in addition: kernels that oneDNN keeps for the shapes of batches, and the blocks that casts leave
free (docs/measurements/speed.md)."""
SAVING_BYTES_PER_PARAMETER = 16
"""Where states are saved in the background: a copy of weights, of AdamW's two moments and of the best weights, four
bytes each; with a GPU also as measured on an H200."""
USABLE_MEMORY = 0.9
"""Share of a node's memory that lanes may use."""
ANSWER_SECONDS = 120.0
"""How long nodes have to answer `nodes_have_bf16`; most of it is the import of torch."""


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Resources of a node, or requirements of a worker."""

    cpus: float
    gpus: float
    memory: float
    """Bytes."""


def resources_per_worker(plan: SweepPlan) -> Resources:
    """Requirements of one worker; memory is estimated from the largest encoder's parameters and the precision."""
    has_gpu = plan.options.gpus_per_worker > 0
    saves_in_background = has_gpu or local_path(plan.options.folder) is None
    base, per_parameter = (GPU_BASE_BYTES, 0) if has_gpu else (BASE_BYTES, CPU_BYTES_PER_PARAMETER)
    per_parameter += SAVING_BYTES_PER_PARAMETER if saves_in_background else 0
    for_precision = 0 if has_gpu or plan.space.base.precision == "fp32" else CPU_BF16_BYTES
    for_helpers = HELPER_BYTES // plan.options.workers if plan.options.address is None else 0
    memory = base + per_parameter * plan.num_parameters + for_precision + for_helpers
    return Resources(cpus=plan.options.cpus_per_worker, gpus=plan.options.gpus_per_worker, memory=memory)


def workers_that_fit(node: Resources, need: Resources) -> int:
    """Returns how many workers fit one node."""
    limits = ((node.cpus, need.cpus), (USABLE_MEMORY * node.memory, need.memory))
    fitting = [int(available / required) for available, required in limits if required]
    return min([*fitting, workers_on_gpus(node.gpus, need.gpus)] if need.gpus else fitting)


def lanes_that_fit(nodes: Sequence[Resources], need: Resources, num_workers: int) -> int:
    """Returns how many lanes of `num_workers` workers fit the nodes; a lane may span several."""
    return sum(workers_that_fit(node, need) for node in nodes) // num_workers


def num_lanes(plan: SweepPlan, num_open: int, num_waiting: int, refused: Collection[str]) -> int:
    """Returns how many lanes the sweep may have now.

    Ray does not reserve memory for lanes, so all must fit the cluster together. Of what is free, only the sum over the
    nodes is known: a lane that does not fit a node of it waits.

    Args:
        plan: of the sweep.
        num_open: its lanes that have workers.
        num_waiting: its lanes that wait for resources, which are not taken from what is free yet.
        refused: ids of nodes on which no lane may open.

    Returns:
        At least 1: with an autoscaler nothing may fit yet, and Ray sees the demand of the lane that waits.
    """
    need = resources_per_worker(plan)
    total = lanes_that_fit(total_resources(refused), need, plan.options.workers)
    free = to_resources(ray.available_resources())
    num_free = workers_that_fit(free, need) // plan.options.workers
    return max(1, min(total, num_open + max(num_waiting, num_free)))


def fits_cluster(plan: SweepPlan, refused: Collection[str] = ()) -> bool:
    """Returns whether the alive nodes, without the refused ones, could hold a lane if they were idle."""
    return lanes_that_fit(total_resources(refused), resources_per_worker(plan), plan.options.workers) > 0


def alive_nodes() -> dict[str, str]:
    """Host names of the alive nodes, by node id."""
    return {node["NodeID"]: node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]}


def nodes_have_bf16(options: SweepOptions) -> bool:
    """Returns whether every node that a worker of the sweep would fit has instructions for bf16,
    on GPUs if it uses them.

    A task on each node finds out. It reserves nothing: the nodes may be busy. False if one does not answer.
    """
    from mtlib.runtime.bf16 import has_bf16  # here: it imports torch, which a lane's controller does not need

    need = Resources(cpus=options.cpus_per_worker, gpus=options.gpus_per_worker, memory=BASE_BYTES)
    has_gpu = options.gpus_per_worker > 0
    answers = [
        on_node(has_bf16, node["NodeID"], max_calls=1, max_retries=0).remote(on_gpu=has_gpu)
        for node in ray.nodes()
        if node["Alive"] and workers_that_fit(to_resources(node["Resources"]), need)
    ]
    try:
        return bool(answers) and all(ray.get(answers, timeout=ANSWER_SECONDS))
    except RayError:  # a node was lost, or is too slow
        return False


def describe_idle_gpus(plan: SweepPlan) -> str | None:
    """Returns a line that says how many GPUs no worker can use, for want of CPUs or memory; None without."""
    need = resources_per_worker(plan)
    if not need.gpus:
        return None
    nodes, per_gpu = total_resources(), workers_on_gpus(1, need.gpus)
    num_idle = sum((workers_on_gpus(node.gpus, need.gpus) - workers_that_fit(node, need)) // per_gpu for node in nodes)
    if num_idle < 1:
        return None
    each = f"each worker needs {need.cpus:g} CPU{'s' * (need.cpus != 1)} and {need.memory / 1e9:.1f} GB of memory"
    return f"{num_idle} of {sum(node.gpus for node in nodes):g} GPUs stay idle: {each}; there are {describe_cluster()}"


def total_resources(refused: Collection[str] = ()) -> list[Resources]:
    """Returns all resources of each alive node, the refused ones left out."""
    nodes = [node for node in ray.nodes() if node["Alive"] and node["NodeID"] not in refused]
    return [to_resources(node["Resources"]) for node in nodes]


def to_resources(amounts: Mapping[str, float]) -> Resources:
    """Resources from Ray's amounts by name."""
    memory = min(amounts.get("memory", 0), amounts.get(LANES_MEMORY, math.inf))
    return Resources(cpus=amounts.get("CPU", 0), gpus=amounts.get("GPU", 0), memory=memory)


def describe_cluster() -> str:
    """Total resources of the alive nodes, for messages."""
    nodes = total_resources()
    cpus, gpus, memory = (sum(getattr(node, part) for node in nodes) for part in ("cpus", "gpus", "memory"))
    return f"{cpus:g} CPUs, {gpus:g} GPUs and {memory / 1e9:.0f} GB of memory"


def describe_lane(plan: SweepPlan) -> str:
    """Requirements of a lane, for messages."""
    need = resources_per_worker(plan)
    gpus = f", {need.gpus:g} GPUs" if need.gpus else ""
    each = f"{need.cpus:g} CPUs{gpus} and about {need.memory / 1e9:.1f} GB of memory"
    return f"{plan.options.workers} workers of {each} each"
