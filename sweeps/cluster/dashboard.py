"""Ray's dashboard on this machine, started once trials have trained for a while.

It takes as long to start as the rest of Ray, so a sweep does not wait for it, and a short one has none.
"""

import contextlib
import signal
import threading

from sweeps.cluster.ray_internals import start_dashboard

AFTER_SECONDS = 30.0
"""How long trials train before it starts."""
START_SECONDS = 30.0
"""How long a start that has begun is waited for when Ray is shut down."""


class LateDashboard:
    """Starts the dashboard of the Ray that this process has started, in a thread, and knows its address then."""

    def __init__(self) -> None:
        self.url: str | None = None
        self.thread: threading.Thread | None = None
        self.began: float | None = None

    def poll(self, now: float) -> str | None:
        """Starts the dashboard when it is time; returns its address the first time that it is there.

        Args:
            now: seconds; the first call is when training begins.
        """
        self.began = now if self.began is None else self.began
        if self.thread is None and now - self.began >= AFTER_SECONDS:
            self.thread = threading.Thread(target=self.start, name="start of Ray's dashboard", daemon=True)
            self.thread.start()
        url = self.url
        if url is not None:  # the thread sets it once
            self.url = None
        return url

    def start(self) -> None:
        """Starts it; a sweep goes on without where that fails."""
        # A new process inherits what its thread blocks: Ctrl-C, which a terminal sends to all, must not end it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        with contextlib.suppress(Exception):
            self.url = start_dashboard()

    def close(self) -> None:
        """Waits until a start that has begun is over: Ray ends only the processes that it knows."""
        if self.thread is not None:
            self.thread.join(START_SECONDS)
