"""The table of selection methods: a method is one function and one entry of `SELECTION_METHODS`."""

from collections.abc import Mapping

from mtlib.runtime.errors import require
from mtlib.tasks import Task
from results.ensembles.best_k import choose_best_k, choose_best_k_ranks, choose_single
from results.ensembles.greedy import choose_greedy
from results.ensembles.selection_method import ALL_KINDS, Choose, SelectionMethod
from results.ensembles.stacking import choose_weights

SINGLE = "single"

SELECTION_METHODS: Mapping[str, SelectionMethod] = {
    SINGLE: SelectionMethod(title="best single model", choose=choose_single),
    "topk": SelectionMethod(title="mean of the best k", choose=choose_best_k),
    "topk_ranks": SelectionMethod(
        title="mean rank of the best k", choose=choose_best_k_ranks, kinds=("regression",), keeps_scale=False
    ),
    "weights": SelectionMethod(title="weighted mean", choose=choose_weights),
    "greedy": SelectionMethod(title="greedy, with replacement", choose=choose_greedy),
}
"""By name on disk and on the command line. The order is that of the one-standard-error rule, the simplest first; the
first one always chooses a single model."""

AUTOMATIC, ONE_MODEL, BASE = "auto", "one_model", "base"
"""Choosing among all methods; the best model for all tasks together; the base configuration, to compare with."""
SOUP, UNIFORM_SOUP, GREEDY_SOUP = "soup", "soup_uniform", "soup_greedy"
"""Weight soups, which load models, on the command line; and both kinds of them on disk."""
COMMAND_LINE_METHODS = (AUTOMATIC, ONE_MODEL, *SELECTION_METHODS, SOUP)
"""Values of `--method`."""
TITLES = {
    BASE: "base configuration",
    ONE_MODEL: "one model for all tasks",
    **{name: method.title for name, method in SELECTION_METHODS.items()},
    UNIFORM_SOUP: "uniform soup",
    GREEDY_SOUP: "greedy soup",
    AUTOMATIC: "choosing among them",
}
"""By name on disk, as shown in tables and verdicts."""


def method_lines() -> str:
    """The values of `--method` with their titles, a line each."""
    titles = {AUTOMATIC: "the simplest of the best of all that suit the task", ONE_MODEL: TITLES[ONE_MODEL]}
    for name, method in SELECTION_METHODS.items():
        kinds = "" if method.kinds == ALL_KINDS else f" (tasks of kind {' or '.join(method.kinds)})"
        titles[name] = f"{method.title}{kinds}"
    titles[SOUP] = "weight soup, uniform or greedy (loads models)"
    return "\n".join(f"  {name:12}{title}" for name, title in titles.items())


def methods_for(task: Task, requested: str = AUTOMATIC) -> dict[str, Choose]:
    """The methods to cross-fit for a task, the simplest first.

    These are all that suit it (`AUTOMATIC`), or the best single candidate and the requested one of `SELECTION_METHODS`.

    Raises:
        ValueError: the requested method does not suit the task.
    """
    suited = {name: method.choose for name, method in SELECTION_METHODS.items() if method.suits(task)}
    if requested in SELECTION_METHODS:
        kinds = " or ".join(SELECTION_METHODS[requested].kinds)
        scale = "" if task.kind not in kinds else f" with another metric than {task.metric_entry.title}"
        rule = f"method {requested} must be used for tasks of kind {kinds}{scale} (see --task)"
        require(requested in suited, rule, task.name)
    return {name: method for name, method in suited.items() if requested == AUTOMATIC or name in (SINGLE, requested)}
