"""Weights of classes in a task's loss, so that rare classes count as much as frequent ones, and counts of classes."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus


def all_class_weights(config: TrialConfig, corpus: Corpus, device: torch.device) -> Mapping[str, Tensor]:
    """Returns the weights of each active task that has `class_weights`, by its own train rows;
    shapes as in `class_weights`."""
    found = {}
    for name in config.active_tasks:
        setting = config.tasks[name].class_weights
        if setting is not None:
            is_balanced = setting == "balanced"
            weights = balanced_weights(train_counts(config, corpus, name)) if is_balanced else np.array(setting)
            if config.task(name).kind_entry.has_several_labels and weights.ndim == 1:
                weights = np.stack([np.ones_like(weights), weights], axis=1)
            found[name] = torch.from_numpy(weights.astype(np.float32)).to(device)
    return found


def all_class_counts(config: TrialConfig, corpus: Corpus, device: torch.device) -> Mapping[str, Tensor]:
    """Returns `train_counts`, as float32, of each active task whose loss needs them."""
    needed = (name for name in config.active_tasks if config.tasks[name].loss_entry.needs_class_counts)
    return {name: torch.from_numpy(train_counts(config, corpus, name)).float().to(device) for name in needed}


def train_counts(config: TrialConfig, corpus: Corpus, name: str) -> np.ndarray:
    """Counts the rows of each class among a task's own train rows.

    Returns:
        (num_classes,); of several labels (num_classes, 2): each is two classes of its own, absent and present.
    """
    table = corpus[name, "train"]
    labels = table.labels[: table.num_own_rows]
    if labels.ndim == 1:
        return np.bincount(labels.astype(int), minlength=config.task(name).num_classes)
    present = labels.sum(axis=0)
    return np.stack([len(labels) - present, present], axis=1)


def balanced_weights(counts: np.ndarray) -> np.ndarray:
    """Weights in inverse proportion to how often a class occurs; their mean over the rows is 1.

    With n rows, n_c of class c, and k classes that occur, w_c = n / (k n_c); 1 where n_c is 0.

    Args:
        counts: (..., classes), rows of each class.

    Source: King and Zeng 2001, "Logistic Regression in Rare Events Data", as scikit-learn's `balanced`.
    """
    num_rows, occurs = counts.sum(axis=-1, keepdims=True), counts > 0
    return np.where(occurs, num_rows / (occurs.sum(axis=-1, keepdims=True) * np.maximum(counts, 1)), 1.0)


def weights_of_labels(weights: Tensor, labels: Tensor) -> Tensor:
    """Returns the weight of each label, of the shape of `labels`: (rows,), or (rows, num_classes) of several labels."""
    if labels.ndim == 1:
        return weights[labels.long()]
    absent, present = weights.unbind(dim=1)
    return torch.where(labels > 0, present, absent)
