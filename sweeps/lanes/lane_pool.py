"""The pool of a sweep's lanes: as many as fit the cluster and have work, also when nodes come and go."""

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
from sweeps.cluster.connection import BackgroundRun
from sweeps.cluster.placement_groups import ALL_STATES, WAITING_STATES, own_groups, remove_group, remove_own_groups
from sweeps.lanes.lane import open_lane
from sweeps.lanes.mailbox import node_name
from sweeps.lanes.messages import Event
from sweeps.lanes.worker import LaneSetup
from sweeps.options import SweepPlan

SCRATCH = ".ray"
"""Folder in the sweep's folder for Ray's own files; removed at the end."""
CHECK_SECONDS = 2.0
"""Between two checks of the cluster's nodes."""
REMOVAL_SECONDS = 0.25
"""Between two removals of placement groups: Ray Train creates new ones a few times before it gives up."""


@dataclass(kw_only=True)
class LanePool:
    """The lanes of a sweep."""

    plan: SweepPlan
    mailbox: ActorHandle[Any]
    foreign_groups: frozenset[str] = frozenset()
    """Placement groups of this driver that were there before."""
    lanes: list[BackgroundRun] = field(default_factory=list)
    """Those whose run of Ray Train has not ended."""
    open: set[str] = field(default_factory=set)
    """Names of lanes that have workers."""
    down: set[str] = field(default_factory=set)
    """Names of lanes whose workers have died; Ray Train waits for resources to restart them."""
    load_errors: dict[str, str] = field(default_factory=dict)
    """By lane, why it could not load."""
    num_initial: int = 0
    """Lanes that were opened at the start."""
    num_opened: int = 0
    ever_open: set[str] = field(default_factory=set)
    """Names of lanes that had workers at some time."""
    num_failed: int = 0
    """Lanes that could not load or never opened; they are not replaced, as another one would fail as well."""
    nodes: dict[str, str] = field(default_factory=dict)
    """Hosts of the alive nodes at the last check, by node id."""
    next_check: float = 0.0
    wanted: int | None = None
    """How many lanes there is work for, as the mailbox knows; None before the first check."""
    without_node_since: float | None = None
    """Time on the monotonic clock since when a trial fits no node; None if it fits one."""

    @property
    def num_live(self) -> int:
        """How many trials may run at a time: lanes that are open or about to open, at least 1."""
        return max(1, len(self.lanes) - len(self.down))

    @property
    def seconds_without_node(self) -> float:
        """How long a trial has fitted no node; 0 if it fits one."""
        return 0.0 if self.without_node_since is None else time.monotonic() - self.without_node_since


def open_pool(plan: SweepPlan, mailbox: ActorHandle[Any]) -> LanePool:
    """Opens as many lanes as fit the cluster's free resources; raises ValueError as `num_lanes` does."""
    pool = LanePool(plan=plan, mailbox=mailbox, foreign_groups=own_groups())
    pool.num_initial = num_lanes(plan)
    open_lanes(pool, pool.num_initial)
    return pool


def open_lanes(pool: LanePool, count: int) -> None:
    """Starts `count` further lanes; they open after some seconds."""
    for _ in range(count):
        name = f"{pool.plan.options.name}-lane{pool.num_opened}"
        setup = LaneSetup(lane=name, mailbox=pool.mailbox, plan=pool.plan)
        pool.lanes.append(open_lane(setup, pool.plan.options.folder / SCRATCH))
        pool.num_opened += 1


def update_pool(pool: LanePool, event: Event) -> None:
    """Updates the pool with a lane's event."""
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
        pool.load_errors[lane] = event.facts["why"]


def remove_ended_lanes(pool: LanePool) -> str | None:
    """Removes lanes whose run has ended; returns an error if no lane can open any more."""
    for lane in [lane for lane in pool.lanes if lane.is_over]:
        pool.lanes.remove(lane)
        why = pool.load_errors.get(lane.name) or lane.error or "its workers died repeatedly while they were loading"
        is_lost = ray.get(pool.mailbox.remove_lane.remote(lane.name, why))
        if lane.error is not None:  # if its controller was killed, nothing else removes its placement group
            remove_group(ray.get(pool.mailbox.group_of.remote(lane.name)))
        pool.num_failed += is_lost and (lane.name in pool.load_errors or lane.name not in pool.ever_open)
        if not pool.lanes and pool.num_failed >= pool.num_initial:
            return f"no lane is left: {why}"
    return None


def scale_pool(pool: LanePool, num_unfinished: int) -> Iterator[str]:
    """Closes idle lanes that `num_unfinished` trials do not need, opens further ones that fit, and checks the nodes.

    Yields:
        Messages for the user.
    """
    now = time.monotonic()
    if now < pool.next_check:
        return
    pool.next_check = now + CHECK_SECONDS
    wanted = max(1, min(num_unfinished, pool.plan.options.concurrent or num_unfinished))
    if wanted != pool.wanted:
        ray.get(pool.mailbox.set_max_lanes.remote(wanted))
        pool.wanted = wanted
    yield from update_nodes(pool)
    if wanted > len(pool.lanes):
        num_waiting = sum(lane.name not in pool.open for lane in pool.lanes)
        fitting = num_more_lanes(pool.plan, len(pool.lanes) + pool.num_failed, num_waiting)
        count = min(wanted - len(pool.lanes), fitting)
        if count:
            yield f"Opening {count} more lane{'s' * (count > 1)}: the cluster has room"
            open_lanes(pool, count)
    yield from watch_capacity(pool, now)


def update_nodes(pool: LanePool) -> Iterator[str]:
    """Updates the alive nodes, and yields a message for each that has joined or died."""
    before, pool.nodes = pool.nodes, alive_nodes()
    ray.get(pool.mailbox.set_alive_nodes.remote(list(pool.nodes)))
    for node, host in before.items():
        if node not in pool.nodes:
            yield f"Node {node_name(node, host)} died"
    for node, host in pool.nodes.items():
        if before and node not in before:
            yield f"Node {node_name(node, host)} joined"


def watch_capacity(pool: LanePool, now: float) -> Iterator[str]:
    """Records since when a trial has fitted no node, and yields one message when that begins."""
    if pool.open or fits_cluster(pool.plan):
        pool.without_node_since = None
    elif pool.without_node_since is None:
        pool.without_node_since = now
        need = describe_lane(pool.plan)
        wait = f"waiting for one, at most {pool.plan.options.node_wait_minutes:g} minutes (--node-wait-minutes)"
        yield f"No node is left that a trial fits: the cluster has {describe_cluster()}, it needs {need}; {wait}"


def close_pool(pool: LanePool, deadline: float) -> None:
    """Waits for closing lanes to end, and ends those that wait for resources.

    At `deadline`, on the monotonic clock, the resources of lanes that are left are released.
    """
    while (left := [lane for lane in pool.lanes if not lane.is_over]) and time.monotonic() < deadline:
        remove_own_groups(WAITING_STATES, pool.foreign_groups)
        left[0].wait(REMOVAL_SECONDS)
    if left:
        remove_own_groups(ALL_STATES, pool.foreign_groups)
