"""The code blocks of docs/extending.md, applied to a copy of the source packages.

A comment above a block names its location: `<!-- file: PATH -->` is a new file, `<!-- file: PATH, above: LINE -->` and
`<!-- file: PATH, below: LINE -->` are inserted above or below a line of a file.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("mtlib", "search_spaces", "results", "sweeps")
BLOCK = re.compile(r"<!-- file: (\S+?)(?:, (above|below): (.+?))? -->\n```python\n(.*?)```", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Block:
    """A code block of the page."""

    path: str
    side: str
    """`above` or `below` the anchor; empty for a new file."""
    anchor: str
    """A whole line of the file."""
    code: str


def blocks_of(page: str) -> dict[str, list[Block]]:
    """The marked blocks of a page by its second-level headings; headings without any are left out."""
    found = {}
    for section in page.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        blocks = [
            Block(path=path, side=side, anchor=anchor, code=code) for path, side, anchor, code in BLOCK.findall(text)
        ]
        if blocks:
            found[title] = blocks
    return found


def copy_packages(folder: Path) -> Path:
    """Copies the source packages into a folder."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def apply_block(block: Block, folder: Path) -> None:
    """Writes a block into a copy of the packages; AssertionError if the file or line does not exist."""
    path = folder / block.path
    assert path.exists() == bool(block.side), f"{block.path} must {'' if block.side else 'not '}exist"
    if not block.side:
        path.write_text(block.code)
        return
    lines = path.read_text().splitlines()
    assert lines.count(block.anchor) == 1, f"{block.path} must have one line {block.anchor!r}"
    index = lines.index(block.anchor)
    new = block.code.rstrip().splitlines()
    lines[index:index] = [*new, "", ""] if block.side == "above" else []
    lines[index + 1 : index + 1] = new if block.side == "below" else []
    path.write_text("\n".join(lines) + "\n")


def run_in(folder: Path, script: Path, *arguments: str) -> str:
    """The output of a script run with a copy of the packages; AssertionError with the output if it fails."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, str(script), *arguments]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout
