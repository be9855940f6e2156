"""A hook of mkdocs: puts what `--help` prints, methods of a table and files into the pages when the site is built."""

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
FILES = re.compile(r"^<!-- content: (.+) -->$", re.MULTILINE)
WIDTH = "100"


def on_page_markdown(markdown: str, **_context: Any) -> str:
    """Replaces `<!-- help: COMMAND -->` by the help of `python COMMAND`, `methods: TABLE`, `content: PATH` alike."""
    with_help = HELP.sub(lambda found: help_block(found[1].split()), markdown)
    with_lists = METHODS.sub(lambda found: method_list(found[1]), with_help)
    return FILES.sub(lambda found: file_block(ROOT / found[1]), with_lists)


def method_list(table: str) -> str:
    """The names and descriptions of the entries of a table, such as `mtlib.config.losses.LOSSES`."""
    module, _, name = table.rpartition(".")
    entries = getattr(importlib.import_module(module), name)
    return "\n".join(f"- `{key}`: {entry.description}" for key, entry in entries.items())


def file_block(path: Path) -> str:
    """A Python file as a fenced block."""
    return f"```python\n{path.read_text().rstrip()}\n```"


def help_block(command: list[str]) -> str:
    """The help of a command as a fenced block; CalledProcessError, which stops the build, if it has none."""
    environment = {**os.environ, "COLUMNS": WIDTH, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, *command, "--help"]
    shown = subprocess.run(words, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    return f"```text\n{shown.stdout.rstrip()}\n```"
