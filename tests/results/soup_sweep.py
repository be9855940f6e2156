"""A sweep of four small trials that are really trained: three of one shape, and one that cuts texts earlier."""

from pathlib import Path
from typing import Any

from mtlib.checkpoint import StateFolder
from mtlib.config import TrialConfig
from mtlib.config_training import StageConfig
from mtlib.encoder import PretrainedEncoder
from mtlib.reports import EpochReport
from mtlib.tasks import TASKS
from mtlib.tokens import Corpus
from mtlib.train import train
from results.epochs import write_epoch
from results.records import write_sweep, write_trials
from tests.results.conftest import build_record

ALIKE = ("0000-r0", "0001-r0", "0002-r0")
OTHER = "0003-r0"
BI_TASK = "sts"
"""The second trial reads its pairs as two inputs, so that its head is of another shape than the first one's."""
CHANGES: dict[str, dict[str, Any]] = {
    ALIKE[0]: {},
    ALIKE[1]: {
        "seed": 1,
        "optimizer.learning_rate": 3e-3,
        "encoder.dropout": 0.0,
        "loss_weighting": "uncertainty",
        f"tasks.{BI_TASK}.encoding": "bi",
    },
    ALIKE[2]: {"replicate": 1, "evaluation.batch_size": 8, "tasks.sst.loss": "ordinal_log_loss"},
    OTHER: {"seed": 3, "encoder.max_length": 9},
}


def train_soup_sweep(folder: Path, data: Path, corpus: Corpus, encoder: PretrainedEncoder) -> Path:
    """Trains the trials, for two epochs, into a folder, which becomes that of a sweep of the data."""
    stage = StageConfig(tasks=tuple(TASKS), order="sampled_round_robin", epochs=2, steps_per_epoch=9)
    base = TrialConfig(stages=(stage,)).override(
        {
            "encoder.name": encoder.name,
            "encoder.max_length": 32,
            "optimizer.learning_rate": 5e-3,
            "evaluation.batch_size": 4,
            **{f"tasks.{task}.batch_size": 4 for task in TASKS},
            **{f"tasks.{task}.scored_train_rows": 0 for task in TASKS},
        }
    )
    records = []
    for number, (trial, changes) in enumerate(CHANGES.items()):

        def keep(report: EpochReport, trial: str = trial) -> bool:
            write_epoch(folder, trial, report)
            return True

        config = base.override(changes)
        train(config, corpus, encoder, states=StateFolder(path=folder / f"trials/{trial}/checkpoint"), on_epoch=keep)
        records.append(build_record(number, config=config.to_json()))
    write_sweep(folder, {"name": folder.name, "data": {"folder": str(data), "fingerprint": "abc"}})
    write_trials(folder, records, tuple(TASKS))
    return folder
