"""One-line error messages: rule, then value."""

import difflib
from collections.abc import Iterable, Sequence


class TrainingDiverged(ArithmeticError):  # noqa: N818 - says what happened, as StopIteration does
    """A loss or a prediction became NaN or infinite."""


def require(holds: bool, rule: str, value: object) -> None:
    """Raises ValueError with the rule, then the value, unless the rule holds."""
    if not holds:
        raise ValueError(f"{rule}, got {value}")


def require_once(entries: Sequence[object], rule: str) -> None:
    """Raises ValueError with the rule, then the entries, if one is there twice."""
    require(len(set(entries)) == len(entries), rule, list(entries))


def require_name(name: str, known: Iterable[str], what: str) -> None:
    """Raises ValueError that lists the right names, nearest first, unless `name` is one of them."""
    names = list(known)
    if name not in names:
        raise ValueError(f"unknown {what} '{name}'; {nearest_first(name, names)}")


def nearest_first(name: str, names: list[str], taken: Sequence[str] = ()) -> str:
    """A hint for a wrong name: `did you mean 'x'? known: x, y, z`, nearest first; `taken` names are not suggested."""
    near = nearest_names(name, [known for known in names if known not in taken])
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"{hint}known: {', '.join(near + sorted(set(names) - set(near)))}"


def nearest_names(name: str, names: Sequence[str]) -> list[str]:
    """The names that are near a wrong one, nearest first.

    A name that begins with the wrong one is near. Capitals, and the dashes of flags, make no difference.
    """
    bare = {known.lower().lstrip("-"): known for known in names}
    typed = name.lower().lstrip("-")
    longer = sorted((known for known in bare if typed and known.startswith(typed)), key=len)
    return [bare[found] for found in dict.fromkeys([*longer, *difflib.get_close_matches(typed, bare)])]


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its kind if it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def reason_of(error: BaseException) -> str:
    """`first_line` as a part of a sentence: without a full stop at its end."""
    return first_line(error).rstrip(".")
