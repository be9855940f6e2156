"""The methods that combine the gradients of several tasks: the table `GRADIENT_METHODS`, an entry each.

All but `sum` act on the parameters that several tasks share, and follow the library torchjd. TU is Tuning Up BERT.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

from mtlib.runtime.errors import require
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
    state: Literal["none", "numbers", "weights"] = "none"
    """What it keeps from step to step: nothing, some numbers, or a number per shared weight for each task. With a state
    the function is given two further arguments: by task, in the Gramian's order, the gradients by parameter; and the
    state, tensors by name, which it changes. The trial saves the state. A stage begins with the state of the stage
    before it, unless it resets the optimizer or starts from the best weights."""
    packages: tuple[str, ...] = ()
    """Further packages that it needs, which an extra with the method's name installs."""


@dataclass(frozen=True, kw_only=True)
class CagradSettings:
    """Settings of `cagrad`."""

    cagrad_c: float = 0.4
    """c, at least 0: how far the combination may be from the mean gradient, in lengths of the mean gradient. 0 is the
    mean. Source: Liu et al. 2021 use .4 for NYU-v2 and Cityscapes."""

    def __post_init__(self) -> None:
        require(self.cagrad_c >= 0, "cagrad_c must be at least 0", self.cagrad_c)


@dataclass(frozen=True, kw_only=True)
class FairgradSettings:
    """Settings of `fairgrad`."""

    fairgrad_alpha: float = 1.0
    """alpha, at least 0: 0 is the mean gradient, 1 proportional fairness, 2 minimum potential delay; the larger, the
    more the task with the least progress counts. Source: Ban and Ji 2024, section 3."""

    def __post_init__(self) -> None:
        require(self.fairgrad_alpha >= 0, "fairgrad_alpha must be at least 0", self.fairgrad_alpha)


@dataclass(frozen=True, kw_only=True)
class GradvacSettings:
    """Settings of `gradvac`."""

    gradvac_beta: float = 0.01
    """beta, 0 <= beta <= 1: the share of the newest cosine in the moving averages that are the targets. Source: Wang et
    al. 2021 use .01; torchjd's default is .5."""

    def __post_init__(self) -> None:
        require(0 <= self.gradvac_beta <= 1, "gradvac_beta must be at least 0 and at most 1", self.gradvac_beta)


@dataclass(frozen=True, kw_only=True)
class ExcessMtlSettings:
    """Settings of `excess_mtl`."""

    excess_mtl_step_size: float = 0.01
    """eta_alpha, the step size of the weights' logarithms, above 0. Source: LibMTL's default. With torchjd's, 1, one of
    three tasks of the demonstration had hardly any weight after 20 steps, and its loss rose."""
    excess_mtl_warmup_steps: int = 100
    """The first steps of a task, at least 1, in which its weight stays and the excess risk that later ones are divided
    by is averaged. Source: He et al. 2024, appendix C.1, take three epochs; the number is ours. Without them a sum over
    all weights of the encoder, not a ratio near 1, decides the first weights: one task then gets all weight."""

    def __post_init__(self) -> None:
        require(self.excess_mtl_step_size > 0, "excess_mtl_step_size must be above 0", self.excess_mtl_step_size)
        steps = self.excess_mtl_warmup_steps
        require(steps >= 1, "excess_mtl_warmup_steps must be at least 1", steps)


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
    "cagrad": GradientMethod(
        title="CAGrad",
        description="The direction near the mean gradient that improves the worst task most (Liu et al. 2021). It "
        "needs the extra `cagrad`.",
        function="mtlib.loss.gradient_weights:weights_cagrad",
        settings=CagradSettings,
        packages=("cvxpy", "clarabel"),
    ),
    "fairgrad": GradientMethod(
        title="FairGrad",
        description="The combination that shares the progress of the tasks fairly, in the sense of alpha-fairness (Ban "
        "and Ji 2024).",
        function="mtlib.loss.gradient_weights:weights_fairgrad",
        settings=FairgradSettings,
    ),
    "gradvac": GradientMethod(
        title="GradVac",
        description="Each gradient is turned towards every other, in random order, until their cosine is at least its "
        "moving average over the steps (Wang et al. 2021).",
        function="mtlib.loss.gradient_weights:weights_gradvac",
        settings=GradvacSettings,
        state="numbers",
    ),
    "excess_mtl": GradientMethod(
        title="ExcessMTL",
        description="Weights that grow with the tasks' estimated excess risks (He et al. 2024). It keeps a number per "
        "shared weight for each task, in memory and in saved states.",
        function="mtlib.loss.gradient_weights:weights_excess_mtl",
        settings=ExcessMtlSettings,
        state="weights",
    ),
}
"""By the name in `gradients`. A new method is one entry here and its function."""


def check_packages(name: str, method: GradientMethod) -> None:
    """Raises ValueError if a package is missing that a method needs."""
    missing = [package for package in method.packages if find_spec(package) is None]
    rule = f"gradients {name} must have its packages: pip install 'multitask-sweeps[{name}]'"
    require(not missing, rule, f"none called {', '.join(missing)}")
