"""The ways in which the gradients of several tasks become one: the table `GRADIENT_METHODS`, an entry each."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class GradientMethod:
    """Everything about one gradient method but its formula."""

    title: str
    """Name for people, as in a model card."""
    function: str | None
    """`module:function` from the gradients' Gramian, (tasks, tasks) float64 on the CPU, and the method's settings by
    name to the weights, (tasks,), of the combined gradient. None: the losses are summed before the backward pass."""
    settings: type[Any] | None = None
    """Dataclass whose fields become fields of the configuration. They are inert where another method is chosen."""


GRADIENT_METHODS: dict[str, GradientMethod] = {
    "sum": GradientMethod(title="sum", function=None),
    "pcgrad": GradientMethod(title="PCGrad", function="mtlib.loss.gradient_aggregation:weights_pcgrad"),
    "mgda": GradientMethod(title="MGDA", function="mtlib.loss.gradient_aggregation:weights_mgda"),
    "upgrad": GradientMethod(title="UPGrad", function="mtlib.loss.gradient_aggregation:weights_upgrad"),
    "dualproj": GradientMethod(title="DualProj", function="mtlib.loss.gradient_aggregation:weights_dualproj"),
    "imtl_g": GradientMethod(title="IMTL-G", function="mtlib.loss.gradient_aggregation:weights_imtl_g"),
    "aligned_mtl": GradientMethod(title="Aligned-MTL", function="mtlib.loss.gradient_aggregation:weights_aligned_mtl"),
}
"""By the name in `gradients`. A new method is one entry here and its function."""
