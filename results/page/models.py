"""What needs data or a model: the texts of dev examples, and their embeddings by the best trial."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mtlib.runtime.errors import require
from results.analysis.sweep import Sweep
from results.figures.embeddings import Embedded
from results.inference.dev_texts import read_dev_texts
from results.inference.embeddings import embed_texts
from results.inference.models import ModelSource, load_models
from results.page.predictions import ReadTexts
from results.records.selection import Member
from results.records.trials import OVERALL, TrialRecord


def texts_reader(sweep: Sweep, data: Path | None = None) -> ReadTexts:
    """Reads the texts of dev examples by their ids, from the sweep's data folder or the given one.

    The reader raises ValueError in one line where the data are not there or have changed.
    """

    def read(task: str, ids: Sequence[str]) -> Sequence[tuple[str, ...]]:
        return read_dev_texts(sweep.path, task, ids, data)

    return read


def best_kept_trial(sweep: Sweep) -> TrialRecord:
    """The trial with the highest overall score of those whose weights were kept; ValueError if there is none."""
    kept = [record for record in sweep.records if record.checkpoint and OVERALL in record.best]
    require(bool(kept), "a trial must have kept its weights for embeddings", f"none in {sweep.path}")
    return max(kept, key=lambda record: record.best[OVERALL])


def embed_dev(
    sweep: Sweep, data: Path | None = None, encoder: str | None = None, device: str = "auto"
) -> tuple[str, dict[str, Embedded]]:
    """The best trial's embeddings of the dev examples of each task that it has learned.

    Args:
        sweep: with the kept weights of some trial.
        data: as in `texts_reader`.
        encoder: name or folder that replaces the pretrained encoder.
        device: `auto`, `cpu` or `cuda`.

    Returns:
        The trial's name, and by task its embeddings.

    Raises:
        ValueError: weights, data or the encoder are not there.
    """
    record = best_kept_trial(sweep)
    epoch = record.best_epoch[OVERALL]
    place = str(sweep.path)
    source = ModelSource(places={place: sweep.path}, encoder=encoder, device=device)
    member = Member(sweep=place, trial=record.trial_id, epoch=epoch, weight=1.0)
    found = {}
    for name in (name for name in sweep.tasks if name in record.best):
        (loaded,) = load_models([member], name, source)
        rows = sweep.predictions(name, "dev", trial=record.trial_id, epoch=epoch)
        ids = rows["id"].tolist()
        vectors = embed_texts(loaded, sweep.tasks[name], read_dev_texts(sweep.path, name, ids, data))
        labels = rows["label"].to_numpy(dtype=np.float64)
        found[name] = Embedded(task=sweep.tasks[name], ids=ids, labels=labels, vectors=vectors)
    return record.trial_id, found
