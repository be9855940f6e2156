"""Asks the nodes of a cluster whether bf16 pays there."""

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from mtlib.runtime.bf16 import Bf16Answer, does_bf16_pay
from sweeps.cluster.capacity import BASE_BYTES, Resources, to_resources, workers_that_fit
from sweeps.cluster.connection import connected_to_ray
from sweeps.options import SweepOptions

ANSWER_SECONDS = 120.0
"""How long nodes have for their answers; most of it is the import of torch."""


def ask_nodes(options: SweepOptions, width: int) -> list[Bf16Answer]:
    """The answers of the nodes that a worker of the sweep would fit if they were idle; of those that answer in time.

    A task asks each of them, and reserves nothing: they may be busy, and the GPUs are asked for by nvidia-smi.

    Args:
        options: with the cluster's address, and what a worker needs.
        width: as of `does_bf16_pay`.

    Raises:
        ValueError: there is no cluster at the address.
    """
    on_gpu = options.gpus_per_worker > 0
    need = Resources(cpus=options.cpus_per_worker, gpus=options.gpus_per_worker, memory=BASE_BYTES)
    ask = ray.remote(num_cpus=0, max_calls=1, max_retries=0)(does_bf16_pay)
    with connected_to_ray(options.address):
        alive = [node for node in ray.nodes() if node["Alive"]]
        fitting = [node["NodeID"] for node in alive if workers_that_fit(to_resources(node["Resources"]), need)]
        places = [NodeAffinitySchedulingStrategy(node, soft=False) for node in fitting]
        asked = [
            ask.options(scheduling_strategy=place).remote(width, options.cpus_per_worker, on_gpu=on_gpu)
            for place in places
        ]
        answered = ray.wait(asked, num_returns=len(asked), timeout=ANSWER_SECONDS)[0] if asked else []
        return [answer for one in answered if (answer := answer_of(one)) is not None]


def answer_of(task: "ray.ObjectRef[Bf16Answer]") -> Bf16Answer | None:
    """The answer of a task that has ended; None if its node was lost."""
    try:
        answer: Bf16Answer = ray.get(task)
    except RayError:
        return None
    return answer
