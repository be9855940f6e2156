"""Whatever is wrong with a command line is one line, and what was said is known."""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from results.cli.parsing import read_words, say_error

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    found.add_argument("places", nargs="*")
    found.add_argument("--num-models", type=int, default=3)
    found.add_argument("--set", nargs="+", action="extend", default=[])
    found.add_argument("-q", "--quiet", action="store_true")
    return found


def test_flags_may_stand_among_places(parser: argparse.ArgumentParser) -> None:
    found = read_words(parser, ["a", "--num-models", "5", "b", "--quiet"])
    assert (found.places, found.num_models, found.quiet) == (["a", "b"], 5, True)
    assert found.said == {"num_models", "quiet"}


def test_what_was_said_is_known_however_it_was_written(parser: argparse.ArgumentParser) -> None:
    assert read_words(parser, []).said == frozenset()
    assert read_words(parser, ["--num-models=3", "-q"]).said == {"num_models", "quiet"}


def test_values_are_taken_once(parser: argparse.ArgumentParser) -> None:
    assert read_words(parser, ["--set", "a=1", "b=2", "--set", "c=3"]).set == ["a=1", "b=2", "c=3"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--num-model", "3"], "unknown flag '--num-model'; did you mean '--num-models'? known: "),
        (["--num-modles=3"], "unknown flag '--num-modles'; did you mean '--num-models'? known: "),
        (["--num-models"], "--num-models: expected one argument"),
        (["--num-models", "x"], "--num-models: invalid int value: 'x'"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], message: str, parser: argparse.ArgumentParser) -> None:
    with pytest.raises(ValueError) as raised:
        read_words(parser, words)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_a_word_without_a_place_is_named() -> None:
    with pytest.raises(ValueError, match=r"^every value must follow its flag, got 'alone' \(see --help\)$"):
        read_words(argparse.ArgumentParser(exit_on_error=False), ["alone"])


def test_an_error_of_several_lines_is_said_in_one(capsys: pytest.CaptureFixture[str]) -> None:
    say_error(ValueError("must be 1,\n   got 2"))
    assert capsys.readouterr() == ("", "error: must be 1, got 2\n")


def test_nobody_is_told_of_what_nobody_reads() -> None:
    code = "import os, sys; read, write = os.pipe(); os.close(read); os.dup2(write, 1)\n"
    code += "from results.cli.parsing import be_silent\nbe_silent(); print('unread', flush=True)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
