"""Suggestions for missing files: the file or folder with the nearest name, and the files that are there."""

import difflib
import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path

from mtlib.config.data import TABLE_SUFFIXES

SPLIT_WORDS = {
    "train": "train",
    "training": "train",
    "dev": "dev",
    "devel": "dev",
    "valid": "dev",
    "validation": "dev",
    "val": "dev",
    "test": "test",
}
"""Words in names of files, and the splits that they stand for."""
MAX_LISTED_FILES = 10
"""Files of a folder that a message names."""
MIN_SIMILARITY = 0.7
"""Lowest similarity, from 0 to 1 by `difflib`, of a name that is suggested; `sst` and `sts` have .67."""


def describe_missing(
    folder: Path, missing: Collection[str], used: Collection[str] = (), suffixes: Collection[str] = TABLE_SUFFIXES
) -> str:
    """A hint for missing files, such as `did you mean 'a.csv'? the folder holds a.csv, b.csv`.

    Suggests a folder nearby that has all of the files, else files of near names that are neither in use nor of another
    split.

    Args:
        folder: where they should be.
        missing: their paths within it, at least one.
        used: paths within it of files that are needed as well, and are there.
        suffixes: of the files that are suggested and listed.
    """
    for place in (*sub_folders(folder), folder.absolute().parent):
        if all(os.path.isfile(place / file) for file in missing):  # noqa: PTH113 - no error for a forbidden folder
            return f"did you mean the folder {place}, which has {'them' if len(missing) > 1 else 'it'}?"
    hints = []
    for file in missing:
        path = folder / file
        taken = {(folder / one).name for one in used if (folder / one).parent == path.parent}
        if near := nearest_file(path.name, [name for name in data_files(path.parent, suffixes) if name not in taken]):
            hints.append(f"'{near}' for {file}" if len(missing) > 1 else f"'{near}'")
    place = (folder / next(iter(missing))).parent
    name = "the folder" if place == folder else str(place)
    held = describe_folder(place, name, suffixes)
    return f"did you mean {', '.join(hints)}? {held}" if hints else held


def near_folder(folder: Path) -> str:
    """`; did you mean X?` for the folder X beside a missing one with the nearest name; blank if none is near."""
    beside = {place.name: place for place in sub_folders(folder.parent)}
    near = difflib.get_close_matches(folder.name, beside, n=1, cutoff=MIN_SIMILARITY)
    return f"; did you mean {beside[near[0]]}?" if near else ""


def describe_folder(folder: Path, name: str, suffixes: Collection[str]) -> str:
    """Returns a list of the files with these suffixes in a folder that the message calls `name`."""
    if not folder.is_dir():
        return f"there is no folder {folder}"
    found = data_files(folder, suffixes)
    more = f" and {len(found) - MAX_LISTED_FILES} more" if len(found) > MAX_LISTED_FILES else ""
    *first, last = suffixes
    kinds = f"{', '.join(first)} or {last}" if first else last
    return f"{name} holds {', '.join(found[:MAX_LISTED_FILES]) or f'no {kinds} file'}{more}"


def data_files(folder: Path, suffixes: Collection[str]) -> list[str]:
    """Names of the files with these suffixes in a folder, sorted; none if it cannot be listed."""
    try:
        return sorted(path.name for path in folder.iterdir() if path.suffix.lower() in suffixes and path.is_file())
    except OSError:
        return []


def sub_folders(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []


def nearest_file(name: str, found: Iterable[str]) -> str | None:
    """Returns the name among `found` that is nearest to a missing one and not of another split;
    None if none is near."""
    splits, words = split_name(name)
    near: list[tuple[float, bool, str]] = []
    for other in found:
        other_splits, other_words = split_name(other)
        distance = 1 - similarity(words, other_words)
        if other_splits <= (splits or {"train"}) and distance <= 1 - MIN_SIMILARITY:
            near.append((distance, Path(other).suffix != Path(name).suffix, other))
    return min(near)[2] if near else None


def split_name(name: str) -> tuple[set[str], list[str]]:
    """Returns the splits in a file's name, and its other words in lower case: of `SST-dev.csv` dev and `sst`."""
    words = re.findall(r"[^\W_]+", Path(name).stem.lower())
    splits = {SPLIT_WORDS[word] for word in words if word in SPLIT_WORDS}
    return splits, [word for word in words if word not in SPLIT_WORDS]


def similarity(words: list[str], others: list[str]) -> float:
    """Similarity of two names, from 0 to 1; 1 if one has all words of the other, as `sst` and `ids sst`."""
    if words and others and (set(words) <= set(others) or set(others) <= set(words)):
        return 1.0
    return difflib.SequenceMatcher(None, " ".join(words), " ".join(others)).ratio()
