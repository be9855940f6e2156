"""Trains one configuration: the loop."""

from collections.abc import Callable

import torch
from torch import nn

from mtlib.checkpoint import StateFolder, keep_best, load_state, save_state
from mtlib.config import TrialConfig
from mtlib.encoder import PretrainedEncoder
from mtlib.model import MultiTaskModel
from mtlib.objective import Objective
from mtlib.optim import make_optimizer
from mtlib.plan import plan_stages, tasks_active_by
from mtlib.reports import EpochReport, Progress, progress_of, score_epoch
from mtlib.run_state import Run, next_epoch, restore, state_of
from mtlib.samplers import epoch_steps
from mtlib.step import Interrupted, stop_if_unwanted, take_step
from mtlib.tokens import Corpus
from mtlib.workers import worker_rank


def train(
    config: TrialConfig,
    corpus: Corpus,
    encoder: PretrainedEncoder,
    *,
    device: torch.device | str = "cpu",
    wrap: Callable[[nn.Module], nn.Module] = lambda objective: objective,
    on_step: Callable[[Progress], bool] = lambda _progress: True,
    on_epoch: Callable[[EpochReport], bool] = lambda _report: True,
    states: StateFolder | None = None,
) -> None:
    """Trains one configuration to its end, or from where its saved state is.

    Args:
        config: what to learn.
        corpus: token cache that holds train and dev of every active task.
        encoder: the pretrained encoder to start from.
        device: where to train.
        wrap: wraps the objective for several workers (DDP).
        on_step: called after each optimizer step; False ends the run on all workers, with its state saved.
        on_epoch: called after each epoch's evaluation with the same report on every worker, and again for the same
            epoch if the run was killed before its state was saved; False, from all workers, ends the trial.
        states: where states and best weights are kept; None keeps none.

    Raises:
        TrainingDiverged: a loss became NaN or infinite (names task, step and loss), or a prediction did.
        Interrupted: `on_step` returned False on some worker.
        ValueError: the configuration does not fit the encoder, or the saved state is of another configuration, data
            or encoder.
    """
    run = start(config, corpus, encoder, torch.device(device), wrap, states)
    while run.epoch < run.plan[run.stage].epochs:
        train_epoch(run, on_step, states)
        report = score_epoch(run)
        keep_best_weights(run, states)
        if not on_epoch(report):
            return
        next_epoch(run)
        if not report.is_last:
            save(run, states)


def train_epoch(run: Run, on_step: Callable[[Progress], bool], states: StateFolder | None) -> None:
    """The rest of the current epoch, step by step."""
    try:
        for step in epoch_steps(run.config, run.stage, run.epoch, run.lengths)[run.step :]:
            take_step(run, step)
            run.is_wanted = on_step(progress_of(run))
            if states and run.step % states.every_steps == 0:
                save(run, states)
        stop_if_unwanted(run)  # before the evaluation, which may be long
    except Interrupted:
        save(run, states)
        raise


def start(
    config: TrialConfig,
    corpus: Corpus,
    encoder: PretrainedEncoder,
    device: torch.device,
    wrap: Callable[[nn.Module], nn.Module],
    states: StateFolder | None,
) -> Run:
    """A run at its beginning, or where its newest saved state was taken."""
    tasks = config.active_tasks
    model = MultiTaskModel(config, encoder).to(device).train()
    run = Run(
        config=config,
        corpus=corpus,
        device=device,
        plan=plan_stages(config, {task: corpus.tables[task, "train"].num_rows for task in tasks}),
        lengths={
            task: corpus.tables[task, "train"].lengths(config.tasks[task].encoding, config.encoder.max_length)
            for task in tasks
        },
        origin={"configuration": config.content_hash, "data": corpus.fingerprint, "encoder": encoder.fingerprint},
        model=model,
        objective=wrap(Objective(config, model)),
        optimizer=make_optimizer(config.optimizer, model, tasks_active_by(config, 0)),
    )
    state = load_state(states) if states else None
    if state:
        restore(run, state)
    return run


def keep_best_weights(run: Run, states: StateFolder | None) -> None:
    """Keeps the weights of the epoch that has just been scored if it is the best for a task or overall."""
    if states and worker_rank() == 0:
        best_epochs = {name: epoch for name, (_, epoch) in run.best.items()}
        keep_best(states, run.total_epoch, best_epochs, run.model.state_dict())


def save(run: Run, states: StateFolder | None) -> None:
    """Saves the run's state, on the first worker: all hold the same."""
    if states and worker_rank() == 0:
        save_state(states, run.total_step, state_of(run))
