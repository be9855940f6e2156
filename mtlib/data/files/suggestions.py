"""Hints for a missing file or folder: the files that are there, and the folder with the nearest name."""

from collections.abc import Collection
from pathlib import Path

from mtlib.config.data import TABLE_SUFFIXES
from mtlib.runtime.errors import nearest_names

MAX_LISTED_FILES = 10
"""Files of a folder that a message names."""


def describe_folder(folder: Path, suffixes: Collection[str] = TABLE_SUFFIXES) -> str:
    """Returns a list of the files with these suffixes in a folder, by name."""
    try:
        found = sorted(path.name for path in folder.iterdir() if path.suffix.lower() in suffixes and path.is_file())
    except OSError as error:
        return f"the folder {folder} cannot be read ({error.strerror})"
    more = f" and {len(found) - MAX_LISTED_FILES} more" if len(found) > MAX_LISTED_FILES else ""
    names = ", ".join(found[:MAX_LISTED_FILES]) or f"no {' or '.join(suffixes)} file"
    return f"{folder} holds {names}{more}"


def near_folder(folder: Path) -> str:
    """`; did you mean X?` for the folder X beside a missing one with the nearest name; blank if none is near."""
    try:
        beside = [path.name for path in folder.parent.iterdir() if path.is_dir()]
    except OSError:
        return ""
    near = nearest_names(folder.name, beside)
    return f"; did you mean {folder.parent / near[0]}?" if near else ""
