"""The GPUs of a trial, and whether it fits this machine."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import torch

from mtlib.runtime.errors import require
from sweeps.cluster.ray_settings import set_driver_variables
from sweeps.cluster.usable_resources import usable_cpus
from sweeps.options import SweepOptions


def check_machine(options: SweepOptions) -> None:
    """Raises ValueError if one trial needs more than this machine has; clusters are checked once they are connected."""
    if options.address is not None:
        return
    num_cpus, num_gpus = usable_cpus(), torch.cuda.device_count()
    workers = f"{options.workers} worker{'s' * (options.workers > 1)} with"
    rule = f"a trial must fit this machine, which has {num_cpus} CPU{'s' * (num_cpus != 1)}"
    cpus = options.cpus_per_worker
    require(options.workers * cpus <= num_cpus, rule, f"{workers} --cpus-per-worker {cpus}")
    rule = f"a trial must fit this machine, which has {num_gpus or 'no'} GPU{'s' * (num_gpus != 1)}"
    gpus = options.gpus_per_worker
    require(options.workers * gpus <= num_gpus, rule, f"{workers} --gpus-per-worker {options.gpus_as_typed}")


def join_cluster(options: SweepOptions, cluster: ExitStack, note: Callable[[str], None]) -> None:
    """Connects to the cluster of a sweep until `cluster` is closed; ValueError if there is none at the address."""
    if options.address is None:
        return
    set_driver_variables()
    from sweeps.cluster.connection import connected_to_ray  # here: a dry run on this machine does not load Ray

    cluster.enter_context(connected_to_ray(options.address, note=note))


def use_gpus(options: SweepOptions) -> SweepOptions:
    """Returns the options with a number of GPUs, where they are to be found: one for each worker if this machine has as
    many, or the cluster, which has been joined; otherwise none."""
    if not options.finds_gpus:
        return options
    num_gpus: float = torch.cuda.device_count()
    if options.address is not None:
        from sweeps.cluster.capacity import total_resources  # here: a dry run on this machine does not load Ray

        num_gpus = sum(node.gpus for node in total_resources())
    return replace(options, gpus_per_worker=1.0 if num_gpus >= options.workers else 0.0, finds_gpus=False)


def describe_gpus(options: SweepOptions) -> str:
    """Returns how many GPUs a worker has, and of how many this machine has."""
    line = f"GPUs per worker: {options.gpus_as_typed}"
    if options.address is not None:
        return f"{line} (--gpus-per-worker changes it)"
    count = torch.cuda.device_count()
    unused = ", not used without --gpus-per-worker 1" if count and not options.gpus_per_worker else ""
    return f"{line} (this machine has {count or 'none'}{unused})"
