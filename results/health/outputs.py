"""Checks of the predictions for dev: outputs that are all the same, and dev sets whose scores say little."""

import json
import math
from collections.abc import Iterator

import numpy as np

from mtlib.metrics.rare_classes import describe_rare_classes
from mtlib.runtime.command_line import counted
from mtlib.runtime.storage import open_folder
from results.health.finding import Finding
from results.records.predictions import iter_predictions, labels_array
from results.stats.texts import named
from results.stats.trial_scores import group_by_configuration
from results.sweep import Sweep

COLLAPSED = ", while other trainings of the configuration learned"
WHERE_COLLAPSED = "let the rate rise over the first tenth of the steps (optimizer.warmup_fraction), or lower it"
WHERE_RATE_IS_HIGH = "lower the learning rate, at most to that of trials that learned"
WHERE_UNTRAINED = "train longer, try other learning rates, or lower the weight of other losses and penalties"
FEWEST_DEV_ROWS = 20
"""With fewer, one row moves an accuracy by more than .05."""


def constant_predictions(sweep: Sweep) -> Iterator[Finding]:
    """Tasks for which finished trials predict hardly anything but one label, or a constant, at their best epoch.

    That is the epoch of the highest overall score. Other trials were stopped before they could learn more. Trials that
    collapsed, while others of their configuration learned, are named apart: they need no longer training.
    """
    constant, collapsed = sweep.scores.constant, dict[str, set[str]]()
    for group in group_by_configuration(sweep.finished):
        collapsed |= sweep.scores.collapsed(one.trial_id for one in group)
    # NaN where a record has no rate that this version reads: then no rate is called high.
    settings = {own.trial_id: json.loads(own.config).get("optimizer", {}) for own in sweep.finished}
    rates = {trial: float(own.get("learning_rate", math.nan)) for trial, own in settings.items()}
    for name, task in sweep.tasks.items():
        scored = {trial: constant[trial][name] for trial in rates if name in constant.get(trial, {})}
        highest = max((rates[trial] for trial, is_one in scored.items() if not is_one), default=math.inf)
        found: dict[str, list[str]] = {}
        for trial in (trial for trial, is_one in scored.items() if is_one):
            is_collapsed, is_high = name in collapsed.get(trial, ()), rates[trial] > highest
            advice = WHERE_COLLAPSED if is_collapsed else WHERE_RATE_IS_HIGH if is_high else WHERE_UNTRAINED
            found.setdefault(advice, []).append(trial)
        what = "number" if task.is_regression else "label"
        for advice, own in found.items():
            share = f"{len(own)} of {counted(len(scored), 'finished trial')}"
            others = COLLAPSED if advice is WHERE_COLLAPSED else ""
            text = f"{task.title}: nearly the whole dev set gets the same {what} in {share}{others}: {named(own)}"
            yield Finding(level="problem", what=text, advice=advice)


def weak_dev_sets(sweep: Sweep) -> Iterator[Finding]:
    """Dev sets whose scores say little: of few rows, of few rows of a class, or with one label for all of them.

    Finished trials have scored the same rows, so one of them is read.
    """
    for name, task in sweep.tasks.items():
        epochs, scored = sweep.plot.best_epoch_scores[0], sweep.plot.dev_scores(name)
        wanted = [(own.trial_id, epochs[own.trial_id]) for own in sweep.finished if own.trial_id in scored][:1]
        for _, table in iter_predictions(open_folder(sweep.path), name, "dev", wanted):
            labels = labels_array(table)
            if len(labels) < FEWEST_DEV_ROWS:
                what = f"{task.title} has {counted(len(labels), 'dev row')}: its score is hardly more than chance"
                yield Finding(level="warning", what=what, advice=f"give {name} more dev rows, or a low weight")
            elif not task.is_regression:
                few = describe_rare_classes(task.class_names, task.class_sizes(labels), task.metric)
                if few:
                    yield Finding(level="note", what=f"{task.title}, {few}", advice=f"give {name} more of them")
            if len(labels) > 1 and len(np.unique(labels, axis=0)) == 1:
                what = f"All dev rows of {task.title} have the same label: its score shows nothing learned"
                yield Finding(level="warning", what=what, advice=f"give {name} dev rows with other labels too")
