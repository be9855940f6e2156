"""Groups of rows that texts connect, and the groups that are held out or drawn for dev, by their content alone.

Values of the data's group columns connect rows as texts do: they stand beside these, with a mark (`group_value`).
"""

import functools
import hashlib
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence, Set

import numpy as np

from mtlib.kinds import rarest_label

Texts = Sequence[Sequence[str]]
"""One list per text column, as in `Table.texts`: all of one length, at least one row."""

GROUP_MARK = "\0"
"""Begins what connects rows and is no text; no file of text holds it."""
LEAST_GROUPS = 10
"""Least number of groups from which a variance is estimated, and folds are made."""
LARGEST_SHARE = 0.8
"""Largest share of the examples that one group may hold: as much as is outside one of five folds."""
MAX_LABEL_BINS = 10
"""Strata of a regression: bins of its sorted labels with as many rows each."""


def hold_out_texts(texts: Texts, share: float, strata: np.ndarray | None = None, least: int = 0) -> frozenset[str]:
    """Returns the normalised texts and groups of the rows to hold out:
    whole groups of rows that these connect, near a share of all.

    Each stratum has room for its share of rows (see `quotas`). The strata take groups in turn, the one with the fewest
    rows first, in the order of a hash of the groups' smallest text, independent of seeds and of the order of rows. A
    group is skipped if it has more rows of some stratum than there is room for; with a single stratum, the rows that
    are missing from the share are then fewer than those of the smallest group that is left.

    Args:
        texts: of all rows, and columns of `group_value`.
        share: of the rows, from 0 to 1. The rows that contain a returned text (see `share_text`) are at most as many,
            unless `least` asks for more; none if the smallest group is larger.
        strata: (rows,) a number for each row's stratum, as `label_strata`; None for a single stratum.
        least: rows for which a stratum of two rows or more has room at least.

    Source: this project; the rarest stratum first as in Sechidis et al. 2011, "On the stratification of multi-label
    data".
    """
    columns = normalise_columns(texts)
    groups = group_rows(columns)
    own = np.zeros(len(groups), dtype=int) if strata is None else np.unique(strata, return_inverse=True)[1]
    sizes = np.bincount(own)
    room, content = quotas(sizes, share, least), [Counter[int]() for _ in range(groups.max() + 1)]
    for group, stratum in zip(groups.tolist(), own.tolist(), strict=True):
        content[group][stratum] += 1
    members = defaultdict[int, list[int]](list)
    for group in ordered_groups(columns, groups):
        for stratum in content[group]:
            members[stratum].append(group)
    chosen = np.zeros(len(content), dtype=bool)
    for stratum in np.argsort(sizes, kind="stable").tolist():
        for group in members[stratum]:
            if not chosen[group] and all(count <= room[part] for part, count in content[group].items()):
                chosen[group] = True
                for part, count in content[group].items():
                    room[part] -= count
    return values_in(columns, np.flatnonzero(chosen[groups]))


def values_in(columns: Texts, rows: np.ndarray) -> frozenset[str]:
    """Returns what columns have in the rows with these numbers."""
    return frozenset(column[row] for column in columns for row in rows)


def label_strata(labels: np.ndarray, is_regression: bool, share: float) -> np.ndarray:
    """(rows,) the stratum of each row: its label, of several the rarest; of a regression the bin of its label.

    There are at most `MAX_LABEL_BINS` bins, and no more than rows to draw; equal labels are in one bin.

    Args:
        labels: as in `Table.labels`.
        is_regression: whether they are numbers in a range.
        share: of the rows that is to be drawn.
    """
    if not is_regression:
        return rarest_label(labels)
    num_bins = max(1, min(MAX_LABEL_BINS, int(round(share * len(labels), 6))))
    places: np.ndarray = np.searchsorted(np.sort(labels), labels)  # of equal labels the first one's
    return places * num_bins // len(labels)


def quotas(sizes: np.ndarray, share: float, least: int) -> list[int]:
    """Returns the rows to draw from each stratum:
    its share, rounded by the largest remainders so that the sum is right.

    Strata of a single row come last. From one with two rows or more at least `least` are drawn, even if the sum is then
    exceeded.

    Args:
        sizes: (strata,) rows of each.
        share: of the rows, from 0 to 1.
        least: 0, or 1.
    """
    wanted = np.round(share * sizes, 6)  # 0.29 of 100 rows are 29
    found = np.floor(wanted).astype(int)
    missing = max(0, int(round(share * int(sizes.sum()), 6)) - int(found.sum()))
    found[np.lexsort((found - wanted, sizes < 2))[:missing]] += 1
    drawn: list[int] = np.where(sizes < 2, found, np.maximum(found, least)).tolist()
    return drawn


def share_text(texts: Texts, others: Set[str]) -> np.ndarray:
    """Returns whether each row has a text that, normalised, is in `others`: (rows,) bool."""
    if not others:
        return np.zeros(len(texts[0]), dtype=bool)
    found = [np.array([normalise(text) in others for text in column], dtype=bool) for column in texts]
    shares: np.ndarray = np.logical_or.reduce(found)
    return shares


def normalise_columns(texts: Texts) -> list[list[str]]:
    """Returns every text normalised."""
    return [[normalise(text) for text in column] for column in texts]


def normalise(text: str) -> str:
    """Returns a text without differences of case and white space; what `group_value` returns as it is."""
    return text if text.startswith(GROUP_MARK) else " ".join(text.casefold().split())


def letters_of(text: str) -> str:
    """Returns the letters, marks and numbers of a text without differences of case; all of a text without any."""
    normal = normalise(text)
    return "".join(filter(is_letter, normal)) or normal


@functools.cache
def is_letter(character: str) -> bool:
    """Returns whether a character is a letter, a mark on one, or of a number, in any script."""
    return unicodedata.category(character)[0] in "LMN"


def group_value(space: str, group: str) -> str:
    """Returns what stands for a group, within a space of names, beside texts; "" for none."""
    return f"{GROUP_MARK}{space}{GROUP_MARK}{group}" if group else ""


def group_cell(value: str) -> str:
    """Returns the group that `group_value` has marked; "" for none."""
    return value.rpartition(GROUP_MARK)[2]


def are_usable(num_groups: int, largest_group: int, num_examples: int) -> bool:
    """Returns whether whole groups can be drawn and dealt to folds,
    by their number and the examples in the largest one."""
    return num_groups >= LEAST_GROUPS and largest_group <= LARGEST_SHARE * num_examples


def group_rows(columns: Texts) -> np.ndarray:
    """(rows,) the connected component of each row, from 0, where rows with a common normalised text are connected."""
    from scipy.sparse import coo_array  # only this needs it, and it takes long to import
    from scipy.sparse.csgraph import connected_components

    numbers: dict[str, int] = {}
    nodes = [np.array([numbers.setdefault(text, len(numbers)) for text in column]) for column in columns]
    ends = np.tile(nodes[0], len(nodes)), np.concatenate(nodes)  # each text of a row with its first one
    graph = coo_array((np.ones(len(ends[0]), dtype=bool), ends), shape=(len(numbers), len(numbers)))
    _, components = connected_components(graph, directed=False)
    groups: np.ndarray = components[nodes[0]]
    return groups


def ordered_groups(columns: Texts, groups: np.ndarray) -> list[int]:
    """Returns the groups in the order of the hash of their smallest text."""
    smallest: dict[int, str] = {}
    for group, *row in zip(groups.tolist(), *columns, strict=True):
        text = min(row, key=lambda value: (value.startswith(GROUP_MARK), value))
        smallest[group] = min(text, smallest.get(group, text))
    return sorted(smallest, key=lambda group: hashlib.sha256(smallest[group].encode()).digest())
