"""Reading of configurations: every error message, and values from text, JSON and Python."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from mtlib.config.schema import check_types, from_dict, read_value, set_in_tree, to_dict
from mtlib.runtime.errors import require
from tests.one_line_error import one_line_error


@dataclass(frozen=True, kw_only=True)
class Leaf:
    size: int = 1
    rate: float = 0.5
    limit: float | None = None
    count: int | None = None
    is_on: bool = True
    name: str = "plain"
    place: str | None = "here"
    mode: Literal["up", "down"] = "up"
    words: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_types(self)


@dataclass(frozen=True, kw_only=True)
class Tree:
    needed: Leaf
    leaves: tuple[Leaf, ...] = ()
    by_name: Mapping[str, Leaf] = field(default_factory=dict)


def test_a_dataclass_survives_the_round_trip_through_dictionaries() -> None:
    tree = Tree(needed=Leaf(size=3), leaves=(Leaf(limit=2.0), Leaf(words=("a", "b"))), by_name={"x": Leaf(mode="down")})
    plain = to_dict(tree)
    assert plain["leaves"][1]["words"] == ["a", "b"]
    assert type(plain["by_name"]["x"]) is dict
    assert from_dict(Tree, plain, "") == tree


def test_missing_keys_take_their_default_or_are_named() -> None:
    assert from_dict(Tree, {"needed": {}}, "") == Tree(needed=Leaf())
    assert one_line_error(lambda: from_dict(Tree, {"leaves": []}, "")) == "needed is missing"
    assert one_line_error(lambda: from_dict(Tree, {}, "base")) == "base.needed is missing"


@pytest.mark.parametrize(
    ("tree", "line"),
    [
        ({"needed": {"siez": 1}}, "unknown key 'needed.siez'; did you mean 'needed.size'? known: needed.size, "),
        ({"leafs": []}, "unknown key 'leafs'; did you mean 'leaves'? known: leaves, "),
        ({"needed": {}, "leaves": [{}, {"sizes": 1}]}, "unknown key 'leaves.1.sizes'; did you mean 'leaves.1.size'?"),
        ({"needed": {}, "by_name": {"x": {"rat": 1}}}, "unknown key 'by_name.x.rat'; did you mean 'by_name.x.rate'?"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_name(tree: dict[str, Any], line: str) -> None:
    assert one_line_error(lambda: from_dict(Tree, tree, "")).startswith(line)


@pytest.mark.parametrize(
    ("tree", "line"),
    [
        (5, "a configuration must be a group of keys, got 5"),
        ({"needed": "x"}, "needed must be a group of keys, got 'x'"),
        ({"needed": None}, "needed must be a group of keys, got None"),
        ({"needed": {}, "leaves": 5}, "leaves must be a list, got 5"),
        ({"needed": {}, "leaves": [7]}, "leaves.0 must be a group of keys, got 7"),
        ({"needed": {}, "by_name": 5}, "by_name must be a group of keys, got 5"),
        ({"needed": {}, "by_name": []}, "by_name must be a group of keys, got []"),
    ],
)
def test_a_wrong_group_or_list_is_refused_by_its_key(tree: Any, line: str) -> None:
    assert one_line_error(lambda: from_dict(Tree, tree, "")) == line


@pytest.mark.parametrize(
    ("key", "item", "expected"),
    [
        ("size", "8", 8),
        ("size", 8, 8),
        ("size", "-3", -3),
        ("rate", "2e-5", 2e-5),
        ("rate", "3", 3.0),
        ("rate", 3, 3.0),
        ("limit", "none", None),
        ("limit", "NULL", None),
        ("limit", None, None),
        ("limit", "1", 1.0),
        ("count", "none", None),
        ("count", "4", 4),
        ("is_on", "false", False),
        ("is_on", "True", True),
        ("is_on", False, False),
        ("name", "none", "none"),
        ("name", "8", "8"),
        ("place", "none", None),
        ("place", "NULL", None),
        ("place", None, None),
        ("place", "", ""),
        ("place", "none/such", "none/such"),
        ("mode", "down", "down"),
        ("words", "a,b", ("a", "b")),
        ("words", '["a","b"]', ("a", "b")),
        ("words", "a", ("a",)),
        ("words", "", ()),
        ("words", "[]", ()),
        ("words", "[a,b]", ("a", "b")),
        ("words", " [ a , b ] ", ("a", "b")),
        ("words", "['a', 'b']", ("a", "b")),
        ("words", '"a", "b c"', ("a", "b c")),
        ("words", "1,null", ("1", "null")),
        ("words", ["a"], ("a",)),
        ("words", ("a",), ("a",)),
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
        ("size", "8.5", "at.size must be a whole number, got '8.5'"),
        ("size", 8.0, "at.size must be a whole number, got 8.0"),
        ("size", True, "at.size must be a whole number, got True"),
        ("size", None, "at.size must be a whole number, got None"),
        ("size", "", "at.size must be a whole number, got ''"),
        ("rate", "fast", "at.rate must be a number, got 'fast'"),
        ("rate", "nan", "at.rate must be finite, got nan"),
        ("rate", float("nan"), "at.rate must be finite, got nan"),
        ("rate", "inf", "at.rate must be finite, got inf"),
        ("rate", "-1e999", "at.rate must be finite, got -inf"),
        ("rate", True, "at.rate must be a number, got True"),
        ("rate", "none", "at.rate must be a number, got 'none'"),
        ("limit", "x", "at.limit must be a number or none, got 'x'"),
        ("limit", float("inf"), "at.limit must be finite, got inf"),
        ("count", "1.5", "at.count must be a whole number or none, got '1.5'"),
        ("is_on", "yes", "at.is_on must be true or false, got 'yes'"),
        ("is_on", 1, "at.is_on must be true or false, got 1"),
        ("name", 8, "at.name must be text, got 8"),
        ("mode", "sideways", "at.mode must be one of up, down, got sideways"),
        ("mode", 1, "at.mode must be one of up, down, got 1"),
        ("mode", "none", "at.mode must be one of up, down, got none"),
        ("place", 8, "at.place must be text or none, got 8"),
        ("words", 5, "at.words must be a list, got 5"),
        ("words", ["a", 5], "at.words.1 must be text, got 5"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(key: str, item: Any, line: str) -> None:
    assert one_line_error(lambda: from_dict(Leaf, {key: item}, "at")) == line


@pytest.mark.parametrize("value", [-0.0, "-0", "-0.0", "-0e0", 0, "0"])
def test_zero_has_no_sign(value: Any) -> None:
    for read in (from_dict(Leaf, {"rate": value, "limit": value}, ""), Leaf(rate=float(value), limit=float(value))):
        assert (str(read.rate), str(read.limit)) == ("0.0", "0.0")


def test_a_whole_number_too_large_for_a_float_is_refused() -> None:
    assert one_line_error(lambda: from_dict(Leaf, {"rate": 10**400}, "")).startswith("rate must be")


def test_values_given_in_python_follow_the_same_rules() -> None:
    assert one_line_error(lambda: Leaf(size="8")) == "size must be a whole number, got '8'"  # type: ignore[arg-type]
    assert one_line_error(lambda: Leaf(rate=float("inf"))) == "rate must be finite, got inf"
    assert one_line_error(lambda: Leaf(mode="x")) == "mode must be one of up, down, got x"  # type: ignore[arg-type]
    assert Leaf(rate=3) == Leaf(rate=3.0)
    assert type(Leaf(rate=3).rate) is float
    assert type(Leaf(limit=3).limit) is float
    assert Leaf(words=["a"]).words == ("a",)  # type: ignore[arg-type]
    assert one_line_error(lambda: Leaf(words=("a", 5))) == "an entry of words must be text, got 5"  # type: ignore[arg-type]
    assert one_line_error(lambda: Leaf(words="a")).startswith("words must be ")  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Limited:
    """A group with its own rule, like tasks and stages."""

    size: int = 1

    def __post_init__(self) -> None:
        require(self.size >= 1, "size must be at least 1", self.size)


@dataclass(frozen=True, kw_only=True)
class Holder:
    many: tuple[Limited, ...] = ()
    by_name: Mapping[str, Limited] = field(default_factory=dict)
    single: Limited = field(default_factory=Limited)


@pytest.mark.parametrize(
    ("tree", "line"),
    [
        ({"many": [{}, {"size": 0}]}, "many.1: size must be at least 1, got 0"),
        ({"by_name": {"x": {"size": 0}}}, "by_name.x: size must be at least 1, got 0"),
        ({"single": {"size": 0}}, "size must be at least 1, got 0"),
        ({"by_name": {"x": {"size": "a"}}}, "by_name.x.size must be a whole number, got 'a'"),
    ],
)
def test_an_error_in_one_of_several_groups_names_the_group(tree: dict[str, Any], line: str) -> None:
    assert one_line_error(lambda: from_dict(Holder, tree, "")) == line


def test_a_dotted_key_reaches_into_groups_and_lists() -> None:
    tree = {"a": {"b": [{"c": 1}, {"c": 2}]}, "d": 3}
    set_in_tree(tree, "a.b.1.c", 9)
    set_in_tree(tree, "d", None)
    assert tree == {"a": {"b": [{"c": 1}, {"c": 9}]}, "d": None}


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("a.c", "unknown key 'a.c'; known: a.b"),
        ("e", "unknown key 'e'; "),
        ("a.b.2.c", "a.b has positions 0..1, got '2' in 'a.b.2.c'"),
        ("a.b.-1.c", "a.b has positions 0..1, got '-1' in 'a.b.-1.c'"),
        ("a.b.x", "a.b has positions 0..1, got 'x' in 'a.b.x'"),
        ("d.e", "d is a single value, it has no 'e'"),
        ("a.b.0.c.f", "a.b.0.c is a single value, it has no 'f'"),
    ],
)
def test_a_wrong_dotted_key_is_refused_with_the_existing_ones(key: str, line: str) -> None:
    tree: dict[str, Any] = {"a": {"b": [{"c": 1}, {"c": 2}]}, "d": 3}
    assert one_line_error(lambda: set_in_tree(tree, key, 0)).startswith(line)
    assert tree == {"a": {"b": [{"c": 1}, {"c": 2}]}, "d": 3}


@pytest.mark.parametrize("item", ["none", "8", "text", 8, 0.5, True, None, [1, "none"], {"a": "1"}])
def test_a_value_of_any_type_stays_as_it_is(item: Any) -> None:
    read = read_value(Mapping[str, Any], {"key": item}, "params")["key"]
    assert read == item
    assert type(read) is type(item)


def test_a_mapping_is_read_by_the_type_of_its_values() -> None:
    assert read_value(Mapping[str, int], {"a": "1", "b": 2}, "at") == {"a": 1, "b": 2}
    assert (
        one_line_error(lambda: read_value(Mapping[str, int], {"a": "x"}, "at"))
        == "at.a must be a whole number, got 'x'"
    )


@dataclass(frozen=True, kw_only=True)
class Layers:
    numbers: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_types(self)


@pytest.mark.parametrize(
    ("item", "numbers"),
    [
        (None, None),
        ("none", None),
        ("Null", None),
        ("", ()),
        ("[]", ()),
        ([], ()),
        ("3", (3,)),
        ("0,1", (0, 1)),
        ("[0, 11]", (0, 11)),
        ((2,), (2,)),
    ],
)
def test_an_optional_list_accepts_both(item: Any, numbers: tuple[int, ...] | None) -> None:
    assert from_dict(Layers, {"numbers": item}, "").numbers == numbers


@pytest.mark.parametrize(
    ("item", "line"),
    [
        (3, "at.numbers must be a list, got 3"),
        ("a", "at.numbers.0 must be a whole number, got 'a'"),
        (["1", "x"], "at.numbers.1 must be a whole number, got 'x'"),
        ([1.5], "at.numbers.0 must be a whole number, got 1.5"),
    ],
)
def test_an_optional_list_refuses_other_values(item: Any, line: str) -> None:
    assert one_line_error(lambda: from_dict(Layers, {"numbers": item}, "at")) == line


def test_an_optional_list_is_checked_in_python_too() -> None:
    assert Layers().numbers is None
    assert Layers(numbers=[1]).numbers == (1,)  # type: ignore[arg-type]
    assert one_line_error(lambda: Layers(numbers=(1, "a"))).startswith("an entry of numbers must be")  # type: ignore[arg-type]
    assert one_line_error(lambda: Layers(numbers="a")).startswith("numbers must be ")  # type: ignore[arg-type]


Either = str | float | tuple[str, ...]


@pytest.mark.parametrize("item", ["a,b", "", 0.5, 1, ("a", "b"), ["a"]])
def test_a_union_with_a_list_reads_text_and_numbers_as_they_are(item: Any) -> None:
    assert read_value(Either, item, "at") == (tuple(item) if isinstance(item, list) else item)


@pytest.mark.parametrize("item", [True, None, {"a": 1}])
def test_a_union_with_a_list_refuses_other_values(item: Any) -> None:
    rule = "at must be text or a number or a list"
    assert one_line_error(read_value, Either, item, "at") == f"{rule}, got {item!r}"


@dataclass(frozen=True, kw_only=True)
class Branch:
    leaf: Leaf | None = None

    def __post_init__(self) -> None:
        check_types(self)


@pytest.mark.parametrize(
    ("item", "leaf"), [(None, None), ("none", None), ({}, Leaf()), ({"size": "3", "limit": None}, Leaf(size=3))]
)
def test_an_optional_group_accepts_both(item: Any, leaf: Leaf | None) -> None:
    assert from_dict(Branch, {"leaf": item}, "") == Branch(leaf=leaf)
    assert from_dict(Branch, to_dict(Branch(leaf=leaf)), "") == Branch(leaf=leaf)


def test_an_optional_group_refuses_other_values() -> None:
    line = one_line_error(lambda: from_dict(Branch, {"leaf": {"width": 3}}, "at"))
    assert line.startswith("unknown key 'at.leaf.width'; known: at.leaf.count, ")
    assert one_line_error(lambda: from_dict(Branch, {"leaf": [3]}, "at")) == "at.leaf must be a group of keys, got [3]"
    assert one_line_error(lambda: Branch(leaf=3)) == "leaf must be Leaf, got 3"  # type: ignore[arg-type]


def test_an_open_group_accepts_new_names_directly_below_it() -> None:
    tree: dict[str, Any] = {"a": {"open": {"old": {"x": 1}}, "b": {}}}
    set_in_tree(tree, "a.open.new.x", 2, ("a.open",))
    set_in_tree(tree, "a.open.new.y", 3, ("a.open",))
    set_in_tree(tree, "a.open.old.x", 4, ("a.open",))
    assert tree["a"]["open"] == {"old": {"x": 4}, "new": {"x": 2, "y": 3}}
    line = one_line_error(lambda: set_in_tree(tree, "a.b.new.x", 2, ("a.open",)))
    assert line.startswith("unknown key 'a.b.new'")
    assert one_line_error(lambda: set_in_tree({"a": {"open": {}}}, "a.open.new.x", 2)).startswith(
        "unknown key 'a.open.new'"
    )


def test_keys_below_a_new_name_of_an_open_group_must_exist() -> None:
    line = one_line_error(lambda: set_in_tree({"open": {}}, "open.new.x.deep", 2, ("open",)))
    assert line.startswith("unknown key 'open.new.x'")
