"""Simulated labels and what metrics read of predictions for them."""

import numpy as np

from mtlib.metrics.metric import Floats, Metric
from mtlib.metrics.table import METRICS, metric_of_class

NUM_LABELS = 3
CLASS_NAMES = ("legal", "sales", "other")
ALL_METRICS: dict[str, Metric] = {**METRICS}
for one in ("f1:legal", "precision:other", "recall:sales"):
    ALL_METRICS |= metric_of_class(one, CLASS_NAMES)
CASES = tuple(
    (name, has_several)
    for name, metric in ALL_METRICS.items()
    for has_several in (False, True)
    if (metric.kinds != ("multilabel",) if not has_several else "multilabel" in metric.kinds)
)
"""Each metric, and whether it is one of several labels."""


def draw(
    name: str, num_rows: int, *, several: bool = False, num_models: int = 3, seed: int = 0
) -> tuple[Floats, Floats]:
    """Values of models of some skill, (models, rows), with ties, and unbalanced labels, (rows,).

    Of several labels both have a further dimension.
    """
    stream, metric = np.random.default_rng(seed), ALL_METRICS[name]
    if several:
        known = (stream.random((num_rows, NUM_LABELS)) < [0.2, 0.3, 0.6]).astype(np.float64)
        shown = np.round(known + stream.normal(0, 1, (num_models, num_rows, NUM_LABELS)), 1)
        read = {"output": shown, "class": shown > 0.5, "right": ((shown > 0.5) == known).all(-1)}
        return np.asarray(read[metric.reads], dtype=np.float64), known
    if metric.kinds == ("regression",):
        labels = np.round(stream.uniform(0, 5, num_rows), 1)
        values = np.round(np.clip(labels + stream.normal(0, 1.5, (num_models, num_rows)), 0, 5), 1)
    elif metric.reads == "output":
        labels = (stream.random(num_rows) < 0.3).astype(np.float64)
        values = np.round(labels + stream.normal(0, 1, (num_models, num_rows)), 1)
    else:
        num_classes = 2 if metric.kinds == ("binary",) else 4
        shares = np.arange(1, num_classes + 1) / sum(range(num_classes + 1))
        labels = stream.choice(num_classes, num_rows, p=shares).astype(np.float64)
        others = stream.integers(0, num_classes, (num_models, num_rows))
        values = np.where(stream.random((num_models, num_rows)) < 0.5, labels, others)
    if metric.reads == "right":
        values = values == labels
    return np.asarray(values, dtype=np.float64), np.asarray(labels, dtype=np.float64)
