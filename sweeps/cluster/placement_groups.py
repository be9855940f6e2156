"""Removes placement groups that Ray leaves behind when a Ray Train run ends while it waits for resources."""

from collections.abc import Collection

import ray
from ray.util.placement_group import placement_group_table, remove_placement_group

from sweeps.cluster.ray_internals import dead_jobs, group_of_id, job_of_group

WAITING_STATES = ("PENDING", "RESCHEDULING")
"""States of a placement group that waits for resources, at first or after the loss of a node."""
ALL_STATES = (*WAITING_STATES, "PREPARED", "CREATED")


def own_groups() -> frozenset[str]:
    """Ids of this driver's placement groups."""
    own = ray.get_runtime_context().get_job_id()
    return frozenset(group for group in placement_group_table() if job_of_group(group) == own)


def remove_own_groups(states: Collection[str], kept: Collection[str]) -> None:
    """Removes this driver's placement groups in `states`: those of lanes that never opened or did not close.

    `kept` are ids of groups that are not the sweep's: the program that runs it may have others.
    """
    tables = placement_group_table()
    for group in own_groups() - set(kept):
        if group in tables and tables[group]["state"] in states:
            remove_placement_group(group_of_id(group))


def remove_group(group: str | None) -> None:
    """Removes the placement group with this id, if there is one that has not been removed."""
    table = placement_group_table().get(group)
    if table is not None and table["state"] in ALL_STATES:
        remove_placement_group(group_of_id(str(group)))


def remove_orphaned_groups() -> None:
    """Removes unnamed placement groups that wait for resources though their driver has ended."""
    ended = dead_jobs()
    for group, table in placement_group_table().items():
        if job_of_group(group) in ended and table["state"] == "PENDING" and not table["name"]:
            remove_placement_group(group_of_id(group))
