"""Collects the facts of a model's card from its sweep's records."""

from collections.abc import Mapping
from typing import Any

from pyarrow.fs import SubTreeFileSystem

from mtlib.checkpoints.model_card import CardFacts
from results.records.epochs import read_trial_curves
from results.records.trials import TrialRecord


def trial_card_facts(
    info: Mapping[str, Any], root: SubTreeFileSystem, record: TrialRecord, best: str, epoch: int, num_trials: int
) -> CardFacts:
    """The facts of a trial's model card that are in the sweep's records.

    Args:
        info, root: content of `sweep.json` and the sweep's folder.
        best: what the epoch is the best one for: `overall`, or a task.
        epoch: the epoch whose weights the model has, from 1.
        num_trials: how many trials this one was picked from.
    """
    points = [point for point in read_trial_curves(root, record.trial_id).to_pylist() if point["epoch"] == epoch]
    scores: dict[str, dict[str, float]] = {}
    for point in points:
        if point["split"] == "dev":
            scores.setdefault(point["task"], {})[point["metric"]] = point["value"]
    git, data = info.get("git") or {}, info.get("data") or {}
    sources = {"sources": git["revision"] + ("-changed" if git["is_changed"] else "")} if git else {}
    return CardFacts(
        title=f"{info.get('name', 'sweep')} {record.trial_id}",
        best=best,
        epoch=epoch,
        steps=max((point["step"] for point in points), default=record.steps),
        scores=scores,
        num_trials=num_trials,
        data_fingerprint=data.get("fingerprint", "not recorded"),
        num_rows=data.get("rows", {}),
        versions={"python": info.get("python", "not recorded"), **info.get("packages", {}), **sources},
    )
