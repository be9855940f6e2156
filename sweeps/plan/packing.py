"""How many trials share a GPU (`--gpus-per-worker auto`), by the memory that short trainings like the trials' need."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.repeated_words import table_of_texts
from mtlib.runtime.errors import first_line
from mtlib.stages.draws import stage_sets
from mtlib.train import train
from mtlib.training.micro_batches import fitting_micro_batches, with_micro_batches
from mtlib.training.preflight import required_features
from sweeps.cluster.gpu_shares import CONTEXT_BYTES, MEMORY_MARGIN, share_of, trials_per_gpu
from sweeps.cluster.ray_settings import set_driver_variables
from sweeps.lanes.peak_memory import release_memory, reset_peak_memory
from sweeps.options import SweepOptions

if TYPE_CHECKING:  # Ray is loaded in `measure`
    from sweeps.cluster.capacity import Resources

STEPS_PER_SET = 2
"""Optimizer steps with each train set: the first makes AdamW's moments, the second needs all at once."""
BYTES_PER_PARAMETER = 4
"""The size of the encoders' weights, which Ray's object store holds while they are measured."""
WAIT_SECONDS = 600.0
"""How long a GPU of a cluster may take to become free and to be measured."""


def pack_gpus(
    options: SweepOptions,
    configs: Sequence[TrialConfig],
    encoders: Mapping[str, PretrainedEncoder],
    num_trials: int,
) -> tuple[SweepOptions, str]:
    """Returns the options with a number in place of `--gpus-per-worker auto`, as measured on one GPU,
    and a line that says so.

    `encoders` are by their names in `configs`; `num_trials` is how many may run at a time.

    Raises:
        ValueError: there is no GPU, none becomes free in time, or a trial does not fit one.
    """
    peak, total, nodes = measure(options, configs, encoders)
    by_cpus = int(min(node.cpus / node.gpus for node in nodes) / options.cpus_per_worker)
    by_trials = math.ceil(num_trials / int(sum(node.gpus for node in nodes)))  # Ray fills one GPU before the next
    number = max(1, min(trials_per_gpu(total, peak), by_cpus, by_trials))
    need = f"the {peak / 1e9:.1f} GB that steps with the longest texts took, {MEMORY_MARGIN - 1:.0%} more"
    line = f"{number} trial{'s' * (number > 1)} on a GPU of {total / 1e9:.0f} GB: each gets {need}"
    line += f", and {CONTEXT_BYTES / 1e9:.2g} GB for its process"
    return replace(options, gpus_per_worker=share_of(number), packs_gpus=False), line


def measure(
    options: SweepOptions, configs: Sequence[TrialConfig], encoders: Mapping[str, PretrainedEncoder]
) -> "tuple[int, int, list[Resources]]":
    """Measures the trials on a GPU of this machine or the cluster.

    Returns:
        As `peak_and_total`, and the resources of each node that has GPUs.

    Raises:
        ValueError: as `pack_gpus`.
    """
    set_driver_variables()
    import ray  # here: only this needs it before the sweep begins
    from ray.exceptions import RayError

    from sweeps.cluster.capacity import total_resources
    from sweeps.cluster.connection import connected_to_ray

    num_bytes = BYTES_PER_PARAMETER * sum(encoder.num_parameters for encoder in encoders.values())
    with connected_to_ray(options.address, num_bytes):
        nodes = [node for node in total_resources() if node.gpus >= 1]
        if not nodes:
            raise ValueError("--gpus-per-worker auto must find a GPU to measure, got none; name a number")
        task = ray.remote(num_gpus=1, num_cpus=options.cpus_per_worker, max_retries=0, max_calls=1)(peak_and_total)
        try:
            peak, total = ray.get(task.remote(distinct_in_memory(configs), encoders), timeout=WAIT_SECONDS)
        except RayError as error:
            rule = "--gpus-per-worker auto must measure a step of each kind on a free GPU"
            raise ValueError(f"{rule}, got: {first_line(getattr(error, 'cause', None) or error)}") from None
    return peak, total, nodes


def distinct_in_memory(configs: Sequence[TrialConfig]) -> list[TrialConfig]:
    """Returns one configuration of each kind that may need another amount of memory."""
    kinds: dict[Any, TrialConfig] = {}
    for config in configs:
        methods = (
            config.gradients,
            config.loss_weighting,
            config.needs_teacher,
            config.optimizer.average_power is not None,
        )
        features = tuple(required_features(config, task) for task in config.active_tasks)
        sizes = tuple(config.batch_size_of(name) for name in config.train_sets)
        stages = tuple(
            (stage_sets(stage), stage.sum_losses, stage.start_from, stage.micro_batch_size) for stage in config.stages
        )
        parts = (config.encoder, config.adapter, config.pals, config.evaluation, config.precision)
        kinds.setdefault((parts, stages, methods, features, sizes), config)
    return list(kinds.values())


def peak_and_total(configs: Sequence[TrialConfig], encoders: Mapping[str, PretrainedEncoder]) -> tuple[int, int]:
    """Most bytes reserved for the tensors of any of these configurations, and all bytes, of this process's GPU."""
    device = torch.device("cuda")
    peaks = []
    for config in configs:
        release_memory()
        reset_peak_memory(device)
        train_shortly(config, encoders[config.encoder.name], device)
        peaks.append(torch.cuda.max_memory_reserved(device))
    return max(peaks), int(torch.cuda.get_device_properties(device).total_memory)


def train_shortly(config: TrialConfig, encoder: PretrainedEncoder, device: torch.device) -> None:
    """Trains a few steps of each stage with texts of the greatest length, and scores the result."""
    changes: dict[str, Any] = {"encoder.start_from": None}
    for number, stage in enumerate(config.stages):
        changes |= {
            f"stages.{number}.epochs": 1,
            f"stages.{number}.steps_per_epoch": STEPS_PER_SET * len(stage_sets(stage)),
        }
    config = config.override(changes)
    corpus = longest_texts(config, encoder)
    config = with_micro_batches(config, fitting_micro_batches(config, corpus, encoder, device))
    train(config, corpus, encoder, device=device)


def longest_texts(config: TrialConfig, encoder: PretrainedEncoder) -> Corpus:
    """Returns a corpus of texts of `encoder.max_length`:
    a batch of train rows of each set and of dev rows of each task."""
    rows: Mapping[tuple[str, str], int] = {
        **{(name, "train"): config.batch_size_of(name) for name in config.train_sets},
        **{(task, "dev"): config.evaluation.batch_size for task in config.active_tasks},
    }
    corpus = {}
    for (name, split), count in rows.items():
        task = config.task(config.task_of(name))
        corpus[name, split] = table_of_texts(task, encoder, (config.encoder.max_length,) * count)
    return corpus
