"""What needs data or a model: the texts of dev examples, and their embeddings by the best trial."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from mtlib.data.tables import Table
from mtlib.runtime.storage import open_folder
from mtlib.tasks import Task
from results.figures.embeddings import Embedded
from results.inference.dev_texts import pick_texts, read_dev_table
from results.inference.embeddings import embed_texts
from results.inference.models import ModelSource, load_models
from results.page.predictions import ReadTexts
from results.records.predictions import stack_predictions
from results.records.selection import Member
from results.records.trials import OVERALL, TrialRecord, best_trial
from results.sweep import Sweep


def texts_reader(sweep: Sweep, data: Path | None = None) -> ReadTexts:
    """Reads the texts of dev examples by their ids, from the sweep's data folder or the given one.

    The dev rows of a task are read once. The reader raises ValueError in one line where the data are not there or have
    changed.
    """

    @cache
    def read_table(task: str) -> Table:
        return read_dev_table(sweep.path, task, data)

    return lambda task, ids: pick_texts(read_table(task), ids)


def best_kept_trial(sweep: Sweep) -> TrialRecord:
    """The trial with the highest overall score of those whose weights were kept.

    Raises:
        ValueError: there is none.
    """
    best = best_trial(record for record in sweep.records if record.checkpoint)
    if best is None:
        raise ValueError(f"a trial must have kept its weights for embeddings, got none in {sweep.path}")
    return best


def embed_dev(
    sweep: Sweep,
    read_texts: ReadTexts | None = None,
    *,
    on_task: Callable[[Task, int], None] | None = None,
    encoder: str | None = None,
    device: str = "auto",
) -> tuple[str, dict[str, Embedded]]:
    """The best trial's embeddings of the dev examples of each task that it has learned.

    Args:
        sweep: with the kept weights of some trial.
        read_texts: as of `texts_reader`; None for that of the sweep's data folder.
        on_task: called with each task and the number of its examples before they are embedded.
        encoder: name or folder that replaces the pretrained encoder.
        device: `auto`, `cpu` or `cuda`.

    Returns:
        The trial's name, and by task its embeddings.

    Raises:
        ValueError: weights, predictions, data or the encoder are not there.
    """
    record, texts_of = best_kept_trial(sweep), read_texts or texts_reader(sweep)
    epoch, folder = record.best_epoch[OVERALL], str(sweep.path)
    names = [name for name in sweep.tasks if name in record.best]
    source = ModelSource(places={folder: sweep.path}, encoder=encoder, device=device)
    member = Member(sweep=folder, trial=record.trial_id, epoch=epoch, weight=1.0)
    (loaded,) = load_models([member], names[0], source)
    embedded = {}
    for name in names:
        ids, labels, _ = stack_predictions(open_folder(sweep.path), name, "dev", [(record.trial_id, epoch)])
        if on_task is not None:
            on_task(sweep.tasks[name], len(ids))
        vectors = embed_texts(loaded, sweep.tasks[name], texts_of(name, ids))
        embedded[name] = Embedded(task=sweep.tasks[name], ids=ids, labels=labels.astype(np.float64), vectors=vectors)
    return record.trial_id, embedded
