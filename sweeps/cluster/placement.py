"""Tasks and actors that reserve nothing and run on one node."""

from collections.abc import Callable
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


def on_node(target: Callable[..., Any], node: str, **settings: Any) -> Any:
    """Returns a function or class as Ray's task or actor on a node, which may be busy, and on no other.

    Args:
        target: the function or class.
        node: id of the node.
        settings: of `ray.remote`, such as `max_retries`.
    """
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    return ray.remote(num_cpus=0, scheduling_strategy=there, **settings)(target)
