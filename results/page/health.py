"""What a reader should distrust in a sweep, or change before the next one, with what to do about it."""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from mtlib.runtime.command_line import counted
from mtlib.runtime.console import COMMAND_INDENT
from mtlib.runtime.errors import first_line, reason_of
from mtlib.runtime.storage import open_folder
from mtlib.tasks import Task, score_of
from results.analysis.comparison.bootstrap import CONFIDENCE
from results.analysis.comparison.trial_scores import best_overall_epochs
from results.analysis.effects.answer import MORE_REPLICATES, searched_text
from results.analysis.effects.sweep_effects import ColumnEffects, SweepEffects
from results.analysis.ranking.equal_trainings import equal_trainings
from results.analysis.ranking.gradient_notes import gradient_notes
from results.analysis.ranking.next_commands import report_command, resume_command
from results.analysis.ranking.note import Note, capitalized, named
from results.analysis.ranking.penalty_notes import overwhelming_penalties, vanishing_penalties
from results.analysis.ranking.render import value_text, why_unknown
from results.analysis.sweep import Sweep
from results.ensembles.outputs import outputs_of, predictions_of
from results.page.content import Finding, Level
from results.records.predictions import TrialEpoch, iter_predictions, logits_array
from results.records.trials import COMPLETED, OVERALL, UNFINISHED, TrialRecord

NOT_FINITE = re.compile(
    r"(?<![\w/\\.-])(?:nan|[-+]?inf|infinity)(?![\w/\\-])|\b(?:not|non)[- ]?finite\b|\bis infinite\b|\bdiverged\b",
    re.IGNORECASE,
)
"""Words in the reasons of trials whose loss was no longer a number; not parts of other words, nor of paths."""
SAME_LABEL_SHARE = 0.98
"""A trial that predicts one label for more than this share of dev has learned little else, unless as many examples have
that label."""
SMALLEST_SPREAD = 0.01
"""Standard deviation of a regression's predictions, over the range of the labels, below which they are a constant. That
of labels that are spread evenly is 0.29."""
UNEVEN = 1.05
"""Trained steps of the trials that differ by more than this factor are uneven."""
MOST_TRIALS = 0.5
"""More than this share of the trials is most of them."""
FEWEST_EPOCHS = 4
"""Scored epochs from which on a best epoch in the first half shows something: of two or three, any may be the best."""
NUM_REPLICATED = 8
"""Configurations of a search that are proposed to be trained again."""
RISEN = 1.5
"""A dev loss that ends above its lowest by more than this factor, while the train loss falls, shows memorized rows. One
that wavers between epochs rises by a tenth or two."""
FEWEST_DEV_ROWS = 20
"""With fewer, one row moves an accuracy by more than .05."""
FORGOTTEN = 0.03
"""How much a task's part of the overall score, 0 to 1, falls below its best where the task is forgotten. The standard
error of an accuracy on 1,000 examples is half of that."""


def find_problems(sweep: Sweep) -> list[Finding]:
    """All findings about a sweep, ended or running; a check that cannot be made is one of them.

    Args:
        sweep: with its files: predictions are read.

    Returns:
        The findings, the worst first; empty if nothing is suspicious.
    """
    found = [finding for name, check in CHECKS.items() for finding in findings_or_reason(name, check, sweep)]
    order = ("problem", "warning", "note")
    return sorted(found, key=lambda finding: order.index(finding.level))


def findings_or_reason(name: str, check: "Check", sweep: Sweep) -> list[Finding]:
    """The findings of one check, and why it could not be completed."""
    found: list[Finding] = []
    try:
        found += check(sweep)
    except ValueError as error:
        what = f"Not checked: {name}, as {reason_of(error)}."
        found.append(Finding(level="note", what=what, advice=f"Fix the cause, then {page_again(sweep)}"))
    return found


def page_again(sweep: Sweep) -> str:
    """How to write the page again, the command on a line of its own."""
    return f"write the page again:\n{COMMAND_INDENT}{report_command(sweep.path)}"


def resume(sweep: Sweep, flags: str = "") -> str:
    """The command that resumes the sweep with these flags, on a line of its own."""
    return f"\n{COMMAND_INDENT}{' '.join(filter(None, (resume_command(sweep.path), flags)))}"


def once_stopped(sweep: Sweep, advice: str) -> str:
    """Advice to resume the sweep; where it may be running, for later."""
    is_running = sweep.stopped_at is None and any(record.status in UNFINISHED for record in sweep.records)
    return f"Once the sweep has stopped: {advice[0].lower()}{advice[1:]}" if is_running else advice


def failed_trials(sweep: Sweep) -> Iterator[Finding]:
    """Failed trials by their reason."""
    reasons: dict[str, list[TrialRecord]] = defaultdict(list)
    for record in sweep.records:
        if record.status == "failed":
            reasons[first_line(ValueError(record.error or "no reason recorded"))].append(record)
    for reason, own in reasons.items():
        texts = {record.trial_id: searched_text(record) for record in own}
        trials = named([trial + (f" ({text})" if text else "") for trial, text in texts.items()])
        advice = (
            "The loss was no longer a number: lower the learning rate or the weight of the penalty of these "
            "configurations, or leave them out."
            if NOT_FINITE.search(reason)
            else once_stopped(sweep, f"Fix the cause, then run them again:{resume(sweep, '--retry-failed')}")
        )
        what = f"{counted(len(own), 'trial')} failed: {reason.rstrip('.')}. Failed: {trials}."
        yield Finding(level="problem", what=what, advice=advice)


def unfinished(sweep: Sweep) -> Iterator[Finding]:
    """Trials that have not ended."""
    counts = Counter(record.status for record in sweep.records if record.status in UNFINISHED)
    if counts:
        text = ", ".join(f"{count} {status}" for status, count in counts.items())
        what = f"Not all trials have ended ({text}); what is shown here will change."
        later = f"When more have ended, {page_again(sweep)}"
        advice = later if sweep.stopped_at is None else f"Continue with:{resume(sweep)}"
        yield Finding(level="warning", what=what, advice=advice)


def constant_predictions(sweep: Sweep) -> Iterator[Finding]:
    """Tasks for which finished trials predict hardly anything but one label, or a constant, at their best epoch.

    That is the epoch of the highest overall score. Other trials were stopped before they could learn more.
    """
    for name, task in sweep.tasks.items():
        found = iter_predictions(open_folder(sweep.path), name, "dev", best_epochs(sweep, name))
        is_stuck = {
            trial: is_constant(task, logits_array(table), table["label"].to_numpy()) for (trial, _), table in found
        }
        stuck = [trial for trial in is_stuck if is_stuck[trial]]
        if stuck:
            shown = "number" if task.kind == "regression" else "label"
            what = (
                f"{task.title}: nearly the whole dev set gets the same {shown} in {len(stuck)} of "
                f"{counted(len(is_stuck), 'finished trial')}: {named(stuck)}."
            )
            advice = "Train longer, raise the learning rate, or lower the weight of other losses and penalties."
            yield Finding(level="problem", what=what, advice=advice)


def best_epochs(sweep: Sweep, name: str) -> list[TrialEpoch]:
    """Each finished trial with a dev score of a task, at its best overall epoch."""
    epochs, scored = sweep.plot.best_epoch_scores[0], sweep.plot.dev_scores(name)
    return [(record.trial_id, epochs[record.trial_id]) for record in finished(sweep) if record.trial_id in scored]


def weak_dev_sets(sweep: Sweep) -> Iterator[Finding]:
    """Dev sets whose scores say little: with few rows, one label for all of them, or rows with equal ids.

    Finished trials have scored the same rows, so one of them is read.
    """
    for name, task in sweep.tasks.items():
        for _, table in iter_predictions(open_folder(sweep.path), name, "dev", best_epochs(sweep, name)[:1]):
            labels, num_ids = table["label"].to_numpy(), len(set(table["id"].to_pylist()))
            if len(labels) < FEWEST_DEV_ROWS:
                what = f"{task.title} has {counted(len(labels), 'dev row')}: its score is hardly more than chance."
                yield Finding(level="warning", what=what, advice=f"Give {name} more dev rows, or a low weight.")
            if len(labels) > 1 and len(np.unique(labels)) == 1:
                what = f"All dev rows of {task.title} have one label, {labels[0]:g}: its score shows nothing learned."
                yield Finding(level="warning", what=what, advice=f"Give {name} dev rows with other labels too.")
            if num_ids < len(labels):
                what = f"{counted(len(labels) - num_ids, 'dev row')} of {task.title} repeat the id of another row."
                advice = "Rows with one id count as one group: make the ids unique if they are different examples."
                yield Finding(level="note", what=what, advice=advice)


def is_constant(task: Task, logits: npt.ArrayLike, labels: npt.ArrayLike) -> bool:
    """Whether predictions for dev are one label for nearly all examples, or one number.

    Not of metrics that read the output of a binary task: a threshold has no part in them.
    """
    predictions = predictions_of(task, outputs_of(task, logits))
    if task.kind == "regression":
        low, high = task.label_range
        return bool(predictions.std() < SMALLEST_SPREAD * (high - low))
    if task.metric_entry.reads == "output":
        return False
    values, counts = np.unique(predictions, return_counts=True)
    share, most = counts.max() / len(predictions), values[counts.argmax()]
    return bool(share > max(SAME_LABEL_SHARE, np.mean(np.asarray(labels) == most)))


def starved_tasks(sweep: Sweep) -> Iterator[Finding]:
    """Tasks whose gradients are overwhelmed by those of others; a note where no finished trial shows it."""
    curves = curves_of_finished(sweep)
    found = list(findings_of(gradient_notes(curves, sweep.records), "problem"))
    yield from found or findings_of(gradient_notes(sweep.curves, sweep.records), "note")


def weak_penalties(sweep: Sweep) -> Iterator[Finding]:
    """Penalties that are numerically nothing."""
    yield from findings_of(vanishing_penalties(sweep.curves, sweep.records, sweep.tasks), "warning")


def strong_penalties(sweep: Sweep) -> Iterator[Finding]:
    """Penalties that overwhelm the loss."""
    yield from findings_of(overwhelming_penalties(sweep.curves, sweep.records, sweep.tasks), "warning")


def equally_trained(sweep: Sweep) -> Iterator[Finding]:
    """Configurations that trained the same."""
    yield from findings_of(equal_trainings(sweep.curves, sweep.records), "warning")


def findings_of(notes: Iterable[Note], level: Level) -> Iterator[Finding]:
    """Notes as findings."""
    for note in notes:
        yield Finding(level=level, what=f"{note.what}.", advice=f"{capitalized(note.advice)}.")


def uncertain_effects(sweep: Sweep) -> Iterator[Finding]:
    """Best values at the edge of what was tried, and too few replicates; or that there are no effects yet."""
    effects = sweep.estimated_effects
    for column in effects.compared:
        yield from edges(effects, column)
    if effects.compared:
        yield from few_replicates(sweep, effects)
    elif effects.keys:
        what = (
            f"Effects could not be estimated: {effects.why_none}. "
            "Whether the best values are at the edge, and training was repeated often enough, was not checked."
        )
        has_more = any(record.status in UNFINISHED for record in sweep.records)
        finish = once_stopped(sweep, f"Finish the trials:{resume(sweep)}")
        advice = finish if has_more else "Train more configurations with the same tasks."
        yield Finding(level="note", what=what, advice=advice)


def edges(effects: SweepEffects, column: ColumnEffects) -> Iterator[Finding]:
    """Keys whose best value for one score is the first or last that was tried; 0, where most settings end, is none."""
    where = "" if column.task == effects.metric else f" for {column.title}"
    for key in effects.keys:
        curve = column.curves.get(key.name)
        if curve is not None and curve.edge and curve.optimum != 0 and curve.p_value < 1 - CONFIDENCE:
            what = f"The best {key.name}{where} lies at the {curve.edge} end of its range, {curve.optimum:.3g}."
            yield Finding(level="warning", what=what, advice="Extend the range of the next sweep beyond it.")
        values = column.values.get(key.name, ())
        numbers = [
            value for value in values if isinstance(value.value, int | float) and not isinstance(value.value, bool)
        ]
        if len(numbers) < 3 or len(numbers) < len(values):
            continue
        best = max(numbers, key=lambda value: value.mean)
        ends = {min(value.value for value in numbers): "smallest", max(value.value for value in numbers): "largest"}
        if best.value in ends and best.value != 0:
            end = f"the {ends[best.value]} that was tried{where}"
            what = f"The best {key.name}{where}, {value_text(best.value)}, is {end}."
            yield Finding(level="note", what=what, advice="Try values beyond it before you rely on it.")


def few_replicates(sweep: Sweep, effects: SweepEffects) -> Iterator[Finding]:
    """Too few trainings of each configuration to tell differences from chance."""
    fewest = min(column.num_replicates[0] for column in effects.compared)
    most = max(column.num_replicates[1] for column in effects.compared)
    if effects.search != "grid":
        yield from best_trained_once(sweep)
    elif not all(column.is_known for column in effects.compared):
        what = f"How sure the differences are is not known: {why_unknown(most)}."
        yield Finding(level="warning", what=what, advice=once_stopped(sweep, more_trainings(sweep, most)))
    elif fewest < most:
        what = f"Configurations have {fewest} to {most} replicates: some count with less certainty."
        advice = once_stopped(sweep, f"Complete them:{resume(sweep, '--retry-failed')}")
        yield Finding(level="note", what=what, advice=advice)


def best_trained_once(sweep: Sweep) -> Iterator[Finding]:
    """A search of which no configuration was trained twice: which one is the best may be chance."""
    trained = Counter(record.number for record in finished(sweep))
    if len(trained) > 1 and max(trained.values()) == 1:
        flags = f"--replicates {MORE_REPLICATES} --replicate-best {min(NUM_REPLICATED, len(trained))}"
        what = "No configuration was trained twice, so the best one may owe its score to chance in training."
        advice = once_stopped(sweep, f"Train the best ones again:{resume(sweep, flags)}")
        yield Finding(level="note", what=what, advice=advice)


def more_trainings(sweep: Sweep, most: int) -> str:
    """How a grid gets more finished replicates than these: those that it has are finished first, if any are not."""
    num_trials = Counter(record.number for record in sweep.records)
    left = {record.status for record in sweep.records if num_trials[record.number] > 1} - set(COMPLETED)
    if left & set(UNFINISHED):
        return f"Finish the trials:{resume(sweep)}"
    if "failed" in left:
        return f"Run the failed trials again:{resume(sweep, '--retry-failed')}"
    return f"Train each configuration more often:{resume(sweep, f'--replicates {max(MORE_REPLICATES, most + 1)}')}"


def uneven_budgets(sweep: Sweep) -> Iterator[Finding]:
    """Finished trials that were trained for different numbers of steps."""
    steps = {record.trial_id: record.steps for record in finished(sweep) if record.steps > 0}
    if steps and max(steps.values()) > UNEVEN * min(steps.values()):
        fewest, most = (choose(steps, key=lambda trial: steps[trial]) for choose in (min, max))
        what = (
            f"Trials were trained for different numbers of steps: {fewest} {steps[fewest]:,}, {most} {steps[most]:,}."
        )
        advice = (
            "Where that is not the question, fix stages.N.steps_per_epoch, so that values are compared at equal cost."
        )
        yield Finding(level="note", what=what, advice=advice)


def short_training(sweep: Sweep) -> Iterator[Finding]:
    """Most trials have their best epoch at the end."""
    long = [record for record in finished(sweep) if OVERALL in record.best_epoch and record.epochs > 1]
    late = [record for record in long if record.best_epoch[OVERALL] == record.epochs]
    if len(late) > MOST_TRIALS * len(long):
        what = f"In {len(late)} of {counted(len(long), 'trial')} the last epoch is the best: they may learn more."
        yield Finding(level="note", what=what, advice=longer_advice(long))


def longer_advice(records: Sequence[TrialRecord]) -> str:
    """How a next sweep trains its last stage longer than the longest of these trials."""
    stages = json.loads(max(records, key=lambda record: record.epochs).config).get("stages", ())
    example = f", e.g. --set stages.{len(stages) - 1}.epochs={2 * stages[-1]['epochs']}" if stages else ""
    return f"Train longer in a next sweep{example}."


def overfitting(sweep: Sweep) -> Iterator[Finding]:
    """Most trials have their best epoch in the first half, although their train loss is lower at the end."""
    curves = curves_of_finished(sweep)
    points = curves[curves["task"] == OVERALL].sort_values("epoch")
    epochs = {str(trial): own.tolist() for trial, own in points.groupby("trial")["epoch"]}
    long = {trial: own for trial, own in epochs.items() if len(own) >= FEWEST_EPOCHS}
    best, losses = best_overall_epochs(curves, list(long)), train_losses(curves)
    early = [
        trial
        for trial, own in long.items()
        if own.index(best[trial]) + 1 <= len(own) / 2 and falls(losses, trial, best[trial], own[-1])
    ]
    if len(early) > MOST_TRIALS * len(long):
        what = (
            f"In {len(early)} of {counted(len(long), 'trial')} the best epoch is in the first half, while the train "
            f"loss falls on: later epochs fit the train rows more closely, but score no better on dev: {named(early)}."
        )
        advice = "Train for fewer epochs, or with more dropout, weight decay or a penalty."
        yield Finding(level="note", what=what, advice=advice)


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
            what = (
                f"{task.title}'s train rows are memorized in {len(risen)} of {counted(len(trials), 'trial')}: its dev "
                f"loss ends far above its lowest while its train loss falls, most in {most}, from {low:.3g} after "
                f"epoch {epoch} to {high:.3g}."
            )
            advice = (
                f"Give {name} fewer of the steps (stages.N.order), or train with a lower rate, for fewer epochs, or "
                "with a penalty."
            )
            yield Finding(level="note", what=what, advice=advice)


def dev_values(curves: pd.DataFrame, task: str, metric: str) -> dict[str, dict[int, float]]:
    """A task's values of a metric on dev by trial, each by epoch in ascending order."""
    rows = curves[(curves["task"] == task) & (curves["split"] == "dev") & (curves["metric"] == metric)]
    return {
        str(trial): dict(zip(own["epoch"].tolist(), own["value"].tolist(), strict=True))
        for trial, own in rows.sort_values("epoch").groupby("trial")
    }


def train_losses(curves: pd.DataFrame) -> dict[tuple[str, int], dict[str, float]]:
    """The mean train losses by trial and epoch, each by task."""
    rows = curves[(curves["split"] == "train") & (curves["metric"] == "loss")]
    losses: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    for trial, epoch, task, value in rows[["trial", "epoch", "task", "value"]].itertuples(index=False):
        losses[trial, epoch][task] = value
    return losses


def falls(losses: Mapping[tuple[str, int], Mapping[str, float]], trial: str, first: int, last: int) -> bool:
    """Whether the sum of the losses of the tasks that were trained in both epochs is lower in the last one."""
    before, after = losses.get((trial, first), {}), losses.get((trial, last), {})
    return sum(after[task] - before[task] for task in before.keys() & after.keys()) < 0


def finished(sweep: Sweep) -> list[TrialRecord]:
    """The finished trials: not those that were pruned, have failed or still train."""
    return [record for record in sweep.records if record.status in COMPLETED]


def curves_of_finished(sweep: Sweep) -> pd.DataFrame:
    """The curves of the finished trials."""
    return sweep.curves[sweep.curves["trial"].isin([record.trial_id for record in finished(sweep)])]


def forgetting(sweep: Sweep) -> Iterator[Finding]:
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
            what = (
                f"{task.title} is forgotten while other tasks are trained: its dev score ends clearly below its best "
                f"in {len(forgotten)} of {counted(len(ends), 'trial')} whose last epochs leave it out, most in {most}, "
                f"from {best:.3f} to {end:.3f}."
            )
            advice = f"Keep {name} among the tasks of the later stages, or train it last."
            yield Finding(level="warning", what=what, advice=advice)


Check = Callable[[Sweep], Iterator[Finding]]

CHECKS: Mapping[str, Check] = {
    "failed trials": failed_trials,
    "trials that have not ended": unfinished,
    "predictions that are all the same": constant_predictions,
    "dev sets that show little": weak_dev_sets,
    "tasks that others starve": starved_tasks,
    "penalties that are numerically nothing": weak_penalties,
    "penalties that overwhelm the loss": strong_penalties,
    "configurations that trained the same": equally_trained,
    "best values at the edge, and the number of replicates": uncertain_effects,
    "uneven budgets": uneven_budgets,
    "training that is too short": short_training,
    "over-fitting": overfitting,
    "tasks whose train rows are memorized": memorized_tasks,
    "forgetting": forgetting,
}
"""By what they look for."""
