"""A hook of mkdocs: puts what `--help` prints into `commands.md` when the site is built."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PLACE = re.compile(r"^<!-- help: (.+) -->$", re.MULTILINE)
WIDTH = "100"


def on_page_markdown(markdown: str, **_context: Any) -> str:
    """Replaces each `<!-- help: COMMAND -->` by the help of `python COMMAND`."""
    return PLACE.sub(lambda found: help_block(found[1].split()), markdown)


def help_block(command: list[str]) -> str:
    """The help of a command as a fenced block; CalledProcessError, which stops the build, if it has none."""
    environment = {**os.environ, "COLUMNS": WIDTH, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, *command, "--help"]
    shown = subprocess.run(words, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    return f"```text\n{shown.stdout.rstrip()}\n```"
