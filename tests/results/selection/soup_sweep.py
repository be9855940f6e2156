"""A sweep of four small trials that are really trained: three of one shape, and one that cuts texts earlier."""

from pathlib import Path
from typing import Any

from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.tasks import TASKS
from results.records.tables import write_trials
from results.records.trials import write_sweep
from tests.results.inference.trained_sweep import small_config, train_trials

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
    base = small_config(encoder, steps_per_epoch=9)
    records = train_trials(folder, corpus, encoder, base, CHANGES)
    write_sweep(folder, {"name": folder.name, "data": {"folder": str(data), "fingerprint": "abc"}})
    write_trials(folder, records, tuple(TASKS))
    return folder
