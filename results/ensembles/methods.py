"""The table of selection methods: a method is one function and one entry of `SELECTION_METHODS`."""

from collections.abc import Iterable, Mapping, Sequence

from mtlib.config.methods import SELECTION_TABLE, checked_entries
from mtlib.runtime.errors import require, require_name
from mtlib.runtime.method_file import MethodFile, run_method_file
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
COMMAND_LINE_METHODS = (AUTOMATIC, ONE_MODEL, *SELECTION_METHODS)
"""Values of `--method`, but for a user's own methods."""
BASE = "base"
"""The base configuration, where it was trained: methods are compared with it."""
TITLES = {
    BASE: "base configuration",
    "first_values": "first value of each key",  # of selections that were made before
    ONE_MODEL: "one model for all tasks",
    **{name: method.title for name, method in SELECTION_METHODS.items()},
    AUTOMATIC: "choosing among them",
}
"""By name on disk, as shown in tables and verdicts."""


def method_lines() -> str:
    """Returns the built-in values of `--method` with their titles, a line each."""
    titles = {name: TITLES[name] for name in COMMAND_LINE_METHODS} | {AUTOMATIC: "the simplest of the best"}
    return "\n".join(f"  {name:12}{title}" for name, title in titles.items())


def with_own(files: Sequence[MethodFile], of_sweeps: Iterable[MethodFile] = ()) -> dict[str, SelectionMethod]:
    """Adds the selection methods of a user's files to the built-in ones, the simplest first.

    Files that are given take the place of others with methods of the same name, which sweeps began with.

    Raises:
        ValueError: one line with the file: an entry is no selection method, its name is taken, or it is to be simpler
            than one that is not built in.
    """
    table, digests, given = dict(SELECTION_METHODS), dict[str, str](), set[str]()
    for file in dict.fromkeys((*files, *of_sweeps)):
        defined = vars(run_method_file(file))
        own = defined.get(SELECTION_TABLE, {})
        for name, method in checked_entries(file, SELECTION_TABLE, own, SelectionMethod) if own else ():
            is_replaced = file not in files and name in given
            if is_replaced or digests.get(name) == file.digest:
                continue
            rule = f"{file.name}: a name in {SELECTION_TABLE} must not be that of another method"
            require(name not in (*table, *TITLES), rule, f"'{name}'")
            digests[name] = file.digest
            given |= {name} if file in files else set()
            if method.before is None:
                table[name] = method
                continue
            require_name(method.before, SELECTION_METHODS, f"method that '{name}' in {file.name} is simpler than")
            names = list(table)
            names.insert(names.index(method.before), name)
            table = {own: method if own == name else table[own] for own in names}
    return table


def methods_for(
    requested: str = AUTOMATIC, table: Mapping[str, SelectionMethod] = SELECTION_METHODS
) -> dict[str, Choose]:
    """Returns the methods to cross-fit, the simplest first:
    a whole table, or the best single model and the requested one."""
    wanted = table if requested == AUTOMATIC else (SINGLE, requested)
    return {name: method.choose for name, method in table.items() if name in wanted}


def title_of_method(name: str, own: Mapping[str, str]) -> str:
    """Returns the title of a method by its name on disk; `own` are the titles of a user's own ones."""
    return TITLES.get(name) or own.get(name, name)
