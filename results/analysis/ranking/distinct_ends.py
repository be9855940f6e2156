"""Short names of things with long ones: the ends of paths, or of dotted keys, that tell them apart."""

from collections.abc import Sequence


def distinct_ends(names: Sequence[str], separator: str = "/") -> list[str]:
    """The shortest ends of different names, in whole parts and all of the same number of parts, that all differ.

    Args:
        names: e.g. paths.
        separator: between the parts of a name.
    """
    parts = [name.rstrip(separator).split(separator) for name in names]
    ends = list(names)
    for depth in range(max(map(len, parts), default=0), 0, -1):
        shorter = [separator.join(own[-depth:]) for own in parts]
        if len(set(shorter)) < len(shorter):
            break
        ends = shorter
    return ends
