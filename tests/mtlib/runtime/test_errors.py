"""Error messages: the rule, then the value; unknown names with the nearest known ones."""

import pytest

from mtlib.runtime.errors import first_line, nearest_first, require, require_name, require_once, typed_line
from tests.one_line_error import one_line_error


def test_require_raises_only_for_a_broken_rule() -> None:
    require(True, "size must be at least 1", 0)
    assert one_line_error(lambda: require(False, "size must be at least 1", 0)) == "size must be at least 1, got 0"


def test_repeated_entries_follow_the_rule() -> None:
    for entries in ((), ("a",), ("a", "b"), [1, 2, 3]):
        require_once(entries, "names must differ")
    assert one_line_error(lambda: require_once(("a", "b", "a"), "names must differ")) == (
        "names must differ, got ['a', 'b', 'a']"
    )


def test_a_wrong_name_lists_all_names_nearest_first() -> None:
    names = ["alpha", "batch_size", "zeta"]
    require_name("zeta", names, "key")
    assert one_line_error(lambda: require_name("bath_size", names, "key")) == (
        "unknown key 'bath_size'; did you mean 'batch_size'? known: batch_size, alpha, zeta"
    )


def test_capitals_do_not_change_which_name_is_nearest() -> None:
    assert nearest_first("SST", ["qqp", "sst"]) == "did you mean 'sst'? known: sst, qqp"
    assert nearest_first("rate", ["Rate", "other"]) == "did you mean 'Rate'? known: Rate, other"


def test_an_alias_is_listed_but_not_suggested() -> None:
    names = ["text1", "text", "label"]
    assert nearest_first("text2", names) == "did you mean 'text'? known: text, text1, label"
    assert nearest_first("text2", names, taken=["text"]) == "did you mean 'text1'? known: text1, label, text"
    assert nearest_first("text2", ["text1"], taken=["text1"]) == "known: text1"


def test_a_name_near_none_gets_the_list_without_a_suggestion() -> None:
    assert nearest_first("qqqq", ["beta", "alpha"]) == "known: alpha, beta"


def test_dashes_of_flags_do_not_count_as_similarity() -> None:
    flags = ["--search", "--seed"]
    assert nearest_first("--epochs", flags) == "known: --search, --seed"
    assert nearest_first("--sed", flags) == "did you mean '--seed'? known: --seed, --search"


def test_near_names_are_sorted_by_nearness() -> None:
    assert nearest_first("stage", ["stages", "state", "zeta", "age"]).endswith("known: stages, state, age, zeta")


def test_one_line_shows_the_first_line_of_an_error_or_its_type() -> None:
    assert first_line(OSError("  no such file\nat all\n")) == "no such file"
    assert first_line(KeyError()) == "KeyError"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("optimizer.lr", "optimizer.learning_rate"),
        ("optimizer.wd", "optimizer.weight_decay"),
        ("optimizer.learning_rat", "optimizer.learning_rate"),
        ("tasks.sst.bs", "tasks.sst.batch_size"),
        ("lr", "optimizer.learning_rate"),
        ("batch_size", "tasks.sst.batch_size"),
    ],
)
def test_last_parts_of_dotted_names_are_compared_and_abbreviations_known(typed: str, meant: str) -> None:
    names = ["optimizer.epsilon", "optimizer.learning_rate", "optimizer.weight_decay", "tasks.sst.batch_size"]
    assert nearest_first(typed, names).startswith(f"did you mean '{meant}'?")


def test_an_equal_group_alone_makes_no_name_near() -> None:
    assert nearest_first("optimizer.xy", ["optimizer.epsilon", "optimizer.beta1"]).startswith("known: ")


def test_names_elsewhere_are_listed_only_where_they_are_near() -> None:
    assert nearest_first("lr", ["optimizer", "seed"], ["optimizer.lr_end", "optimizer.learning_rate"]) == (
        "did you mean 'optimizer.learning_rate'? known: optimizer.learning_rate, optimizer, seed"
    )


def test_line_has_the_type_of_an_error_that_is_not_for_users() -> None:
    assert typed_line(ValueError("x must be 1, got 2\nmore")) == "x must be 1, got 2"
    assert typed_line(KeyError("x")) == "KeyError: 'x'"
    assert typed_line(UnicodeError("bad")) == "UnicodeError: bad"
