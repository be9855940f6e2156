"""Machines of a network: namespaces of this machine with addresses of their own, which nothing else is in."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

NODES = {"sweepnode0": "10.77.0.1", "sweepnode1": "10.77.0.2"}
"""Names of the namespaces and their addresses."""
BRIDGE, HOST = "sweepbridge", "10.77.0.254"
"""This machine's device and address in the network."""

needs_network = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None, reason="only root can make network namespaces"
)


@contextmanager
def open_network() -> Iterator[None]:
    """A network of the nodes and of this machine, which nothing else is in."""
    commands = [f"ip link add {BRIDGE} type bridge", f"ip addr add {HOST}/24 dev {BRIDGE}", f"ip link set {BRIDGE} up"]
    for number, (node, address) in enumerate(NODES.items()):
        commands += [
            f"ip netns add {node}",
            f"ip link add sweepveth{number} type veth peer name eth0 netns {node}",
            f"ip link set sweepveth{number} master {BRIDGE} up",
            f"ip -n {node} addr add {address}/24 dev eth0",
            f"ip -n {node} link set eth0 up",
            f"ip -n {node} link set lo up",
            f"ip -n {node} route add default via {HOST}",  # by which Ray finds its address; nothing is sent there
        ]
    try:
        for command in commands:
            subprocess.run(command.split(), check=True)
        yield
    finally:
        for command in (*(f"ip netns del {node}" for node in NODES), f"ip link del {BRIDGE}"):
            subprocess.run(command.split(), check=False)
