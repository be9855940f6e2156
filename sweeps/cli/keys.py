"""Every key of a configuration with its base value, range and meaning, for `--list-keys` and the documentation."""

import ast
import dataclasses
import functools
import inspect
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mtlib.config.loss_weightings import LOSS_WEIGHTINGS
from mtlib.config.methods import Methods
from mtlib.config.schema import hints_of, type_name, types_of, words_of
from mtlib.config.trial import TrialConfig
from mtlib.runtime.console import PrintedTable, fold, table_lines
from results.stats.texts import value_text
from sweeps.plan.checks.space import FLAG_OF_KEY

BOUND = r"(?:above|below|at least|at most) [\d.]*\d"
BOUNDS = re.compile(rf"\b{BOUND}(?: and {BOUND})?|\b[\d.]*\d <=? \w+ <=? [\d.]*\d|\b\d[\d.]* (?:\(none\) )?to [\d.]*\d")
"""The range of a number in the first sentence of a field's docstring."""
SENTENCE_END = re.compile(r"(?<!\be\.g)(?<!\bal)\.(?=\s|$)")
DEFINED_ELSEWHERE = "data.tasks"
"""The key that `tasks.toml` defines."""
STARS = {"tasks": "*", "stages": "*", "data.sources": "NAME"}
"""Groups of which there are several, with what stands for the name or number of each in the listed keys."""

LEGEND = (
    "none: nothing is set, and what holds without the setting stays, such as the encoder's own dropout, all of its "
    "layers, or no such part (docs/reference/configuration.md).",
    "Papers: BB is BERT and Beyond, MP My PAL BERT, TT Triple Threat, TU Tuning Up BERT (docs/glossary.md).",
)
"""Lines below the keys."""


@dataclass(frozen=True, kw_only=True)
class ListedKey:
    """A key of a configuration, or the same key of several tasks, stages or sources."""

    key: str
    base: str
    """The value of the base configuration; where they differ those of all tasks, stages or sources, by name."""
    range: str
    """The values that it may have."""
    meaning: str
    """The first sentence of the docstring of its field."""

    @property
    def section(self) -> str:
        """The group that it belongs to; empty at the top."""
        return self.key.rpartition(".")[0]


def list_keys(base: TrialConfig) -> list[ListedKey]:
    """Returns the keys of a configuration, group by group, those at the top last, without the definitions of tasks."""
    values: dict[str, dict[str, str]] = {}
    fields: dict[str, tuple[Any, str]] = {}
    for key, member, value, owner, name in leaves(base):
        if key != DEFINED_ELSEWHERE:
            typed = (",".join(map(value_text, value)) or "[]") if isinstance(value, tuple) else value_text(value)
            values.setdefault(key, {})[member] = typed
            fields[key] = owner, name
    listed = [describe_key(key, own, *fields[key], base.methods) for key, own in values.items()]
    return sorted(listed, key=lambda item: not item.section)


def describe_key(key: str, values: Mapping[str, str], owner: Any, name: str, methods: Methods) -> ListedKey:
    """Returns a key with the values of its members; `owner` and `name` are the dataclass and the field."""
    text = meaning_of(owner, name, methods)
    differ = len(set(values.values())) > 1
    shown = (
        "; ".join(f"{member}: {value}" for member, value in values.items()) if differ else next(iter(values.values()))
    )
    allowed = f"set by {FLAG_OF_KEY[key]}" if key in FLAG_OF_KEY else allowed_values(hints_of(owner)[name], text)
    return ListedKey(key=key, base=shown, range=allowed, meaning=text)


def leaves(group: Any, key: str = "", member: str = "") -> Iterator[tuple[str, str, Any, Any, str]]:
    """Yields every field that is no group: its key, the task, stage or source that it is of, its value,
    class and name."""
    owner: Any = type(group)
    for name in hints_of(owner):
        value, path = getattr(group, name), f"{key}{name}"
        if dataclasses.is_dataclass(value):
            yield from leaves(value, f"{path}.", member)
        elif path in STARS:
            members = value.items() if isinstance(value, Mapping) else enumerate(value)
            for own, item in members:
                yield from leaves(item, f"{path}.{STARS[path]}.", str(own))
        else:
            yield path, member, value, owner, name


def allowed_values(hint: Any, meaning: str) -> str:
    """Returns the values that a type allows, numbers with their bounds in the field's docstring."""
    found, bounds = [], BOUNDS.search(meaning)
    for kind in types_of(hint):
        number = f"{type_name([kind])} {bounds[0]}" if bounds and kind in (int, float) else type_name([kind])
        found.append("true, false" if kind is bool else ", ".join(map(str, words_of(kind))) or number)
    return " or ".join(found)


def meaning_of(owner: Any, name: str, methods: Methods) -> str:
    """Returns the first sentence of a field's docstring;
    the field may be a setting of a method, which has it instead."""
    of_trials: list[Mapping[str, Any]] = [methods.gradient_methods, LOSS_WEIGHTINGS]
    tables = [methods.losses, methods.heads, methods.batch_orders, *of_trials]
    settings = [entry.settings for table in tables for entry in table.values() if entry.settings is not None]
    classes = [owner, *(cls for cls in settings if name in hints_of(cls))]
    text = next(docs[name] for docs in map(field_docs, classes) if name in docs)
    return SENTENCE_END.split(" ".join(text.split()), maxsplit=1)[0]


@functools.cache
def field_docs(cls: Any) -> dict[str, str]:
    """Returns the docstrings below the fields of a dataclass, by name."""
    (node,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(node, ast.ClassDef), f"{cls} is no class"
    return {
        ast.unparse(field.target): str(below.value.value)
        for field, below in itertools.pairwise(node.body)
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    }


def key_lines(base: TrialConfig, width: int) -> Iterator[str]:
    """Yields the keys as lines of at most `width` columns, a table for each section."""
    yield from fold(
        "Keys for --set and --vary, with base values, ranges and meanings. 'tasks.*.KEY' and 'stages.*.KEY' set a key "
        "of all tasks or stages; 'tasks.NAME.KEY' and 'stages.0.KEY' of one.",
        width,
    )
    for _, group in itertools.groupby(list_keys(base), key=lambda item: item.section):
        items = list(group)
        yield ""
        yield from section_lines(items, width)
    for line in LEGEND:
        yield ""
        yield from fold(line, width)


def section_lines(items: Sequence[ListedKey], width: int) -> list[str]:
    """Returns the table of one section: the meaning stands below base value and range."""
    room = max(30, width - max(len(item.key) for item in items) - 2)
    rows = [[item.key, [*fold(f"{item.base} ({item.range})", room), *fold(f"{item.meaning}.", room)]] for item in items]
    return table_lines(width, PrintedTable(titles=["key", "base value (range), meaning"], rows=rows))


def markdown_keys(base: TrialConfig) -> str:
    """Returns the keys as a table in Markdown."""
    rows = [[f"`{item.key}`", f"`{item.base}`", item.range, f"{item.meaning}."] for item in list_keys(base)]
    escaped = (" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows)
    return "\n".join(
        ["| key | base value | range | meaning |", "| --- | --- | --- | --- |", *(f"| {row} |" for row in escaped)]
    )
