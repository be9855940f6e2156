"""What is said where a file is missing: which file may be meant, and what there is in its place."""

import difflib
import re
from collections.abc import Collection, Iterable
from pathlib import Path

from mtlib.config.data import SUFFIXES

SPLITS = {
    "train": "train",
    "training": "train",
    "dev": "dev",
    "devel": "dev",
    "valid": "dev",
    "validation": "dev",
    "val": "dev",
    "test": "test",
}
"""Words in names of files, and the split that they stand for."""
MOST_LISTED = 10
"""Files of a folder that are named."""
NEAR = 0.7
"""How near a name must be, from 0 to 1, as `difflib` measures it; `sst` and `sts` are at .67."""


def describe_missing(folder: Path, missing: Collection[str], used: Collection[str] = ()) -> str:
    """`did you mean 'a.csv'? the folder holds a.csv, b.csv`: what may be meant by missing files, and what is there.

    Only what can help is suggested: a folder with all of the files, or a file whose name is near, that nothing else
    is asked of, and that is not of another split.

    Args:
        folder: where they should be.
        missing: their paths within it, at least one.
        used: paths within it of files that are asked for too, and there.
    """
    for place in (*sub_folders(folder), folder.absolute().parent):
        if all(is_file(place / file) for file in missing):
            return f"did you mean the folder {place}, which has {'them' if len(missing) > 1 else 'it'}?"
    hints = []
    for file in missing:
        path = folder / file
        taken = {(folder / one).name for one in used if (folder / one).parent == path.parent}
        if near := nearest_file(path.name, [name for name in data_files(path.parent) if name not in taken]):
            hints.append(f"'{near}' for {file}" if len(missing) > 1 else f"'{near}'")
    place = (folder / next(iter(missing))).parent
    held = describe_folder(place, name="the folder" if place == folder else str(place))
    return f"did you mean {', '.join(hints)}? {held}" if hints else held


def near_folder(folder: Path) -> str:
    """`; did you mean X?`, X being the folder beside a missing one whose name is nearest; nothing if none is near."""
    beside = {place.name: place for place in sub_folders(folder.parent)}
    near = difflib.get_close_matches(folder.name, beside, n=1, cutoff=NEAR)
    return f"; did you mean {beside[near[0]]}?" if near else ""


def describe_folder(folder: Path, name: str, suffixes: Collection[str] = SUFFIXES) -> str:
    """What a folder, called `name`, holds of files with these suffixes."""
    if not folder.is_dir():
        return f"there is no folder {folder}"
    found = data_files(folder, suffixes)
    more = f" and {len(found) - MOST_LISTED} more" if len(found) > MOST_LISTED else ""
    return f"{name} holds {', '.join(found[:MOST_LISTED]) or f'no {list_suffixes(suffixes)} file'}{more}"


def list_suffixes(suffixes: Iterable[str]) -> str:
    """`.csv, .tsv or .jsonl`."""
    *first, last = suffixes
    return f"{', '.join(first)} or {last}" if first else last


def is_file(path: Path) -> bool:
    """Whether a path is a file; not, if its folder may not be searched."""
    try:
        return path.is_file()
    except OSError:  # Python 3.11 raises PermissionError here
        return False


def data_files(folder: Path, suffixes: Collection[str] = SUFFIXES) -> list[str]:
    """Names of the files with these suffixes in a folder, sorted; none if it cannot be listed."""
    try:
        return sorted(path.name for path in folder.iterdir() if path.suffix.lower() in suffixes and path.is_file())
    except OSError:
        return []


def sub_folders(folder: Path) -> list[Path]:
    """The folders in a folder, sorted."""
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []


def nearest_file(name: str, found: Iterable[str]) -> str | None:
    """The file that may be meant by a missing one; None if none can be: one of another split is not, however near.

    Args:
        name: of the missing file.
        found: names of other files.
    """
    splits, words = split_name(name)
    near: list[tuple[float, bool, str]] = []
    for other in found:
        other_splits, other_words = split_name(other)
        if other_splits <= (splits or {"train"}) and (distance := 1 - nearness(words, other_words)) <= 1 - NEAR:
            near.append((distance, Path(other).suffix != Path(name).suffix, other))
    return min(near)[2] if near else None


def split_name(name: str) -> tuple[set[str], list[str]]:
    """The splits that a file's name tells, and its other words in small letters: of `SST-dev.csv` dev and `sst`."""
    words = re.findall(r"[^\W_]+", Path(name).stem.lower())
    return {SPLITS[word] for word in words if word in SPLITS}, [word for word in words if word not in SPLITS]


def nearness(words: list[str], others: list[str]) -> float:
    """How near two names are, from 0 to 1; 1 where one has all words of the other, as `sst` and `ids sst`."""
    if words and others and (set(words) <= set(others) or set(others) <= set(words)):
        return 1.0
    return difflib.SequenceMatcher(None, " ".join(words), " ".join(others)).ratio()
