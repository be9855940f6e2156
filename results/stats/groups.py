"""Groups of examples that count as one draw: examples that share texts are not independent."""

import numpy as np
import numpy.typing as npt

from mtlib.data.hold_out import are_usable, group_rows, normalise_columns
from mtlib.data.tables import Table, connecting_columns
from results.stats.resampling import Floats, Numbers


def independent_groups(text_groups: npt.ArrayLike | None, num_examples: int) -> Numbers:
    """(rows,) the number, from 0, of the group that each example is drawn with.

    Args:
        text_groups: (rows,) group of connected texts of each example; None if they are not known.
        num_examples: rows.

    Returns:
        The groups of connected texts, if they are known and usable; else each example is a group of its own.
    """
    alone = np.arange(num_examples)
    if text_groups is None:
        return alone
    _, groups, sizes = np.unique(text_groups, return_inverse=True, return_counts=True)
    is_grouped = len(sizes) < num_examples and are_usable(len(sizes), int(sizes.max()), num_examples)
    return np.asarray(groups) if is_grouped else alone


def text_groups_of(table: Table) -> Numbers:
    """Returns the number of the group that each row of a table is drawn with, (rows,): rows that texts or groups
    connect."""
    return independent_groups(group_rows(normalise_columns(connecting_columns(table))), len(table.ids))


def count_groups(groups: Numbers) -> int:
    """Returns the number of groups."""
    return len(np.unique(groups))


def sum_groups(values: Floats, groups: Numbers) -> Floats:
    """Sums over the examples of each group, (models, groups), of values, (models, rows)."""
    _, numbers = np.unique(groups, return_inverse=True)
    return np.stack([np.bincount(numbers, own) for own in values])
