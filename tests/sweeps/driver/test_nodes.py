"""On a cluster that loses and gains nodes every trial ends, on the nodes that are left."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import ray.train

from results.sweep import load_sweep
from tests.sweeps.driver.two_nodes import IN_OWN_MOUNTS, LONGEST, Nodes, Run, open_nodes, start_sweep

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.timeout(900)]

SETTINGS = ["smart.mode=random", "stages.0.epochs=1", "stages.1.epochs=3"]
SETTINGS += ["stages.0.steps_per_epoch=40", "stages.1.steps_per_epoch=60"]
COMMAND = ["--space", "smart_lambda", "--name", "sweep", "--checkpoint-steps", "20", "--no-reuse", "--set", *SETTINGS]
TWO_EPOCHS = r"000\d-r0 epoch 2: "


@pytest.fixture
def one_cpu(tmp_path: Path) -> Iterator[Nodes]:
    """A head that has room for one lane."""
    with open_nodes(tmp_path, head_cpus=1) as nodes:
        yield nodes


@pytest.fixture
def no_cpu(tmp_path: Path) -> Iterator[Nodes]:
    """A head that cannot hold a lane, and a node with room for one."""
    with open_nodes(tmp_path, head_cpus=0) as nodes:
        nodes.add("worker", 1)
        yield nodes


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    folder = tmp_path / "storage"
    folder.mkdir()
    return folder


def assert_all_complete(run: Run, storage: Path) -> pd.DataFrame:
    """Waits for a sweep's end; its trials."""
    code = run.process.wait(LONGEST)
    assert code == 0, run.log.read_text()
    trials = load_sweep(storage / "sweep").trials.set_index("trial")
    assert set(trials["status"]) == {"complete"}
    assert len(trials) == 7
    assert set(trials["steps"]) == {40 + 3 * 60}
    return trials


def test_trial_of_a_lost_node_continues_on_the_remaining_node(one_cpu: Nodes, storage: Path) -> None:
    one_cpu.add("worker", 1)
    run = start_sweep(one_cpu, storage, *COMMAND)
    run.wait_until("Opening 2 lanes of 1 worker each")
    run.wait_until("lane1 is open on")
    run.wait_until(TWO_EPOCHS)
    one_cpu.kill("worker")
    run.wait_until(r"sweep-lane\d is down: .+; Ray restarts its workers")
    assert_all_complete(run, storage)
    log = run.log.read_text()
    (returned,) = [line.split()[0] for line in log.splitlines() if " waits for a free lane: " in line]
    assert f"{returned} continues from its last state: node " in log
    starts = [line for line in log.splitlines() if line.startswith(f"{returned} epoch 1: ")]
    assert len(starts) == 1, "no epoch is trained twice"


def test_nodes_need_none_of_the_drivers_folders(
    no_cpu: Nodes, storage: Path, tiny_folder: Path, tiny_encoder_folder: Path, tmp_path: Path
) -> None:
    data, encoder = (shutil.copytree(folder, tmp_path / folder.name) for folder in (tiny_folder, tiny_encoder_folder))
    places, short = ["--data", str(data), "--encoder", str(encoder)], ["encoder.max_length=32"]
    run = start_sweep(no_cpu, storage, *places, *COMMAND, *short)
    run.wait_until("Opening 1 lane of 1 worker")
    for folder in (data, encoder, storage / ".cache"):
        shutil.rmtree(folder)
    assert_all_complete(run, storage)


can_hide = pytest.mark.skipif(
    subprocess.run([*IN_OWN_MOUNTS, "true"], capture_output=True, check=False).returncode != 0,
    reason="a folder can be hidden from a node by root alone",
)


@can_hide
def test_node_that_joins_without_the_storage_gets_no_trial(one_cpu: Nodes, storage: Path) -> None:
    run = start_sweep(one_cpu, storage, *COMMAND, "--replicates", "2")
    run.wait_until("lane0 is open on")
    one_cpu.add("worker", 1, hidden=storage)
    run.wait_until("Opening 1 more lane")
    run.wait_until("lane1 cannot open: --storage must be a folder that all nodes share")
    assert run.process.wait(LONGEST) == 0, run.log.read_text()
    assert not run.has_line("lane2")
    trials = load_sweep(storage / "sweep").trials
    assert set(trials["status"]) == {"complete"}
    assert len(trials) == 14


def test_node_that_joins_later_is_used(one_cpu: Nodes, storage: Path) -> None:
    run = start_sweep(one_cpu, storage, *COMMAND)
    run.wait_until("Opening 1 lane of 1 worker each")
    run.wait_until("lane0 is open on")
    one_cpu.add("worker", 1)
    run.wait_until("Opening 1 more lane")
    run.wait_until("lane1 is open on")
    assert_all_complete(run, storage)
    assert run.has_line("sweep-lane. is idle and has released its resources")


def test_without_a_new_node_the_sweep_is_interrupted_and_can_be_resumed(no_cpu: Nodes, storage: Path) -> None:
    run = start_sweep(no_cpu, storage, *COMMAND, "--node-wait-minutes", "0.05")
    run.wait_until(TWO_EPOCHS)
    no_cpu.kill("worker")
    assert run.process.wait(LONGEST) == 130, run.log.read_text()
    *_, last, command = run.log.read_text().splitlines()
    assert last.startswith("Interrupted: no node that a trial fits came within 0.05 minutes (trials: ")
    assert command == f"  python sweeps/run.py --resume {storage}/sweep"
    no_cpu.add("other", 1)
    assert_all_complete(start_sweep(no_cpu, storage, "--resume", "sweep"), storage)


def test_lane_over_two_nodes_continues_once_two_are_back(one_cpu: Nodes, storage: Path) -> None:
    one_cpu.add("worker", 1)
    run = start_sweep(one_cpu, storage, *COMMAND, "--workers", "2")
    run.wait_until("Opening 1 lane of 2 workers each")
    run.wait_until(TWO_EPOCHS)
    one_cpu.kill("worker")
    run.wait_until("A trial fits no node: the cluster has 1 CPUs.* it needs 2 workers of 1 CPUs")
    one_cpu.add("other", 1)
    assert_all_complete(run, storage)
    assert re.search(
        r"Node .+ died\n(.*\n)*Node .+ joined\n(.*\n)*000.-r0 continues from its last state", run.log.read_text()
    )


@pytest.mark.skipif(not hasattr(ray.train, "get_preemption_info"), reason="Ray before 2.58 tells trainings of no drain")
def test_trial_of_a_drained_node_saves_its_state_and_continues_on_another(no_cpu: Nodes, storage: Path) -> None:
    run = start_sweep(no_cpu, storage, *COMMAND)
    run.wait_until(TWO_EPOCHS)
    ask = "import ray; ray.init('auto'); print(*(one['NodeID'] for one in ray.nodes() if 'CPU' in one['Resources']))"
    environment = {**no_cpu.environment, "RAY_ADDRESS": no_cpu.address}
    found = subprocess.run([sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=True)
    node = found.stdout.split()[-1]
    drain = ["ray", "drain-node", "--address", no_cpu.address, "--node-id", node, "--reason-message", "spot"]
    drain += ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--deadline-remaining-seconds", "600"]
    subprocess.run(drain, env=environment, capture_output=True, check=True)
    run.wait_until(f"sweep-lane0 closes: node {node[:8]} is drained")
    no_cpu.add("other", 1)
    assert_all_complete(run, storage)
    log = run.log.read_text()
    (returned,) = [line.split()[0] for line in log.splitlines() if " waits for a free lane: " in line]
    assert f"{returned} continues from its last state: node {node[:8]} is drained" in log
    assert "is lost" not in log
