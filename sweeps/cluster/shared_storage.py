"""Whether the driver sees what other nodes write into a storage that is a local folder; otherwise trials are lost."""

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError

from mtlib.runtime.errors import first_line
from mtlib.runtime.storage import Location, full_path, local_path, open_folder, write_bytes
from results.records.driver_file import read_driver
from sweeps.cluster.capacity import ANSWER_SECONDS, fitting_nodes, resources_per_worker
from sweeps.cluster.placement import on_node
from sweeps.options import SweepPlan

SEEN_SECONDS = 30.0
"""How long a file may take to be seen from another node: network file systems keep what a folder holds for so long."""
RULE = "--storage must be a folder that all nodes share, or a bucket (s3://...)"
PROBE = ".probe-"


def check_storage_of_nodes(plan: SweepPlan, driver_id: str, channel: ActorHandle[Any]) -> None:
    """Checks that all other nodes that a worker fits share a storage that is a local folder with the driver.

    Args:
        plan: of the sweep.
        driver_id: random id of this driver, as in `driver.json`.
        channel: of the sweep, on the driver's node.

    Raises:
        ValueError: one line with the hosts that do not.
    """
    here = ray.get_runtime_context().get_node_id()
    others = [node for node in fitting_nodes(resources_per_worker(plan)) if node["NodeID"] != here]
    if local_path(plan.options.folder) is None or not others:
        return
    answers = {}
    for node in others:
        task = on_node(find_storage_fault, node["NodeID"], max_calls=1, max_retries=0)
        answers[task.remote(plan.options.folder, driver_id, channel)] = node["NodeManagerHostname"]
    deadline, faults = time.monotonic() + ANSWER_SECONDS, {}
    for answer, host in answers.items():
        try:
            fault = ray.get(answer, timeout=max(0.0, deadline - time.monotonic()))
        except RayError:  # the node was lost, or is too slow: its lanes ask again
            continue
        if fault is not None:
            faults[host] = fault
    if faults:
        raise ValueError(describe_faults(plan.options.folder, faults))


def describe_faults(folder: Location, faults: dict[str, str]) -> str:
    """Returns a line that names the hosts and what is wrong with a storage there."""
    return f"{RULE}, got {folder}: {'; '.join(f'on {host} {fault}' for host, fault in faults.items())}"


def find_storage_fault(folder: Location, driver_id: str, channel: ActorHandle[Any]) -> str | None:
    """Returns why the driver does not see what this process writes into a local folder, in a clause;
    None if it does."""
    return find_storage_fault_by(
        folder, driver_id, lambda path: bool(ray.get(channel.has_file.remote(path))), SEEN_SECONDS
    )


def find_storage_fault_by(
    folder: Location, driver_id: str, is_seen: Callable[[str], bool], seconds: float
) -> str | None:
    """As `find_storage_fault`; `is_seen` asks the driver's node for a file, and the answer may take so many seconds."""
    root, deadline = open_folder(folder), time.monotonic() + seconds
    while (driver := read_driver(root)) is None or driver.id != driver_id:
        if not Path(root.base_path).is_dir():
            return "there is no such folder"
        if time.monotonic() >= deadline:
            return "the folder is not the driver's"
        time.sleep(min(0.5, seconds))
    probe = f"{PROBE}{secrets.token_hex(8)}"
    try:
        write_bytes(root, probe, b"")
    except OSError as error:
        return f"it cannot be written: {first_line(error)}"
    try:
        while not is_seen(full_path(root, probe)):
            if time.monotonic() >= deadline:
                return "the driver does not see what is written"
            time.sleep(min(0.5, seconds))
    finally:
        root.delete_file(probe)
    return None
