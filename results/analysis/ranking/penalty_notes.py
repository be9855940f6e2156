"""Says which penalties are numerically nothing, or larger than the loss, and what to set."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from mtlib.config.penalties import PENALTIES, Penalty
from mtlib.config.trial import TrialConfig
from mtlib.runtime.command_line import counted
from mtlib.tasks import Task
from results.analysis.ranking.note import Note, named
from results.records.trials import TrialRecord

NUMERICALLY_NOTHING = 1e-5
"""A mean penalty below this, in nats or squared units of the label, is nothing beside losses near 1. That of SMART with
`smart.mode` paper and an `epsilon` of 1e-5 is about 2.6e-7."""
OVERWHELMING = 1.0
"""A penalty, times its weight, above so many times the loss overwhelms it."""


def vanishing_penalties(
    curves: pd.DataFrame, records: Sequence[TrialRecord], tasks: Mapping[str, Task]
) -> Iterator[Note]:
    """A note for each penalty and task where some trials' penalty is numerically nothing, in every epoch so far.

    Signed penalties have none: their values may cancel in a mean.
    """
    for name, penalty in PENALTIES.items():
        if penalty.is_signed:
            continue
        largest = penalty_points(curves, penalty).groupby(["task", "trial"], as_index=False)["value"].max()
        for task, found in largest[largest["value"] < NUMERICALLY_NOTHING].groupby("task"):
            trials = dict(zip(found["trial"], found["value"], strict=True))
            yield Note(
                what=f"The {penalty.title} penalty on {tasks[str(task)].title} is numerically nothing, below "
                f"{NUMERICALLY_NOTHING:g} in every epoch, in {counted(len(trials), 'trial')}, which trained nearly as "
                f"if without it (largest mean penalty: {named([f'{trial} {trials[trial]:.1e}' for trial in trials])})",
                advice=how_to_strengthen(name, recorded_settings(records, next(iter(trials)), name)),
            )


def recorded_settings(records: Sequence[TrialRecord], trial: str, name: str) -> Mapping[str, Any]:
    """A penalty's settings as a trial's record has them, which may be of a version with other fields."""
    config = next(record.config for record in records if record.trial_id == trial)
    settings: Mapping[str, Any] = json.loads(config).get(name, {})
    return settings


def how_to_strengthen(name: str, settings: Mapping[str, Any]) -> str:
    """What makes a penalty act that is numerically nothing."""
    if settings.get("mode") == "paper":
        return f"choose {name}.mode unit_norm or random, or a larger {name}.epsilon"
    return f"raise {name}.weight, or set it to 0 and save the time of the penalty"


def overwhelming_penalties(
    curves: pd.DataFrame, records: Sequence[TrialRecord], tasks: Mapping[str, Task]
) -> Iterator[Note]:
    """A note for each penalty and task where the weighted penalty exceeds the loss in some trials' last epoch.

    Signed penalties have none: a constant may be added to them without any effect.
    """
    for name in (name for name, penalty in PENALTIES.items() if not penalty.is_signed):
        for task, ratios in penalty_ratios(curves, records, name).items():
            large = {trial: ratio for trial, ratio in ratios.items() if ratio > OVERWHELMING}
            if not large:
                continue
            most = max(large, key=lambda trial: large[trial])
            yield Note(
                what=f"The {PENALTIES[name].title} penalty on {tasks[task].title}, times its weight, is larger than "
                f"the loss in {counted(len(large), 'trial')}, most in {most} ({large[most]:.1f} times): "
                f"{named(list(large))}",
                advice=how_to_weaken(name, getattr(recorded_config(records, most), name), large[most]),
            )


def how_to_weaken(name: str, settings: Any, ratio: float) -> str:
    """What makes a penalty as large as the loss at most."""
    lower = f"set {name}.weight to at most {settings.weight / ratio:.2g}"
    is_sum = getattr(settings, "reduction", "mean") == "sum"
    return f"{lower}, or {name}.reduction to mean, which does not grow with the batch" if is_sum else lower


def penalty_ratios(curves: pd.DataFrame, records: Sequence[TrialRecord], name: str) -> dict[str, dict[str, float]]:
    """A weighted penalty over the loss, both means over the batches of the last epoch that has both.

    Curves hold the mean over the batches that carry the penalty, of which there is one in `every_batches`; with a sum
    for its reduction, it counts once for each row of a batch.

    Returns:
        Ratios by task and trial, without those whose loss is not above 0.
    """
    penalties = penalty_points(curves, PENALTIES[name])
    losses = curves[(curves["split"] == "train") & (curves["metric"] == "loss")]
    where = ["task", "trial", "epoch"]
    both = penalties.merge(losses, on=where, suffixes=("", "_of_loss")).sort_values("epoch")
    last = both[both["value_of_loss"] > 0].drop_duplicates(["task", "trial"], keep="last").sort_values(where)
    configs = {trial: recorded_config(records, trial) for trial in last["trial"].unique()}
    found: dict[str, dict[str, float]] = {}
    for task, trial, penalty, loss in last[["task", "trial", "value", "value_of_loss"]].itertuples(index=False):
        settings, batch_size = getattr(configs[trial], name), configs[trial].tasks[task].batch_size
        factor = settings.weight * (batch_size if getattr(settings, "reduction", "mean") == "sum" else 1)
        found.setdefault(task, {})[trial] = float(factor * penalty / loss / getattr(settings, "every_batches", 1))
    return found


def penalty_points(curves: pd.DataFrame, penalty: Penalty) -> pd.DataFrame:
    """The points of a penalty in training."""
    return curves[(curves["split"] == "train") & (curves["metric"] == penalty.terms[0])]


def recorded_config(records: Sequence[TrialRecord], trial: str) -> TrialConfig:
    """The configuration of a trial."""
    return TrialConfig.from_json(next(record.config for record in records if record.trial_id == trial))
