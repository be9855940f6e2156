"""Short names of searched keys, for tables and axes."""

from collections.abc import Sequence

from search_spaces.domain import JOINED_BY


def short_keys(keys: Sequence[str], *taken: str) -> dict[str, str]:
    """A short name for each key: the fewest last parts that no other key has and that are not `taken`, else the key."""
    names = {}
    for key in keys:
        others = [other for other in keys if other != key]
        counts = range(1, key.count(".") + 1)
        shorter = ((last_parts(key, count), {last_parts(other, count) for other in others}) for count in counts)
        names[key] = next((name for name, theirs in shorter if name not in {*taken, *theirs}), key)
    return names


def last_parts(key: str, count: int = 1) -> str:
    """E.g. `learning_rate` of `optimizer.learning_rate`; of joined keys the last parts of each."""
    return JOINED_BY.join(".".join(dotted.split(".")[-count:]) for dotted in key.split(JOINED_BY))
