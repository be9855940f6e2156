"""Groups of rows that texts connect, and the groups that are held out for a final score, chosen by texts only."""

import hashlib
from collections.abc import Sequence, Set

import numpy as np

Texts = Sequence[Sequence[str]]
"""One list per text column, as in `Table.texts`: all of one length, at least one row."""


def hold_out_texts(texts: Texts, share: float) -> frozenset[str]:
    """The normalised texts of the rows to hold out: whole groups of rows that texts connect, near a share of all.

    Groups are taken in the order of a hash of their smallest text, independent of seeds and of the order of rows.
    A group that would exceed the share is skipped; the rows that are missing from the share are then fewer than those
    of the smallest group that is left.

    Args:
        texts: of all rows.
        share: of the rows, from 0 to 1. The rows that contain a returned text (see `share_text`) are at most as many;
            none if the smallest group is larger.

    Source: this project.
    """
    columns = normalise_columns(texts)
    groups = group_rows(columns)
    sizes, room = np.bincount(groups).tolist(), round(share * len(groups), 6)  # 0.29 of 100 rows are 29
    chosen = np.zeros(len(sizes), dtype=bool)
    for group in ordered_groups(columns, groups):
        if sizes[group] <= room:
            chosen[group] = True
            room -= sizes[group]
    rows = np.flatnonzero(chosen[groups])
    return frozenset(column[row] for column in columns for row in rows)


def share_text(texts: Texts, others: Set[str]) -> np.ndarray:
    """Whether each row has a text that, normalised, is in `others`: (rows,) bool."""
    if not others:
        return np.zeros(len(texts[0]), dtype=bool)
    found = [np.array([normalise(text) in others for text in column], dtype=bool) for column in texts]
    shares: np.ndarray = np.logical_or.reduce(found)
    return shares


def normalise_columns(texts: Texts) -> list[list[str]]:
    """Every text normalised."""
    return [[normalise(text) for text in column] for column in texts]


def normalise(text: str) -> str:
    """A text without differences of case and white space."""
    return " ".join(text.casefold().split())


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
    """The groups in the order of the hash of their smallest text."""
    smallest: dict[int, str] = {}
    for group, *row in zip(groups.tolist(), *columns, strict=True):
        text = min(row)
        smallest[group] = min(text, smallest.get(group, text))
    return sorted(smallest, key=lambda group: hashlib.sha256(smallest[group].encode()).digest())
