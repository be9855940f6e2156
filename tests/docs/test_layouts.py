"""docs/layouts.md: what it shows of `tasks.toml` are keys that are there."""

import re
import tomllib
from dataclasses import fields

import pytest

from mtlib.config.data import COMPRESSIONS, FORMATS, TABLE_SUFFIXES
from mtlib.config.task_file import TaskEntry
from tests.scripts import ROOT

PAGE = (ROOT / "docs" / "layouts.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ")]
EXAMPLES = re.findall(r"`(\w+ = .+?)`", "\n".join(ROWS)) + re.findall(r"^```toml\n(.*?)^```", PAGE, re.M | re.S)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_have_keys_of_a_task(example: str) -> None:
    assert tomllib.loads(example).keys() <= {field.name for field in fields(TaskEntry)}


def test_every_format_and_ending_is_described() -> None:
    (table,) = re.findall(r"^## Formats\n(.*?)^## ", PAGE, re.M | re.S)
    assert set(FORMATS) <= set(re.findall(r"^\| `(\w+)` \|", table, re.M))
    assert [ending for ending in (*TABLE_SUFFIXES, *COMPRESSIONS) if f"`{ending}`" not in table] == []
