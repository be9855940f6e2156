"""Says why no difference is claimed where dev rows are in too few groups."""

from collections.abc import Mapping

from mtlib.data.hold_out import LARGEST_SHARE, LEAST_GROUPS
from mtlib.runtime.command_line import counted
from results.stats.groups import DrawnGroups


def few_groups_words(found: Mapping[str, DrawnGroups], rows: str = "dev") -> str:
    """E.g. `no difference can be claimed from dev rows of SST in 7 groups (at least 10 are needed)`.

    Args:
        found: the groups of tasks whose rows are in too few, or with one too large, by title; at least one.
        rows: which rows these are.
    """
    parts = []
    for title, drawn in found.items():
        rule = f"at least {LEAST_GROUPS} are needed"
        if len(drawn.sizes) >= LEAST_GROUPS:
            share = drawn.largest / drawn.num_examples
            rule = f"the largest has {share:.0%} of the rows, and {LARGEST_SHARE:.0%} is the most"
        if len(drawn.sizes) == 1:
            rule += ", and --resume writes the record of groups again, if that is lost"
        parts.append(f"{rows} rows of {title} in {counted(len(drawn.sizes), 'group')} ({rule})")
    return f"no difference can be claimed from {' and '.join(parts)}"
