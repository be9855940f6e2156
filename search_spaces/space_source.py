"""The Python file of a search space that was built in Python, so that it can be kept and read like any other file."""

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from mtlib.config.schema import to_dict
from mtlib.config.trial import TrialConfig
from mtlib.runtime.errors import require
from mtlib.runtime.method_file import MODULE_PREFIX
from search_spaces.space import SearchSpace

PLAIN = (str, bool, int, float)
"""Types, besides that of None, whose values a file can hold as they are written."""


def space_source(space: SearchSpace) -> str:
    """Returns the content of a file that defines the space.

    Raises:
        ValueError: a value of the space is neither plain (text, a number, true or false, None), nor a list, a mapping
            or a dataclass of such values.
    """
    values = {field.name: getattr(space, field.name) for field in dataclasses.fields(space)}
    base = values.pop("base").to_json()
    classes = {TrialConfig, SearchSpace, *classes_in(values)}
    imports = sorted(f"from {cls.__module__} import {cls.__qualname__}" for cls in classes)
    lines = [f"    {name}={literal(value, space.name)}," for name, value in values.items()]
    lines.append(f"    base=TrialConfig.from_json({base!r}),")
    return "\n".join([*imports, "", "SPACE = SearchSpace(", *lines, ")", ""])


def literal(value: Any, name: str) -> str:
    """Returns a value as Python code; `name` is that of the space, for messages."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if not can_be_imported(type(value)):
            return literal(to_dict(value), name)
        fields = (f"{f.name}={literal(getattr(value, f.name), name)}" for f in dataclasses.fields(value))
        return f"{type(value).__qualname__}({', '.join(fields)})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{literal(key, name)}: {literal(item, name)}' for key, item in value.items())}}}"
    if isinstance(value, tuple):
        return f"({''.join(f'{literal(item, name)}, ' for item in value)})"
    if isinstance(value, list):
        return f"[{', '.join(literal(item, name) for item in value)}]"
    if value is None:
        return repr(value)
    kinds = [kind for kind in PLAIN if isinstance(value, kind)]  # an entry of an enumeration, or NumPy's float, is one
    require(bool(kinds), f"space '{name}' must hold plain values, as its file is kept with the sweep", repr(value))
    return repr(kinds[0](value))


def can_be_imported(cls: type[Any]) -> bool:
    """Returns whether a file can import a class:
    not one of a file of methods, nor one with the settings of such methods."""
    module = sys.modules.get(cls.__module__)
    return getattr(module, cls.__qualname__, None) is cls and not cls.__module__.startswith(MODULE_PREFIX)


def classes_in(value: Any) -> Iterator[type[Any]]:
    """Yields the dataclasses of a value and of all that it holds."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if not can_be_imported(type(value)):
            return  # it is written as plain data
        yield type(value)
        for field in dataclasses.fields(value):
            yield from classes_in(getattr(value, field.name))
    elif isinstance(value, Mapping):
        yield from (cls for pair in value.items() for part in pair for cls in classes_in(part))
    elif isinstance(value, tuple | list):
        yield from (cls for item in value for cls in classes_in(item))
