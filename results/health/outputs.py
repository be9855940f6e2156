"""Checks of the predictions for dev: outputs that are all the same, and dev sets whose scores say little."""

import json
import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from mtlib.metrics.constant_prediction import collapsed_trials
from mtlib.metrics.rare_classes import describe_rare_classes
from mtlib.runtime.command_line import counted
from mtlib.runtime.storage import open_folder
from results.health.finding import Finding
from results.records.predictions import TrialEpoch, iter_predictions, labels_array, logits_array
from results.records.trials import TrialRecord
from results.stats.texts import named
from results.stats.trial_scores import group_by_configuration
from results.sweep import Sweep

COLLAPSED = ", while other trainings of the configuration learned"
WHERE_COLLAPSED = "let the rate rise over the first tenth of the steps (optimizer.warmup_fraction), or lower it"
WHERE_RATE_IS_HIGH = "lower the learning rate, at most to that of trials that learned"
WHERE_UNTRAINED = "train longer, raise the learning rate, or lower the weight of other losses and penalties"
FEWEST_DEV_ROWS = 20
"""With fewer, one row moves an accuracy by more than .05."""


def constant_predictions(sweep: Sweep) -> Iterator[Finding]:
    """Tasks for which finished trials predict hardly anything but one label, or a constant, at their best epoch.

    That is the epoch of the highest overall score. Other trials were stopped before they could learn more. Trials that
    collapsed, while others of their configuration learned, are named apart: they need no longer training.
    """
    constant, finished = sweep.scores.constant, {record.trial_id: record for record in sweep.finished}
    collapsed = {
        trial
        for group in group_by_configuration(sweep.finished)
        for trial in collapsed_trials({one.trial_id: constant.get(one.trial_id, {}) for one in group})
    }
    rates = {trial: learning_rate_of(record) for trial, record in finished.items()}
    for name, task in sweep.tasks.items():
        scored = {trial: constant[trial][name] for trial in finished if name in constant.get(trial, {})}
        stuck = [trial for trial, is_one in scored.items() if is_one]
        learned = [rates[trial] for trial, is_one in scored.items() if not is_one]
        for own, why in ((set(stuck) & collapsed, COLLAPSED), (set(stuck) - collapsed, "")):
            if own:
                is_high = bool(learned) and min(rates[trial] for trial in own) > max(learned)
                yield Finding(
                    level="problem",
                    what=f"{task.title}: nearly the whole dev set gets the same "
                    f"{'number' if task.is_regression else 'label'} in {len(own)} of "
                    f"{counted(len(scored), 'finished trial')}{why}: {named(sorted(own))}",
                    advice=WHERE_COLLAPSED if why else WHERE_RATE_IS_HIGH if is_high else WHERE_UNTRAINED,
                )


def learning_rate_of(record: TrialRecord) -> float:
    """Returns the encoder's peak rate; NaN where the record has none that this version reads."""
    return float(json.loads(record.config).get("optimizer", {}).get("learning_rate", math.nan))


def weak_dev_sets(sweep: Sweep) -> Iterator[Finding]:
    """Dev sets whose scores say little: of few rows, of few rows of a class, or with one label for all of them.

    Finished trials have scored the same rows, so one of them is read.
    """
    for name, task in sweep.tasks.items():
        for _, _, labels in dev_outputs(sweep, name, best_epochs(sweep, name)[:1]):
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


def best_epochs(sweep: Sweep, name: str) -> list[TrialEpoch]:
    """Returns each finished trial with a dev score of a task, at its best overall epoch."""
    epochs, scored = sweep.plot.best_epoch_scores[0], sweep.plot.dev_scores(name)
    return [(record.trial_id, epochs[record.trial_id]) for record in sweep.finished if record.trial_id in scored]


def dev_outputs(
    sweep: Sweep, name: str, wanted: Sequence[TrialEpoch]
) -> Iterator[tuple[str, npt.NDArray[np.float32], npt.NDArray[np.float32]]]:
    """Yields the logits for dev and its labels of each of these trials."""
    for (trial, _), table in iter_predictions(open_folder(sweep.path), name, "dev", wanted):
        yield trial, logits_array(table), labels_array(table)
