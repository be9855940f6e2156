"""Checks that space, data and encoder of a resumed sweep are unchanged, and names the differences."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from mtlib.config.schema import to_dict
from mtlib.config.trial import TrialConfig, used_settings
from mtlib.runtime.errors import require
from results.records.trials import sweep_encoders
from search_spaces.space import NOT_DECIDING, describe_space
from sweeps.plan.differences import differences, listed
from sweeps.plan.inputs import SweepInputs


def check_unchanged(info: Mapping[str, Any], inputs: SweepInputs, encoders: Mapping[str, str]) -> None:
    """Checks that a sweep would still train the same trials;
    the folders of data, and of a single encoder, may differ.

    `info` is the content of `sweep.json`, `encoders` the fingerprint of each encoder now.

    Raises:
        ValueError: one line that names the differences.
    """
    space = inputs.space
    is_wider = len(space.smaller_grids) > len(info["options"].get("smaller_grids", ()))
    if is_wider:  # what it was before this command added values
        space = replace(space, grid=space.smaller_grids[-1], smaller_grids=space.smaller_grids[:-1])
    users = space.configs
    base = TrialConfig.from_json(json.dumps(info["base"]))  # with the defaults of fields that are newer
    before = {"base": used_settings(base, users), "space": space_tree(info["space"])}
    now = {"base": used_settings(space.base, users), "space": space_tree(to_dict(describe_space(space)))}
    for tree in (before, now):
        tree["base"]["encoder"].pop("name", None)  # fingerprints are compared
        tree["base"]["data"].pop("tasks", None)  # which `read_inputs` has compared
    found = [*differences("", before, now), *other_orders(before["space"], now["space"])]
    require(not found, "the search space must be what it was when the sweep began", listed(found))
    rule = "the data must be what it was when the sweep began"
    rule += ", also for values that --vary adds (a new sweep, --name NEW, may read more)" * is_wider
    require(info["data"]["fingerprint"] == inputs.fingerprint, rule, describe_data_change(info["data"], inputs))
    rule = "the encoder must be what it was when the sweep began"
    begun = sweep_encoders(info)
    for name, fingerprint in encoders.items():
        own = begun.get(name) if len(begun) > 1 else info["encoder"]["fingerprint"]
        require(fingerprint == own, rule, f"other weights in {name}")


def describe_data_change(before: Mapping[str, Any], inputs: SweepInputs) -> str:
    """Returns the tables whose rows have changed."""
    tables, now = before["tables"], inputs.fingerprints
    changed = sorted(name for name in {*tables, *now} if tables.get(name) != now.get(name))
    return f"other rows of {'; '.join(changed)} in {inputs.data_folder}"


def space_tree(described: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a space's description as a tree by searched keys, without entries that change no trial."""
    tree = {key: value for key, value in described.items() if key not in ("hash", *NOT_DECIDING)}
    return tree | {name: dict(tree[name]) for name in ("grid", "ranges", "conditions")}  # lists of pairs


def other_orders(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Entries of a space that are equal but in another order, on which grid numbers and samples depend."""
    grids = before["grid"], now["grid"]
    ordered = {f"space.{name}": (before[name], now[name]) for name in ("grid", "ranges")}
    ordered |= {f"space.grid.{key}": (grids[0][key], grids[1][key]) for key in grids[0] if key in grids[1]}
    for key, (first, second) in ordered.items():
        are_named = isinstance(first, Mapping) and isinstance(second, Mapping)
        if are_named and set(first) == set(second) and list(first) != list(second):
            yield f"{key} is in another order"
