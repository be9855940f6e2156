"""Checks of the curves of finished trials: rows that are memorized, and tasks that are forgotten."""

import math
from collections.abc import Iterator

import pandas as pd

from mtlib.runtime.command_line import counted
from mtlib.tasks import score_of
from results.health.finding import Finding
from results.sweep import Sweep

RISEN = 1.5
"""A dev loss that ends above its lowest by more than this factor, while the train loss falls, shows memorized rows. One
that wavers between epochs rises by a tenth or two."""
FORGOTTEN = 0.03
"""How much a task's part of the overall score, 0 to 1, falls below its best where the task is forgotten. The standard
error of an accuracy on 1,000 examples is half of that."""


def memorized_tasks(sweep: Sweep) -> Iterator[Finding]:
    """Tasks whose dev loss has risen far above its lowest, while their train loss fell.

    One task may be over-fitted long before the overall score shows it.
    """
    curves = curves_of_finished(sweep)
    losses = train_losses(curves)
    for name, task in sweep.tasks.items():
        risen, trials = {}, dev_values(curves, name, "loss")
        for trial, by_epoch in trials.items():
            lowest, last = min(by_epoch, key=lambda epoch: by_epoch[epoch]), max(by_epoch)
            before, after = (losses.get((trial, epoch), {}).get(name, math.nan) for epoch in (lowest, last))
            if after < before and by_epoch[last] > RISEN * by_epoch[lowest]:
                risen[trial] = by_epoch[lowest], by_epoch[last], lowest
        if risen:
            most = max(risen, key=lambda trial: risen[trial][1] / risen[trial][0])
            low, high, epoch = risen[most]
            yield Finding(
                level="note",
                what=f"{task.title}'s train rows are memorized in {len(risen)} of {counted(len(trials), 'trial')}: its "
                f"dev loss ends far above its lowest while its train loss falls, most in {most}, from {low:.3g} after "
                f"epoch {epoch} to {high:.3g}",
                advice=f"give {name} fewer of the steps (stages.N.order), or train with a lower rate, for fewer "
                "epochs, or with a penalty",
            )


def forgotten_tasks(sweep: Sweep) -> Iterator[Finding]:
    """Tasks whose dev score ends clearly below its best, after epochs that trained other tasks only."""
    curves = curves_of_finished(sweep)
    last_trained = {
        (task, trial): epoch for (trial, epoch), losses in sorted(train_losses(curves).items()) for task in losses
    }
    for name, task in sweep.tasks.items():
        ends: dict[str, tuple[float, float]] = {}
        for trial, by_epoch in dev_values(curves, name, task.metric).items():
            if max(by_epoch) > last_trained.get((name, trial), math.inf):
                scores = [score_of(name, value, sweep.tasks) for value in by_epoch.values()]
                ends[trial] = max(scores), scores[-1]
        lost = {trial: task.contribution(best) - task.contribution(end) for trial, (best, end) in ends.items()}
        forgotten = {trial: loss for trial, loss in lost.items() if loss > FORGOTTEN}
        if forgotten:
            most = max(forgotten, key=lambda trial: forgotten[trial])
            best, end = map(task.value_of, ends[most])
            yield Finding(
                level="warning",
                what=f"{task.title} is forgotten while other tasks are trained: its dev score ends clearly below its "
                f"best in {len(forgotten)} of {counted(len(ends), 'trial')} whose last epochs leave it out, most in "
                f"{most}, from {best:.3f} to {end:.3f}",
                advice=f"keep {name} among the tasks of the later stages, or train it last",
            )


def curves_of_finished(sweep: Sweep) -> pd.DataFrame:
    """Returns the curves of the finished trials."""
    return sweep.curves[sweep.curves["trial"].isin([record.trial_id for record in sweep.finished])]


def dev_values(curves: pd.DataFrame, task: str, metric: str) -> dict[str, dict[int, float]]:
    """Returns a task's values of a metric on dev by trial, each by epoch in ascending order."""
    rows = curves[(curves["task"] == task) & (curves["split"] == "dev") & (curves["metric"] == metric)]
    return {
        str(trial): dict(zip(own["epoch"].tolist(), own["value"].tolist(), strict=True))
        for trial, own in rows.sort_values("epoch").groupby("trial")
    }


def train_losses(curves: pd.DataFrame) -> dict[tuple[str, int], dict[str, float]]:
    """Returns the mean train losses by trial and epoch, each by task."""
    rows = curves[(curves["split"] == "train") & (curves["metric"] == "loss")]
    losses: dict[tuple[str, int], dict[str, float]] = {}
    for trial, epoch, task, value in rows[["trial", "epoch", "task", "value"]].itertuples(index=False):
        losses.setdefault((trial, epoch), {})[task] = value
    return losses
