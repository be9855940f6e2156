"""Search spaces from files: what is read, every mistake as one line, and what workers need of the file."""

import dataclasses
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mtlib.tasks import TASKS
from search_spaces.presets import general
from search_spaces.space import load_space, space_names
from search_spaces.space_file import MODULE_NAME, find_space, resolve_name
from tests.one_line_error import one_line_error
from tests.scripts import ROOT

SPACE = """\
import dataclasses

from search_spaces.presets import bert_and_beyond
from search_spaces.space import SearchSpace

SPACE = SearchSpace(
    name="mine",
    question="How long should an input be?",
    base=bert_and_beyond(),
    grid={"encoder.max_length": (32, 64)},
)
"""
MAKER = """\
from search_spaces.presets import general
from search_spaces.space import SearchSpace

def make_space(tasks):
    return SearchSpace(name="mine", question="?", base=general(tasks), grid={"encoder.max_length": (32, 64)})
"""
Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file."""

    def write_space(text: str) -> Path:
        path = tmp_path / "my_space.py"
        path.write_text(text)
        return path

    return write_space


def test_space_is_read_from_a_file_with_its_content(write: Write) -> None:
    path = write(SPACE)
    space, source = find_space(str(path), TASKS)
    assert (space.name, space.question) == ("mine", "How long should an input be?")
    assert dict(space.grid) == {"encoder.max_length": (32, 64)}
    assert source == path.read_bytes()
    assert MODULE_NAME not in sys.modules


def test_a_function_of_the_file_gets_the_datas_tasks(write: Write) -> None:
    tasks = {name: TASKS[name] for name in ("sst", "sts")}
    space, _ = find_space(str(write(MAKER)), tasks)
    assert (space.name, space.base) == ("mine", general(tasks))
    both, _ = find_space(str(write(SPACE + MAKER)), tasks)
    assert both == space
    assert find_space(str(write(SPACE + MAKER)), TASKS)[0] == find_space(str(write(SPACE)), TASKS)[0]
    assert MODULE_NAME not in sys.modules


def test_built_in_space_is_found_by_its_name_or_by_the_path_of_its_file() -> None:
    path = ROOT / "search_spaces" / "questions" / "smart_lambda.py"
    former = ROOT / "search_spaces" / "smart_lambda.py"
    assert path.is_file()
    assert {resolve_name(name) for name in (str(path), str(former), "smart_lambda")} == {"smart_lambda"}
    assert find_space("smart_lambda", TASKS) == (load_space("smart_lambda"), None)


def test_path_becomes_absolute(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(SPACE)
    monkeypatch.chdir(path.parent)
    monkeypatch.setenv("HOME", str(path.parent))
    assert {resolve_name(name) for name in ("my_space.py", "./my_space.py", "~/my_space.py")} == {str(path)}
    message = one_line_error(find_space, "my_space", TASKS)
    assert message == "--space must be a name or a path, got 'my_space'; did you mean 'my_space.py'?"


def test_space_may_change_a_built_in_one_and_define_classes(write: Write) -> None:
    path = write(
        "from __future__ import annotations\n"
        "import dataclasses\n"
        "from enum import StrEnum\n"
        "from search_spaces.questions import smart_lambda\n"
        "class Mode(StrEnum):\n"
        "    PAPER = 'paper'\n"
        "@dataclasses.dataclass\n"
        "class Own:\n"
        "    number: int = 1\n"
        "SPACE = dataclasses.replace(smart_lambda.SPACE, name='mine', grid={'smart.mode': (Mode.PAPER, 'random')})\n"
    )
    space, _ = find_space(str(path), TASKS)
    assert space.base == load_space("smart_lambda").base
    assert list(space.grid["smart.mode"]) == ["paper", "random"]


@pytest.mark.parametrize(
    ("line", "base"),
    [
        ("from search_spaces import smart_lambda", "smart_lambda.SPACE"),
        ("from search_spaces.smart_lambda import SPACE", "SPACE"),
        ("import search_spaces.smart_lambda", "search_spaces.smart_lambda.SPACE"),
    ],
)
def test_a_file_may_import_a_question_by_its_short_name(line: str, base: str, write: Write) -> None:
    """As files of users do, and the copies of them in folders of sweeps."""
    path = write(f"import dataclasses\n{line}\nSPACE = dataclasses.replace({base}, name='mine')\n")
    space, _ = find_space(resolve_name(str(path)), TASKS)
    assert space == dataclasses.replace(load_space("smart_lambda"), name="mine")


MISTAKES: dict[str, tuple[str, str]] = {
    "syntax error": (SPACE.replace("SPACE =", "SPACE = ="), r"my_space\.py, line 6: SyntaxError: invalid syntax"),
    "encoding": ("# coding: latin-2000\n" + SPACE, r"my_space\.py: SyntaxError: .*latin-2000"),
    "exception": (
        "def ratio():\n    return 1 / 0\n\nratio()\n" + SPACE,
        r"my_space\.py, line 2: ZeroDivisionError: division by zero$",
    ),
    "end of the process": ("import sys\nsys.exit(3)\n", r"line 2: SystemExit: 3$"),
    "several lines": ("raise RuntimeError('first\\nsecond')\n", r"line 1: RuntimeError: first$"),
    "no space": (
        "x = 1\n",
        r"my_space\.py must define SPACE, a SearchSpace, or make_space\(tasks\), a function that returns one, got no",
    ),
    "another name": (
        SPACE.replace("SPACE =", "space ="),
        r"must define SPACE, a SearchSpace, or .*, got space, a SearchSpace$",
    ),
    "another type": ("SPACE = {'name': 'mine'}\n", r"SPACE in .* must be a SearchSpace, got dict \{'name': 'mine'\}$"),
    "a class": (
        "from search_spaces.space import SearchSpace as SPACE\n",
        r"SPACE in .* must be a SearchSpace, got type ",
    ),
    "subclass": (
        SPACE.replace("SPACE = SearchSpace(", "class Own(SearchSpace): pass\n\nSPACE = Own("),
        r"SPACE in .* must be a SearchSpace, got Own ",
    ),
    "two spaces": (SPACE + "OTHER = SPACE\n", r"must define one SearchSpace, SPACE, got OTHER too$"),
    "built-in name": (
        SPACE.replace('"mine"', '"smart_lambda"'),
        r"the space in .* must have a name that no built-in space has, got name='smart_lambda'$",
    ),
    "wrong key": (
        SPACE.replace("encoder.max_length", "encoder.max_lenght"),
        r"line 6: space 'mine', trial 0000 .*unknown key 'encoder.max_lenght'; did you mean 'encoder.max_length'\?",
    ),
    "no list": (
        SPACE.replace("(32, 64)", "(32)"),
        r"grid of space 'mine' must list the values of encoder.max_length, got 32",
    ),
    "empty list": (
        SPACE.replace("(32, 64)", "()"),
        r"grid of space 'mine' must list .* of encoder.max_length, got \(\)",
    ),
    "a word": (SPACE.replace("(32, 64)", "('32')"), r"must list the values of encoder.max_length, got '32'"),
    "range without a class": (
        SPACE.replace("grid={", "ranges={"),
        r"the range of encoder.max_length of space 'mine' must be a Float, Int or Choice, got \(32, 64\)$",
    ),
    "condition without a class": (
        SPACE.replace("    grid=", "    conditions={'encoder.max_length': 64},\n    grid="),
        r"the condition of encoder.max_length of space 'mine' must be a Condition, got 64$",
    ),
    "key of another type": (SPACE.replace("'encoder.max_length'", "5").replace('"encoder.max_length"', "5"), r"got 5$"),
    "names without overrides": (
        SPACE.replace("(32, 64)", "{'short': 32, 'long': 64}"),
        r"each name of encoder.max_length of space 'mine' must stand for overrides by dotted key, got \[32, 64\]$",
    ),
    "a number for a function": (SPACE + "make_space = 3\n", r"make_space in .* must be a function, got 3$"),
    "a function that returns none": (
        "def make_space(tasks):\n    pass\n",
        r"what make_space in .*my_space\.py returns must be a SearchSpace, got NoneType None$",
    ),
    "a function without tasks": ("def make_space():\n    pass\n", r"my_space\.py: TypeError: make_space\(\) takes 0"),
    "an unknown task": (
        "def make_space(tasks):\n    return tasks['tone']\n",
        r"my_space\.py, line 2: KeyError: 'tone'$",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_in_a_file_is_one_line_with_the_place(mistake: str, write: Write) -> None:
    text, expected = MISTAKES[mistake]
    message = one_line_error(find_space, str(write(text)), TASKS)
    assert re.search(expected, message), message
    assert MODULE_NAME not in sys.modules


def test_missing_file_is_one_line_with_the_nearest(write: Write, tmp_path: Path) -> None:
    write(SPACE)
    message = one_line_error(find_space, str(tmp_path / "my_spce.py"), TASKS)
    assert message.endswith(f"my_spce.py'; {tmp_path} holds my_space.py")
    message = one_line_error(find_space, str(tmp_path / "smart_lambda.py"), TASKS)
    assert "smart_lambda.py'; did you mean 'smart_lambda', a built-in space? " in message
    assert "cannot be read" in one_line_error(find_space, "/no/such/space.py", TASKS)


def test_unreadable_file_is_one_line(tmp_path: Path) -> None:
    message = one_line_error(find_space, str(tmp_path), TASKS)
    assert message == f"--space must be a file that can be read, got '{tmp_path}': Is a directory"
    (tmp_path / "zero.py").write_bytes(b"x = 1\n\0")
    assert "null bytes" in one_line_error(find_space, str(tmp_path / "zero.py"), TASKS)


def test_files_of_the_package_that_define_no_space_are_refused() -> None:
    assert "presets" not in space_names()
    message = one_line_error(find_space, resolve_name(str(ROOT / "search_spaces" / "presets.py")), TASKS)
    assert message.endswith("a function that returns one, got no SearchSpace")
