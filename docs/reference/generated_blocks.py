"""A hook of mkdocs: puts what `--help` prints, methods of a table and files into the pages when the site is built.

As a command, `python docs/reference/generated_blocks.py`, it writes the table of all keys into the page of the
configuration, which has it in the repository too.
"""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HELP = re.compile(r"^<!-- help: (.+) -->$", re.MULTILINE)
METHODS = re.compile(r"^<!-- methods: (.+) -->$", re.MULTILINE)
SETTINGS = re.compile(r"^<!-- settings: (.+) -->$", re.MULTILINE)
GROUPS = re.compile(r"^<!-- groups: (.+) -->$", re.MULTILINE)
FILES = re.compile(r"^<!-- content: (.+) -->$", re.MULTILINE)
KEYS = re.compile(r"(?<=<!-- keys -->\n\n).*?(?=\n\n<!-- end of keys -->)", re.DOTALL)
WIDTH = "100"
PAGE_OF_KEYS = ROOT / "docs" / "reference" / "configuration.md"


def on_page_markdown(markdown: str, **_context: Any) -> str:
    """Replaces `<!-- help: COMMAND -->` by the help of `python COMMAND`, methods, settings,
    groups and files alike."""
    with_help = HELP.sub(lambda found: help_block(found[1].split()), markdown)
    with_lists = METHODS.sub(lambda found: method_list(entries_of(found[1])), with_help)
    with_settings = SETTINGS.sub(lambda found: settings_list(entries_of(found[1])), with_lists)
    with_groups = GROUPS.sub(lambda found: group_sections(entries_of(found[1])), with_settings)
    return FILES.sub(lambda found: file_block(ROOT / found[1]), with_groups)


def entries_of(table: str) -> dict[str, Any]:
    """The entries of a table, such as `mtlib.config.losses.LOSSES`."""
    module, _, name = table.rpartition(".")
    found: dict[str, Any] = getattr(importlib.import_module(module), name)
    return found


def method_list(entries: dict[str, Any]) -> str:
    """The names and descriptions of methods."""
    return "\n".join(f"- `{key}`: {entry.description}" for key, entry in entries.items())


def settings_list(entries: dict[str, Any]) -> str:
    """The documentation of the methods' settings."""
    return "\n\n".join(class_block(entry.settings) for entry in entries.values() if entry.settings is not None)


def group_sections(entries: dict[str, Any]) -> str:
    """A section for the group of settings of each method."""
    sections = (f"## {entry.title}: {key}.*\n\n{class_block(entry.settings)}" for key, entry in entries.items())
    return "\n\n".join(sections)


def class_block(settings: type[Any]) -> str:
    """The documentation of a class, which mkdocstrings inserts."""
    return f"::: {settings.__module__}.{settings.__name__}"


def file_block(path: Path) -> str:
    """A Python file as a fenced block."""
    return f"```python\n{path.read_text().rstrip()}\n```"


def help_block(command: list[str]) -> str:
    """The help of a command as a fenced block; CalledProcessError, which stops the build, if it has none."""
    environment = {**os.environ, "COLUMNS": WIDTH, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, *command, "--help"]
    shown = subprocess.run(words, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    return f"```text\n{shown.stdout.rstrip()}\n```"


def with_keys(markdown: str) -> str:
    """The page of the configuration with every key of the general settings."""
    from mtlib.tasks import TASKS
    from search_spaces.presets import general
    from sweeps.cli.keys import markdown_keys

    return KEYS.sub(lambda _found: markdown_keys(general(TASKS)), markdown)


if __name__ == "__main__":
    PAGE_OF_KEYS.write_text(with_keys(PAGE_OF_KEYS.read_text()))
