"""Names for paths in what leaves this machine: model cards, uploads, bundles and trackers."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from mtlib.config.data import HUB_PREFIX
from mtlib.runtime.checksum import hash_of

PATH_KEYS = re.compile(r"(.*\.)?(encoder\.(name|start_from)|files\.(train|dev|test)|sources\.[^.]+\.path)")
"""Dotted keys of a configuration whose values may be paths. No other value is touched: a label may be `/sports`."""
OWN_PLACE = re.compile(r"[/~]|.*://|(.*/)?\.\.(/|$)")
"""Matches the beginning of an absolute path, of a path through `~` or `..`, or of a URI."""
ROOT = r"(?:[a-z0-9]+:/|~)?/"
PLACE = re.compile(
    rf"""(?<="){ROOT}[^"\\]*/[^"\\]+|(?<='){ROOT}[^'\\]*/[^'\\]+|(?<=[\s=,]){ROOT}[^\s=,()<>"'\\]*/[^\s=,()<>"'\\]+"""
)
"""Finds paths and URIs in JSON or a command: in double quotes, in single quotes, or after a blank, `=` or a comma.

`/a` alone is not found: HTML is full of `</a>`.
"""
PRIVATE = re.compile(r"(?<=://)[^\s/@\"'<>]+@|…/([^/\s<>]+/)+")
"""User, password or keys in a URI; folders of a path that a table shows the end of."""


def public_name(place: str) -> str:
    """Returns the last part of a path or URI.

    Two places keep more: the folder of a trial is `SWEEP/trials/TRIAL`, and a source keeps all parts from the one with
    `{split}` on, without which it is invalid. A name on the Hugging Face hub and a path within the data folder name
    nothing of this machine, and stay.
    """
    prefix = HUB_PREFIX if place.startswith(HUB_PREFIX) else ""
    path = place.removeprefix(prefix)
    if not OWN_PLACE.match(path):
        return place
    path = path.partition("?")[0] if "://" in path else path
    parts = re.sub(r"/+(?=[:#]|$)", "", path).split("/")
    kept = [at for at, part in enumerate(parts) if "{split}" in part or (part and parts[at + 1 : -1] == ["trials"])]
    return prefix + "/".join(parts[min(kept, default=-1) :])


def published(value: Any, key: str = "") -> Any:
    """Returns plain data with public names for the paths in it, which are known by their dotted keys."""
    if isinstance(value, Mapping):
        return {name: published(item, f"{key}.{name}") for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [published(item, key) for item in value]
    return public_name(value) if isinstance(value, str) and PATH_KEYS.fullmatch(key) else value


def without_places(text: str, places: Iterable[str]) -> str:
    """Returns a text with public names for these places, `~` for the home folder, and no account in a URI.

    Places with the same name get a part of a hash each.
    """
    names = {place: public_name(place) for place in places}
    shared = Counter(names.values())
    names = {place: f"{name}-{hash_of(place)[:8]}" if shared[name] > 1 else name for place, name in names.items()}
    home = os.path.expanduser("~").rstrip("/")  # noqa: PTH111 - it stays where there is no home
    names |= dict.fromkeys((home, os.path.realpath(home)), "~") if home else {}
    for place, name in sorted(names.items(), key=lambda item: -len(item[0])):
        text = re.sub(rf"(?<![\w+/.<-])(file://)?{re.escape(place)}(?![\w.-])", name.replace("\\", ""), text)
    return PRIVATE.sub("", text)
