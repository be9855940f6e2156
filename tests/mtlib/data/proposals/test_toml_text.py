"""Texts with any characters are TOML that is read back, and comments of one line."""

import fnmatch
import tomllib
from pathlib import Path

import pytest

from mtlib.config.data import is_pattern
from mtlib.data.proposals.toml_text import comment, in_toml, path_in_toml

CHARACTERS = ["caf\u00e9 \U0001f600", "\x7f\x80\x9f", 'a "b" \\ \n\t\x00', "\u2028"]


@pytest.mark.parametrize("text", CHARACTERS)
def test_a_text_is_read_back(text: str) -> None:
    assert tomllib.loads(f"key = {in_toml(text)}\nlist = {in_toml([text, 'b'])}") == {"key": text, "list": [text, "b"]}


@pytest.mark.parametrize("text", [*CHARACTERS, "\udcff"])
def test_a_comment_is_one_line_of_toml(text: str) -> None:
    line = comment(text)
    assert line.encode().decode().splitlines() == [line]
    assert tomllib.loads(line) == {}


@pytest.mark.parametrize("name", ["a/b.csv", "a[1].csv", "what?.csv", "a[1]/*.csv"])
def test_a_path_stands_for_one_file_alone(name: str) -> None:
    path = tomllib.loads(f"path = {path_in_toml(Path(name))}")["path"]
    assert fnmatch.fnmatchcase(name, path) if is_pattern(path) else path == name
    assert not is_pattern(path) or not fnmatch.fnmatchcase("a1/whats.csv", path)
