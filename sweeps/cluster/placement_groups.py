"""Removes placement groups that Ray leaves behind when a Ray Train run ends while it waits for resources."""

from collections.abc import Collection

import ray
from ray.util.placement_group import placement_group_table, remove_placement_group

from sweeps.cluster.ray_internals import dead_jobs, group_of_id, job_of_group

WAITING_STATES = ("PENDING", "RESCHEDULING")
"""States of a placement group that waits for resources, at first or after the loss of a node."""
ALL_STATES = (*WAITING_STATES, "PREPARED", "CREATED")


def remove_own_groups(states: Collection[str] = ALL_STATES) -> None:
    """Removes this driver's placement groups in `states`: those of lanes that never opened or did not close."""
    own = ray.get_runtime_context().get_job_id()
    for group, table in placement_group_table().items():
        if job_of_group(group) == own and table["state"] in states:
            remove_placement_group(group_of_id(group))


def remove_orphaned_groups() -> None:
    """Removes unnamed placement groups that wait for resources though their driver has ended."""
    ended = dead_jobs()
    for group, table in placement_group_table().items():
        if job_of_group(group) in ended and table["state"] == "PENDING" and not table["name"]:
            remove_placement_group(group_of_id(group))
