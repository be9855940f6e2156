"""Classes with few dev rows: how far one error moves a score."""

from collections.abc import Sequence

import numpy as np

FEWEST_CLASS_ROWS = 20
"""With fewer dev rows of a class one error moves its F1 by more than .025, and a 95 % interval that is said to hold it
holds it in fewer cases (docs/measurements/statistics.md)."""
MAX_RARE_NAMED = 5
"""Classes that are named; the others are counted."""


def describe_rare_classes(class_names: Sequence[str], num_rows: Sequence[int], metric: str) -> str:
    """Returns which classes have few dev rows, and by how much one error in the rarest moves a score.

    Of n rows that are all predicted, and nothing else is, one that is missed lowers F1 by 1 / (2 n - 1).

    Args:
        class_names: of the task.
        num_rows: dev rows of each class.
        metric: the task's; of `macro_f1` the change is of the mean over the classes that occur, else of the class's F1.

    Returns:
        E.g. `class legal: 8 dev rows; one error moves macro F1 by .01`; empty where no class has few.
    """
    few = sorted((rows, name) for name, rows in zip(class_names, num_rows, strict=True) if rows < FEWEST_CLASS_ROWS)
    if not few:
        return ""
    named = ", ".join(f"{name}: {rows}" for rows, name in few[:MAX_RARE_NAMED])
    more = f" and {len(few) - MAX_RARE_NAMED} more" if len(few) > MAX_RARE_NAMED else ""
    found = f"{'class' if len(few) == 1 else 'classes'} {named}{more} dev rows"
    smallest = next((rows for rows, _ in few if rows > 0), 0)
    if smallest == 0:
        return found
    changed, share = ("macro F1", np.count_nonzero(num_rows)) if metric == "macro_f1" else ("its F1", 1)
    size = f"{1 / (2 * smallest - 1) / share:.1g}".removeprefix("0")
    return f"{found}; one error moves {changed} by {size}"
