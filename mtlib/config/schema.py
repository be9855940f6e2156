"""Frozen dataclasses from text, JSON and dotted keys and back, with errors of one line."""

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from mtlib.runtime.errors import nearest_first, nearest_names, require, require_name

Class = TypeVar("Class", bound=type)

NONE_WORDS = ("none", "null")
"""How None is written in text, in lower case."""


@functools.cache
def hints_of(cls: Any) -> dict[str, Any]:
    """Returns the types of a dataclass's fields by name."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


def with_fields(fields: Mapping[str, tuple[Any, Any]]) -> Callable[[Class], Class]:
    """Declares further fields of a class, a type and a default by name, before `dataclass` reads it."""

    def declare(cls: Class) -> Class:
        for name, (hint, default) in fields.items():
            assert name not in cls.__annotations__, f"{cls.__name__}.{name} is declared twice"
            cls.__annotations__[name] = hint
            setattr(cls, name, default)
        return cls

    return declare


def fields_of(settings: Iterable[Any]) -> dict[str, tuple[Any, Any]]:
    """Returns the fields of dataclasses of settings, for `with_fields`; None has none."""
    classes = [cls for cls in settings if cls is not None]
    return {f.name: (hints_of(cls)[f.name], f.default) for cls in classes for f in dataclasses.fields(cls)}


def settings_of(settings: type[Any] | None, group: Any) -> dict[str, Any]:
    """Returns the values that a group of the configuration has for the fields of a dataclass of settings.

    Raises:
        ValueError: one of them is out of range.
    """
    if settings is None:
        return {}
    values = {f.name: getattr(group, f.name) for f in dataclasses.fields(settings)}
    settings(**values)
    return values


def to_dict(value: Any) -> Any:
    """Dataclasses and mappings as plain dictionaries, tuples as lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_dict(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: to_dict(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_dict(item) for item in value]
    return value


def set_in_tree(tree: dict[str, Any], key: str, value: Any, open_groups: tuple[str, ...] = ()) -> None:
    """Sets one dotted key, whose parts are names of fields and positions in lists.

    Directly under a group of `open_groups` a name may be new; it begins as an empty group, whose keys are not checked
    here.
    """
    *parents, last = key.split(".")
    if not parents and last not in tree:
        raise ValueError(f"unknown key '{key}'; {nearest_first(key, list(tree), leaf_keys(to_dict(tree)))}")
    node: Any = tree
    for position, part in enumerate(parents):
        parent = ".".join(parents[:position])
        if parent in open_groups:
            node.setdefault(part, {})
        node = node[index_of(node, part, key, parent)]
        if not isinstance(node, dict | list):
            raise ValueError(f"{'.'.join(parents[: position + 1])} is a single value, it has no '{last}'")
    is_open = not {".".join(parents), ".".join(parents[:-1])}.isdisjoint(open_groups)
    node[last if is_open else index_of(node, last, key, ".".join(parents))] = value


def leaf_keys(tree: Any, group: str = "") -> Iterator[str]:
    """Yields the dotted keys of all values in a tree of groups and lists of groups."""
    for name, item in enumerate(tree) if isinstance(tree, list) else tree.items():
        items = item if isinstance(item, list) else [item]
        if items and all(isinstance(part, Mapping) for part in items):
            yield from leaf_keys(item, f"{group}{name}.")
        else:
            yield f"{group}{name}"


def index_of(node: dict[str, Any] | list[Any], part: str, key: str, parent: str) -> str | int:
    """Returns the index in a list, or the key in a dictionary, that `part` of a dotted key stands for."""
    if isinstance(node, list):
        if not part.isdigit() or int(part) >= len(node):
            raise ValueError(f"{parent} has positions 0..{len(node) - 1}, got '{part}' in '{key}'")
        return int(part)
    where = f"{parent}." if parent else ""
    require_name(f"{where}{part}", [f"{where}{name}" for name in node], "key")
    return part


def from_dict(cls: Any, tree: Any, where: str) -> Any:
    """Builds the dataclass `cls` from plain dictionaries and lists."""
    if not isinstance(tree, Mapping):
        raise ValueError(f"{where or 'a configuration'} must be a group of keys, got {tree!r}")
    hints = hints_of(cls)
    prefix = f"{where}." if where else ""
    for key in tree:
        if key not in hints:
            require_name(f"{prefix}{key}", [f"{prefix}{name}" for name in hints], "key")
    values = {key: read_value(hints[key], item, f"{prefix}{key}") for key, item in tree.items()}
    for f in dataclasses.fields(cls):
        if f.default is f.default_factory is dataclasses.MISSING and f.name not in values:
            raise ValueError(f"{prefix}{f.name} is missing")
    try:
        return cls(**values)
    except ValueError as error:  # a field of a task or stage does not know whose it is
        raise ValueError(f"{where}: {error}" if "." in where else str(error)) from error


def read_value(hint: Any, item: Any, where: str) -> Any:
    """`item` as the type `hint` says: a nested dataclass, a tuple, a mapping, a scalar (text is parsed), anything."""
    whole, hint = hint, type_if_given(hint, item)
    if hint is Any:
        return item
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return item if isinstance(item, hint) else from_dict(hint, item, where)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        item = split_text(item) if isinstance(item, str) else item
        if not isinstance(item, list | tuple):
            choices = [kind for kind in types_of(whole) if kind is not type(None)]
            raise ValueError(f"{where} must be {type_name(choices)}, got {item!r}")
        try:
            return tuple(read_value(arguments[0], part, f"{where}.{index}") for index, part in enumerate(item))
        except ValueError as error:
            if words := [word for kind in types_of(whole) for word in words_of(kind)]:  # a misspelt one, perhaps
                raise ValueError(f"{error}; besides a list it may be {', '.join(words)}") from error
            raise
    if is_mapping(hint):
        require(isinstance(item, Mapping), f"{where} must be a group of keys", repr(item))
        return {key: read_value(arguments[1], part, f"{where}.{key}") for key, part in item.items()}
    return read_scalar(hint, item, where)


def type_if_given(hint: Any, item: Any) -> Any:
    """Returns the tuple or dataclass type of a union, as `tuple[int, ...] | None`,
    unless `item` is one of its plain types.

    Plain types are text, numbers, and None with the words for it. For a mapping it is the union's mapping or
    dataclass type, for a word of a `Literal` in the union that.
    """
    if words := [kind for kind in types_of(hint) if isinstance(item, str) and item in words_of(kind)]:
        return words[0]
    groups = [kind for kind in types_of(hint) if is_mapping(kind) or dataclasses.is_dataclass(kind)]
    if groups and (isinstance(item, Mapping) or type(item) in groups):
        return groups[0]
    group, plain = group_and_plain_types(hint)
    is_plain = isinstance(item, plain) and not isinstance(item, bool)
    return hint if group is None or is_plain or str(item).lower() in NONE_WORDS else group


def is_mapping(hint: Any) -> bool:
    """Returns whether a type is a mapping."""
    origin = get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, Mapping)


@functools.cache
def group_and_plain_types(hint: Any) -> tuple[Any, tuple[type, ...]]:
    """Returns the first tuple or dataclass type of a union, None without one;
    and the types of text and numbers in it."""
    found = [kind for kind in types_of(hint) if get_origin(kind) is tuple or dataclasses.is_dataclass(kind)]
    plain = tuple(kind for kind in types_of(hint) if kind in (str, int, float))
    return (found[0] if found else None), (*plain, int) if float in plain else plain


@functools.cache
def types_of(hint: Any) -> tuple[Any, ...]:
    """Returns the members of a union, or the type itself."""
    return get_args(hint) if get_origin(hint) in (types.UnionType, typing.Union) else (hint,)


def split_text(text: str) -> list[str]:
    """`a,b`, `[a,b]` or `["a","b"]` as a list."""
    return [part.strip(" \"'") for part in text.strip().removeprefix("[").removesuffix("]").split(",") if part.strip()]


def read_scalar(hint: Any, item: Any, where: str) -> Any:
    """Returns a number, truth value, word or None, read from text where it came as text."""
    choices = types_of(hint)
    if type(None) in choices and str(item).lower() in NONE_WORDS:
        return None
    if isinstance(item, str) and str not in choices and not any(map(words_of, choices)):
        item = parse_text(item, choices, where)
    check_value(hint, item, where)
    return item


def parse_text(text: str, choices: tuple[Any, ...], where: str) -> Any:
    """Text from a command line as the first of the types that reads it."""
    if bool in choices and text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        if number in choices:
            try:
                return number(text)
            except ValueError:
                continue
    raise ValueError(f"{where} must be {type_name(choices)}, got '{text}'")


def check_types(value: Any, title: Callable[[str], str] = str) -> None:
    """Checks every field of a dataclass against its annotation; an int where a float belongs becomes a float.

    `title` returns what a message calls a field, from its name.
    """
    hints = hints_of(value.__class__)
    for f in dataclasses.fields(value):
        item, hint = getattr(value, f.name), hints[f.name]
        if isinstance(item, int | float) and not isinstance(item, bool) and float in (hint, *get_args(hint)):
            object.__setattr__(value, f.name, as_float(item, title(f.name)))
        elif isinstance(item, list):
            object.__setattr__(value, f.name, tuple(item))
        check_value(hint, getattr(value, f.name), title(f.name))


def as_float(item: float, where: str) -> float:
    """One float for each number, however it was written: 1 and 1.0, 0.0 and -0.0."""
    try:
        return float(item) + 0.0
    except OverflowError as error:
        raise ValueError(f"{where} must be finite, got {item}") from error


def check_value(hint: Any, item: Any, where: str) -> None:
    """Raises ValueError unless `item` is of the type that `hint` says and, if a float, finite."""
    hint = type_if_given(hint, item)
    origin = get_origin(hint)
    if hint is Any or (item is None and type(None) in get_args(hint)):
        return
    if words := words_of(hint):
        if item not in words:
            names = list(map(str, words))
            ordered = dict.fromkeys([*nearest_names(str(item), names), *names])
            raise ValueError(f"{where} must be one of {', '.join(ordered)}, got {item}")
        return
    allowed = allowed_types(hint)
    if not isinstance(item, allowed) or (isinstance(item, bool) and bool not in allowed):
        raise ValueError(f"{where} must be {type_name(types_of(hint))}, got {item!r}")
    if isinstance(item, float) and not math.isfinite(item):
        raise ValueError(f"{where} must be finite, got {item}")
    parts: Any = item if origin is tuple else ()
    for part in parts:
        check_value(get_args(hint)[0], part, f"an entry of {where}")


@functools.cache
def allowed_types(hint: Any) -> tuple[type, ...]:
    """Returns the classes whose instances a hint allows; a whole number becomes a float."""
    allowed = tuple(get_origin(kind) or kind for kind in types_of(hint))
    return (*allowed, int) if float in allowed else allowed


@functools.cache
def words_of(hint: Any) -> tuple[Any, ...]:
    """Returns the words that a `Literal`, or `Annotated[str, words]`, allows; none for other types."""
    if get_origin(hint) is Annotated:
        return tuple(hint.__metadata__[0])
    return get_args(hint) if get_origin(hint) is Literal else ()


def type_name(choices: Iterable[Any]) -> str:
    names = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "text",
        type(None): "none",
        tuple: "a list",
        Mapping: "a group of keys",
    }
    found = (get_origin(choice) or choice for choice in choices)
    return " or ".join(names.get(choice, getattr(choice, "__name__", str(choice))) for choice in found)
