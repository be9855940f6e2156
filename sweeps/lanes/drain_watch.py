"""Whether a lane's nodes are about to be taken away, which `ray drain-node` or a provider of machines announces."""

import time
from collections.abc import Callable

from ray import train

from mtlib.runtime.workers import gather_from_workers

ASK_SECONDS = 3.0
"""About so often a lane asks; to ask is a barrier of 5 ms for its workers."""


def is_announced() -> bool:
    """Returns whether Ray Train knows that a node of this run will be taken away; all workers ask together."""
    return train.get_preemption_info() is not None


class DrainWatch:
    """Asks every few seconds, on all workers of a lane after the same steps."""

    def __init__(self, ask: Callable[[], bool] = is_announced) -> None:
        self.is_draining = False
        self._ask = ask
        self._num_steps, self._steps_left, self._since = 1, 1, time.monotonic()

    def after_step(self) -> bool:
        """Called on every worker after each step; whether the lane must leave."""
        self._steps_left -= 1
        return self.check() if self._steps_left <= 0 else self.is_draining

    def check(self) -> bool:
        """Asks now, on every worker; whether the lane must leave."""
        per_step = max(time.monotonic() - self._since, 1e-6) / self._num_steps
        own = min(max(1, round(ASK_SECONDS / per_step)), 10 * self._num_steps)
        answer = self._ask()
        self._num_steps = gather_from_workers(own)[0]
        self._steps_left, self._since = self._num_steps, time.monotonic()
        self.is_draining = self.is_draining or answer
        return self.is_draining
