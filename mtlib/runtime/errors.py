"""One-line error messages: rule, then value."""

import difflib
import errno
from collections.abc import Iterable, Sequence
from typing import TypeGuard

ALIASES = {
    "lr": "learning_rate",
    "wd": "weight_decay",
    "bs": "batch_size",
    "eps": "epsilon",
    "max_len": "max_length",
    "max_seq_length": "max_length",
    "num_epochs": "epochs",
    "warmup": "warmup_fraction",
    "mse": "mean_squared_error",
    "ce": "cross_entropy",
    "bce": "binary_cross_entropy",
}
"""Last parts of dotted names, and names of losses, as they are called elsewhere, with those here."""


class TrainingDiverged(ArithmeticError):  # noqa: N818 - says what happened, as StopIteration does
    """A loss or a prediction became NaN or infinite."""


class BucketError(OSError):
    """A bucket did not do what it was asked; one line has the operation, the bucket and the server's word."""

    errno = errno.EIO
    """An error without a number would be one of a damaged file."""


class WrongResult(ValueError):  # noqa: N818 - says what happened, as StopIteration does
    """A function of a table, perhaps a user's own, returned what the table does not allow."""


def typed_line(error: BaseException) -> str:
    """Returns the first line of an error's message, after its type unless it is a ValueError, or an answer of a bucket
    or of the operating system, whose messages are for users."""
    is_for_users = type(error) in (ValueError, WrongResult, BucketError) or is_of_system(error)
    return first_line(error) if is_for_users else f"{type(error).__name__}: {first_line(error)}"


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


def nearest_first(name: str, names: list[str], elsewhere: Iterable[str] = (), *, taken: Sequence[str] = ()) -> str:
    """Returns a hint for a wrong name: `did you mean 'x'? known: x, y, z`, nearest first.

    Names `elsewhere`, such as those in groups, are listed where they are near. `taken` names are not suggested.
    """
    near = nearest_names(name, [known for known in (*names, *elsewhere) if known not in taken])
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"{hint}known: {', '.join(near + sorted(set(names) - set(near)))}"


def nearest_names(name: str, names: Sequence[str]) -> list[str]:
    """Returns the names that are near a wrong one, nearest first.

    A name that begins with the wrong one, or has its last part, is near. Of dotted names of one group the last parts
    are compared, as their beginnings are alike. Known abbreviations (`ALIASES`) are spelled out. Capitals, and the
    dashes of flags, make no difference.
    """
    bare = {known.lower().lstrip("-"): known for known in names}
    group, dot, last = name.lower().lstrip("-").rpartition(".")
    last = ALIASES.get(last, last)
    typed = f"{group}{dot}{last}"
    longer = [known for known in bare if typed and known.startswith(typed) and known.count(".") == typed.count(".")]
    same_group = {known.removeprefix(f"{group}{dot}"): known for known in bare if known.rpartition(".")[0] == group}
    ends_so = [known for known in bare if "." in known and known.rpartition(".")[2] == last]
    near = [*ends_so, *(same_group[found] for found in difflib.get_close_matches(last, same_group))]
    others = [known for known in bare if known not in same_group.values()]
    return [
        bare[found]
        for found in dict.fromkeys([*sorted(longer, key=len), *near, *difflib.get_close_matches(typed, others)])
    ]


def is_of_system(error: BaseException) -> TypeGuard[OSError]:
    """Returns whether an error is what an operating system has answered."""
    return isinstance(error, OSError) and error.errno is not None and error.strerror is not None


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message, or its kind if it has none.

    A line that ends in a colon has its reason in the next one. Of what an operating system has answered it is the words
    and the files, without the number.
    """
    text = str(error)
    if is_of_system(error):
        files = [str(name) for name in (error.filename, error.filename2) if name is not None]
        text = ": ".join([str(error.strerror), *([" and ".join(files)] if files else [])])
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]


def reason_of(error: BaseException) -> str:
    """`first_line` as a part of a sentence: without a full stop at its end."""
    return first_line(error).rstrip(".")
