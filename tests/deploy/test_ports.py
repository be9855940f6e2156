"""What listens during a sweep can be reached from no other machine."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.deploy.network import NODES, needs_network, open_network
from tests.scripts import ROOT
from tests.sweeps.driver.two_nodes import wait_for

HERE, THERE = NODES
LISTENING = re.compile(r"LISTEN\s+\d+\s+\d+\s+(?P<address>\S+):(?P<port>\d+)\s")
REACH = """
import socket, sys
for port in map(int, sys.argv[2:]):
    try:
        socket.create_connection((sys.argv[1], port), 5).close()
        print(port)
    except ConnectionRefusedError:
        pass
"""

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.timeout(600), needs_network]


@pytest.fixture
def network() -> Iterator[None]:
    with open_network():
        yield


def listening(node: str) -> dict[int, str]:
    """The ports on which processes of a node listen, with the address of each."""
    found = subprocess.run(["ip", "netns", "exec", node, "ss", "-ltn"], capture_output=True, text=True, check=True)
    return {int(one["port"]): one["address"] for one in LISTENING.finditer(found.stdout)}


@pytest.mark.usefixtures("network")
def test_a_sweep_on_one_machine_listens_to_that_machine_alone(tmp_path: Path) -> None:
    with TemporaryDirectory(prefix="n", dir="/tmp") as folder:  # Ray's sockets need a short path
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        environment = {**kept, "RAY_TMPDIR": folder, "HOME": str(tmp_path)}
        log = tmp_path / "log.txt"
        with log.open("w") as stream:
            sweep = subprocess.Popen(
                ["ip", "netns", "exec", HERE, sys.executable, "sweeps/run.py", "--vary", "smart.weight=0,0.3,1"],
                cwd=ROOT,
                env=environment,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
        try:
            wait_for(lambda: " epoch 1: " in log.read_text() or sweep.poll() is not None, "an epoch")
            ports = listening(HERE)
            assert len(ports) > 10, log.read_text()
            assert 8265 in ports, "the dashboard"
            command = ["ip", "netns", "exec", THERE, sys.executable, "-c", REACH, NODES[HERE], *map(str, ports)]
            reached = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
            assert reached == [], json.dumps({port: ports[int(port)] for port in reached})
        finally:
            sweep.terminate()
            sweep.wait(120)
