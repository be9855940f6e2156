"""The heads that a task can have, from the vectors of its texts to its logits: the table `HEADS`, an entry each.

Sources: BB is BERT and Beyond, TT Triple Threat, TU Tuning Up BERT.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mtlib.runtime.errors import require
from mtlib.runtime.lazy_functions import Function


@dataclass(frozen=True, kw_only=True)
class Head:
    """Everything about one head but its module."""

    title: str
    """Name for people, as in a model card."""
    description: str
    """What it does and its source, for the page of the configuration."""
    function: Function
    """A function, or `module:function`, from a `mtlib.model.heads.HeadShape` to the module. The module maps a tuple of
    vectors, (rows, width) for each input of a row, after dropout, to logits, (rows, num_logits)."""
    settings: type[Any] | None = None
    """Dataclass whose fields become fields of every task's group. They are inert where another head is chosen."""
    encodings: tuple[str, ...] = ()
    """Encodings of a row that it can read; empty: all."""
    is_one_number: bool = False
    """Whether it gives one number for a row whatever the task, so that the loss must need no more."""
    gives_labels: bool = False
    """Whether a regression's output is in the scale of its labels and not in `target_scale`."""
    is_linear: bool = False
    """Whether a linear layer is its last part (`mtlib.model.heads.LinearHead`), which can be fitted to rows before
    training (`probe_rows`), and can read the layer that `relational_tasks` share."""
    has_weights: Callable[[Any], bool] = lambda _settings: True
    """From a task's settings to whether the head has weights to train."""


@dataclass(frozen=True, kw_only=True)
class LinearHeadSettings:
    """Settings of `linear`."""

    hidden_units: int | None = None
    """Units of a ReLU layer in the linear head, at least 1. None: no such layer. Source: TT table 13."""

    def __post_init__(self) -> None:
        units = self.hidden_units
        require(units is None or units >= 1, "hidden_units must be at least 1, or none", units)


@dataclass(frozen=True, kw_only=True)
class CosineHeadSettings:
    """Settings of `cosine`."""

    cosine_projection: bool = True
    """Whether the cosine is of the two texts' vectors after one linear projection that both share (TU 4.2), or of the
    vectors themselves (BB 3.2)."""


HEADS: dict[str, Head] = {
    "linear": Head(
        title="linear layer",
        description="A linear layer on the pooled text, or on the vectors of all inputs joined.",
        function="mtlib.model.heads:linear_head",
        settings=LinearHeadSettings,
        is_linear=True,
    ),
    "cosine": Head(
        title="cosine",
        description="The cosine of the two vectors of a bi-encoder; as it is for a binary task (its sigmoid is the "
        "probability), from -1..1 to the range of the labels for regression (TU 4.2; BB 3.2 names only the cosine).",
        function="mtlib.model.heads:cosine_head",
        settings=CosineHeadSettings,
        encodings=("bi",),
        is_one_number=True,
        gives_labels=True,
        has_weights=lambda settings: settings.cosine_projection,
    ),
}
"""By the name in `tasks.<name>.head`. A new head is one entry here and its function."""
