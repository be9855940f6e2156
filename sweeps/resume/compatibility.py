"""What must be as it was when a sweep began, compared, and what of it is not, in words."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mtlib.config.schema import to_dict
from mtlib.config.trial import TrialConfig, used_settings
from mtlib.errors import require
from search_spaces.space import all_configs, describe_space
from sweeps.setup.inputs import SweepInputs

MOST_DIFFERENCES = 5
MAX_VALUE_LENGTH = 60
"""Characters of a value."""
PAIRS = ("grid", "ranges", "conditions")
"""What a space's description lists as pairs of a key and what belongs to it."""


def check_unchanged(info: Mapping[str, Any], inputs: SweepInputs, encoder: str | None) -> None:
    """Checks that a sweep would still ask the same of the same; where data and encoder are does not matter.

    Args:
        info: what `sweep.json` says.
        inputs: the space and the data as they are now.
        encoder: fingerprint of the encoder as it is now; None: it is not looked at.

    Raises:
        ValueError: one line that says what differs.
    """
    space = inputs.space
    users = tuple(all_configs(space))
    base = TrialConfig.from_json(json.dumps(info["base"]))  # with what has become configurable since
    before = {"base": without_place(used_settings(base, users)), "space": space_tree(info["space"])}
    now = {
        "base": without_place(used_settings(space.base, users)),
        "space": space_tree(to_dict(describe_space(space))),
    }
    rule = "the search space must be what it was when the sweep began"
    check_none(rule, [*differences("", before, now), *other_orders(before["space"], now["space"])])
    check_data(info["data"], inputs)
    rule = "the encoder must be what it was when the sweep began"
    is_same = encoder in (None, info["encoder"]["fingerprint"])
    require(is_same, rule, f"other weights in {space.base.encoder.name}")


def check_none(rule: str, found: Sequence[str]) -> None:
    """Raises ValueError that names the first differences, if there are any."""
    more = f"; and {len(found) - MOST_DIFFERENCES} more" if len(found) > MOST_DIFFERENCES else ""
    require(not found, rule, "; ".join(found[:MOST_DIFFERENCES]) + more)


def check_data(before: Mapping[str, Any], inputs: SweepInputs) -> None:
    """Raises ValueError unless the same rows are read as before; names the tables that hold others."""
    rule = "the data must be what it was when the sweep began"
    require(before["fingerprint"] == inputs.fingerprint, rule, describe_data_change(before, inputs))


def describe_data_change(before: Mapping[str, Any], inputs: SweepInputs) -> str:
    """Which tables hold other rows; sweeps that began before tables were told apart do not know."""
    tables, now = before.get("tables", {}), inputs.fingerprints
    changed = sorted(name for name in {*tables, *now} if tables.get(name) != now.get(name))
    if not tables or not changed:
        return f"other rows in {inputs.data_folder}"
    return f"other rows of {'; '.join(changed)} in {inputs.data_folder}"


def without_place(base: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as a tree, without the name or folder of its encoder."""
    return {**base, "encoder": {key: value for key, value in base["encoder"].items() if key != "name"}}


def space_tree(described: Mapping[str, Any]) -> dict[str, Any]:
    """A space's description as a tree, by the keys that it searches, without what changes no trial."""
    tree = {key: value for key, value in described.items() if key not in ("hash", "question")}
    return tree | {name: dict(tree[name]) for name in PAIRS}


def differences(key: str, before: Any, now: Any) -> Iterator[str]:
    """What differs between two trees, leaf by leaf, in words.

    Args:
        key: dotted key of both trees; empty at the root.
        before, now: the trees, of plain data.
    """
    before, now = stages_by_number(before), stages_by_number(now)
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in (*before, *(name for name in now if name not in before)):
            yield from entry_differences(f"{key}.{name}".lstrip("."), name, before, now)
    elif before != now:
        yield f"{key} {describe_change(before, now)}"


def stages_by_number(value: Any) -> Any:
    """A list of mappings, as the stages of a plan are, as a mapping by number; all else as it is."""
    is_plan = isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)
    return {str(number): item for number, item in enumerate(value)} if is_plan else value


def other_orders(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """What of a space is the same in another order, in words: grid points are numbered, draws follow one another."""
    grids = before["grid"], now["grid"]
    ordered = {f"space.{name}": (before[name], now[name]) for name in ("grid", "ranges")}
    ordered |= {f"space.grid.{key}": (grids[0][key], grids[1][key]) for key in grids[0] if key in grids[1]}
    for key, (first, second) in ordered.items():
        are_named = isinstance(first, Mapping) and isinstance(second, Mapping)
        if are_named and set(first) == set(second) and list(first) != list(second):
            yield f"{key} is in another order"


def entry_differences(key: str, name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """What differs in one entry of two mappings."""
    if name not in now:
        yield f"{key} is gone"
    elif name not in before:
        yield f"{key} is new: {brief(now[name])}"
    else:
        yield from differences(key, before[name], now[name])


def describe_change(before: Any, now: Any) -> str:
    """How a leaf has changed; of long lists only what has come and gone."""
    are_lists = isinstance(before, list) and isinstance(now, list)
    if not are_lists or max(len(text_of(before)), len(text_of(now))) <= MAX_VALUE_LENGTH:
        return f"was {brief(before)}, is {brief(now)}"
    gone, new = [item for item in before if item not in now], [item for item in now if item not in before]
    said = [f"{brief(items)} {what}" for items, what in ((gone, "gone"), (new, "new")) if items]
    return "has " + " and ".join(said) if said else "is in another order, or has other repetitions"


def text_of(value: Any) -> str:
    """Plain data as it would be typed; words as they are."""
    return value if isinstance(value, str) else json.dumps(value)


def brief(value: Any) -> str:
    """Plain data as text, cut short."""
    text = text_of(value)
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[: MAX_VALUE_LENGTH - 3]}..."
