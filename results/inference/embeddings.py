"""Embeddings of texts by a trained model: the pooled texts, before its heads."""

from collections.abc import Sequence

import numpy as np

from mtlib.tasks import Task
from results.inference.models import LoadedModel
from results.inference.predictor import PREDICTED_SPLIT, tokenize_rows
from results.stats.resampling import Floats


def embed_texts(loaded: LoadedModel, task: Task, texts: Sequence[tuple[str, ...]]) -> Floats:
    """Pooled texts of at least one row, (rows, inputs x hidden), in evaluation mode.

    Args:
        loaded: a model that has learned the task.
        task: its encoding decides whether a pair is one input or two.
        texts: one or two by row, as the task has.
    """
    from mtlib.training.evaluation import embed

    corpus, device = tokenize_rows(task, texts, loaded.pretrained), next(loaded.model.parameters()).device
    found: Floats = embed(loaded.model, loaded.config, corpus, task.name, PREDICTED_SPLIT, device).astype(np.float64)
    return found
