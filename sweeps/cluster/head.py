"""Whether the head of the Ray cluster still answers: without it Ray ends the driver after a minute, in silence."""

import socket

ANSWER_SECONDS = 5.0
"""Time limit of a TCP connection to the head."""
MAX_FAILURES = 3
"""Connections that may fail, one after another, before the head counts as lost."""


class Head:
    """The head's control service, to which Ray's own calls may wait for a minute."""

    def __init__(self, address: str) -> None:
        """`address` is `host:port`."""
        self._address = address
        self._num_failures = 0

    def answers(self) -> bool:
        """Tries once; False if the head is lost."""
        host, _, port = self._address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_SECONDS).close()
            self._num_failures = 0
        except OSError:
            self._num_failures += 1
        return not self.is_lost

    @property
    def is_well(self) -> bool:
        """Whether it answered the last time."""
        return self._num_failures == 0

    @property
    def is_lost(self) -> bool:
        """Whether it has not answered `MAX_FAILURES` times."""
        return self._num_failures >= MAX_FAILURES

    @property
    def why_lost(self) -> str:
        """What happened, in a clause."""
        return f"the head of the Ray cluster, {self._address}, does not answer any more"
