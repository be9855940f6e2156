"""Error messages: the rule, then the value; unknown names with the nearest known ones."""

import errno
import os

import pytest

from mtlib.runtime.errors import BucketError, first_line, nearest_first, require, require_name, require_once, typed_line
from tests.one_line_error import one_line_error


def test_a_broken_rule_is_followed_by_the_value() -> None:
    require(True, "size must be at least 1", 0)
    assert one_line_error(require, False, "size must be at least 1", 0) == "size must be at least 1, got 0"
    for entries in ((), ("a", "b"), [1, 2, 3]):
        require_once(entries, "names must differ")
    message = one_line_error(require_once, ("a", "b", "a"), "names must differ")
    assert message == "names must differ, got ['a', 'b', 'a']"


def test_a_wrong_name_lists_all_names_nearest_first() -> None:
    names = ["alpha", "batch_size", "zeta"]
    require_name("zeta", names, "key")
    assert one_line_error(require_name, "bath_size", names, "key") == (
        "unknown key 'bath_size'; did you mean 'batch_size'? known: batch_size, alpha, zeta"
    )
    assert nearest_first("qqqq", ["beta", "alpha"]) == "known: alpha, beta"
    assert nearest_first("stage", ["stages", "state", "zeta", "age"]).endswith("known: stages, state, age, zeta")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("optimizer.lr", "optimizer.learning_rate"),
        ("optimizer.learning_rat", "optimizer.learning_rate"),
        ("tasks.sst.bs", "tasks.sst.batch_size"),
        ("batch_size", "tasks.sst.batch_size"),
    ],
)
def test_last_parts_of_dotted_names_are_compared_and_abbreviations_known(typed: str, meant: str) -> None:
    names = ["optimizer.epsilon", "optimizer.learning_rate", "optimizer.weight_decay", "tasks.sst.batch_size"]
    assert nearest_first(typed, names).startswith(f"did you mean '{meant}'?")


def test_one_line_shows_the_first_line_of_an_error_or_its_type() -> None:
    assert first_line(OSError("  no such file\nat all\n")) == "no such file"
    assert first_line(KeyError()) == "KeyError"
    assert first_line(ValueError("Validation error for field 'size':\n    TypeError: no int\nmore")).endswith(
        ": TypeError: no int"
    )
    assert first_line(RuntimeError("Error(s):\n\n  a size\n")) == "Error(s): a size"
    assert first_line(ValueError("ends in a colon:")) == "ends in a colon:"
    assert typed_line(ValueError("x must be 1, got 2\nmore")) == "x must be 1, got 2"
    assert typed_line(UnicodeError("bad")) == "UnicodeError: bad"


def test_what_an_operating_system_answers_is_its_words_and_files() -> None:
    missing, moved = os.strerror(errno.ENOENT), os.strerror(errno.ENOTEMPTY)
    for show in (first_line, typed_line):
        assert show(FileNotFoundError(errno.ENOENT, missing, "/a/b")) == f"{missing}: /a/b"
        assert show(OSError(errno.ENOTEMPTY, moved, "/a", None, "/b")) == f"{moved}: /a and /b"
        assert show(OSError(errno.EIO, "the disk\nis broken")) == "the disk"
        assert show(BucketError("reading x in bucket b: 503 SlowDown")) == "reading x in bucket b: 503 SlowDown"
    assert typed_line(OSError("without a number")) == "OSError: without a number"
