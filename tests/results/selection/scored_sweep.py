"""An untrained sweep with scores, predictions and weight records of every epoch."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from mtlib.checkpoints.best_weights import weights_file
from mtlib.runtime.storage import open_folder
from mtlib.tasks import TASKS
from mtlib.training.epoch_report import Point
from mtlib.training.evaluation import Predictions
from results.records.epochs import epoch_path, read_epoch, read_part, trial_epochs, write_epoch
from results.records.predictions import logits_array
from results.records.tables import write_trials
from results.records.trials import write_sweep
from tests.results.conftest import build_record, build_report


def build_sweep(folder: Path, *skills: float, first_seed: int = 0, **of_record: Any) -> Path:
    """A sweep with one trial per skill, two epochs each, all with weights."""
    write_sweep(folder, {"name": folder.name, "data": {"fingerprint": f"data of {folder.name}"}})
    records = [build_record(number, **of_record) for number in range(len(skills))]
    write_trials(folder, records, tuple(TASKS))
    for number, skill in enumerate(skills):
        name = f"{number:04d}-r0"
        for epoch in (1, 2):
            write_epoch(folder, name, build_report(epoch, skill=skill, seed=first_seed + number))
        keep_weights(folder, name)
    return folder


def keep_weights(folder: Path, trial: str, **epochs: int) -> None:
    """Records that a trial has stored weights of both epochs, or of these by task."""
    path = folder / "trials" / trial / "checkpoint" / "best.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = epochs or {"sst": 1, "qqp": 2, "sts": 1, "overall": 2}
    path.write_text(json.dumps(kept))
    for epoch in kept.values():
        name = path.parent / weights_file(epoch)
        name.parent.mkdir(exist_ok=True)
        name.touch()


def replace_predictions(folder: Path, trial: str, epoch: int, own: Predictions) -> None:
    """Writes an epoch again with other predictions of one task's split; scores and all others stay."""
    root = open_folder(folder)
    found = read_epoch(root, trial, epoch)
    last = [number for number in trial_epochs(root, trial) if number > epoch]
    later = {number: (folder / epoch_path(trial, number)).read_bytes() for number in last}
    kept = [own]
    for task, split in found.parts:
        table = read_part(root, trial, epoch, task, split)
        if table is not None and (task, split) != (own.task, own.split):
            labels, logits = table["label"].to_numpy(), logits_array(table)
            kept.append(Predictions(task=task, split=split, ids=table["id"].to_pylist(), labels=labels, logits=logits))
    points = tuple(Point(**point) for point in found.points)
    write_epoch(folder, trial, replace(build_report(epoch), points=points, predictions=tuple(kept)))
    for number, content in later.items():
        (folder / epoch_path(trial, number)).write_bytes(content)
