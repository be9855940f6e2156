"""Checks that space, data and encoder of a resumed sweep are unchanged, and names the differences."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mtlib.config.schema import to_dict
from mtlib.config.task_file import TASK_FILE
from mtlib.config.trial import TrialConfig, used_settings
from mtlib.runtime.errors import require
from search_spaces.space import all_configs, describe_space
from sweeps.setup.inputs import SweepInputs
from sweeps.setup.report import text_of

MAX_DIFFERENCES = 5
MAX_VALUE_LENGTH = 60
"""Characters of a value that a message shows."""
PAIRS = ("grid", "ranges", "conditions")
"""Entries of a space's description that are lists of pairs."""


def check_unchanged(info: Mapping[str, Any], inputs: SweepInputs, encoder: str | None) -> None:
    """Checks that a sweep would still train the same trials; the folders of data and encoder may differ.

    `info` is the content of `sweep.json`, `encoder` the fingerprint of the current encoder; None is not compared.

    Raises:
        ValueError: one line that names the differences.
    """
    space = inputs.space
    users = tuple(all_configs(space))
    base = TrialConfig.from_json(json.dumps(info["base"]))  # with the defaults of fields that are newer
    before = {"base": without_encoder_name(used_settings(base, users)), "space": space_tree(info["space"])}
    now = {
        "base": without_encoder_name(used_settings(space.base, users)),
        "space": space_tree(to_dict(describe_space(space))),
    }
    definitions = [tree["base"]["data"].pop("tasks", {}) for tree in (before, now)]
    found = list(differences("tasks", *definitions))
    require(not found, f"the tasks must be defined as they were when the sweep began ({TASK_FILE})", listed(found))
    found = [*differences("", before, now), *other_orders(before["space"], now["space"])]
    require(not found, "the search space must be what it was when the sweep began", listed(found))
    rule = "the data must be what it was when the sweep began"
    require(info["data"]["fingerprint"] == inputs.fingerprint, rule, describe_data_change(info["data"], inputs))
    rule = "the encoder must be what it was when the sweep began"
    is_same = encoder in (None, info["encoder"]["fingerprint"])
    require(is_same, rule, f"other weights in {space.base.encoder.name}")


def listed(differences: Sequence[str]) -> str:
    """Differences as one text, the first of them only where there are many."""
    more = f"; and {len(differences) - MAX_DIFFERENCES} more" if len(differences) > MAX_DIFFERENCES else ""
    return "; ".join(differences[:MAX_DIFFERENCES]) + more


def describe_data_change(before: Mapping[str, Any], inputs: SweepInputs) -> str:
    """The tables whose rows have changed; sweeps of earlier versions have no fingerprints of single tables."""
    tables, now = before.get("tables", {}), inputs.fingerprints
    changed = sorted(name for name in {*tables, *now} if tables.get(name) != now.get(name))
    if not tables or not changed:
        return f"other rows in {inputs.data_folder}"
    return f"other rows of {'; '.join(changed)} in {inputs.data_folder}"


def without_encoder_name(base: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as a tree, without the name or folder of its encoder."""
    return {**base, "encoder": {key: value for key, value in base["encoder"].items() if key != "name"}}


def space_tree(described: Mapping[str, Any]) -> dict[str, Any]:
    """A space's description as a tree by searched keys, without entries that change no trial."""
    tree = {key: value for key, value in described.items() if key not in ("hash", "question")}
    return tree | {name: dict(tree[name]) for name in PAIRS}


def differences(key: str, before: Any, now: Any) -> Iterator[str]:
    """The differences between two trees of plain data, a text for each leaf; `key` is the dotted key of both."""
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
    """A list of mappings, such as a plan's stages, as a mapping by number; anything else as it is."""
    is_plan = isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)
    return {str(number): item for number, item in enumerate(value)} if is_plan else value


def other_orders(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Entries of a space that are equal but in another order, on which grid numbers and samples depend."""
    grids = before["grid"], now["grid"]
    ordered = {f"space.{name}": (before[name], now[name]) for name in ("grid", "ranges")}
    ordered |= {f"space.grid.{key}": (grids[0][key], grids[1][key]) for key in grids[0] if key in grids[1]}
    for key, (first, second) in ordered.items():
        are_named = isinstance(first, Mapping) and isinstance(second, Mapping)
        if are_named and set(first) == set(second) and list(first) != list(second):
            yield f"{key} is in another order"


def describe_change(before: Any, now: Any) -> str:
    """How a leaf has changed; of long lists only the added and removed items."""
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
