"""The table of selection methods: a method is one function and one entry of `SELECTION_METHODS`."""

from collections.abc import Mapping

from results.ensembles.best_k import choose_best_k, choose_single
from results.ensembles.greedy import choose_greedy
from results.ensembles.selection_method import Choose, SelectionMethod
from results.ensembles.stacking import choose_weights

SINGLE = "single"

SELECTION_METHODS: Mapping[str, SelectionMethod] = {
    SINGLE: SelectionMethod(title="best single model", choose=choose_single),
    "topk": SelectionMethod(title="mean of the best k", choose=choose_best_k),
    "weights": SelectionMethod(title="weighted mean", choose=choose_weights),
    "greedy": SelectionMethod(title="greedy, with replacement", choose=choose_greedy),
}
"""By name on disk and on the command line. The order is that of the one-standard-error rule, the simplest first; the
first one always chooses a single model."""

AUTOMATIC, ONE_MODEL = "auto", "one_model"
"""Choosing among all methods; the best model for all tasks together."""
BASE, FIRST_VALUES = "base", "first_values"
"""What methods are compared with: the base configuration, or where that was not trained the one of the first values."""
COMMAND_LINE_METHODS = (AUTOMATIC, ONE_MODEL, *SELECTION_METHODS)
"""Values of `--method`."""
TITLES = {
    BASE: "base configuration",
    FIRST_VALUES: "configuration of the first values",
    ONE_MODEL: "one model for all tasks",
    **{name: method.title for name, method in SELECTION_METHODS.items()},
    AUTOMATIC: "choosing among them",
}
"""By name on disk, as shown in tables and verdicts."""


def method_lines() -> str:
    """The values of `--method` with their titles, a line each."""
    titles = {name: TITLES[name] for name in COMMAND_LINE_METHODS} | {AUTOMATIC: "the simplest of the best"}
    return "\n".join(f"  {name:12}{title}" for name, title in titles.items())


def methods_for(requested: str = AUTOMATIC) -> dict[str, Choose]:
    """The methods to cross-fit, the simplest first: all of them, or the best single candidate and the requested one."""
    wanted = SELECTION_METHODS if requested == AUTOMATIC else (SINGLE, requested)
    return {name: method.choose for name, method in SELECTION_METHODS.items() if name in wanted}
