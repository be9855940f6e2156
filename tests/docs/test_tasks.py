"""docs/tasks.md: its files are read as it says, and it describes every key."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pandas as pd
import pytest

from mtlib.config.task_file import MAX_TASKS, TASK_FILE, TaskEntry, tasks_of_tree
from mtlib.data.__main__ import config_of, main
from mtlib.data.load import read_data
from mtlib.demo.corpus import demo_folder
from mtlib.runtime.program_names import typed_command
from tests.docs.made_up_tasks import write_tables
from tests.scripts import ROOT

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
    printed = capsys.readouterr().out.replace(typed_command("run"), "python sweeps/run.py")
    shown = re.sub(r"(always .*: [^,]*),.*", r"\1", printed)  # metrics besides the task's may be more
    assert shown in [re.sub(r"(always .*: [^,]*),.*", r"\1", text) for _, text in BLOCKS]


def test_the_script_for_tasks_that_share_texts_leaves_no_row_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = [f"text {number}" for number in range(300)]
    pairs = [(texts[at], texts[at + 1], at % 5) for at in range(299) if at % 4 < 3]
    pd.DataFrame({"text": texts, "label": ["yes", "no"] * 150}).to_csv("answers.csv", index=False)
    pd.DataFrame(pairs, columns=["first", "second", "grade"]).to_csv("similar.csv", index=False)
    definitions = """
        [tasks.answers]
        kind = "binary"
        labels = ["no", "yes"]
        texts = ["text"]
        label = "label"
        train = "answers.csv"
        dev = 0.1
        [tasks.similar]
        kind = "regression"
        range = [0, 4]
        texts = ["first", "second"]
        label = "grade"
        train = "similar.csv"
        dev = 0.1
    """
    tables = read_data(config_of(tasks_of_tree(tomllib.loads(definitions))), tmp_path)
    lost = tables["similar", "train"].dropped
    assert lost is not None
    assert lost.share > 0.1
    scripts = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "data.md").read_text(), re.MULTILINE | re.DOTALL)
    exec(next(text for text in scripts if "hold_out_texts" in text), {})
    drawn = re.sub(r'"(\w+).csv"\s+dev = 0.1', r'"\1-train.csv"\ndev = "\1-dev.csv"', definitions)
    tables = read_data(config_of(tasks_of_tree(tomllib.loads(drawn))), tmp_path)
    train, dev = (
        {text for (_, part), table in tables.items() if part == split for column in table.texts for text in column}
        for split in ("train", "dev")
    )
    assert not train & dev
    for name, rows in (("answers", len(texts)), ("similar", len(pairs))):
        num_dev = len(tables[name, "dev"].ids)
        assert len(tables[name, "train"].ids) + num_dev == rows
        assert num_dev / rows == pytest.approx(0.1, abs=0.03)


def test_the_rows_on_the_page_are_those_of_the_files(mine: Path) -> None:
    lines = next(text for _, text in BLOCKS if text.startswith("{"))
    assert (mine / "tone-2024.jsonl").read_text().startswith(lines)
    tables = read_data(config_of(tasks_of_tree(tomllib.loads(DEFINITIONS))), mine)
    table = tables["grades", "dev"]
    for row in range(2):
        cells = [table.ids[row], *(texts[row] for texts in table.texts), str(table.labels[row])]
        assert f"| {' | '.join(cells)} |" in PAGE


@pytest.mark.slow
def test_the_commands_of_the_page_run(mine: Path) -> None:
    """Sweep, selection, predictions and bundle, as a user types them in the project's folder."""
    (mine / "tone_weight.py").write_text(next(text for kind, text in BLOCKS if kind == "python"))
    review = json.dumps({"id": "a", "text": "the acting is fresh"})
    (mine.parent / "new.jsonl").write_text(f"{review}\n{json.dumps({'id': 'b', 'text': ''})}\n")
    for name in ("sweeps", "results", "mtlib", "search_spaces"):
        (mine.parent / name).symlink_to(ROOT / name)
    lines = "".join(text for kind, text in BLOCKS if kind == "bash").splitlines()
    assert [words.split()[1] for words in lines] == [
        "-m",
        "sweeps/run.py",
        "results/selector.py",
        "results/predict.py",
        "results/predict.py",
        "results/predict.py",
    ]
    _, encoder = demo_folder(mine.parent / "cache")
    predicted = []
    for line in lines:
        printed = run_line(line.replace("bert-base-uncased", str(encoder)), mine.parent)
        if line.startswith("python sweeps/run.py"):
            assert "tasks.tone.loss_weight" in printed
            assert "Chosen for Grades:" in printed
        if "--output" in line:
            predicted.append((mine.parent / line.split()[-1]).read_text())
    header, first, second = predicted[0].splitlines()
    assert f"{header}\n" in PAGE
    assert first.split(",")[1] in ("negative", "neutral", "positive")
    assert second == "b,,,,"
    assert predicted[0] == predicted[1]


def run_line(line: str, folder: Path) -> str:
    """The output of a line of the page in a folder, which is the home too; AssertionError with it if it fails."""
    words = [sys.executable, *shlex.split(line.replace("~", str(folder)))[1:]]
    environment = {**os.environ, "HOME": str(folder), "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_the_number_of_tasks_is_right() -> None:
    assert f"any 1 to {MAX_TASKS} tasks" in PAGE
