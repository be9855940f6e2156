"""Checks of sizes in training: penalties beside the loss, and the gradients of one task beside those of another."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from mtlib.config.trial import TrialConfig
from mtlib.runtime.command_line import counted, in_words
from results.health.finding import Finding
from results.stats.texts import named
from results.stats.trial_scores import STEP_COUNT
from results.sweep import Sweep

NUMERICALLY_NOTHING = 1e-5
"""A mean penalty below this, in nats or squared units of the label, is nothing beside losses near 1. That of SMART with
`smart.mode` paper and an `epsilon` of 1e-5 is about 2.6e-7."""
OVERWHELMING = 1.0
"""A penalty, times its weight, above so many times the loss overwhelms it."""
MAX_CLIPPED = 0.5
"""Share of a task's steps that may be clipped without a finding: above it the limit decides how long most steps are."""
MAX_RATIO = 10
"""The largest ratio of the tasks' mean gradient norms over the first steps (`mtlib.training.gradient_norms`) without a
finding. Above it, the task of the shorter gradients is starved: Adam's moments, which tasks share, are the other's."""


def vanishing_penalties(sweep: Sweep) -> Iterator[Finding]:
    """Yields each penalty and task where some trials' penalty is numerically nothing, in every epoch so far.

    Signed penalties are left out: their values may cancel in a mean.
    """
    configs = recorded_configs(sweep)
    for name, penalty in sweep.penalties.items():
        largest = train_points(sweep, penalty.terms[0]).groupby(["task", "trial"], as_index=False)["value"].max()
        small = largest[largest["value"] < NUMERICALLY_NOTHING]
        for task, found in small.groupby("task") if not penalty.is_signed else ():
            trials = dict(zip(found["trial"], found["value"], strict=True))
            yield Finding(
                level="warning",
                what=f"The {penalty.title} penalty on {sweep.tasks[str(task)].title} is numerically nothing, below "
                f"{NUMERICALLY_NOTHING:g} in every epoch, in {counted(len(trials), 'trial')}, which trained nearly as "
                f"if without it (largest mean penalty: {named([f'{trial} {trials[trial]:.1e}' for trial in trials])})",
                advice=how_to_strengthen(name, json.loads(configs[next(iter(trials))]).get(name, {})),
            )


def how_to_strengthen(name: str, settings: Mapping[str, Any]) -> str:
    """Returns what makes a penalty act that is numerically nothing."""
    if settings.get("mode") == "paper":
        return f"choose {name}.mode unit_norm or random, or a larger {name}.epsilon"
    return f"raise {name}.weight, or set it to 0 and save the time of the penalty"


def overwhelming_penalties(sweep: Sweep) -> Iterator[Finding]:
    """Yields each penalty and task where the weighted penalty exceeds the loss in some trials' last epoch.

    Signed penalties are left out: a constant may be added to them without any effect.
    """
    configs = recorded_configs(sweep)
    for name, penalty in sweep.penalties.items():
        ratios = penalty_ratios(sweep, name)
        for task, own in ratios[ratios > OVERWHELMING].groupby(level="task") if not penalty.is_signed else ():
            large = own.droplevel("task")
            most = str(large.idxmax())
            yield Finding(
                level="warning",
                what=f"The {penalty.title} penalty on {sweep.tasks[str(task)].title}, times its weight, is larger than "
                f"the loss in {counted(len(large), 'trial')}, most in {most} ({large[most]:.1f} times): "
                f"{named(list(large.index))}",
                advice=how_to_weaken(name, getattr(TrialConfig.from_json(configs[most]), name), large[most]),
            )


def how_to_weaken(name: str, settings: Any, ratio: float) -> str:
    """Returns what makes a penalty as large as the loss at most."""
    lower = f"set {name}.weight to at most {settings.weight / ratio:.2g}"
    is_sum = getattr(settings, "reduction", "mean") == "sum"
    return f"{lower}, or {name}.reduction to mean, which does not grow with the batch" if is_sum else lower


def penalty_ratios(sweep: Sweep, name: str) -> "pd.Series[float]":
    """Divides a weighted penalty by the loss, both averaged over the batches of the last epoch that has both.

    Curves hold the mean over the batches that carry the penalty, of which there is one in `every_batches`; with a sum
    for its reduction, it counts once for each row of a batch.

    Returns:
        Ratios by task and trial, without those whose loss is not above 0.
    """
    where = ["task", "trial", "epoch"]
    penalties, losses = train_points(sweep, sweep.penalties[name].terms[0]), train_points(sweep, "loss")
    both = penalties.merge(losses, on=where, suffixes=("", "_of_loss")).sort_values(where)
    last = both[both["value_of_loss"] > 0].drop_duplicates(["task", "trial"], keep="last").set_index(["task", "trial"])
    texts = recorded_configs(sweep)
    configs = {trial: TrialConfig.from_json(texts[trial]) for trial in last.index.unique("trial")}
    factors = []
    for task, trial in last.index:
        config = configs[trial]
        settings, batch_size = getattr(config, name), config.tasks[task].batch_size
        num_rows = batch_size if getattr(settings, "reduction", "mean") == "sum" else 1
        factors.append(settings.weight * num_rows / getattr(settings, "every_batches", 1))
    return last["value"] / last["value_of_loss"] * factors


def starved_tasks(sweep: Sweep) -> Iterator[Finding]:
    """Yields each task that is starved in some trials, with the figures of the trial where it is starved most."""
    norms = train_points(sweep, "gradient_norm").groupby(["trial", "task"])["value"].mean().unstack()
    starved = norms.max(axis=1) > MAX_RATIO * norms.min(axis=1)
    norms = norms[starved & (norms.min(axis=1) > 0)]
    for task, trials in norms.groupby(norms.idxmin(axis=1)) if len(norms) else ():
        name, ratios = str(task), trials.div(trials[task], axis=0)
        worst = str(ratios.max(axis=1).idxmax())
        longer = {other: ratio for other in norms.columns if (ratio := float(ratios[other][worst])) > MAX_RATIO}
        config, title = TrialConfig.from_json(recorded_configs(sweep)[worst]), sweep.tasks[name].title
        others = in_words(f"{sweep.tasks[other].title}'s" for other in longer)
        times = in_words(f"{ratio:.0f}" for ratio in longer.values())
        where = f"{len(trials)} trials, most in {worst}" if len(trials) > 1 else f"trial {worst}"
        changes = in_words(how_to_shorten(config, other, ratio) for other, ratio in longer.items())
        what = (
            f"{others} gradients are {times} times those of {title} in the first steps ({where}), which starves {title}"
        )
        yield Finding(level="problem", what=what, advice=f"set {changes}")


def mostly_clipped(sweep: Sweep) -> Iterator[Finding]:
    """Yields the trials in which more than half of some task's steps were clipped, with the share of each task in the
    trial where it is highest."""
    keys = ["trial", "task", "epoch"]
    shares, steps = (train_points(sweep, name).set_index(keys)["value"] for name in ("clipped_steps", STEP_COUNT))
    steps = steps.reindex(shares.index)
    by_task = ((shares * steps).groupby(level=[0, 1]).sum() / steps.groupby(level=[0, 1]).sum()).unstack()
    clipped = by_task[by_task.max(axis=1) > MAX_CLIPPED]
    if len(clipped):
        worst = str(clipped.max(axis=1).idxmax())
        own = clipped.loc[worst].dropna()
        each = in_words(f"{share:.0%} of {sweep.tasks[str(task)].title}" for task, share in own.items())
        what = f"Most steps of a task were clipped in {counted(len(clipped), 'trial')} (in {worst} {each})"
        advice = "raise optimizer.clip_norm where tasks differ: one that is clipped less counts more (docs/data.md)"
        yield Finding(level="note", what=what, advice=advice)


def how_to_shorten(config: TrialConfig, task: str, ratio: float) -> str:
    """Proposes what to set so that a task's gradients are no longer than the gradients of the task that they starve."""
    settings = config.tasks[task]
    if config.task(task).is_regression and settings.target_scale == "raw":
        return f"tasks.{task}.target_scale=unit"
    weight = f"tasks.{task}.loss_weight={settings.loss_weight / ratio:.2g}"
    return weight if config.loss_weighting == "fixed" else f"loss_weighting=fixed and {weight}"


def train_points(sweep: Sweep, metric: str) -> pd.DataFrame:
    """Returns the points of a metric in training."""
    return sweep.curves[(sweep.curves["split"] == "train") & (sweep.curves["metric"] == metric)]


def recorded_configs(sweep: Sweep) -> dict[str, str]:
    """By trial, the configuration as its record has it, which this version may not be able to read."""
    return {record.trial_id: record.config for record in sweep.records}
