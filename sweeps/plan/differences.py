"""The differences between two trees of plain data, such as configurations, in words."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MAX_DIFFERENCES = 5
MAX_VALUE_LENGTH = 60
"""Characters of a value that a message shows."""


def differences(key: str, before: Any, now: Any) -> Iterator[str]:
    """Yields the differences between two trees of plain data, a text for each leaf; `key` is the dotted key of both."""
    before, now = stages_by_number(before), stages_by_number(now)
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in {**before, **now}:
            dotted = f"{key}.{name}".lstrip(".")
            if name not in now:
                yield f"{dotted} is gone"
            elif name not in before:
                yield f"{dotted} is new: {shortened_text(now[name])}"
            else:
                yield from differences(dotted, before[name], now[name])
    elif before != now:
        yield f"{key} {describe_change(before, now)}"


def stages_by_number(value: Any) -> Any:
    """Returns a list of mappings, such as a plan's stages, as a mapping by number; anything else as it is."""
    is_plan = isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)
    return {str(number): item for number, item in enumerate(value)} if is_plan else value


def listed(differences: Sequence[str]) -> str:
    """Differences as one text, the first of them only where there are many."""
    more = f"; and {len(differences) - MAX_DIFFERENCES} more" if len(differences) > MAX_DIFFERENCES else ""
    return "; ".join(differences[:MAX_DIFFERENCES]) + more


def describe_change(before: Any, now: Any) -> str:
    """Returns how a leaf has changed; of long lists only the added and removed items."""
    are_lists = isinstance(before, list) and isinstance(now, list)
    if not are_lists or max(len(text_of(before)), len(text_of(now))) <= MAX_VALUE_LENGTH:
        return f"was {shortened_text(before)}, is {shortened_text(now)}"
    gone, new = [item for item in before if item not in now], [item for item in now if item not in before]
    changes = [f"{shortened_text(items)} {what}" for items, what in ((gone, "gone"), (new, "new")) if items]
    return "has " + " and ".join(changes) if changes else "is in another order, or has other repetitions"


def shortened_text(value: Any) -> str:
    """Plain data as text, shortened to `MAX_VALUE_LENGTH`."""
    text = text_of(value)
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[: MAX_VALUE_LENGTH - 3]}..."


def text_of(value: Any) -> str:
    """Plain data as text: strings as they are, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)
