"""All lanes of a sweep: as many as fit the cluster and have work, also when nodes come and go."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ray.actor import ActorHandle

from sweeps.cluster.background_run import BackgroundRun
from sweeps.cluster.capacity import alive_nodes, describe_cluster, describe_lane, fits_cluster, num_lanes
from sweeps.cluster.connection import connected
from sweeps.cluster.reservations import free_group, idle_groups
from sweeps.driver.trials.messages import Message
from sweeps.driver.trials.table import Event, TrialTable
from sweeps.lanes.lane import open_lane
from sweeps.lanes.stored_inputs import StoredInputs
from sweeps.lanes.worker import LaneSetup
from sweeps.options import SweepPlan

SLOW_SECONDS = 60.0
"""A lane without workers for so long is named, and again after as long."""
CHECK_SECONDS = 2.0
"""Between two checks of the cluster's nodes."""
FREEING_SECONDS = 10.0
"""Between two looks, once a lane was lost, at what is reserved for no lane."""
MAX_FAILURES = 3
"""Lanes that may fail to open, one after another, before the sweep gives up."""


@dataclass(kw_only=True)
class Lanes:
    """The lanes of a sweep."""

    table: TrialTable
    tell: Callable[[Message], None]
    """Changes the table."""
    channel: ActorHandle[Any]
    inputs: StoredInputs
    driver_id: str
    """The id in `driver.json`."""
    scratch: Path
    """For Ray's own files."""
    runs: list[BackgroundRun] = field(default_factory=list)
    """Those whose run of Ray Train has not ended."""
    ever_open: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    """Names of lanes that were not needed any more, or were on nodes that are refused."""
    refused: set[str] = field(default_factory=set)
    """Ids of nodes that do not share the storage, or cannot load what others can: no lane opens there."""
    failures: list[str] = field(default_factory=list)
    """Why lanes could not open, since one did."""
    asked: dict[str, float] = field(default_factory=dict)
    """When each lane so far was begun, or was last said to have no workers, on the monotonic clock."""
    idle: set[str] | None = None
    """Placement groups without workers at the last look for them; None before a lane was lost."""
    next_look: float = 0.0
    nodes: dict[str, str] = field(default_factory=dict)
    """Hosts of the alive nodes at the last check, by node id."""
    next_check: float = 0.0
    without_node_since: float = math.inf
    """Time on the monotonic clock since when a trial fits no node; infinite if it fits one."""

    @property
    def plan(self) -> SweepPlan:
        """That of the sweep."""
        return self.table.plan

    @property
    def num_live(self) -> int:
        """How many trials may be suggested: lanes that are open or about to open, at least 1."""
        return max(1, len(self.runs))


def open_lanes(lanes: Lanes, count: int) -> None:
    """Starts `count` further lanes; they open after some seconds."""
    for _ in range(count):
        name = f"{lanes.plan.options.name}-lane{len(lanes.asked)}"
        setup = LaneSetup(
            lane=name, channel=lanes.channel, plan=lanes.plan, inputs=lanes.inputs, driver_id=lanes.driver_id
        )
        lanes.runs.append(open_lane(setup, lanes.scratch, lanes.refused))
        lanes.asked[name] = time.monotonic()


def note_event(lanes: Lanes, event: Event) -> None:
    """Updates the lanes by an event of one."""
    lane = str(event.lane)
    if event.kind == "lane_open":
        lanes.ever_open.add(lane)
        lanes.failures.clear()
    elif event.kind == "lane_closed" or (event.kind == "lane_failed" and event.facts["refused"]):
        lanes.closed.add(lane)
        lanes.refused.update(event.facts.get("refused", ()))  # as if these nodes were not there
    elif event.kind == "lane_down" and lane not in lanes.ever_open:
        lanes.failures.append(event.facts["why"])
    elif event.kind == "lane_failed":
        lanes.failures.append(event.facts["why"])
        if lanes.ever_open:  # other nodes can load the same
            lanes.refused.update(event.facts["nodes"])


def remove_ended(lanes: Lanes) -> Iterator[str]:
    """Removes lanes whose run has ended, and yields a line for each that was not asked to: another is opened for it."""
    for run in [run for run in lanes.runs if run.is_over]:
        lanes.runs.remove(run)
        why = run.error or "its run in Ray Train ended"
        if why.startswith(("ActorDiedError", "ActorUnavailableError")):
            why = "its controller in Ray Train died or does not answer"
        lanes.tell(Message(kind="lane_ended", lane=run.name, facts={"why": why}))
        if run.name in lanes.closed or (lanes.failures and run.error is None):
            continue
        if run.name not in lanes.ever_open:
            lanes.failures.append(why)
        lanes.idle = lanes.idle or set()
        yield f"{run.name} is lost: {why}"


def why_none_opens(lanes: Lanes) -> str | None:
    """Returns why no lane can open any more; None while one may."""
    num_failures, has_opened = len(lanes.failures), bool(lanes.ever_open)
    if not lanes.failures or (lanes.runs and (has_opened or num_failures < MAX_FAILURES)):
        return None
    return lanes.failures[-1] if num_failures >= MAX_FAILURES or not has_opened else None


def slow_lanes(lanes: Lanes) -> Iterator[str]:
    """Yields a line for each lane whose workers have not been started for a while, each time."""
    now = time.monotonic()
    for run in lanes.runs:
        if run.name not in lanes.ever_open and now - lanes.asked.get(run.name, now) >= SLOW_SECONDS:
            lanes.asked[run.name] = now
            hint = "" if connected or lanes.idle is None else "; a lost lane keeps its own until this program ends"
            yield f"{run.name} has no workers yet: Ray starts them, or waits for resources{hint}"


def free_lost(lanes: Lanes, now: float) -> Iterator[str]:
    """Frees what lost lanes had reserved, which Ray Train keeps if it is killed while it starts workers.

    Where the user's own program has connected Ray, other work of it may have reserved the same: nothing is freed.
    """
    if lanes.idle is None or now < lanes.next_look or not connected:
        return
    lanes.next_look, found = now + FREEING_SECONDS, idle_groups()
    for group in found & lanes.idle:
        free_group(group)
        yield "Freed what a lost lane had reserved"
    lanes.idle = found


def scale(lanes: Lanes, num_unfinished: int) -> Iterator[str]:
    """Opens lanes that fit and have work, lets surplus ones close, and checks the nodes; yields lines for the user."""
    now = time.monotonic()
    if now < lanes.next_check:
        return
    lanes.next_check = now + CHECK_SECONDS
    wanted = max(1, min(num_unfinished, lanes.plan.options.concurrent or num_unfinished))
    before, lanes.nodes = lanes.nodes, alive_nodes()
    lanes.tell(Message(kind="nodes", facts={"max_lanes": wanted, "alive": list(lanes.nodes)}))
    for node, host in before.items():
        if node not in lanes.nodes:
            yield f"Node {node_name(node, host)} died"
    for node, host in lanes.nodes.items():
        if before and node not in before:
            yield f"Node {node_name(node, host)} joined"
    num_open = len(lanes.table.open_lanes)
    count = min(wanted, num_lanes(lanes.plan, num_open, len(lanes.runs) - num_open, lanes.refused)) - len(lanes.runs)
    if count > 0:
        if lanes.ever_open:
            yield f"Opening {count} more lane{'s' * (count > 1)}"
        open_lanes(lanes, count)
    yield from free_lost(lanes, now)
    yield from slow_lanes(lanes)
    yield from watch_capacity(lanes, now)


def watch_capacity(lanes: Lanes, now: float) -> Iterator[str]:
    """Notes since when a trial has fitted no node, and yields one line when that begins."""
    if lanes.table.open_lanes or fits_cluster(lanes.plan, lanes.refused):
        lanes.without_node_since = math.inf
    elif lanes.without_node_since == math.inf:
        lanes.without_node_since = now
        need = describe_lane(lanes.plan)
        wait = f"waiting for one, at most {lanes.plan.options.node_wait_minutes:g} minutes (--node-wait-minutes)"
        yield f"A trial fits no node: the cluster has {describe_cluster()}, it needs {need}; {wait}"


def close(lanes: Lanes, deadline: float) -> None:
    """Waits for lanes to end, until `deadline` on the monotonic clock."""
    while (left := [run for run in lanes.runs if not run.is_over]) and time.monotonic() < deadline:
        left[0].wait(min(0.25, deadline - time.monotonic()))


def node_name(node: str, host: str) -> str:
    """Returns a node in messages: its host, and the start of its id, as Ray's tools show it."""
    return f"{host} ({node[:8]})"
