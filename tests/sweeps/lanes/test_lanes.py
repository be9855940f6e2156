"""The number of lanes follows the cluster and the work; the cluster and runs of Ray Train are stand-ins."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sweeps.lanes.lanes as lanes_module
from sweeps.driver.trials.table import Event
from sweeps.lanes.lanes import (
    MAX_FAILURES,
    Lanes,
    close,
    node_name,
    note_event,
    open_lanes,
    remove_ended,
    scale,
    why_none_opens,
)
from tests.local_table import LocalTable
from tests.sweeps.conftest import MakePlan


class Run:
    """Stands in for a lane's run of Ray Train."""

    def __init__(self, name: str) -> None:
        self.name, self.is_over = name, False
        self.error: str | None = None
        self.waits = 0

    def wait(self, _seconds: float) -> None:
        self.waits += 1
        self.is_over = self.waits == 2


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The cluster: how many lanes fit it in all, whether it can hold one, and its nodes."""
    room: dict[str, Any] = {"lanes": 2, "fits": True, "nodes": {}}
    monkeypatch.setattr(lanes_module, "num_lanes", lambda *_: room["lanes"])
    monkeypatch.setattr(lanes_module, "fits_cluster", lambda *_: room["fits"])
    monkeypatch.setattr(lanes_module, "alive_nodes", lambda: dict(room["nodes"]))
    monkeypatch.setattr(lanes_module, "describe_cluster", lambda: "0 CPUs")
    monkeypatch.setattr(lanes_module, "open_lane", lambda setup, *_: Run(setup.lane))
    return room


@pytest.fixture
def local(make_plan: MakePlan) -> LocalTable:
    return LocalTable(make_plan())


@pytest.fixture
def make_lanes(room: dict[str, Any], local: LocalTable) -> Callable[..., Lanes]:
    """Makes a sweep's lanes, two of which are open."""
    assert room

    def make() -> Lanes:
        nothing: Any = None
        scratch = Path("scratch")
        lanes = Lanes(
            table=local.table, tell=local.hear, channel=nothing, inputs=nothing, driver_id="d", scratch=scratch
        )
        open_lanes(lanes, 2)
        for name in names(lanes):
            note(lanes, "lane_open", name)
        return lanes

    return make


def note(lanes: Lanes, kind: Any, lane: str, **facts: Any) -> None:
    note_event(lanes, Event(kind=kind, lane=lane, facts=facts))


def scale_now(lanes: Lanes, num_unfinished: int) -> list[str]:
    """Scales without waiting for the next check."""
    lanes.next_check = 0.0
    return list(scale(lanes, num_unfinished))


def names(lanes: Lanes) -> list[str]:
    return [run.name for run in lanes.runs]


def end(lanes: Lanes, error: str | None = None) -> list[str]:
    """Ends all runs; the lines for the user."""
    for run in lanes.runs:
        run.is_over, run.error = True, error  # type: ignore[misc]
    return list(remove_ended(lanes))


def test_lanes_are_opened_where_there_is_room_and_work(make_lanes: Callable[..., Lanes], room: dict[str, Any]) -> None:
    lanes, room["lanes"] = make_lanes(), 5
    assert len(scale_now(lanes, 3)) == 1
    assert names(lanes) == ["sweep-lane0", "sweep-lane1", "sweep-lane2"]
    assert scale_now(lanes, 3) == []
    assert list(scale(lanes, 9)) == [], "it checks at intervals"
    assert lanes.num_live == 3


def test_idle_lanes_close_where_there_is_less_work(make_lanes: Callable[..., Lanes], local: LocalTable) -> None:
    lanes = make_lanes()
    local.assign("t", "sweep-lane0")
    scale_now(lanes, 1)
    assert local.want("sweep-lane1").answer == "close"
    (event,) = local.events("lane_closed")
    note_event(lanes, event)
    lanes.runs[1].is_over = True  # type: ignore[misc]
    assert list(remove_ended(lanes)) == [], "it was not needed any more"
    assert names(lanes) == ["sweep-lane0"]


def test_joined_and_lost_nodes_are_reported(make_lanes: Callable[..., Lanes], room: dict[str, Any]) -> None:
    lanes = make_lanes()
    room["nodes"] = {"a" * 56: "head", "b" * 56: "other"}
    assert scale_now(lanes, 2) == []
    room["nodes"]["c" * 56] = room["nodes"].pop("b" * 56)
    lines = scale_now(lanes, 2)
    assert [node_name("b" * 56, "other") in lines[0], node_name("c" * 56, "other") in lines[1]] == [True, True]
    assert scale_now(lanes, 2) == []


def test_lane_whose_run_ends_unasked_is_named_and_its_trial_goes_to_another(
    make_lanes: Callable[..., Lanes], local: LocalTable
) -> None:
    lanes = make_lanes()
    local.assign("t", "sweep-lane0")
    lines = end(lanes, "ActorDiedError: the controller was killed")
    assert [line.split()[0] for line in lines] == ["sweep-lane0", "sweep-lane1"]
    assert local.want("other").answer.trial_id == "t"
    assert why_none_opens(lanes) is None
    scale_now(lanes, 2)
    assert names(lanes) == ["sweep-lane2", "sweep-lane3"]


@pytest.mark.parametrize(("is_own", "freed"), [(True, ["kept"]), (False, [])])
def test_what_a_lost_lane_keeps_reserved_is_freed_in_a_ray_of_our_own(
    make_lanes: Callable[..., Lanes], monkeypatch: pytest.MonkeyPatch, is_own: bool, freed: list[str]
) -> None:
    lanes, found, calls = make_lanes(), [{"kept", "opening"}, {"kept"}], list[str]()
    monkeypatch.setattr(lanes_module, "connected", {"dashboard": None} if is_own else {})
    monkeypatch.setattr(lanes_module, "idle_groups", lambda *_: found.pop(0))
    monkeypatch.setattr(lanes_module, "free_group", calls.append)
    scale_now(lanes, 2)
    assert len(found) == 2, "no lane is lost"
    end(lanes, "ActorDiedError: the controller was killed")
    for _ in range(2):
        lanes.next_look = 0.0
        scale_now(lanes, 2)
    assert calls == freed


def test_sweep_gives_up_where_lanes_never_open(make_lanes: Callable[..., Lanes]) -> None:
    lanes = make_lanes()
    lanes.ever_open.clear()
    for name in names(lanes):
        note(lanes, "lane_failed", name, why="sst.csv is missing", refused=[], nodes=[])
    assert why_none_opens(lanes) is None, "a lane may still open"
    assert end(lanes) == []
    assert why_none_opens(lanes) == "sst.csv is missing"


def test_lanes_that_have_opened_before_are_tried_again_some_times(make_lanes: Callable[..., Lanes]) -> None:
    lanes = make_lanes()
    end(lanes, "killed")
    for number in range(MAX_FAILURES):
        assert why_none_opens(lanes) is None
        open_lanes(lanes, 1)
        note(lanes, "lane_failed", lanes.runs[-1].name, why=f"CUDA is not there {number}", refused=[], nodes=[])
        end(lanes)
    assert why_none_opens(lanes) == f"CUDA is not there {MAX_FAILURES - 1}"
    open_lanes(lanes, 1)
    note(lanes, "lane_open", lanes.runs[-1].name)
    end(lanes, "killed")
    assert why_none_opens(lanes) is None, "failures count since the last lane that opened"


@pytest.mark.parametrize("kind", ["lane_failed", "lane_closed"])  # the node does not share the storage, or is drained
def test_nodes_that_no_lane_can_use_are_left_out_and_the_other_lanes_go_on(
    make_lanes: Callable[..., Lanes], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    lanes, opened, asked = make_lanes(), list[set[str]](), list[set[str]]()

    def open_elsewhere(setup: Any, _scratch: Path, refused: set[str]) -> Run:
        opened.append(set(refused))
        return Run(setup.lane)

    def count(_plan: object, _num_open: int, _num_waiting: int, refused: set[str]) -> int:
        asked.append(set(refused))
        return 2

    monkeypatch.setattr(lanes_module, "open_lane", open_elsewhere)
    monkeypatch.setattr(lanes_module, "num_lanes", count)
    note(lanes, kind, "sweep-lane1", why="--storage must be shared", refused=["n"])
    lanes.runs[1].is_over = True  # type: ignore[misc]
    assert list(remove_ended(lanes)) == [], "its own line is enough"
    assert why_none_opens(lanes) is None
    scale_now(lanes, 2)
    assert names(lanes) == ["sweep-lane0", "sweep-lane2"]
    assert opened == asked == [{"n"}]


def test_closing_waits_for_lanes_until_the_deadline(make_lanes: Callable[..., Lanes]) -> None:
    lanes = make_lanes()
    close(lanes, deadline=0.0)
    assert not any(run.is_over for run in lanes.runs)
    close(lanes, deadline=float("inf"))
    assert all(run.is_over for run in lanes.runs)
