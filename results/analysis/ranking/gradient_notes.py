"""Says where a task's gradients are so long, beside another's, that they starve it, and what to set."""

from collections.abc import Iterable, Sequence

import pandas as pd

from mtlib.config.trial import TrialConfig
from results.analysis.ranking.note import Note
from results.records.trials import TrialRecord

MAX_RATIO = 10
"""Of the tasks' mean gradient norms over the first steps (`mtlib.training.gradient_norms`). Above it, the task of the
shorter gradients is starved: Adam's moments, which tasks share, are the other's."""


def gradient_notes(curves: pd.DataFrame, records: Sequence[TrialRecord]) -> list[Note]:
    """A note for each task that is starved in some trials, with the figures of the trial where it is starved most."""
    points = curves[(curves["metric"] == "gradient_norm") & (curves["split"] == "train")]
    norms = points.groupby(["trial", "task"])["value"].mean().unstack()
    starved = norms.max(axis=1) > MAX_RATIO * norms.min(axis=1)
    norms = norms[starved & (norms.min(axis=1) > 0)]
    configs = {record.trial_id: record.config for record in records}
    notes = []
    for task, trials in norms.groupby(norms.idxmin(axis=1)) if len(norms) else ():
        ratios = trials.div(trials[task], axis=0)
        worst = str(ratios.max(axis=1).idxmax())
        count = f" ({len(trials)} trials, most in {worst})" if len(trials) > 1 else f" (trial {worst})"
        longer = {name: ratio for name in norms.columns if (ratio := float(ratios[name][worst])) > MAX_RATIO}
        notes.append(starving_note(TrialConfig.from_json(configs[worst]), str(task), longer, count))
    return notes


def starving_note(config: TrialConfig, starved: str, longer: dict[str, float], where: str) -> Note:
    """The note on a starved task; `longer` has the ratio of each task whose gradients starve it."""
    titles = {name: config.task(name).title for name in (starved, *longer)}
    tasks = joined(f"{titles[name]}'s" for name in longer)
    ratios = joined(f"{ratio:.0f}" for ratio in longer.values())
    changes = joined(remedy(config, name, ratio) for name, ratio in longer.items())
    return Note(
        what=f"{tasks} gradients are {ratios} times those of {titles[starved]} in the first steps{where}, "
        f"which starves {titles[starved]}",
        advice=f"set {changes}",
    )


def remedy(config: TrialConfig, task: str, ratio: float) -> str:
    """What to set so that a task's gradients are no longer than those of the task that they starve."""
    settings = config.tasks[task]
    if config.task(task).kind == "regression" and settings.target_scale == "raw":
        return f"tasks.{task}.target_scale=unit"
    weight = f"tasks.{task}.loss_weight={settings.loss_weight / ratio:.2g}"
    return weight if config.loss_weighting == "fixed" else f"loss_weighting=fixed and {weight}"


def joined(parts: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *others, last = parts
    return f"{', '.join(others)} and {last}" if others else last
