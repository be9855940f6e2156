"""Checks that a trial fits this machine."""

import os

import torch

from mtlib.errors import require
from sweeps.options import SweepOptions


def check_machine(options: SweepOptions) -> None:
    """Raises ValueError if one trial needs more than this machine has; clusters are checked once they are connected."""
    if options.address is None:
        check_capacity(options, os.cpu_count() or 1, torch.cuda.device_count())


def describe_gpus(options: SweepOptions) -> list[str]:
    """A line about GPUs that the sweep does not use."""
    count = torch.cuda.device_count() if options.address is None and not options.gpus_per_worker else 0
    return [f"This machine has {count} GPU{'s' * (count > 1)}, not used without --gpus-per-worker 1."] if count else []


def check_capacity(options: SweepOptions, num_cpus: int, num_gpus: int) -> None:
    """Raises ValueError if one trial needs more than `num_cpus` or `num_gpus`."""
    workers = f"{options.workers} worker{'s' * (options.workers > 1)} with"
    rule = f"a trial must fit this machine, which has {num_cpus} CPU{'s' * (num_cpus != 1)}"
    cpus = options.cpus_per_worker
    require(options.workers * cpus <= num_cpus, rule, f"{workers} --cpus-per-worker {cpus}")
    rule = f"a trial must fit this machine, which has {num_gpus or 'no'} GPU{'s' * (num_gpus != 1)}"
    gpus = options.gpus_per_worker
    require(options.workers * gpus <= num_gpus, rule, f"{workers} --gpus-per-worker {gpus:g}")
