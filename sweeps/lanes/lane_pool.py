"""Keeps as many lanes open as the cluster has room for and the sweep has work for, also when nodes come and go."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.actor import ActorHandle

from sweeps.cluster.capacity import (
    alive_nodes,
    describe_cluster,
    describe_lane,
    fits_cluster,
    num_lanes,
    num_more_lanes,
)
from sweeps.cluster.placement_groups import WAITING_STATES, remove_own_groups
from sweeps.lanes.lane import Lane, lane_setup, open_lane
from sweeps.lanes.mailbox import node_name
from sweeps.lanes.messages import Event
from sweeps.options import SweepPlan

SCRATCH = ".ray"
"""Folder, inside the sweep's, for what Ray insists on writing; removed at the end."""
LOOK_SECONDS = 2.0
"""Between two looks at the cluster's nodes."""
REMOVAL_SECONDS = 0.25
"""Between two removals of placement groups: Ray Train asks for a new one a few times before it gives up."""


@dataclass(kw_only=True)
class LanePool:
    """The lanes of a sweep."""

    plan: SweepPlan
    mailbox: ActorHandle[Any]
    num_parameters: int | None
    """Size of the encoder, where it is known."""
    lanes: list[Lane] = field(default_factory=list)
    """Those whose run of Ray Train has not ended."""
    open: set[str] = field(default_factory=set)
    """Names of lanes that have workers."""
    down: set[str] = field(default_factory=set)
    """Names of lanes whose workers have died; Ray Train waits for room to start them again."""
    troubles: dict[str, str] = field(default_factory=dict)
    """By lane, what it said when it could not load."""
    num_first: int = 0
    """How many lanes were opened at the start."""
    num_opened: int = 0
    ever_open: set[str] = field(default_factory=set)
    """Names of lanes that had workers at some time."""
    num_lost: int = 0
    """Lanes that could not load, or never opened; they are not replaced, as another would fare no better there."""
    nodes: dict[str, str] = field(default_factory=dict)
    """The cluster's nodes when they were last looked at: host by id."""
    next_look: float = 0.0
    without_node_since: float | None = None
    """Since when no node is left that a trial fits, on the monotonic clock; None: there is one."""

    @property
    def num_live(self) -> int:
        """How many trials may be under way at a time: lanes that are open or about to open, at least 1."""
        return max(1, len(self.lanes) - len(self.down))

    @property
    def seconds_without_node(self) -> float:
        """How long no node has been left that a trial fits; 0 where there is one."""
        return 0.0 if self.without_node_since is None else time.monotonic() - self.without_node_since


def open_pool(plan: SweepPlan, mailbox: ActorHandle[Any], num_parameters: int | None) -> LanePool:
    """Opens as many lanes as the free part of the cluster has room for; raises ValueError as `num_lanes` does."""
    pool = LanePool(plan=plan, mailbox=mailbox, num_parameters=num_parameters)
    pool.num_first = num_lanes(plan, num_parameters)
    open_lanes(pool, pool.num_first)
    return pool


def open_lanes(pool: LanePool, count: int) -> None:
    """Opens `count` further lanes, which takes them some seconds."""
    for _ in range(count):
        setup = lane_setup(pool.plan, pool.mailbox, pool.num_opened)
        pool.lanes.append(open_lane(pool.plan, setup, pool.plan.folder / SCRATCH))
        pool.num_opened += 1


def update_pool(pool: LanePool, event: Event) -> None:
    """Brings the pool up to date with what a lane did."""
    lane = str(event.lane)
    if event.kind in ("lane_open", "lane_down", "lane_closed", "lane_lost"):
        pool.open.discard(lane)
        pool.down.discard(lane)
    if event.kind == "lane_open":
        pool.open.add(lane)
        pool.ever_open.add(lane)
    elif event.kind == "lane_down":
        pool.down.add(lane)
    elif event.kind in ("lane_load_error", "lane_load_crash"):
        pool.troubles[lane] = event.facts["why"]


def remove_ended_lanes(pool: LanePool) -> str | None:
    """Drops lanes whose run has ended; an error if no lane can open any more."""
    for lane in [lane for lane in pool.lanes if lane.is_over]:
        pool.lanes.remove(lane)
        why = pool.troubles.get(lane.name) or lane.error or "its workers died again and again while they were loading"
        is_lost = ray.get(pool.mailbox.remove_lane.remote(lane.name, why))
        pool.num_lost += is_lost and (lane.name in pool.troubles or lane.name not in pool.ever_open)
        if not pool.lanes and pool.num_lost >= pool.num_first:
            return f"no lane is left: {why}"
    return None


def tend(pool: LanePool, num_unfinished: int) -> Iterator[str]:
    """Lets lanes that have nothing to do close, opens further ones where there is room, and looks for nodes.

    Args:
        pool: the lanes.
        num_unfinished: trials that have not ended, begun or not.

    Yields:
        What a person should be told.
    """
    now = time.monotonic()
    if now < pool.next_look:
        return
    pool.next_look = now + LOOK_SECONDS
    plan = pool.plan
    wanted = max(1, min(num_unfinished, plan.concurrent or num_unfinished))
    ray.get(pool.mailbox.set_max_lanes.remote(wanted))
    yield from look_at_nodes(pool)
    if wanted > len(pool.lanes):
        num_waiting = sum(lane.name not in pool.open for lane in pool.lanes)
        room = num_more_lanes(plan, pool.num_parameters, len(pool.lanes) + pool.num_lost, num_waiting)
        count = min(wanted - len(pool.lanes), room)
        if count:
            yield f"Opening {count} more lane{'s' * (count > 1)}: the cluster has room"
            open_lanes(pool, count)
    yield from look_for_room(pool, now)


def look_at_nodes(pool: LanePool) -> Iterator[str]:
    """Tells which nodes have come and gone."""
    before, pool.nodes = pool.nodes, alive_nodes()
    ray.get(pool.mailbox.set_alive_nodes.remote(list(pool.nodes)))
    for node, host in before.items():
        if node not in pool.nodes:
            yield f"Node {node_name(node, host)} died"
    for node, host in pool.nodes.items():
        if before and node not in before:
            yield f"Node {node_name(node, host)} joined"


def look_for_room(pool: LanePool, now: float) -> Iterator[str]:
    """Notes whether any node is left that a trial fits, and tells once if there is none."""
    if pool.open or fits_cluster(pool.plan, pool.num_parameters):
        pool.without_node_since = None
    elif pool.without_node_since is None:
        pool.without_node_since = now
        need = describe_lane(pool.plan, pool.num_parameters)
        wait = f"waiting for one, at most {pool.plan.node_wait_minutes:g} minutes (--node-wait-minutes)"
        yield f"No node is left that a trial fits: the cluster has {describe_cluster()}, it needs {need}; {wait}"


def close_pool(pool: LanePool, deadline: float) -> None:
    """Waits for lanes to end, and ends those that wait for room.

    Args:
        pool: the lanes, which have been told to close.
        deadline: how long this may take, on the monotonic clock; what is left of the lanes then loses its place.
    """
    while (left := [lane for lane in pool.lanes if not lane.is_over]) and time.monotonic() < deadline:
        remove_own_groups(WAITING_STATES)
        left[0].wait(REMOVAL_SECONDS)
    if left:
        remove_own_groups()
