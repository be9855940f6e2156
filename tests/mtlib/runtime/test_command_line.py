"""Command lines: one-line errors, given flags, exit codes."""

import argparse
import errno
import os
import subprocess
import sys

import pytest

from mtlib.runtime.command_line import (
    INTERRUPTED,
    SUCCESS,
    WRONG_USE,
    duration,
    number,
    parse_words,
    run_command,
    whole_number,
)
from mtlib.runtime.errors import TrainingDiverged
from mtlib.runtime.method_file import permitted, run_method_file
from tests.one_line_error import one_line_error
from tests.scripts import ROOT

CHARACTERS = ascii("é ± ─ \udcff")
"""The last stands for a byte of a path that is not UTF-8."""


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    found.add_argument("places", nargs="*")
    found.add_argument("--num-models", type=whole_number, default=3)
    found.add_argument("--share", type=number)
    found.add_argument("-q", "--quiet", action="store_true")
    return found


def test_flags_stand_anywhere_and_are_known_in_every_spelling(parser: argparse.ArgumentParser) -> None:
    found = parse_words(parser, ["a", "--num-models", "5", "b", "--share=.5"])
    assert (found.places, found.num_models, found.share) == (["a", "b"], 5, 0.5)
    assert found.flags == ["--num-models", "--share"]
    assert found.given == {"places": ["a", "b"], "num_models": 5, "share": 0.5}
    assert parse_words(parser, ["-q"]).given == {"places": [], "quiet": True}
    assert parse_words(parser, ["--num-models", "3"]).given["num_models"] == 3, "its default"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--num-model", "3"], "unknown flag '--num-model'; did you mean '--num-models'? known: "),
        (["--num-models"], "--num-models: expected one argument"),
        (["--num-models", "1.5"], "--num-models must be a whole number, got '1.5'"),
    ],
)
def test_a_usage_error_is_one_line(words: list[str], message: str, parser: argparse.ArgumentParser) -> None:
    assert one_line_error(parse_words, parser, words).startswith(message)


@pytest.mark.parametrize(
    ("error", "code", "printed"),
    [
        (None, SUCCESS, ""),
        (ValueError("--seed must be at least 0,\n got -1"), WRONG_USE, "error: --seed must be at least 0, got -1\n"),
        (OSError(errno.EACCES, "not allowed"), WRONG_USE, "error: not allowed\n"),
        (TrainingDiverged("sst: loss is nan at step 3"), WRONG_USE, "error: sst: loss is nan at step 3\n"),
        (KeyboardInterrupt(), INTERRUPTED, "interrupted\n"),
    ],
)
def test_a_command_ends_with_its_exit_code(
    error: BaseException | None, code: int, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        if error:
            raise error

    assert run_command(command) == code
    assert capsys.readouterr() == ("", printed)


def test_an_error_in_a_users_own_method_names_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    own = run_method_file(permitted("mine.py", "def f():\n    return unknown\n"))
    assert run_command(own.f) == WRONG_USE
    assert capsys.readouterr().err == "error: mine.py, line 2: NameError: name 'unknown' is not defined\n"


def test_an_internal_error_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        run_command(lambda: 1 / 0)


def test_a_reader_that_closes_the_pipe_is_no_error() -> None:
    code = "import os; read, write = os.pipe(); os.close(read); os.dup2(write, 1)\n"
    code += "from mtlib.runtime.command_line import run_command\n"
    code += "raise SystemExit(run_command(lambda: print('unread', flush=True)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(("seconds", "text"), [(59.4, "59 s"), (59.6, "1:00"), (7325, "2:02:05")])
def test_durations_are_formatted_like_a_clock(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_every_character_is_printed_in_any_locale_and_data_are_utf_8() -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    program = (
        "from mtlib.runtime.command_line import run_command\nfrom mtlib.runtime.console import write_data\n"
        f"run_command(lambda: (print({CHARACTERS}, flush=True), write_data({CHARACTERS})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=own | {"PYTHONIOENCODING": "latin-1"}, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == "é ± \\u2500 \\udcff\n".encode("latin-1") + "é ± ─ \\udcff".encode()
