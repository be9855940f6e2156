"""The methods that combine the gradients of several tasks: the table `GRADIENT_METHODS`, an entry each.

All but `sum` act on the parameters that several tasks share, and follow the library torchjd. TU is Tuning Up BERT.
"""

from dataclasses import dataclass
from typing import Any

from mtlib.runtime.lazy_functions import Function


@dataclass(frozen=True, kw_only=True)
class GradientMethod:
    """Everything about one gradient method but its formula."""

    title: str
    """Name for people, as in a model card."""
    description: str
    """What it does and its source, for the page of the configuration."""
    function: Function | None
    """A function, or `module:function`, from the gradients' Gramian, (tasks, tasks) float64 on the CPU, and the
    method's settings by name to the weights, (tasks,), of the combined gradient. None: the losses are summed before the
    backward pass."""
    settings: type[Any] | None = None
    """Dataclass whose fields become fields of the configuration. They are inert where another method is chosen."""


GRADIENT_METHODS: dict[str, GradientMethod] = {
    "sum": GradientMethod(
        title="sum",
        description="The losses of the tasks are added before the backward pass.",
        function=None,
    ),
    "pcgrad": GradientMethod(
        title="PCGrad",
        description="Each gradient loses its component against every other that it conflicts with, in random order "
        "(Yu et al. 2020; TU 7 names it).",
        function="mtlib.loss.gradient_weights:weights_pcgrad",
    ),
    "mgda": GradientMethod(
        title="MGDA",
        description="The shortest vector in the convex hull of the gradients (Désidéri 2012).",
        function="mtlib.loss.gradient_weights:weights_mgda",
    ),
    "upgrad": GradientMethod(
        title="UPGrad",
        description="The sum of the gradients, each projected on the cone of directions that hurt no task (Quinton "
        "and Rey 2024).",
        function="mtlib.loss.gradient_weights:weights_upgrad",
    ),
    "dualproj": GradientMethod(
        title="DualProj",
        description="The sum of the gradients, projected on the cone of directions that hurt no task (Lopez-Paz and "
        "Ranzato 2017).",
        function="mtlib.loss.gradient_weights:weights_dualproj",
    ),
    "imtl_g": GradientMethod(
        title="IMTL-G",
        description="The combination with equal projections on every gradient (Liu et al. 2021).",
        function="mtlib.loss.gradient_weights:weights_imtl_g",
    ),
    "aligned_mtl": GradientMethod(
        title="Aligned-MTL",
        description="The sum of the gradients after their principal components have been scaled to equal length "
        "(Senushkin et al. 2023).",
        function="mtlib.loss.gradient_weights:weights_aligned_mtl",
    ),
}
"""By the name in `gradients`. A new method is one entry here and its function."""
