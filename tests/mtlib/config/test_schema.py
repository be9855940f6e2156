"""Reading of configurations: errors by their place, and values from text, JSON and Python."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from mtlib.config.schema import check_types, from_dict, leaf_keys, set_in_tree, to_dict
from mtlib.runtime.errors import require
from tests.one_line_error import one_line_error


@dataclass(frozen=True, kw_only=True)
class Leaf:
    size: int = 1
    rate: float = 0.5
    limit: float | None = None
    is_on: bool = True
    name: str = "plain"
    place: str | None = "here"
    mode: Literal["up", "down"] = "up"
    words: tuple[str, ...] = ()
    numbers: tuple[int, ...] | None = None
    weights: Literal["equal"] | tuple[float, ...] | None = None
    either: str | float | tuple[str, ...] = ""
    names: tuple[str, ...] | Mapping[str, str] = ()

    def __post_init__(self) -> None:
        check_types(self)
        require(self.size >= 0, "size must be at least 0", self.size)


@dataclass(frozen=True, kw_only=True)
class Tree:
    needed: Leaf
    leaves: tuple[Leaf, ...] = ()
    by_name: Mapping[str, Leaf] = field(default_factory=dict)
    maybe: Leaf | None = None

    def __post_init__(self) -> None:
        check_types(self)


def test_a_dataclass_survives_the_round_trip_through_dictionaries() -> None:
    tree = Tree(needed=Leaf(size=3), leaves=(Leaf(limit=2.0), Leaf(words=("a", "b"))), by_name={"x": Leaf(mode="down")})
    plain = to_dict(tree)
    assert plain["leaves"][1]["words"] == ["a", "b"]
    assert type(plain["by_name"]["x"]) is dict
    assert from_dict(Tree, plain, "") == tree
    assert from_dict(Tree, {"needed": {}, "maybe": {"size": "3"}}, "") == Tree(needed=Leaf(), maybe=Leaf(size=3))
    assert from_dict(Tree, {"needed": {}, "maybe": "none"}, "") == Tree(needed=Leaf())


@pytest.mark.parametrize(
    ("tree", "line"),
    [
        (5, "base must be a group of keys, got 5"),
        ({}, "base.needed is missing"),
        ({"leafs": []}, "unknown key 'base.leafs'; did you mean 'base.leaves'?"),
        ({"needed": {"siez": 1}}, "unknown key 'base.needed.siez'; did you mean 'base.needed.size'?"),
        ({"needed": {}, "leaves": 5}, "base.leaves must be a list, got 5"),
        ({"needed": {}, "leaves": [{}, {"size": -1}]}, "base.leaves.1: size must be at least 0, got -1"),
        ({"needed": {}, "by_name": {"x": {"size": -1}}}, "base.by_name.x: size must be at least 0, got -1"),
    ],
)
def test_a_wrong_group_list_or_key_is_refused_by_its_place(tree: Any, line: str) -> None:
    assert one_line_error(lambda: from_dict(Tree, tree, "base")).startswith(line)


@pytest.mark.parametrize(
    ("key", "item", "expected"),
    [
        ("size", "8", 8),
        ("rate", "2e-5", 2e-5),
        ("rate", 3, 3.0),
        ("limit", "NULL", None),
        ("is_on", "True", True),
        ("name", "none", "none"),
        ("place", "none", None),
        ("words", "a", ("a",)),
        ("words", '["a","b c"]', ("a", "b c")),
        ("numbers", "[0, 11]", (0, 11)),
        ("weights", "equal", "equal"),
        ("weights", "1,2", (1.0, 2.0)),
        ("either", "a,b", "a,b"),
        ("either", ["a"], ("a",)),
        ("names", {"x": "a"}, {"x": "a"}),
    ],
)
def test_text_and_values_are_read_as_the_type_of_the_field(key: str, item: Any, expected: Any) -> None:
    read = getattr(from_dict(Leaf, {key: item}, ""), key)
    assert read == expected
    assert type(read) is type(expected)


@pytest.mark.parametrize(
    ("key", "item", "line"),
    [
        ("size", "many", "at.size must be a whole number, got 'many'"),
        ("size", True, "at.size must be a whole number, got True"),
        ("rate", "nan", "at.rate must be finite, got nan"),
        ("rate", float("inf"), "at.rate must be finite, got inf"),
        ("is_on", 1, "at.is_on must be true or false, got 1"),
        ("mode", "none", "at.mode must be one of up, down, got none"),
        ("words", ["a", 5], "at.words.1 must be text, got 5"),
        ("numbers", "1,x", "at.numbers.1 must be a whole number, got 'x'"),
        ("weights", "equl", "at.weights.0 must be a number, got 'equl'; besides a list it may be equal"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(key: str, item: Any, line: str) -> None:
    assert one_line_error(lambda: from_dict(Leaf, {key: item}, "at")).startswith(line)


@pytest.mark.parametrize(
    ("key", "item", "line"),
    [
        ("size", "8", "size must be a whole number, got '8'"),
        ("rate", float("inf"), "rate must be finite, got inf"),
        ("words", ("a", 5), "an entry of words must be text, got 5"),
    ],
)
def test_values_given_in_python_follow_the_same_rules(key: str, item: Any, line: str) -> None:
    given: dict[str, Any] = {key: item}
    assert one_line_error(lambda: Leaf(**given)).startswith(line)


def test_numbers_and_lists_given_in_python_have_one_form() -> None:
    for zero in (-0.0, 0, "-0"):
        read = from_dict(Leaf, {"rate": zero, "limit": zero}, "")
        assert (str(read.rate), str(read.limit)) == ("0.0", "0.0")
    assert str(Leaf(rate=-0.0).rate) == "0.0"
    assert type(Leaf(limit=3).limit) is float
    assert Leaf(words=["a"]).words == ("a",)  # type: ignore[arg-type]
    assert "maybe must be Leaf" in one_line_error(lambda: Tree(needed=Leaf(), maybe=3))  # type: ignore[arg-type]


def plain_tree() -> dict[str, Any]:
    return {"a": {"b": [{"c": 1}, {"c": 2}]}, "open": {"old": {"x": 1}}, "d": [3, 4]}


def test_a_dotted_key_reaches_into_groups_and_lists() -> None:
    tree = plain_tree()
    set_in_tree(tree, "a.b.1.c", 9)
    set_in_tree(tree, "d", None)
    assert tree == {**plain_tree(), "a": {"b": [{"c": 1}, {"c": 9}]}, "d": None}
    assert list(leaf_keys(plain_tree())) == ["a.b.0.c", "a.b.1.c", "open.old.x", "d"]


def test_an_open_group_accepts_new_names_directly_below_it() -> None:
    tree = plain_tree()
    for key in ("new.x", "new.y", "old.x"):
        set_in_tree(tree, f"open.{key}", 2, ("open",))
    assert tree["open"] == {"old": {"x": 2}, "new": {"x": 2, "y": 2}}


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("a.c", "unknown key 'a.c'; known: a.b"),
        ("a.b.2.c", "a.b has positions 0..1, got '2' in 'a.b.2.c'"),
        ("a.b.0.c.f", "a.b.0.c is a single value, it has no 'f'"),
        ("a.new.x", "unknown key 'a.new'"),
    ],
)
def test_a_wrong_dotted_key_is_refused_with_the_existing_ones(key: str, line: str) -> None:
    tree = plain_tree()
    assert one_line_error(lambda: set_in_tree(tree, key, 0, ("open",))).startswith(line)
    if not key.startswith("open"):
        assert tree == plain_tree()
