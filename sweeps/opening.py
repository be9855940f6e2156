"""A sweep's start: the last checks, its folder, and `sweep.json`. After this the sweep may open Ray."""

import os
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from mtlib.encoder import build_encoder, embedding_layer, load_encoder
from mtlib.schema import require, to_dict
from results.mirror import mirror
from results.records import read_trials, write_sweep
from results.storage import first_line
from search_spaces.space import describe_space
from sweeps.options import SweepOptions, SweepPlan, make_plan
from sweeps.prepare import Material, mirror_location, planned_configs
from sweeps.provenance import command_line, describe_machine, describe_packages, describe_sources

ROOT = Path(__file__).resolve().parent.parent
"""Folder of the four packages."""


def check_machine(options: SweepOptions) -> None:
    """Raises ValueError if one trial needs more than this machine has; a cluster is known only once it is reached."""
    if options.address in (None, "local"):
        check_capacity(options, os.cpu_count() or 1, torch.cuda.device_count())


def check_capacity(options: SweepOptions, num_cpus: int, num_gpus: int) -> None:
    """Raises ValueError if one trial needs more than `num_cpus` or `num_gpus`."""
    workers = f"{options.workers} worker{'s' * (options.workers > 1)} with"
    rule = f"a trial must fit this machine, which has {num_cpus} CPU{'s' * (num_cpus != 1)}"
    cpus = options.cpus_per_worker
    require(options.workers * cpus <= num_cpus, rule, f"{workers} --cpus-per-worker {cpus}")
    rule = f"a trial must fit this machine, which has {num_gpus or 'no'} GPU{'s' * (num_gpus != 1)}"
    gpus = options.gpus_per_worker
    require(options.workers * gpus <= num_gpus, rule, f"{workers} --gpus-per-worker {gpus:g}")


def check_encoder(options: SweepOptions, material: Material) -> int:
    """Loads the encoder once, as every trial of the sweep will.

    Returns:
        Its number of parameters.

    Raises:
        ValueError: it cannot be had, or a trial's settings do not fit it.
    """
    pretrained = load_encoder(material.space.base.encoder.name)
    configs = planned_configs(options, material.space)
    for encoder_config in {config.encoder: None for config in configs}:
        encoder = build_encoder(pretrained, encoder_config)
    if any(config.smart.weight > 0 for config in configs):
        embedding_layer(encoder)
    return pretrained.num_parameters


def open_sweep(options: SweepOptions, material: Material, arguments: Sequence[str]) -> SweepPlan:
    """Makes the sweep's folder with `sweep.json` in it.

    Args:
        options: the checked command line.
        material: the checked data, and the space with every override.
        arguments: the command line as typed.

    Raises:
        ValueError: the storage cannot be written.
    """
    try:
        options.folder.mkdir(parents=True)
        write_sweep(options.folder, sweep_info(options, material, arguments))
        if options.mirror is not None:
            mirror(options.folder, mirror_location(options))
    except OSError as error:
        where = options.mirror or options.storage
        raise ValueError(f"--storage must be a place that can be written, got {where}: {first_line(error)}") from error
    return make_plan(options, material.space, material.data_folder)


def discard_unstarted(folder: Path) -> None:
    """Removes a sweep's folder if none of its trials has started, so that its name is free again."""
    if all(record.status == "queued" for record in read_trials(folder)):
        shutil.rmtree(folder)


def sweep_info(options: SweepOptions, material: Material, arguments: Sequence[str]) -> dict[str, Any]:
    """What `sweep.json` says beside its schema version: all that led to the numbers."""
    space = material.space
    return {
        "name": options.name,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command_line(arguments),
        "space": {**describe_space(space), "hash": space.content_hash},
        "base": to_dict(space.base),
        "seed": options.seed,
        "search": options.search,
        "num_trials": options.num_trials,
        "replicates": options.replicates,
        "scheduler": options.scheduler,
        "num_workers": options.workers,
        "cpus_per_worker": options.cpus_per_worker,
        "gpus_per_worker": options.gpus_per_worker,
        "data": describe_data(material),
        "git": describe_sources(ROOT),
        "packages": describe_packages(),
        "hardware": describe_machine(),
    }


def describe_data(material: Material) -> dict[str, Any]:
    """What was read."""
    return {
        "folder": str(material.data_folder),
        "fingerprint": material.fingerprint,
        "rows": {f"{task}-{split}": rows for (task, split), rows in material.num_rows.items()},
        "skipped": list(material.skipped),
    }
