"""Values and comments of a proposal as TOML, which has no control characters and no halves of emojis."""

import glob
import json
import re
from collections.abc import Sequence
from pathlib import Path

from mtlib.config.data import is_pattern

UNPRINTED = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""What neither a comment nor a terminal should get as it is."""


def in_toml(value: str | Sequence[str]) -> str:
    """Returns a text or a list of texts as TOML."""
    return escaped(json.dumps(value, ensure_ascii=False))


def path_in_toml(path: Path) -> str:
    """Returns the path of one file as TOML, so that its name is no pattern."""
    name = path.as_posix()
    return in_toml(glob.escape(name) if is_pattern(name) else name)


def comment(text: str) -> str:
    """Returns a text as a line of comment."""
    return f"# {escaped(text)}"


def escaped(text: str) -> str:
    """Returns a text with `\\u00XX` in place of characters that are not printed."""
    return UNPRINTED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
