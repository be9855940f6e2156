"""Whether the services still answer without which Ray ends the driver, in silence: after 60 s, or even after 12 s."""

import socket
from collections.abc import Mapping

import ray

PROBE_SECONDS = 2.0
"""Time limit of a TCP connection to a service."""
MAX_MISSES = 2
"""Connections that may fail, one after another, before a service counts as lost."""


class RayServices:
    """The services that the driver needs; other calls of Ray may wait for a minute where one of them is dead."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        """`addresses` are `host:port` by the name of the service, for messages."""
        self._addresses = addresses
        self._num_missed = dict.fromkeys(addresses, 0)

    def check(self) -> None:
        """Connects to each of them once."""
        for name, address in self._addresses.items():
            host, _, port = address.rpartition(":")
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=PROBE_SECONDS).close()
                self._num_missed[name] = 0
            except OSError:
                self._num_missed[name] += 1

    @property
    def are_well(self) -> bool:
        """Whether all have answered the last time."""
        return not any(self._num_missed.values())

    @property
    def why_lost(self) -> str | None:
        """Which of them is lost, in a clause; None if none is."""
        lost = [name for name, number in self._num_missed.items() if number >= MAX_MISSES]
        return f"{lost[0]}, {self._addresses[lost[0]]}, does not answer any more" if lost else None


def find_services() -> RayServices:
    """Returns the services of the connected cluster."""
    context = ray.get_runtime_context()
    own = next(node for node in ray.nodes() if node["NodeID"] == context.get_node_id())
    node = f"{own['NodeManagerAddress']}:{own['NodeManagerPort']}"
    return RayServices({"the head of the Ray cluster": context.gcs_address, "the Ray of this machine": node})
