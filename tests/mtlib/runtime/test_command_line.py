"""Command lines: one-line errors, given flags, exit codes."""

import argparse
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mtlib.runtime.command_line import (
    INTERRUPTED,
    SUCCESS,
    WRONG_USE,
    counted,
    duration,
    number,
    parse_words,
    print_error,
    run_command,
    whole_number,
)
from mtlib.runtime.errors import TrainingDiverged

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    found.add_argument("places", nargs="*")
    found.add_argument("--num-models", type=whole_number, default=3)
    found.add_argument("--share", type=number)
    found.add_argument("--set", nargs="+", action="extend", default=[])
    found.add_argument("-q", "--quiet", action="store_true")
    return found


def test_flags_and_positional_arguments_can_be_averaged(parser: argparse.ArgumentParser) -> None:
    found = parse_words(parser, ["a", "--num-models", "5", "b", "--quiet"])
    assert (found.places, found.num_models, found.quiet) == (["a", "b"], 5, True)
    assert found.given == {"--num-models": "num_models", "--quiet": "quiet"}


def test_given_flags_are_known_in_every_spelling(parser: argparse.ArgumentParser) -> None:
    assert parse_words(parser, []).given == {}
    assert parse_words(parser, ["--num-models=3", "-q"]).given == {"--num-models": "num_models", "-q": "quiet"}


def test_values_of_a_repeated_flag_are_joined(parser: argparse.ArgumentParser) -> None:
    assert parse_words(parser, ["--set", "a=1", "b=2", "--set", "c=3"]).set == ["a=1", "b=2", "c=3"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--num-model", "3"], "unknown flag '--num-model'; did you mean '--num-models'? known: "),
        (["--num-modles=3"], "unknown flag '--num-modles'; did you mean '--num-models'? known: "),
        (["--num-models"], "--num-models: expected one argument"),
        (["--num-models", "x"], "--num-models must be a whole number, got 'x'"),
        (["--num-models", "1.5"], "--num-models must be a whole number, got '1.5'"),
        (["--share", "x"], "--share must be a number, got 'x'"),
    ],
)
def test_a_usage_error_is_one_line(words: list[str], message: str, parser: argparse.ArgumentParser) -> None:
    with pytest.raises(ValueError) as raised:
        parse_words(parser, words)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_an_extra_positional_argument_is_named() -> None:
    with pytest.raises(ValueError, match=r"^every value must follow its flag, got 'alone' \(see --help\)$"):
        parse_words(argparse.ArgumentParser(exit_on_error=False), ["alone"])


def test_an_error_of_several_lines_is_printed_in_one(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(ValueError("must be 1,\n   got 2"))
    assert capsys.readouterr() == ("", "error: must be 1, got 2\n")


def test_discard_output_ignores_a_closed_pipe() -> None:
    code = "import os, sys; read, write = os.pipe(); os.close(read); os.dup2(write, 1)\n"
    code += "from mtlib.runtime.command_line import discard_output\ndiscard_output(); print('unread', flush=True)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("error", "code", "printed"),
    [
        (None, SUCCESS, ""),
        (ValueError("--seed must be at least 0,\n got -1"), WRONG_USE, "error: --seed must be at least 0, got -1\n"),
        (OSError(errno.EACCES, "not allowed"), WRONG_USE, "error: [Errno 13] not allowed\n"),
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


def test_an_internal_error_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        run_command(lambda: 1 / 0)


def test_a_reader_that_closes_the_pipe_is_no_error() -> None:
    code = "import os; read, write = os.pipe(); os.close(read); os.dup2(write, 1)\n"
    code += "from mtlib.runtime.command_line import run_command\n"
    code += "raise SystemExit(run_command(lambda: print('unread', flush=True)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (59.6, "1:00"), (3599, "59:59"), (3600, "1:00:00"), (7325, "2:02:05")],
)
def test_durations_are_formatted_like_a_clock(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "expected"), [(0, "0 trials"), (1, "1 trial"), (2, "2 trials"), (2000, "2,000 trials")]
)
def test_one_is_singular(count: int, expected: str) -> None:
    assert counted(count, "trial") == expected


LOCALES = {
    "ASCII": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "C": {"LC_ALL": "C"},
    "UTF-8": {"PYTHONUTF8": "1"},
    "Latin-1": {"PYTHONIOENCODING": "latin-1"},
}
CHARACTERS, SHOWN_CHARACTERS = "é ± ─ \udcff", "é ± ─ \\udcff"
"""The last stands for a byte of a path that is not UTF-8."""


def printed_by(function: str, locale: str) -> bytes:
    """What a command prints in a locale that shows `CHARACTERS` by a function of a text."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    program = (
        "from mtlib.runtime.command_line import run_command\nfrom mtlib.runtime.console import write_data\n"
        f"run_command(lambda: {function}({CHARACTERS!a}))"
    )
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=ROOT, env=own | LOCALES[locale], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


@pytest.mark.parametrize("locale", LOCALES)
def test_every_character_is_printed_in_every_locale(locale: str) -> None:
    encoded = "é ± \\u2500 \\udcff\n".encode("latin-1") if locale == "Latin-1" else f"{SHOWN_CHARACTERS}\n".encode()
    assert printed_by("print", locale) == encoded


@pytest.mark.parametrize("locale", LOCALES)
def test_data_is_the_same_in_every_locale(locale: str) -> None:
    assert printed_by("write_data", locale) == SHOWN_CHARACTERS.encode()
