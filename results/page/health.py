"""What a reader should distrust in a sweep, or change before the next one, with what to do about it."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from mtlib.config.trial import TrialConfig
from mtlib.runtime.errors import first_line
from mtlib.tasks import Task
from results.analysis.effects.answer import searched_text
from results.analysis.effects.sweep_effects import SweepEffects
from results.analysis.ranking.gradient_notes import gradient_notes
from results.analysis.ranking.render import penalty_notes, value_text
from results.analysis.sweep import Sweep
from results.page.content import Finding
from results.records.trials import COMPLETED, OVERALL, UNFINISHED, TrialRecord

MAX_TRIALS_NAMED = 5
"""Trials that a finding names."""
NOT_FINITE = ("nan", "not finite", "infinite", "diverged")
"""Words in the reasons of trials whose loss was no longer a number."""
MAJORITY_MARGIN = 0.002
"""A score this near to the share of the most frequent label shows that nothing else is predicted."""
OVERWHELMING = 1.0
"""A penalty, times its weight, above so many times the loss overwhelms it."""
UNEVEN = 1.05
"""Trained steps of the trials that differ by more than this factor are uneven."""
LAST_EPOCH_SHARE = 0.5
"""More than this share of trials with their best epoch at the end: training was too short."""


def find_problems(sweep: Sweep, effects: SweepEffects | None) -> list[Finding]:
    """All findings about a sweep, the worst first.

    Args:
        sweep: ended or running.
        effects: of its keys; None where these cannot be estimated.
    """
    found = [
        *failed_trials(sweep.records),
        *unfinished(sweep),
        *majority_class(sweep),
        *starved(sweep),
        *penalties(sweep),
        *edges(effects),
        *few_replicates(effects),
        *uneven_budgets(sweep.records),
        *short_training(sweep),
    ]
    order = ("problem", "warning", "note")
    return sorted(found, key=lambda finding: order.index(finding.level))


def named(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(names) - MAX_TRIALS_NAMED} more" if len(names) > MAX_TRIALS_NAMED else ""
    return ", ".join(names[:MAX_TRIALS_NAMED]) + more


def failed_trials(records: Sequence[TrialRecord]) -> Iterator[Finding]:
    """Failed trials by their reason."""
    reasons: dict[str, list[TrialRecord]] = defaultdict(list)
    for record in records:
        if record.status == "failed":
            reasons[first_line(ValueError(record.error or "no reason recorded"))].append(record)
    for reason, own in reasons.items():
        trials = named([f"{record.trial_id} ({searched_text(record)})" for record in own])
        is_nan = any(word in reason.lower() for word in NOT_FINITE)
        advice = (
            "The loss was no longer a number: lower the learning rate or the weight of the penalty of these "
            "configurations, or leave them out."
            if is_nan
            else "Mend the cause, then run them again: --resume NAME --retry-failed."
        )
        yield Finding(level="problem", what=f"{len(own)} trials failed: {reason} {trials}.", advice=advice)


def unfinished(sweep: Sweep) -> Iterator[Finding]:
    """Trials that have not ended."""
    counts = Counter(record.status for record in sweep.records if record.status in UNFINISHED)
    if counts:
        text = ", ".join(f"{count} {status}" for status, count in counts.items())
        what = f"Not all trials have ended ({text}); what is shown here will change."
        yield Finding(level="warning", what=what, advice=f"Continue with --resume {sweep.info.get('name', 'NAME')}.")


def majority_class(sweep: Sweep) -> Iterator[Finding]:
    """Tasks on which trials predict the most frequent label only, or regressions that predict a constant."""
    scores = sweep.scores
    for name, task in sweep.tasks.items():
        own = scores.values.get((name, "dev"), {})
        if not own:
            continue
        floor = majority_score(sweep, name, task, next(iter(own)))
        stuck = [trial for trial, score in own.items() if floor is not None and abs(score - floor) < MAJORITY_MARGIN]
        if stuck and floor is not None:
            shown = "a constant" if task.kind == "regression" else "the most frequent label"
            what = f"{task.title}: {len(stuck)} of {len(own)} trials predict little but {shown}: {named(stuck)}."
            advice = "Train longer, raise the learning rate, or lower the weight of other losses and penalties."
            yield Finding(level="problem", what=what, advice=advice)


def majority_score(sweep: Sweep, name: str, task: Task, trial: str) -> float | None:
    """The score of predicting the most frequent label, for accuracy; 0 for correlations; None for other metrics."""
    if task.metric in ("pearson", "spearman", "matthews"):
        return 0.0
    if task.metric != "accuracy":
        return None
    labels = sweep.predictions(name, "dev", trial=trial, epoch=sweep.scores.epochs[trial])["label"]
    return float(np.bincount(labels.astype(int)).max() / len(labels))


def starved(sweep: Sweep) -> Iterator[Finding]:
    """Tasks whose gradients are overwhelmed by those of others."""
    for note in gradient_notes(sweep.curves, sweep.records):
        what, _, advice = note.rpartition(": ")
        yield Finding(level="problem", what=f"{what}.", advice=f"{advice[0].upper()}{advice[1:]}.")


def penalties(sweep: Sweep) -> Iterator[Finding]:
    """Penalties that are numerically nothing, or that overwhelm the loss."""
    for note in penalty_notes(sweep.curves, sweep.tasks):
        advice = "Choose smart.mode unit_norm or random, or a larger smart.epsilon, for a penalty that acts."
        yield Finding(level="warning", what=f"{note}.", advice=advice)
    ratios = penalty_ratios(sweep)
    for name, own in ratios.items():
        large = {trial: ratio for trial, ratio in own.items() if ratio > OVERWHELMING}
        if large:
            most = max(large, key=lambda trial: large[trial])
            what = (
                f"{sweep.tasks[name].title}: SMART's penalty, times its weight, is larger than the loss in "
                f"{len(large)} trials, most in {most} ({large[most]:.1f} times): {named(list(large))}."
            )
            yield Finding(level="warning", what=what, advice="Lower smart.weight, or take the mean instead of the sum.")


def penalty_ratios(sweep: Sweep) -> dict[str, dict[str, float]]:
    """SMART's weighted penalty divided by the loss, in the last epoch of each task and trial that has one."""
    points = sweep.curves[(sweep.curves["split"] == "train") & sweep.curves["metric"].isin(["loss", "smart_penalty"])]
    wide = points.pivot_table(index=["task", "trial", "epoch"], columns="metric", values="value")
    if not {"loss", "smart_penalty"} <= set(wide.columns):
        return {}
    last = wide.dropna().groupby(["task", "trial"]).last()
    configs = {record.trial_id: TrialConfig.from_json(record.config) for record in sweep.records}
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for task, trial, loss, penalty in last.reset_index()[["task", "trial", "loss", "smart_penalty"]].itertuples(
        index=False
    ):
        if loss > 0:
            config = configs[trial]
            rows = config.tasks[task].batch_size if config.smart.reduction == "sum" else 1
            found[task][trial] = float(config.smart.weight * rows * penalty / loss)
    return found


def edges(effects: SweepEffects | None) -> Iterator[Finding]:
    """Keys whose best value is the first or last that was tried."""
    column = None if effects is None else effects.columns.get(effects.metric)
    if effects is None or column is None:
        return
    for key in effects.keys:
        if key.name in column.curves and column.curves[key.name].edge and column.curves[key.name].p_value < 0.05:
            curve = column.curves[key.name]
            what = f"The best {key.name} lies at the {curve.edge} end of its range, {curve.optimum:.3g}."
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
            what = f"The best {key.name}, {value_text(best.value)}, is the {ends[best.value]} that was tried."
            yield Finding(level="note", what=what, advice="Try values beyond it before you rely on it.")


def few_replicates(effects: SweepEffects | None) -> Iterator[Finding]:
    """Too few trainings of each configuration to tell differences from chance."""
    column = None if effects is None else effects.columns.get(effects.metric)
    if effects is None or column is None or effects.search != "grid":
        return
    if not column.is_known:
        what = "No configuration was trained twice, so how much training again moves a score is not known."
        yield Finding(level="warning", what=what, advice=f"Run --resume {effects.name} --replicates 3.")
    elif column.num_replicates[0] < column.num_replicates[1]:
        fewest, most = column.num_replicates
        what = f"Configurations have {fewest} to {most} replicates: some count with less certainty."
        yield Finding(level="note", what=what, advice=f"Complete them: --resume {effects.name} --retry-failed.")


def uneven_budgets(records: Sequence[TrialRecord]) -> Iterator[Finding]:
    """Finished trials that were trained for different numbers of steps."""
    steps = {record.trial_id: record.steps for record in records if record.status in COMPLETED and record.steps > 0}
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
    """Most trials have their best epoch at the end, or their best epoch long before."""
    ended = [r for r in sweep.records if r.status in COMPLETED and OVERALL in r.best_epoch and r.epochs > 1]
    late = [record for record in ended if record.best_epoch[OVERALL] == record.epochs]
    if ended and len(late) > LAST_EPOCH_SHARE * len(ended):
        what = f"{len(late)} of {len(ended)} trials score best in their last epoch: they had not finished learning."
        yield Finding(level="note", what=what, advice="Train longer, e.g. with a higher stages.N.epochs.")
