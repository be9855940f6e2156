"""How many rows of a batch pass through the network at once, so that a step fits a GPU's memory."""

import gc
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from mtlib.config.trial import TrialConfig
from mtlib.data.batches import moved
from mtlib.data.token_cache import Corpus
from mtlib.loss.clean_pass import Place
from mtlib.loss.gradient_aggregation import gradients_by_task
from mtlib.loss.objective import Objective
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.runtime.workers import num_workers
from mtlib.stages.draws import stage_sets
from mtlib.stages.plan import tasks_active_by
from mtlib.stages.sampler import StepBatch
from mtlib.training.optimizer import make_optimizer
from mtlib.training.step import parts_of, shard_of
from mtlib.training.weight_average import averaged_copy

MicroBatches = tuple[int | None, ...]
"""The `micro_batch_size` of each stage."""
NO_GPU_MEMORY = ("CUDA error: out of memory", "_STATUS_ALLOC_FAILED")
"""In errors of CUDA and its libraries, for which PyTorch has no class of its own."""


def with_micro_batches(config: TrialConfig, sizes: MicroBatches) -> TrialConfig:
    """Returns the configuration with a `micro_batch_size` for each stage."""
    stages = zip(config.stages, sizes, strict=True)
    return replace(config, stages=tuple(replace(stage, micro_batch_size=size) for stage, size in stages))


def fitting_micro_batches(
    config: TrialConfig, corpus: Corpus, pretrained: PretrainedEncoder, device: torch.device
) -> MicroBatches:
    """Returns the configured sizes; on a GPU, where a stage has none,
    the largest whose steps with the longest texts fit.

    These are this worker's whole shard, half of it, a quarter and so on.

    Raises:
        torch.OutOfMemoryError: not even single rows fit, or a penalty needs the whole batch.
        ValueError: the configuration does not fit the encoder.
    """
    sizes = [stage.micro_batch_size for stage in config.stages]
    for index, stage in enumerate(config.stages):
        if device.type != "cuda" or stage.micro_batch_size is not None or config.needs_whole_batches(stage):
            continue
        rows = max(config.batch_size_of(name) for name in stage_sets(stage))
        size = -(-rows // num_workers())
        while not step_fits(with_micro_batches(config, tuple(sizes)), index, corpus, pretrained, device, size == 1):
            size = sizes[index] = -(-size // 2)
    return tuple(sizes)


def step_fits(
    config: TrialConfig,
    index: int,
    corpus: Corpus,
    pretrained: PretrainedEncoder,
    device: torch.device,
    must_fit: bool,
) -> bool:
    """Returns whether the steps of a stage fit the device's memory;
    raises torch.OutOfMemoryError if not and they must."""
    try:
        take_longest_steps(config, index, corpus, pretrained, device)
    except RuntimeError as error:
        if must_fit or not is_out_of_memory(error):
            raise
        return False
    finally:
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
    return True


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether a GPU's memory is the cause of an error."""
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in NO_GPU_MEMORY)


def take_longest_steps(
    config: TrialConfig, index: int, corpus: Corpus, pretrained: PretrainedEncoder, device: torch.device
) -> None:
    """Takes two steps of each kind in a stage with the longest texts and a new model, on this worker alone.

    The first makes AdamW's moments, the second needs all at once. Of a step's parts two are enough: later ones find the
    gradients there as the second does.
    """
    tasks, stage = tasks_active_by(config, index), config.stages[index]
    model = MultiTaskModel(config, pretrained).to(device).train()
    teacher = averaged_copy(model).requires_grad_(False) if config.needs_teacher else None
    _average = averaged_copy(model) if config.optimizer.average_power is not None else None
    objective, optimizer = Objective(config, model, teacher), make_optimizer(config, model, tasks)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    batches = [StepBatch(set=name, rows=longest_rows(config, corpus, name), turn=0) for name in stage_sets(stage)]
    for step in [batches] if stage.sum_losses else [[batch] for batch in batches]:
        num_parts = parts_of(stage.micro_batch_size, [len(batch.rows) for batch in step])
        places = [Place(noise_seed=0, turn=0, full_size=len(batch.rows)) for batch in step]
        for _ in range(2):
            optimizer.zero_grad(set_to_none=True)
            for which in range(min(num_parts, 2)):
                shards = [moved(shard_of(config, corpus, batch, which, num_parts), device) for batch in step]
                if config.gradients == "sum" or len({shard.task for shard in shards}) == 1:
                    objective(shards, places)[0].backward()
                else:
                    set_gradients(parameters, gradients_by_task(objective, parameters, shards, places)[0])
            optimizer.step()


def set_gradients(parameters: Sequence[torch.nn.Parameter], gradients: Sequence[Sequence[Tensor | None]]) -> None:
    """Gives parameters the gradients of the first task that has some, while all tasks' gradients are in memory."""
    for parameter, *parts in zip(parameters, *gradients, strict=True):
        parameter.grad = next((part for part in parts if part is not None), None)


def longest_rows(config: TrialConfig, corpus: Corpus, name: str) -> np.ndarray:
    """As many rows of a train set as a batch has, with the longest texts."""
    table = corpus[name, "train"]
    lengths = table.lengths(config.tasks[config.task_of(name)].encoding, config.encoder.max_length)
    return np.argsort(lengths, kind="stable")[-config.batch_size_of(name) :]
