"""Ctrl-C: the first one is noted, for a clean stop; the second one ends the program at once."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Ctrl-C, and what `ray job stop` and batch systems send."""


class Interrupts:
    """While this context is open in the main thread, counts signals that ask the program to end."""

    def __init__(self) -> None:
        self.count = 0
        self.why: str | None = None
        """Who else asked the program to end, and why, in one clause; None: a signal did."""
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            self.catch()
        return self

    def catch(self) -> None:
        """Takes the signals over, also from a library that has taken them since."""
        for number in SIGNALS:
            previous = signal.signal(number, self._note)
            self._handlers.setdefault(number, previous)

    @property
    def are_there(self) -> bool:
        """Whether anybody has asked the program to end."""
        return self.count > 0 or self.why is not None

    def ask(self, why: str) -> None:
        """Asks for a clean stop, as a first Ctrl-C does; that one is still to come."""
        self.why = why

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1:
            raise KeyboardInterrupt
