"""Trains one configuration: the loop."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from mtlib.checkpoints.initial_weights import load_start
from mtlib.checkpoints.saver import Saver
from mtlib.checkpoints.state import StateFolder, load_state
from mtlib.config.gradient_methods import check_packages
from mtlib.config.trial import TrialConfig
from mtlib.data.batches_ahead import build_ahead, num_ahead
from mtlib.data.token_cache import Corpus
from mtlib.loss.class_weights import all_class_counts, all_class_weights
from mtlib.loss.objective import Objective
from mtlib.model.encoder import PretrainedEncoder, check_attention
from mtlib.model.multitask import MultiTaskModel
from mtlib.runtime.bf16 import has_bf16
from mtlib.runtime.environment import describe_environment
from mtlib.runtime.late_reading import late_reader
from mtlib.runtime.workers import gather_from_workers, worker_rank
from mtlib.stages.keys import Origin
from mtlib.stages.plan import plan_stages, tasks_active_by
from mtlib.stages.sampler import epoch_steps
from mtlib.training.epoch_report import EpochReport, StepProgress, progress_of, report_epoch
from mtlib.training.optimizer import make_optimizer
from mtlib.training.run import (
    Run,
    begin_next_stage,
    count_step,
    end_epoch,
    fit_new_heads,
    kept_weights,
    restore,
    state_of,
)
from mtlib.training.step import Interrupted, host_batches, read_waiting, stop_if_unwanted, take_step
from mtlib.training.weight_average import averaged_copy


def train(
    config: TrialConfig,
    corpus: Corpus,
    encoder: PretrainedEncoder,
    *,
    device: torch.device | str = "cpu",
    wrap: Callable[[nn.Module], nn.Module] = lambda objective: objective,
    on_step: Callable[[StepProgress], bool] = lambda _progress: True,
    on_epoch: Callable[[EpochReport], bool] = lambda _report: True,
    on_stage: Callable[[int], bool] = lambda _stage: True,
    states: StateFolder | None = None,
    start: Mapping[str, Tensor] | None = None,
) -> None:
    """Trains one configuration to its end, starting from its newest saved state if there is one.

    Args:
        corpus: token cache that holds train and dev of every active task.
        wrap: wraps the objective for several workers (DDP).
        on_step: called after each optimizer step; False ends the run on all workers, with its state saved.
        on_epoch: called after each epoch, once it is scored if it is to be, with the same report on every worker, and
            again for the same epoch if the run was killed before its state was saved; False, from all workers, ends
            the trial.
        on_stage: called with its number at each stage's end, on every worker, once the state is saved there; False,
            from all workers, ends the run, which may continue from that state or a later one.
        states: where states and best weights are saved; None saves none.
        start: the weights of `encoder.start_from`, as `read_starting_weights` reads them; None without.

    Raises:
        TrainingDiverged: a loss became NaN or infinite (names task, step and loss), or a prediction did.
        Interrupted: `on_step` returned False on some worker.
        RuntimeError: the workers do not see the same saved state.
        ValueError: the configuration does not fit the encoder or names a method whose packages are missing, starting
            weights are not given or do not fit it, or the saved state is of another configuration, data, encoder or
            starting weights.
        OSError: states or best weights cannot be written or read.
    """
    run = prepare_run(config, corpus, encoder, torch.device(device), wrap, states, start)
    with Saver(states, is_writer=worker_rank() == 0) if states else nullcontext() as saver:
        if saver:
            saver.needed = frozenset(epochs_of_best(run).values())
        while not run.is_over:
            if run.is_stage_over:
                begin_next_stage(run)
            train_epoch(run, on_step, saver)
            report = report_epoch(run)
            if saver and run.is_scored_epoch:
                saver.keep(run.total_epoch, epochs_of_best(run), kept_weights(run, run.scored_model))
            if not on_epoch(report):
                return
            end_epoch(run)
            is_kept = run.is_stage_over or not run.is_skipped_epoch  # before epochs without steps: they take no time
            if saver and is_kept and (saver.keeps_end or not run.is_over):
                save(run, saver, always=run.is_stage_over)
            if run.is_stage_over:
                if saver:
                    saver.wait()
                if not on_stage(run.stage):
                    return


def train_epoch(run: Run, on_step: Callable[[StepProgress], bool], saver: Saver | None) -> None:
    """The rest of the current epoch, step by step."""
    try:
        steps = epoch_steps(run.config, run.stage, run.epoch, run.lengths, run.own_rows)[run.step :]
        steps = [] if run.is_skipped_epoch else steps
        for step, batches in build_ahead(steps, lambda step: host_batches(run, step), num_ahead(run.device)):
            take_step(run, step, batches)
            count_step(run, step)
            run.is_wanted = on_step(progress_of(run))
            if saver and saver.is_due(run.step):
                read_waiting(run)
                save(run, saver)
        read_waiting(run)
        stop_if_unwanted(run)  # before the evaluation, which may be long
    except Interrupted:
        read_waiting(run)
        if saver:
            save(run, saver, always=True)
            saver.wait()
        raise


def prepare_run(
    config: TrialConfig,
    corpus: Corpus,
    encoder: PretrainedEncoder,
    device: torch.device,
    wrap: Callable[[nn.Module], nn.Module],
    states: StateFolder | None,
    start: Mapping[str, Tensor] | None = None,
) -> Run:
    """Returns a run at its first step, or at its newest saved state."""
    environment = describe_environment(device)  # first: a collective call, even if a worker fails below
    check_packages(config.gradients, config.gradient_entry)
    config = resolve_precision(config, device)
    check_attention(config.encoder, on_gpu=device.type == "cuda")
    model = MultiTaskModel(config, encoder)
    for task in model.label_scales:
        table = corpus[task, "train"]
        model.scale_of(task).fit(table.labels[: table.num_own_rows])
    origin = origin_of(corpus, encoder, load_start(config.encoder, model, start), environment)
    model = model.to(device).train()
    teacher = averaged_copy(model).requires_grad_(False) if config.needs_teacher else None
    average = averaged_copy(model) if config.optimizer.average_power is not None else None
    method_state: dict[str, Tensor] = {}
    weights, counts = (of_classes(config, corpus, device) for of_classes in (all_class_weights, all_class_counts))
    objective = wrap(Objective(config, model, teacher, method_state, weights, counts))
    tables = {name: corpus[name, "train"] for name in config.train_sets}
    run = Run(
        config=config,
        corpus=corpus,
        device=device,
        plan=plan_stages(config, {name: table.num_rows for name, table in tables.items()}),
        lengths={
            name: table.lengths(config.tasks[table.task].encoding, config.encoder.max_length)
            for name, table in tables.items()
        },
        own_rows={name: table.num_own_rows for name, table in tables.items()},
        origin=origin,
        model=model,
        teacher=teacher,
        average=average,
        objective=objective,
        optimizer=make_optimizer(config, model, tasks_active_by(config, 0)),
        unread=late_reader(device),
        method_state=method_state,
    )
    state = load_state(states) if states else None
    if state:
        restore(run, state)
    places = gather_from_workers((run.stage, run.epoch, run.step))
    if any(place != places[0] for place in places):  # they may not see the same files yet
        raise RuntimeError(f"workers begin at different places, by rank (stage, epoch, step) {places}")
    if state is None:
        fit_new_heads(run)
    return run


def resolve_precision(config: TrialConfig, device: torch.device) -> TrialConfig:
    """Returns the configuration with a precision in place of `auto`; a collective call.

    It is bf16 where all workers have instructions for it and no setting of the trial refuses it, otherwise fp32.
    """
    if config.precision != "auto":
        return config
    all_have_it = all(gather_from_workers(has_bf16(on_gpu=device.type == "cuda")))
    try:
        return config.override({"precision": "bf16" if all_have_it else "fp32"})
    except ValueError:  # a setting of the trial needs fp32
        return config.override({"precision": "fp32"})


def origin_of(
    corpus: Corpus, encoder: PretrainedEncoder, started: Mapping[str, str], environment: Mapping[str, Any]
) -> Origin:
    """Returns what a trial's result depends on besides its configuration; `started` is what `load_start` returns."""
    data = {key: table.fingerprint for key, table in corpus.items()}
    return Origin(encoder=encoder.fingerprint, started=started, data=data, environment=environment)


def epochs_of_best(run: Run) -> dict[str, int]:
    """Returns the best epoch so far by each score, 1-based over all stages."""
    return {name: epoch for name, (_, epoch) in run.best.items()}


def save(run: Run, saver: Saver, *, always: bool = False) -> None:
    """Saves the run's state, on the first worker; unless `always`, not if the last one is new."""
    if saver.wants_state(always=always):
        saver.save(run.total_step, state_of(run), epochs_of_best(run))
