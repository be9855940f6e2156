"""Nodes that are about to be taken away, as `ray drain-node` and clouds with spot machines announce."""

try:
    from ray.train import get_preemption_info
except ImportError:  # Ray before 2.58 does not tell workers of a drain: their trials continue from their last states

    def get_preemption_info() -> None:
        """Knows of no node."""


ASK_STEPS = 20
"""Between two questions: in each all workers of a lane call an actor of Ray Train and wait for each other."""


class NodeDrain:
    """The nodes of a lane that are about to be taken away, as one of its workers knows them."""

    def __init__(self) -> None:
        self.nodes: list[str] = []

    def is_announced(self, step: int) -> bool:
        """Returns whether there are any; called on all workers after each step, with its number."""
        if not self.nodes and step % ASK_STEPS == 0 and (info := get_preemption_info()) is not None:
            self.nodes = info.preempted_node_ids
        return bool(self.nodes)
