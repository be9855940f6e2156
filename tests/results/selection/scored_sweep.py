"""An untrained sweep with scores, predictions and weight records of every epoch."""

import json
from pathlib import Path
from typing import Any

from mtlib.checkpoints.best_weights import weights_path
from mtlib.checkpoints.state import StateFolder
from mtlib.tasks import TASKS
from results.records.epochs import write_epoch
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
        name = weights_path(StateFolder(path=path.parent), epoch)
        name.parent.mkdir(exist_ok=True)
        name.touch()
