"""Stop requests: the first Ctrl-C stops the program cleanly, the second one at once."""

import signal
import threading
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Ctrl-C, and what `ray job stop` and batch systems send."""


class Interrupts:
    """A context that counts stop signals while it is open in the main thread."""

    def __init__(self) -> None:
        self.count = 0
        self.is_terminated = False
        """Whether one of them was SIGTERM: what sends it kills the process a few seconds later."""
        self.reason: str | None = None
        """Why the program itself requested a stop, in one clause; None if it did not."""
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupts":
        self.install_handlers()
        return self

    def install_handlers(self) -> None:
        """Installs the signal handlers, again after a library has installed its own; nothing in another thread than
        the main one, which alone may have handlers."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in SIGNALS:
            previous = signal.signal(number, self._note)
            self._handlers.setdefault(number, previous)

    @property
    def is_stop_requested(self) -> bool:
        """Whether a signal or the program itself has requested a stop."""
        return self.count > 0 or self.reason is not None

    def request_stop(self, reason: str) -> None:
        """Requests a clean stop, like a first Ctrl-C. A Ctrl-C after it still counts as the first."""
        self.reason = reason

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.count += 1
        self.is_terminated = self.is_terminated or number == signal.SIGTERM
        if self.count > 1:
            raise KeyboardInterrupt
