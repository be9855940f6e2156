"""Collects the facts of a model's card from its sweep's records."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pyarrow.fs import SubTreeFileSystem

from mtlib.checkpoints.model_card import CardFacts
from mtlib.tasks import Task, value_of
from results.records.epochs import read_part, read_trial_curves
from results.records.examples import read_groups
from results.records.predictions import labels_array, logits_array
from results.records.trials import COMPLETED, OVERALL, TrialRecord, sweep_cut_rows, sweep_tasks
from results.stats.groups import independent_groups, score_interval
from results.stats.resampling import example_values, replicate_error


def trial_card_facts(
    info: Mapping[str, Any],
    root: SubTreeFileSystem,
    record: TrialRecord,
    best: str,
    epoch: int,
    records: Sequence[TrialRecord],
) -> CardFacts:
    """Returns the facts of a trial's model card that are in the sweep's records.

    Args:
        info, root: content of `sweep.json` and the sweep's folder.
        best: what the epoch is the best one for: `overall`, or a task.
        epoch: the epoch whose weights the model has, from 1.
        records: the sweep's trials, from which this one was picked.

    Raises:
        ValueError: in one line: the epoch's predictions, or the groups of dev examples, are damaged.
    """
    tasks = sweep_tasks(info)
    points = [point for point in read_trial_curves(root, record.trial_id).to_pylist() if point["epoch"] == epoch]
    scores: dict[str, dict[str, float]] = {}
    for point in points:
        if point["split"] == "dev":
            scores.setdefault(point["task"], {})[point["metric"]] = point["value"]
    git, data = info.get("git") or {}, info.get("data") or {}
    sources = {"sources": git["revision"] + ("-changed" if git["is_changed"] else "")} if git else {}
    intervals = {name: dev_interval(root, record.trial_id, epoch, tasks[name]) for name in scores if name in tasks}
    replicates = [other for other in records if other.number == record.number and other.status in COMPLETED]
    return CardFacts(
        title=f"{info.get('name', 'sweep')} {record.trial_id}",
        best=best,
        epoch=epoch,
        steps=max((point["step"] for point in points), default=record.steps),
        scores=scores,
        intervals={name: {tasks[name].metric: found} for name, found in intervals.items() if found is not None},
        num_replicates=len(replicates),
        replicate_means=replicate_means(replicates, tasks),
        num_trials=len(records),
        data_fingerprint=data.get("fingerprint", "not recorded"),
        num_rows=data.get("rows", {}),
        cut_rows=sweep_cut_rows(info),
        versions={"python": info.get("python", "not recorded"), **info.get("packages", {}), **sources},
    )


def dev_interval(root: SubTreeFileSystem, trial: str, epoch: int, task: Task) -> tuple[float, float] | None:
    """Returns the 95 % interval over dev examples of a task's metric at an epoch, the lower value first.

    None: the epoch has no predictions of the task, examples are in too few groups, or the score is the same on all
    resamples, as with no wrong one.
    """
    table = read_part(root, trial, epoch, task.name, "dev")
    if table is None:
        return None
    labels = labels_array(table)
    values = example_values(task, logits_array(table), labels)[None]
    groups = independent_groups(read_groups(root, task, table["id"].to_pylist()), len(labels))
    found = tuple(sorted(map(task.value_of, score_interval(task, values, labels, groups))))
    return (found[0], found[1]) if len(set(found)) == 2 else None


def replicate_means(replicates: Sequence[TrialRecord], tasks: Mapping[str, Task]) -> dict[str, tuple[float, float]]:
    """Mean and standard error of the highest dev scores of a configuration's trainings, by task and `overall`.

    Scores that fewer than two of the trainings have are left out.
    """
    found = {}
    for name in (*tasks, OVERALL):
        values = [value_of(name, record.best[name], tasks) for record in replicates if name in record.best]
        error = replicate_error(values)
        if error is not None:
            found[name] = (float(np.mean(values)), error)
    return found
