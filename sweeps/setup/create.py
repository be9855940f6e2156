"""The start of a new sweep: the last checks, its folder, and `sweep.json`. After this the sweep may open Ray."""

import os
import platform
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from mtlib.checkpoints.initial_weights import load_start
from mtlib.config.schema import to_dict
from mtlib.config.trial import TrialConfig
from mtlib.errors import require
from mtlib.model.encoder import PretrainedEncoder, build_encoder, embedding_layer
from mtlib.model.layers import check_fits
from mtlib.model.multitask import MultiTaskModel
from mtlib.runtime.environment import versions_of
from mtlib.training.preflight import check_step_runs
from results.records.files import PROJECT_FOLDER
from results.records.hold_out import HoldOutRecord, held_out_rows, write_hold_out
from results.records.mirror import update_mirror
from results.records.trials import read_trials, write_sweep
from search_spaces.space import all_configs, describe_space
from sweeps.options import SweepOptions, SweepPlan, saved_options
from sweeps.setup.inputs import SweepInputs, writing_to
from sweeps.setup.provenance import PACKAGES, command_line, describe_code, describe_git, describe_machine


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


def check_encoder_fits(options: SweepOptions, inputs: SweepInputs, pretrained: PretrainedEncoder) -> None:
    """Raises ValueError unless the settings of every point of the space fit the encoder."""
    configs = list(all_configs(inputs.space))
    for encoder_config in {config.encoder: None for config in configs}:
        check_points([config for config in configs if config.encoder == encoder_config], pretrained)
    check_step_runs(configs, pretrained, on_gpu=options.gpus_per_worker > 0)


def check_points(configs: Sequence[TrialConfig], pretrained: PretrainedEncoder) -> None:
    """Raises ValueError unless the encoder and the starting weights fit all of `configs`, which share both."""
    encoder = build_encoder(pretrained, configs[0].encoder)
    for config in configs:
        check_fits(config, encoder)
    if any(config.needs_embeddings for config in configs):
        embedding_layer(encoder)
    if configs[0].encoder.start_from is not None:
        load_start(configs[0].encoder, MultiTaskModel(configs[0], pretrained))


def create_sweep(
    options: SweepOptions, inputs: SweepInputs, encoder: PretrainedEncoder, arguments: Sequence[str]
) -> SweepPlan:
    """Makes the sweep's folder with `sweep.json` in it, and `hold_out.json` where rows are held out.

    `arguments` are the command line as typed.

    Raises:
        ValueError: the storage cannot be written.
    """
    with writing_to(options.storage):
        options.folder.mkdir(parents=True)
        if inputs.held_out:
            rows = held_out_rows(inputs.held_out)
            write_hold_out(options.folder, HoldOutRecord(share=options.hold_out, tasks=rows))
        write_sweep(options.folder, sweep_info(options, inputs, encoder.fingerprint, arguments))
    if options.mirror_folder is not None:
        try:
            with writing_to(options.mirror_folder):
                update_mirror(options.folder, options.mirror_folder)
        except ValueError:
            discard_unstarted(options.folder)
            raise
    space, data_folder, num_parameters = inputs.space, inputs.data_folder, encoder.num_parameters
    return SweepPlan(options=options, space=space, data_folder=data_folder, num_parameters=num_parameters)


def discard_unstarted(folder: Path) -> None:
    """Removes a sweep's folder if none of its trials has started, so that its name is free again."""
    if all(record.status == "queued" and record.started is None for record in read_trials(folder)):
        shutil.rmtree(folder)


def sweep_info(options: SweepOptions, inputs: SweepInputs, encoder: str, arguments: Sequence[str]) -> dict[str, Any]:
    """The content of `sweep.json`, without its schema version: everything that the results depend on."""
    space = inputs.space
    return {
        "name": options.name,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command_line(arguments),
        "options": saved_options(options),
        "space": {**describe_space(space), "hash": space.content_hash},
        "base": to_dict(space.base),
        "seed": options.seed,
        "search": options.search,
        "num_trials": options.num_drawn,
        "replicates": options.replicates,
        "scheduler": options.scheduler,
        "num_workers": options.workers,
        "cpus_per_worker": options.cpus_per_worker,
        "gpus_per_worker": options.gpus_per_worker,
        "data": {
            "folder": str(inputs.data_folder),
            "fingerprint": inputs.fingerprint,
            "tables": dict(inputs.fingerprints),
            "rows": {f"{task}-{split}": rows for (task, split), rows in inputs.num_rows.items()},
            "skipped": [*inputs.skipped, *inputs.left_out],
        },
        "encoder": {"name": space.base.encoder.name, "fingerprint": encoder},
        "code": describe_code(),
        "git": describe_git(PROJECT_FOLDER),
        "python": platform.python_version(),
        "packages": versions_of(PACKAGES),
        "hardware": describe_machine(),
    }
