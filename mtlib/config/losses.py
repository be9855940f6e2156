"""The losses that a task can be trained with: the table `LOSSES`, an entry each.

Sources: BB is BERT and Beyond, TT Triple Threat, TU Tuning Up BERT.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mtlib.kinds import KINDS, Kind
from mtlib.runtime.errors import require
from mtlib.runtime.lazy_functions import Function


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Everything about one loss but its formula."""

    title: str
    """Name for people, as in a model card."""
    description: str
    """What it is and its source, for the page of the configuration."""
    functions: Mapping[Kind, Function]
    """By kind of task that the loss suits, the function, or `module:function`. It maps logits, (rows, num_logits),
    labels, (rows,), or (rows, num_classes) of several labels, and the loss's settings by name to losses of the labels'
    shape: of several labels their mean counts."""
    settings: type[Any] | None = None
    """Dataclass whose fields become fields of every task's group. They are inert where another loss is chosen."""
    binary_outputs: int = 1
    """Outputs of a binary task's linear head: 1, the logit, or 2, whose difference is the logit."""
    is_squared_error: bool = False
    """Whether a learned weight counts half (Kendall et al. 2018, equation 7)."""
    needs_class_counts: bool = False
    """Whether the functions get `class_counts` too: the task's own train rows of each class, (num_classes,), of several
    labels (num_classes, 2), without and with each label. Where a loss is not trained, as on dev, each class counts 1.
    """

    def __post_init__(self) -> None:
        regressions = [kind for kind, entry in KINDS.items() if entry.is_regression and kind in self.functions]
        rule = "needs_class_counts must be False of a loss for regressions"
        require(not (self.needs_class_counts and regressions), rule, self.needs_class_counts)

    def num_outputs(self, kind: Kind, num_logits: int) -> int:
        """Outputs of a task's linear head: one per logit, or the two whose difference is the logit of a binary task."""
        return self.binary_outputs if kind == "binary" else num_logits

    @property
    def fits_cosine(self) -> bool:
        """Whether one number per row is enough for some kind of task, which is all that a cosine gives."""
        return self.binary_outputs == 1 and any(KINDS[kind].num_logits(2) == 1 for kind in self.functions)


@dataclass(frozen=True, kw_only=True)
class CrossEntropySettings:
    """Settings of `cross_entropy` and `binary_cross_entropy`."""

    label_smoothing: float = 0.0
    """Share of a label's probability that is spread over all classes evenly, at least 0 and below 1; for each of
    several labels over absent and present. Source: Szegedy et al. 2016, section 7."""

    def __post_init__(self) -> None:
        rule = "label_smoothing must be at least 0 and below 1"
        require(0 <= self.label_smoothing < 1, rule, self.label_smoothing)


@dataclass(frozen=True, kw_only=True)
class FocalLossSettings:
    """Settings of `focal`."""

    focal_gamma: float = 2.0
    """gamma, how fast a label that is already probable loses weight, at least 0. Source: Lin et al. 2017 use 2."""

    def __post_init__(self) -> None:
        require(self.focal_gamma >= 0, "focal_gamma must be at least 0", self.focal_gamma)


@dataclass(frozen=True, kw_only=True)
class OrdinalLogLossSettings:
    """Settings of `ordinal_log_loss`."""

    ordinal_alpha: float = 1.5
    """alpha, exponent of the distance between classes in the ordinal log-loss, above 0. Source: Castagnos et al. 2022
    try 1, 1.5 and 2; BERT and Beyond does not name one."""

    def __post_init__(self) -> None:
        require(self.ordinal_alpha > 0, "ordinal_alpha must be above 0", self.ordinal_alpha)


@dataclass(frozen=True, kw_only=True)
class DualObjectiveSettings:
    """Settings of `dual_objective_cross_entropy`."""

    dual_reduction: Literal["mean", "sum"] = "mean"
    """Over the classes of the dual-objective cross entropy: `mean` as in BERT and Beyond's text, `sum` as in its
    formula."""


LOSSES: dict[str, Loss] = {
    "cross_entropy": Loss(
        title="cross entropy",
        description="Softmax cross entropy; for a binary task on two outputs, whose difference is the logit (TU 4.2).",
        functions={
            "classes": "mtlib.loss.losses:cross_entropy",
            # With z the two outputs, -log softmax(z)_1 = log(1 + exp(-(z_1 - z_0))).
            "binary": "mtlib.loss.losses:binary_cross_entropy",
        },
        settings=CrossEntropySettings,
        binary_outputs=2,
    ),
    "ordinal_log_loss": Loss(
        title="ordinal log-loss",
        description="The probability of a class costs more, the further the class lies from the label (BB 3.3).",
        functions={"classes": "mtlib.loss.losses:ordinal_log_loss"},
        settings=OrdinalLogLossSettings,
    ),
    "dual_objective_cross_entropy": Loss(
        title="dual-objective cross entropy",
        description="Each class is a binary problem of its own (BB 3.3).",
        functions={"classes": "mtlib.loss.losses:dual_objective_cross_entropy"},
        settings=DualObjectiveSettings,
    ),
    "binary_cross_entropy": Loss(
        title="binary cross entropy",
        description="Cross entropy of the sigmoid of one logit (TT 3.1); of several labels its mean over them.",
        functions={
            "binary": "mtlib.loss.losses:binary_cross_entropy",
            "multilabel": "mtlib.loss.losses:binary_cross_entropy",
        },
        settings=CrossEntropySettings,
    ),
    "focal": Loss(
        title="focal loss",
        description="Cross entropy that counts less, the more probable the label already is (Lin et al. 2017).",
        functions={
            "classes": "mtlib.loss.losses:focal_loss",
            "binary": "mtlib.loss.losses:binary_focal_loss",
            "multilabel": "mtlib.loss.losses:binary_focal_loss",
        },
        settings=FocalLossSettings,
    ),
    "mean_squared_error": Loss(
        title="mean squared error",
        description="On predictions as the head gives them, not clipped to the range of the labels.",
        functions={"regression": "mtlib.loss.losses:mean_squared_error"},
        is_squared_error=True,
    ),
}
"""By the name in `tasks.<name>.loss`. A new loss is one entry here and its function."""


def losses_for(kind: Kind, losses: Mapping[str, Loss] = LOSSES) -> tuple[str, ...]:
    """Names of the losses that suit tasks of a kind."""
    return tuple(name for name, loss in losses.items() if kind in loss.functions)
