"""Tasks and actors that reserve nothing and run on one node."""

from collections.abc import Callable
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


def on_node(target: Callable[..., Any], node: str, **settings: Any) -> Any:
    """Returns a function or class as Ray's task or actor on the node with an id, which may be busy, and on no other.

    `settings` are further ones of `ray.remote`, such as `max_retries`.
    """
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    return ray.remote(num_cpus=0, scheduling_strategy=there, **settings)(target)
