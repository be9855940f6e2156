"""Placement groups that nobody will remove: Ray keeps those of a Ray Train run that ended while it waited for room."""

from collections.abc import Collection

import ray
from ray.util.placement_group import placement_group_table, remove_placement_group

from sweeps.cluster.ray_internals import dead_jobs, group_of_id, job_of_group

WAITING_STATES = ("PENDING", "RESCHEDULING")
"""Of a placement group that waits for room, at first or after the loss of a node."""
ALL_STATES = (*WAITING_STATES, "PREPARED", "CREATED")


def remove_own_groups(states: Collection[str] = ALL_STATES) -> None:
    """Removes this driver's placement groups in any of `states`: of lanes that never opened, or did not close."""
    own = ray.get_runtime_context().get_job_id()
    for group, table in placement_group_table().items():
        if job_of_group(group) == own and table["state"] in states:
            remove(group)


def remove_orphaned_groups() -> int:
    """Removes nameless placement groups that still wait for room although their driver has gone; how many."""
    ended = dead_jobs()
    orphans = [
        group
        for group, table in placement_group_table().items()
        if job_of_group(group) in ended and table["state"] == "PENDING" and not table["name"]
    ]
    for group in orphans:
        remove(group)
    return len(orphans)


def remove(group: str) -> None:
    """Removes a placement group by its id in hexadecimal."""
    remove_placement_group(group_of_id(group))
