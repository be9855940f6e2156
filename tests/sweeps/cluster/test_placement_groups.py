"""Placement groups of lanes that never opened, and of drivers that have ended."""

import time

import pytest
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table

from sweeps.cluster import placement_groups as leftovers
from sweeps.cluster.placement_groups import (
    ALL_STATES,
    WAITING_STATES,
    own_groups,
    remove_orphaned_groups,
    remove_own_groups,
)

OURS, GONE = "01000000", "02000000"


def group_of(job: str, number: int) -> str:
    return f"{number:028x}{job}"


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Removed groups, on a cluster with one living and one dead job."""
    names: list[str] = []
    table = {
        group_of(OURS, 1): {"state": "PENDING", "name": ""},
        group_of(GONE, 2): {"state": "PENDING", "name": ""},
        group_of(GONE, 3): {"state": "CREATED", "name": ""},
        group_of(GONE, 4): {"state": "REMOVED", "name": ""},
        group_of(GONE, 5): {"state": "PENDING", "name": "somebody waits for it by name"},
    }
    monkeypatch.setattr(leftovers, "dead_jobs", lambda: {GONE})
    monkeypatch.setattr(leftovers, "placement_group_table", lambda: table)
    monkeypatch.setattr(leftovers, "remove_placement_group", lambda group: names.append(group.id.hex()))
    return names


def test_orphans_are_unnamed_waiting_groups_of_dead_drivers(removed: list[str]) -> None:
    remove_orphaned_groups()
    assert removed == [group_of(GONE, 2)]


@pytest.mark.ray
@pytest.mark.usefixtures("private_ray")
def test_created_group_is_spared() -> None:
    group = placement_group([{"CPU": 1}])
    assert group.wait(10)
    remove_own_groups(WAITING_STATES, ())
    assert placement_group_table(group)["state"] == "CREATED"
    remove_own_groups(ALL_STATES, own_groups())
    assert placement_group_table(group)["state"] == "CREATED", "it is the caller's"
    remove_own_groups(ALL_STATES, ())
    wait_for_removal(group)


@pytest.mark.ray
@pytest.mark.usefixtures("private_ray")
def test_waiting_group_is_removed_by_its_own_driver() -> None:
    group = placement_group([{"CPU": 100}])
    assert placement_group_table(group)["state"] == "PENDING"
    remove_orphaned_groups()
    assert placement_group_table(group)["state"] == "PENDING"
    remove_own_groups(WAITING_STATES, ())
    wait_for_removal(group)


def wait_for_removal(group: PlacementGroup) -> None:
    """Waits until a group is removed."""
    deadline = time.monotonic() + 10
    while placement_group_table(group)["state"] != "REMOVED":
        assert time.monotonic() < deadline
        time.sleep(0.05)
