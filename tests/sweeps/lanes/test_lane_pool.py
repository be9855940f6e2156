"""The number of open lanes follows free resources and pending trials; lanes, nodes and mailbox are stand-ins."""

from collections.abc import Callable
from typing import Any

import pytest

import sweeps.lanes.lane_pool
from sweeps.cluster.placement_groups import ALL_STATES, WAITING_STATES
from sweeps.lanes.lane_pool import LanePool, close_pool, open_pool, remove_ended_lanes, scale_pool, update_pool
from sweeps.lanes.messages import Event
from tests.sweeps.conftest import MakePlan

FOREIGN = frozenset({"the caller's own"})
"""Placement groups that are there before the pool opens."""


class Lane:
    """Stands in for a lane."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.error: str | None = None
        self.is_over = False

    def wait(self, seconds: float) -> None:
        assert 0 < seconds < 1


class Mailbox:
    """Stands in for the mailbox's actor: records calls, and the lanes that it has closed."""

    def __init__(self) -> None:
        self.wanted: list[int] = []
        self.seen: list[list[str]] = []
        self.closed: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return type("Method", (), {"remote": staticmethod(getattr(self, f"_{name}"))})

    def _set_max_lanes(self, number: int) -> None:
        self.wanted.append(number)

    def _set_alive_nodes(self, alive: list[str]) -> None:
        self.seen.append(alive)

    def _remove_lane(self, lane: str, _why: str) -> bool:
        return lane not in self.closed

    def _group_of(self, lane: str) -> str:
        return f"group of {lane}"


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The cluster: lanes that fit its free part at the start and now, and whether it can hold one at all."""
    room = {"first": 2, "more": 0, "fits": 1}
    monkeypatch.setattr("ray.get", lambda answer: answer)
    monkeypatch.setattr(sweeps.lanes.lane_pool, "num_lanes", lambda *_: room["first"])
    monkeypatch.setattr(sweeps.lanes.lane_pool, "num_more_lanes", lambda *_: room["more"])
    monkeypatch.setattr(sweeps.lanes.lane_pool, "fits_cluster", lambda *_: bool(room["fits"]))
    monkeypatch.setattr(sweeps.lanes.lane_pool, "alive_nodes", dict)
    monkeypatch.setattr(sweeps.lanes.lane_pool, "own_groups", lambda: FOREIGN)
    monkeypatch.setattr(sweeps.lanes.lane_pool, "describe_cluster", lambda: "0 CPUs, 0 GPUs and 0 GB of memory")
    monkeypatch.setattr(sweeps.lanes.lane_pool, "open_lane", lambda setup, _folder: Lane(setup.lane))
    return room


@pytest.fixture
def open_test_pool(room: dict[str, int], make_plan: MakePlan) -> Callable[..., LanePool]:
    """Opens a pool whose lanes are open."""
    assert room

    def build(**changes: Any) -> LanePool:
        mailbox: Any = Mailbox()
        pool = open_pool(make_plan(**changes), mailbox)
        for lane in pool.lanes:
            send_event(pool, "lane_open", lane.name)
        return pool

    return build


def send_event(pool: LanePool, kind: Any, lane: str, **facts: Any) -> None:
    update_pool(pool, Event(kind=kind, lane=lane, facts=facts))


def scale_now(pool: LanePool, num_unfinished: int) -> list[str]:
    """Scales the pool without waiting for the next interval."""
    pool.next_check = 0.0
    return list(scale_pool(pool, num_unfinished))


def names(pool: LanePool) -> list[str]:
    return [lane.name for lane in pool.lanes]


def test_lanes_are_opened_where_there_is_room_and_work(
    open_test_pool: Callable[..., LanePool], room: dict[str, int]
) -> None:
    pool, room["more"] = open_test_pool(), 5
    assert scale_now(pool, num_unfinished=3) == ["Opening 1 more lane: the cluster has room"]
    assert names(pool) == ["sweep-lane0", "sweep-lane1", "sweep-lane2"]
    assert scale_now(pool, num_unfinished=3) == []


def test_concurrency_limit_holds(open_test_pool: Callable[..., LanePool], room: dict[str, int]) -> None:
    pool, room["more"] = open_test_pool(concurrent=2), 5
    assert scale_now(pool, num_unfinished=9) == []
    assert len(pool.lanes) == 2


@pytest.mark.parametrize(("num_unfinished", "wanted"), [(9, 9), (1, 1), (0, 1)])
def test_mailbox_gets_the_maximum_number_of_lanes(
    open_test_pool: Callable[..., LanePool], num_unfinished: int, wanted: int
) -> None:
    pool = open_test_pool()
    scale_now(pool, num_unfinished)
    scale_now(pool, num_unfinished)
    mailbox: Any = pool.mailbox
    assert mailbox.wanted == [wanted], "once for each number"


def test_pool_is_scaled_at_intervals(open_test_pool: Callable[..., LanePool], room: dict[str, int]) -> None:
    pool, room["more"] = open_test_pool(), 5
    scale_now(pool, num_unfinished=2)
    assert list(scale_pool(pool, num_unfinished=9)) == []


def test_joined_and_lost_nodes_are_reported_and_sent_to_the_mailbox(
    open_test_pool: Callable[..., LanePool], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, nodes = open_test_pool(), {"a" * 56: "head", "b" * 56: "other"}
    mailbox: Any = pool.mailbox
    monkeypatch.setattr(sweeps.lanes.lane_pool, "alive_nodes", lambda: dict(nodes))
    assert scale_now(pool, 2) == []
    nodes["c" * 56] = nodes.pop("b" * 56)
    assert scale_now(pool, 2) == ["Node other (bbbbbbbb) died", "Node other (cccccccc) joined"]
    assert scale_now(pool, 2) == []
    assert mailbox.seen == [["a" * 56, "b" * 56], *[["a" * 56, "c" * 56]] * 2]


def test_down_lanes_are_not_counted(open_test_pool: Callable[..., LanePool]) -> None:
    pool = open_test_pool()
    send_event(pool, "lane_down", "sweep-lane1", why="node died")
    assert (len(pool.lanes), pool.num_live) == (2, 1)
    send_event(pool, "lane_open", "sweep-lane1")
    assert pool.num_live == 2


def test_closed_or_used_lanes_are_replaced_and_lanes_that_cannot_load_are_not(
    open_test_pool: Callable[..., LanePool], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = open_test_pool(concurrent=3)
    mailbox: Any = pool.mailbox
    mailbox.closed = {"sweep-lane0"}
    sweeps.lanes.lane_pool.open_lanes(pool, 2)
    send_event(pool, "lane_open", "sweep-lane2")
    send_event(pool, "lane_load_crash", "sweep-lane3", why="CUDA is not there")
    for lane in pool.lanes:
        lane.is_over = True  # type: ignore[misc]
    assert remove_ended_lanes(pool) is None
    assert pool.num_failed == 1
    asked: list[int] = []

    def more(_plan: object, num_lanes: int, _waiting: int) -> int:
        asked.append(num_lanes)
        return 2

    monkeypatch.setattr(sweeps.lanes.lane_pool, "num_more_lanes", more)
    scale_now(pool, num_unfinished=5)
    assert asked == [1], "a lane that cannot load is not replaced"
    assert names(pool) == ["sweep-lane4", "sweep-lane5"]


def test_sweep_fails_once_all_lanes_are_lost(open_test_pool: Callable[..., LanePool]) -> None:
    pool = open_test_pool()
    for lane in pool.lanes:
        send_event(pool, "lane_load_crash", lane.name, why="CUDA is not there")
        lane.is_over = True  # type: ignore[misc]
    assert remove_ended_lanes(pool) == "no lane is left: CUDA is not there"


def test_lane_whose_run_has_failed_loses_its_placement_group(
    open_test_pool: Callable[..., LanePool], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, removed = open_test_pool(), list[str | None]()
    monkeypatch.setattr(sweeps.lanes.lane_pool, "remove_group", removed.append)
    for lane in pool.lanes:
        lane.is_over = True  # type: ignore[misc]
    pool.lanes[0].error = "ActorDiedError: the controller was killed"
    remove_ended_lanes(pool)
    assert removed == ["group of sweep-lane0"]


def test_missing_nodes_are_reported_once_and_timed(
    open_test_pool: Callable[..., LanePool], room: dict[str, int]
) -> None:
    pool, room["fits"] = open_test_pool(node_wait_minutes=7.5), 0
    assert scale_now(pool, 3) == []
    assert pool.seconds_without_node == 0
    for lane in ("sweep-lane0", "sweep-lane1"):
        send_event(pool, "lane_down", lane, why="node died")
    (line,) = scale_now(pool, 3)
    assert line.startswith("No node is left that a trial fits: the cluster has 0 CPUs")
    assert line.endswith("waiting for one, at most 7.5 minutes (--node-wait-minutes)")
    assert scale_now(pool, 3) == []
    assert pool.seconds_without_node > 0
    room["fits"] = 1
    assert scale_now(pool, 3) == []
    assert pool.seconds_without_node == 0


def test_closing_waits_for_open_lanes_and_cancels_waiting_ones(
    open_test_pool: Callable[..., LanePool], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, removals = open_test_pool(), list[tuple[str, ...]]()

    def remove(states: tuple[str, ...], _kept: object) -> None:
        removals.append(states)
        if len(removals) == 3:
            for lane in pool.lanes:
                lane.is_over = True  # type: ignore[misc]

    monkeypatch.setattr(sweeps.lanes.lane_pool, "remove_own_groups", remove)
    close_pool(pool, deadline=float("inf"))
    assert removals == [WAITING_STATES] * 3


def test_lanes_that_do_not_end_in_time_lose_their_placement_group(
    open_test_pool: Callable[..., LanePool], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, removals = open_test_pool(), list[tuple[object, object]]()
    monkeypatch.setattr(
        sweeps.lanes.lane_pool, "remove_own_groups", lambda states, kept: removals.append((states, kept))
    )
    close_pool(pool, deadline=0.0)
    assert removals == [(ALL_STATES, FOREIGN)], "groups of any state, but for those that were there before"
