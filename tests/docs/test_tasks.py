"""docs/tasks.md: its files are read as it says, and it describes every key."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from mtlib.config.task_file import MAX_TASKS, TASK_FILE, TaskEntry, tasks_of_tree
from mtlib.data.__main__ import config_of, main
from mtlib.data.load import read_data
from tests.docs.made_up_tasks import write_tables
from tests.docs.page_blocks import ROOT

PAGE = (ROOT / "docs" / "tasks.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
KEYS = re.findall(r"^\| `(\w+)` \| `(.+?)` \|", PAGE, re.MULTILINE)
DEFINITIONS = next(text for kind, text in BLOCKS if kind == "toml")


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's folder, in the working directory."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "mine"
    folder.mkdir()
    write_tables(folder)
    (folder / TASK_FILE).write_text(DEFINITIONS)
    return folder


def test_every_key_is_described_with_an_example() -> None:
    assert {key for key, _ in KEYS} == {field.name for field in fields(TaskEntry)}
    for key, example in KEYS:
        assert list(tomllib.loads(example)) == [key]


def test_the_command_prints_what_the_page_shows(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = [text for kind, text in BLOCKS if kind == "bash"]
    assert commands[0] == "python -m mtlib.data mine\n"
    assert main([mine.name]) == 0
    assert capsys.readouterr().out in [text for _, text in BLOCKS]


def test_the_rows_on_the_page_are_those_of_the_files(mine: Path) -> None:
    lines = next(text for _, text in BLOCKS if text.startswith("{"))
    assert (mine / "tone-2024.jsonl").read_text().startswith(lines)
    tables = read_data(config_of(tasks_of_tree(tomllib.loads(DEFINITIONS))), mine)
    table = tables["grades", "dev"]
    for row in range(2):
        cells = [table.ids[row], *(texts[row] for texts in table.texts), str(table.labels[row])]
        assert f"| {' | '.join(cells)} |" in PAGE


def test_the_number_of_tasks_is_right() -> None:
    assert f"any 1 to {MAX_TASKS} tasks" in PAGE
