"""The report of an epoch: scores, curves and predictions."""

import itertools
from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch

from mtlib.loss.objective import learned_weight, weights_by_task
from mtlib.runtime.workers import from_rank_0
from mtlib.stages.plan import tasks_active_by
from mtlib.stages.sampler import epoch_steps
from mtlib.tasks import overall_score, score_of
from mtlib.training.evaluation import Predictions, predict, score, scored_train_rows
from mtlib.training.run import Run, mean_losses, note_stage_best, num_tokens

TOKENS, STEPS = "tokens", "steps"
"""Metrics of how much an epoch trains of a task."""


@dataclass(frozen=True, kw_only=True)
class StepProgress:
    """Where a trial is after an optimizer step."""

    stage: int
    """From 0."""
    epoch: int
    """1-based over all stages."""
    step: int
    """Optimizer steps done over all stages."""
    num_steps: int
    """Optimizer steps of the whole trial."""
    learning_rate: float
    """The highest one of any group of parameters in the last step."""
    num_rows: int
    """Train rows in the steps since the trial was started or resumed here, all workers together."""
    num_tokens: int
    """Tokens of these rows, special ones included and padding not."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One point of a curve."""

    step: int
    epoch: int
    task: str
    """A task's name, or `overall`."""
    split: str
    """`dev`, or `train` (the epoch's running loss and tokens, and metrics of the scored rows)."""
    metric: str
    value: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class EpochReport:
    """The results of an epoch."""

    epoch: int
    """1-based over all stages."""
    stage: int
    """From 0."""
    step: int
    """Optimizer steps done over all stages."""
    seconds: float
    """Seconds of work on this trial so far, evaluation included."""
    points: tuple[Point, ...]
    predictions: tuple[Predictions, ...]
    """Dev of the tasks active so far, and the scored rows of train; none at an epoch that is not scored."""
    overall: float | None
    """Overall dev score, 0..1; None where some task has not been active yet, or dev is not scored."""
    is_last: bool


def progress_of(run: Run) -> StepProgress:
    """Returns where the run is."""
    return StepProgress(
        stage=run.stage,
        epoch=run.total_epoch,
        step=run.total_step,
        num_steps=run.num_steps,
        learning_rate=max(float(group["lr"]) for group in run.optimizer.param_groups),
        num_rows=run.num_rows,
        num_tokens=run.num_tokens,
    )


def report_epoch(run: Run) -> EpochReport:
    """Returns the report of the epoch that has just been trained.

    If its stage scores it, the tasks that have been active so far are evaluated, and the best scores yet are noted.
    """
    if not run.is_scored_epoch:
        return report_of(run, None, {}, [])
    config, tasks = run.config, tasks_active_by(run.config, run.stage)
    predictions = [predict(run.scored_model, config, run.corpus, task, "dev", run.device) for task in tasks]
    metrics = {part.task: score(part, config) for part in predictions}
    values = {task: own[config.task(task).metric] for task, own in metrics.items()}
    scores = {task: score_of(task, value, config.data.tasks) for task, value in values.items()}
    total = from_rank_0(lambda: overall_score(scores, config.data.tasks))  # workers must agree when patience runs out
    note_stage_best(run, total)
    if tasks == config.active_tasks:
        scores["overall"] = total
    for name, value in scores.items():
        if name not in run.best or value > run.best[name][0]:
            run.best[name] = (value, run.total_epoch)
    train_predictions = [
        predict(
            run.scored_model, config, run.corpus, task, "train", run.device, scored_train_rows(config, run.corpus, task)
        )
        for task in tasks
        if config.tasks[task].scored_train_rows
    ]
    return report_of(run, scores.get("overall"), metrics, [*predictions, *train_predictions])


def report_of(
    run: Run, overall: float | None, metrics: dict[str, dict[str, float]], predictions: list[Predictions]
) -> EpochReport:
    """Returns the report of the epoch that has just been trained."""
    return EpochReport(
        epoch=run.total_epoch,
        stage=run.stage,
        step=run.total_step,
        seconds=run.seconds,
        points=tuple(points_of(run, overall, metrics, predictions)),
        predictions=tuple(predictions),
        overall=overall,
        is_last=run.is_last_epoch,
    )


def points_of(
    run: Run, overall: float | None, metrics: dict[str, dict[str, float]], predictions: list[Predictions]
) -> list[Point]:
    """Returns the epoch's points: running means, tokens and steps of training,
    metrics of dev and of the scored rows of train, overall score."""
    found: list[tuple[str, str, str, float]] = [
        (task, "train", name, total / rows) for task, sums in run.sums.items() for name, (total, rows) in sums.items()
    ]
    found += [(task, "train", metric, count) for (task, metric), count in trained_amounts(run).items()]
    if not run.is_skipped_epoch:
        found += [(task, "train", "loss_weight", weight) for task, weight in loss_weights(run).items()]
    found += [(task, "dev", name, value) for task, values in metrics.items() for name, value in values.items()]
    for part in predictions:
        if part.split == "train":
            values = score(part, run.config)
            found += [(part.task, "train", name, value) for name, value in values.items() if name != "loss"]
    if overall is not None:
        found.append(("overall", "dev", "overall", overall))
    step, epoch, seconds = run.total_step, run.total_epoch, run.seconds
    return [
        Point(step=step, epoch=epoch, task=task, split=split, metric=metric, value=value, seconds=seconds)
        for task, split, metric, value in found
    ]


def trained_amounts(run: Run) -> dict[tuple[str, str], float]:
    """Returns how many tokens of each task's texts the epoch trains on, special ones included and padding not, and how
    many of its steps have a batch of the task, by task and metric.

    All workers together; a token counts once per step, however many passes its penalties take. The epoch's steps follow
    from the configuration, so that the numbers are exact after a resume too, without a count during training.
    """
    if run.is_skipped_epoch:
        return {(task, metric): 0.0 for task in run.config.stages[run.stage].tasks for metric in (TOKENS, STEPS)}
    rows: dict[str, list[np.ndarray]] = {}
    for part in itertools.chain(*epoch_steps(run.config, run.stage, run.epoch, run.lengths, run.own_rows)):
        rows.setdefault(part.set, []).append(part.rows)
    counts: Counter[tuple[str, str]] = Counter()
    for name, own in rows.items():
        task = run.config.task_of(name)
        counts[task, TOKENS] += num_tokens(run, name, np.concatenate(own))
        counts[task, STEPS] += len(own)
    return {key: float(count) for key, count in counts.items()}


def loss_weights(run: Run) -> dict[str, float]:
    """Returns the factors of the tasks' losses at the epoch's end, unless they are fixed: learned with the model, of
    the tasks active so far; or set by each step, for the mean losses of the epoch."""
    config, weighting = run.config, run.config.weighting_entry
    if weighting.regularizer is not None:
        logs = run.model.log_variances
        tasks = tasks_active_by(config, run.stage)
        return {task: float(learned_weight(config, task, logs[task].detach())) for task in tasks}
    if weighting.function is None or not config.stages[run.stage].sums_tasks:
        return {}
    means = {task: torch.tensor(mean) for task, mean in mean_losses(run).items()}
    return {task: float(weight) for task, weight in weights_by_task(config, means, run.method_state).items()}
