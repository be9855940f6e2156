"""Resources that a lane had reserved when its controller was killed: Ray keeps them until the sweep's job ends."""

import ray
from ray.util.placement_group import PlacementGroup, remove_placement_group
from ray.util.state import list_actors, list_placement_groups
from ray.util.state.exception import RayStateApiException

MOST = 10_000
"""As many as Ray lists at most."""


def idle_groups() -> set[str]:
    """Returns the ids of this job's placement groups with CPUs in which no actor is; none where Ray has no dashboard.

    The group of a lane that opens or closes is among them for a moment.
    """
    context = ray.get_runtime_context()
    job, address = ("=", context.get_job_id()), context.gcs_address
    created, alive = ("state", "=", "CREATED"), ("state", "!=", "DEAD")
    try:
        groups = list_placement_groups(address, [("creator_job_id", *job), created], limit=MOST, timeout=5, detail=True)
        actors = list_actors(address, [("job_id", *job), alive], limit=MOST, timeout=5, detail=True)
    except (RayStateApiException, OSError):
        return set()
    with_cpus = [group for group in groups if any("CPU" in bundle["unit_resources"] for bundle in group.bundles or ())]
    return {group.placement_group_id for group in with_cpus} - {actor.placement_group_id for actor in actors}


def free_group(group: str) -> None:
    """Frees what a placement group has reserved."""
    remove_placement_group(PlacementGroup(ray.PlacementGroupID.from_hex(group)))
