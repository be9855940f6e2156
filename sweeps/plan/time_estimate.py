"""How long a sweep takes on the CPUs of this machine, from a timed step of each kind that its trials take."""

import math
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from mtlib.config.trial import TrialConfig
from mtlib.data.batches import make_batch
from mtlib.data.row_sources import pick_rows
from mtlib.data.token_cache import TokenTable, tokenize
from mtlib.loss.clean_pass import Place, autocast
from mtlib.loss.objective import Objective
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.runtime.command_line import counted
from mtlib.runtime.threads import using_threads
from mtlib.stages.plan import scored_epochs, tasks_active_by
from mtlib.training.optimizer import make_optimizer
from mtlib.training.preflight import required_features
from mtlib.training.weight_average import averaged_copy
from sweeps.options import SweepOptions
from sweeps.plan.inputs import SweepInputs, planned_configs
from sweeps.plan.report import distinct_spans, in_expected_rounds, max_concurrent

SAMPLED_ROWS = 512
"""Train rows of a task whose lengths decide how long the texts of a timed batch are."""
TIMED_STEPS = 2
"""Steps that are timed after a first one, which is slower; the fastest counts, as other programs disturb."""
MOST_TIMED_ROWS = 128
"""Most rows of a batch that is timed: a sweep may ask about batches that no memory holds at once."""
OVERHEAD_SECONDS = 54.0
"""Before a sweep's first step, in which Ray and its workers start, and after its last one: measured on 2 idle CPU cores
(docs/measurements/sweeps.md, "Start-up")."""


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Seconds of one kind of step, on one worker."""

    step: float
    """The seconds of an optimizer step with a batch of one task."""
    row: float
    """To predict one row."""


def describe_time(options: SweepOptions, inputs: SweepInputs, encoders: Mapping[str, PretrainedEncoder]) -> list[str]:
    """Returns how long the sweep takes here, in a line, with what that assumes;
    empty where trials are trained elsewhere."""
    if options.address is not None or options.gpus_per_worker:
        return []
    with (
        tempfile.TemporaryDirectory() as folder,
        torch.random.fork_rng(devices=[]),
        using_threads(options.cpus_per_worker),
    ):
        time_of = step_timer(options, inputs, encoders, Path(folder))
        most, likely = (estimate_seconds(own, inputs, time_of) for own in (options, in_expected_rounds(options)))
    lanes = max_concurrent(options, options.num_trials(len(planned_configs(options, inputs.space))))
    at_most = f" expected, at most {rounded_duration(most)}," if likely < most else ""
    stopped = " Less where trials are stopped early." if options.scheduler != "none" else ""
    is_cut = options.max_hours is not None and 3600 * options.max_hours < likely
    limit = f" --max-hours {options.max_hours:g} stops it before, and --resume goes on." if is_cut else ""
    return [
        f"About {rounded_duration(likely)}{at_most} here, if steps go on taking the time that one of each kind took "
        f"just now, with {counted(lanes, 'trial')} at a time.{stopped}{limit}"
    ]


def estimate_seconds(
    options: SweepOptions, inputs: SweepInputs, time_of: Callable[[TrialConfig, str], StepTime]
) -> float:
    """Wall seconds of the whole sweep, stages that are shared counted once.

    `time_of` gives the times of a configuration's step with one of its sets.
    """
    configs, spans = planned_configs(options, inputs.space), distinct_spans(options, inputs)
    training = sum(span.steps * seconds_per_step(span.config, span.cut.stage, time_of) for span in spans)
    predicting = sum(prediction_seconds(config, inputs, time_of) for config in configs)
    num_trials = options.num_trials(len(configs))
    rounds = math.ceil(num_trials / max_concurrent(options, num_trials))
    return OVERHEAD_SECONDS + rounds * (training + predicting) / len(configs)


def seconds_per_step(config: TrialConfig, stage: int, time_of: Callable[[TrialConfig, str], StepTime]) -> float:
    """Mean seconds of an optimizer step of a stage, in which each set is taken to have as many steps."""
    own = config.stages[stage]
    times = [time_of(config, name).step for name in (*own.tasks, *own.extra_data)]
    return sum(times) if own.sum_losses else fmean(times)


def prediction_seconds(
    config: TrialConfig, inputs: SweepInputs, time_of: Callable[[TrialConfig, str], StepTime]
) -> float:
    """Seconds in which a trial predicts: dev at each scored epoch, scored train rows, and the rows of linear probes."""
    rows, total = inputs.rows_of(config), 0.0
    for task in config.active_tasks:
        settings = config.tasks[task]
        epochs = sum(task in tasks_active_by(config, stage) for _, stage in scored_epochs(config))
        scored = epochs * (rows[task, "dev"] + min(settings.scored_train_rows, rows[task, "train"]))
        total += (scored + min(settings.probe_rows, rows[task, "train"])) * time_of(config, task).row
    return total


def step_timer(
    options: SweepOptions, inputs: SweepInputs, encoders: Mapping[str, PretrainedEncoder], folder: Path
) -> Callable[[TrialConfig, str], StepTime]:
    """Returns a function that times a step of a configuration with one of its sets, each kind once;
    `folder` is empty."""
    tables = {name: sample_tokens(inputs, encoder, folder) for name, encoder in encoders.items()}
    known: dict[Any, StepTime] = {}

    def time_of(config: TrialConfig, name: str) -> StepTime:
        task = config.task_of(name)
        size = math.ceil(min(config.batch_size_of(name), inputs.rows_of(config)[name, "train"]) / options.workers)
        parts = (config.encoder, config.adapter, config.pals, config.precision, config.tasks[task].encoding)
        kind = (parts, size, task, required_features(config, task))
        if kind not in known:
            encoder = config.encoder.name
            known[kind] = time_step(config, task, tables[encoder][task], size, encoders[encoder])
        return known[kind]

    return time_of


def sample_tokens(inputs: SweepInputs, pretrained: PretrainedEncoder, folder: Path) -> Mapping[str, TokenTable]:
    """Returns some train rows of each task, spread evenly over its table, as tokens."""
    sampled = {}
    for name, table in inputs.rows("train").items():
        rows = np.linspace(0, len(table.ids) - 1, min(SAMPLED_ROWS, len(table.ids))).astype(int)
        sampled[name] = pick_rows(table, rows)
    return tokenize(sampled, pretrained.tokenizer, folder)


def time_step(config: TrialConfig, task: str, table: TokenTable, size: int, pretrained: PretrainedEncoder) -> StepTime:
    """Times optimizer steps, and predictions, with a batch of so many rows whose lengths are near the mean. Of a large
    batch a part is timed, and the time of its passes multiplied by what the batch has times as many rows."""
    size, share = min(size, MOST_TIMED_ROWS), max(1.0, size / MOST_TIMED_ROWS)
    model = MultiTaskModel(config, pretrained).train()
    objective = Objective(config, model, averaged_copy(model) if config.needs_teacher else None)
    optimizer = make_optimizer(config, model, config.active_tasks)
    encoding, longest = config.tasks[task].encoding, config.encoder.max_length
    lengths = table.lengths(encoding, longest)
    nearest = np.argsort(np.abs(lengths - lengths.mean()), kind="stable")
    rows = np.resize(nearest, size)
    batch = make_batch(table, rows, encoding=encoding, max_length=longest)

    def passes() -> None:
        optimizer.zero_grad()
        batch = make_batch(table, rows, encoding=encoding, max_length=longest)
        torch.autograd.backward(objective([batch], [Place(noise_seed=0, turn=0, full_size=size)])[0])

    def predict() -> None:
        with torch.inference_mode(), autocast(config, batch.labels.device):
            model(batch)

    step_seconds = share * fastest(passes) + fastest(optimizer.step)
    model.eval()
    return StepTime(step=step_seconds, row=fastest(predict) / size)


def fastest(function: Callable[[], None]) -> float:
    """Seconds of the fastest of `TIMED_STEPS` calls after a first one."""
    function()
    seconds = []
    for _ in range(TIMED_STEPS):
        started = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def rounded_duration(seconds: float) -> str:
    """Returns a number of seconds, minutes or hours that does not look more exact than an estimate is."""
    if seconds < 90:
        return f"{10 * math.ceil(seconds / 10)} seconds"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} minutes"
    hours = seconds / 3600
    return f"{hours:.1f} hours" if hours < 10 else f"{hours:.0f} hours"
