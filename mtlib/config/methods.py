"""The methods that a configuration may name: the built-in tables, and with them the entries of a user's own files.

A file of methods defines one or more of the tables in `TABLES`, with the names and the entries that the built-in ones
have:

    LOSSES = {"poly1": Loss(title="poly-1 loss", functions={"classes": poly1_loss}, ...)}

It may import installed packages and this one, but no file beside it: its content alone is kept, in every configuration
that may name its methods. It is run once in each process that reads such a configuration, as workers do, and commands
that read the sweep, an exported model or a bundle. `docs/extending.md` has an example of each table.
"""

import functools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args

from mtlib.config.batch_orders import BATCH_ORDERS, BatchOrder
from mtlib.config.gradient_methods import GRADIENT_METHODS, GradientMethod
from mtlib.config.heads import HEADS, Head
from mtlib.config.losses import LOSSES, Loss
from mtlib.config.penalties import PENALTIES, Penalty
from mtlib.kinds import Kind
from mtlib.metrics.metric import Metric
from mtlib.metrics.table import METRICS
from mtlib.runtime.errors import first_line, nearest_first, require
from mtlib.runtime.method_file import MethodFile, read_method_file, run_method_file

METHODS_KEY = "methods"
"""Key of a configuration as plain data under which the files stand whose methods it may name."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Methods:
    """All tables, by the names that configurations use. Two are the same only if they are one object."""

    losses: Mapping[str, Loss] = field(default_factory=lambda: LOSSES)
    batch_orders: Mapping[str, BatchOrder] = field(default_factory=lambda: BATCH_ORDERS)
    penalties: Mapping[str, Penalty] = field(default_factory=lambda: PENALTIES)
    gradient_methods: Mapping[str, GradientMethod] = field(default_factory=lambda: GRADIENT_METHODS)
    heads: Mapping[str, Head] = field(default_factory=lambda: HEADS)
    metrics: Mapping[str, Metric] = field(default_factory=lambda: METRICS)
    files: tuple[MethodFile, ...] = ()
    """The files whose entries are in the tables besides the built-in ones."""
    origins: Mapping[tuple[str, str], MethodFile] = field(default_factory=dict)
    """By table (a field's name) and name the file of each entry that is not built in."""

    @property
    def own_metrics(self) -> dict[str, MethodFile]:
        """The files of metrics that are not built in, by name."""
        return {name: file for (table, name), file in self.origins.items() if table == "metrics"}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles as its files."""
        return load_methods, (self.files,)


BUILT_IN = Methods()

TABLES: Mapping[str, tuple[str, type[Any]]] = {
    "LOSSES": ("losses", Loss),
    "BATCH_ORDERS": ("batch_orders", BatchOrder),
    "PENALTIES": ("penalties", Penalty),
    "GRADIENT_METHODS": ("gradient_methods", GradientMethod),
    "HEADS": ("heads", Head),
    "METRICS": ("metrics", Metric),
}
"""By its name in a file the field of `Methods` that a table is added to, and the class of its entries."""
RESERVED_TERMS = frozenset(
    {"loss", "gradient_norm", "clipped_steps", "loss_weight", "tokens", "steps", "tokens_per_second"}
)
"""What curves have of every training, which no term of a penalty may be called."""
SELECTION_TABLE = "SELECTION_METHODS"
"""Name in a file of the table of selection methods, which `results.ensembles.methods` reads."""


def read_methods(paths: Iterable[str | Path]) -> Methods:
    """Adds the methods of some files to the built-in ones.

    Raises:
        ValueError: in one line, with the file and, where there is one, its line: it cannot be read or run, or it
            defines no table, an entry that is wrong, or a name that is taken.
    """
    files = [read_method_file(Path(path)) for path in paths]
    names = [file.name for file in files]
    require(len(set(names)) == len(names), "files of methods must have different names: rename one", names)
    methods = load_methods(tuple(files))
    for (table, name), file in methods.origins.items():
        rule = f"{file.name}: the name of a method must not be that of a built-in one"
        require(name not in getattr(BUILT_IN, table), rule, f"'{name}'")
    terms = [term for penalty in methods.penalties.values() for term in penalty.terms]
    curves = Counter([*terms, *methods.metrics, *RESERVED_TERMS])
    rule = "metrics and terms of penalties must have names that nothing else in the curves has"
    require(max(curves.values()) == 1, rule, ", ".join(name for name, count in curves.items() if count > 1))
    return methods


def join_methods(first: Methods, second: Methods) -> Methods:
    """Returns the methods of the files of both; a file with the same code and name counts once."""
    known = {(file.name, file.digest) for file in first.files}
    more = [file for file in second.files if (file.name, file.digest) not in known]
    return load_methods((*first.files, *more)) if more else first


@functools.cache
def load_methods(files: tuple[MethodFile, ...]) -> Methods:
    """Returns the methods of files with these contents; each process runs a file once.
    Raises ValueError like `read_methods`.

    An entry of a file takes the place of a built-in one of its name: of a sweep that began before this one was built in
    the file counts.
    """
    if not files:
        return BUILT_IN
    tables: dict[str, dict[str, Any]] = {own: dict(getattr(BUILT_IN, own)) for own, _ in TABLES.values()}
    origins: dict[tuple[str, str], MethodFile] = {}
    for file in files:
        defined = vars(run_method_file(file))
        names = (*TABLES, SELECTION_TABLE)
        found = [name for name in names if name in defined]
        others = [name for name in defined if name.isupper()]
        hint = nearest_first(others[0], list(names)) if others else f"known: {', '.join(names)}"
        require(bool(found), f"{file.name} must define a table of methods", f"none; {hint}")
        for name in found:
            if name not in TABLES:
                continue
            own, entry_class = TABLES[name]
            for key, entry in checked_entries(file, name, defined[name], entry_class):
                before = origins.get((own, key))
                rule = f"{file.name}: a name in {name} must not be that of an entry of another file"
                require(before is None, rule, f"'{key}', which {before.name if before else ''} has")
                place = f"{file.name}: {name}['{key}']"
                check_settings(place, key, entry)
                check_entry(place, entry, [other for name, other in tables[own].items() if name != key])
                tables[own][key], origins[own, key] = entry, file
    return Methods(**tables, files=files, origins=origins)


def methods_to_tree(methods: Methods) -> list[dict[str, str]]:
    """Returns the files of methods as plain data."""
    return [{"name": file.name, "source": file.source} for file in methods.files]


def methods_of_tree(tree: Mapping[str, Any]) -> Methods:
    """The methods that a configuration, as plain data, may name; raises like `read_methods`."""
    files = tree.get(METHODS_KEY) or ()
    return load_methods(tuple(MethodFile(name=file["name"], source=file["source"]) for file in files))


def checked_entries(file: MethodFile, table: str, entries: Any, entry_class: type[Any]) -> Iterable[tuple[str, Any]]:
    """Yields the entries of a file's table by name; ValueError if they are of another kind."""
    is_table = isinstance(entries, Mapping) and bool(entries)
    require(is_table, f"{file.name}: {table} must be a table of entries by name", f"{entries!r:.80}")
    for name, entry in entries.items():
        is_name = isinstance(name, str) and name.isidentifier() and name == name.lower()
        require(is_name, f"{file.name}: names in {table} must be words in small letters", repr(name))
        rule = f"{file.name}: {table}['{name}'] must be a {entry_class.__name__}"
        require(isinstance(entry, entry_class), rule, f"{entry!r:.80}")
        yield name, entry


def check_settings(place: str, name: str, entry: Any) -> None:
    """Checks that an entry's settings are a dataclass with defaults, whose fields, if they join others, have its name.

    Args:
        place: of the entry, for messages.
        name: of the entry.
        entry: of any table.
    """
    settings = getattr(entry, "settings", None)
    if settings is None:
        return
    is_class = isinstance(settings, type) and is_dataclass(settings)
    require(is_class, f"{place}: settings must be a dataclass", repr(settings))
    names = [own.name for own in fields(settings)]
    if isinstance(entry, Penalty):  # its settings are a group of their own
        rule = f"{place}: settings must have the fields weight and tasks"
        require({"weight", "tasks"} <= set(names), rule, ", ".join(names))
    else:
        rule = f"{place}: settings must be called {name}_..., as they stand beside others"
        require(all(own.startswith(f"{name}_") for own in names), rule, ", ".join(names))
        without = [own.name for own in fields(settings) if own.default is MISSING]
        require(not without, f"{place}: settings must each have a plain default", f"none of {', '.join(without)}")
    try:
        settings()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place}: settings must have right defaults, got: {first_line(error)}") from error


def check_entry(place: str, entry: Any, others: Iterable[Any]) -> None:
    """Checks what an entry says besides its settings; `others` are the other entries of its table."""
    if isinstance(entry, Penalty):
        terms, taken = entry.terms, {term for other in others for term in other.terms} | RESERVED_TERMS
        are_words = isinstance(terms, tuple) and bool(terms) and all(isinstance(term, str) for term in terms)
        require(are_words, f"{place}: terms must be a tuple of names, at least one", repr(terms))
        is_free = len(set(terms)) == len(terms) and not taken & set(terms)
        require(is_free, f"{place}: terms must be names that nothing else in the curves has", list(terms))
    if isinstance(entry, Loss):
        rule = f"{place}: functions must be by kind of task, {', '.join(get_args(Kind))}"
        require(bool(entry.functions) and set(entry.functions) <= {*get_args(Kind)}, rule, ", ".join(entry.functions))
