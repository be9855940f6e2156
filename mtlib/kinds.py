"""The kinds of task: what a label is, and how logits become predictions. The table `KINDS`, an entry each.

Losses, heads and metrics say which kinds they suit. Everything else follows from a kind's `link` and its number of
labels: divergences, what ensembles average, how predictions are read, stored and drawn.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Kind = Literal["classes", "binary", "multilabel", "regression"]
"""Name of a kind, as in `tasks.toml`."""


@dataclass(frozen=True, kw_only=True)
class TaskKind:
    """Everything about one kind of task but its losses, heads and metrics."""

    link: Literal["softmax", "sigmoid", "identity"]
    """How a prediction follows from a row's logits: probabilities of classes that exclude each other, a probability for
    each logit, or the logit itself."""
    has_several_labels: bool = False
    """Whether a row has any number of the labels: arrays of labels and predictions are (rows, num_classes), 0 or 1,
    instead of (rows,)."""
    default_loss: str
    default_metric: str

    @property
    def is_regression(self) -> bool:
        """Whether labels are real numbers in a range, which have a scale; else they are classes and may have names."""
        return self.link == "identity"

    def num_logits(self, num_classes: int) -> int:
        """Logits of a row."""
        return num_classes if self.link == "softmax" or self.has_several_labels else 1

    def predict(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Labels from logits or from outputs of `results.ensembles.outputs`, (..., rows, width).

        The class of the highest value, the first of equals; of a sigmoid 1 where the value is above 0, else 0; of a
        regression the value itself.

        Returns:
            (..., rows), or (..., rows, width) of several labels.
        """
        found = np.asarray(values)
        if self.link == "softmax":
            return np.asarray(found.argmax(-1), dtype=np.float64)
        chosen = found > 0 if self.link == "sigmoid" else found
        return np.asarray(chosen if self.has_several_labels else chosen[..., 0], dtype=np.float64)


KINDS: dict[Kind, TaskKind] = {
    "classes": TaskKind(
        link="softmax",
        default_loss="cross_entropy",
        default_metric="accuracy",
    ),
    "binary": TaskKind(
        link="sigmoid",
        default_loss="binary_cross_entropy",
        default_metric="accuracy",
    ),
    "multilabel": TaskKind(
        link="sigmoid",
        has_several_labels=True,
        default_loss="binary_cross_entropy",
        default_metric="micro_f1",
    ),
    "regression": TaskKind(
        link="identity",
        default_loss="mean_squared_error",
        default_metric="pearson",
    ),
}
"""By the name in `tasks.toml` and in `Task.kind`."""


def rarest_label(labels: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Returns the label by which a row is stratified: its own, (rows,);
    of several labels, (rows, num_classes), the rarest.

    A row that has none of several labels gets -1. Source: the rarest label decides first, as in Sechidis et al. 2011,
    "On the stratification of multi-label data".
    """
    values = np.asarray(labels, dtype=np.float64)
    if values.ndim == 1:
        return values
    rarity = np.where(values > 0, -values.sum(axis=0), -np.inf)  # (rows, num_classes), highest for the rarest label
    return np.where(values.any(axis=1), rarity.argmax(axis=1), -1.0)
