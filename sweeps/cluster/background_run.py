"""A run of Ray Train or Ray Tune in a thread: in the main thread these would take over Ctrl-C."""

import threading
from collections.abc import Callable

from mtlib.runtime.errors import typed_line

THREAD_PREFIX = "sweep: "
"""Prefix of the names of threads that call Ray."""


class BackgroundRun:
    """A call in a thread of its own."""

    def __init__(self, fit: Callable[[], object], name: str) -> None:
        self.name = name
        self.error: str | None = None
        """Why the run itself failed."""
        self._fit = fit
        self._thread = threading.Thread(target=self._run, name=f"{THREAD_PREFIX}{name}", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether the run has ended and its resources are free."""
        return not self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        """Waits for the end of the run, at most so long."""
        self._thread.join(max(0.0, seconds))

    def _run(self) -> None:
        try:
            self._fit()
        except Exception as error:  # ends the run, and is left to the driver
            self.error = typed_line(error)


def is_inside_ray() -> bool:
    """Returns whether the thread of a `BackgroundRun` still runs."""
    return any(thread.name.startswith(THREAD_PREFIX) for thread in threading.enumerate())
