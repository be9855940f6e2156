"""Stop requests: the first Ctrl-C stops the program cleanly, the second one at once."""

import os
import signal
import threading
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, what `ray job stop` and batch systems send, and the end of a terminal or of a connection to it."""


class Interrupts:
    """A context that counts stop signals while it is open in the main thread."""

    def __init__(self) -> None:
        self.count = 0
        self.unannounced: str | None = None
        """SIGTERM or SIGHUP, until that has been said: what sends it may kill the process three seconds later."""
        self.reason: str | None = None
        """Why the program itself requests a clean stop, in a clause; None if it does not. A later Ctrl-C counts as the
        first."""
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
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # under nohup, which lets a program outlive its terminal
            previous = signal.signal(number, self._note)
            self._handlers.setdefault(number, previous)

    @property
    def is_stop_requested(self) -> bool:
        """Whether a signal or the program itself has requested a stop."""
        return self.count > 0 or self.reason is not None

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            drop_terminal()
            if self.count:  # the shell and the system both send it when a terminal closes
                return
        self.count += 1
        if number != signal.SIGINT:
            self.unannounced = signal.Signals(number).name
        if self.count > 1:
            raise KeyboardInterrupt


def drop_terminal() -> None:
    """Sends output to /dev/null that would go to a terminal that is gone, where each writing fails."""
    for stream in (1, 2):
        try:
            os.write(stream, b"")
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
