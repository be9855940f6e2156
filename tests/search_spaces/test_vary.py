"""Spaces from keys and values as typed: types, questions, and every mistake as one line."""

import pytest

from mtlib.config.trial import TrialConfig
from mtlib.tasks import TASKS
from search_spaces.domain import Float, Int, Range
from search_spaces.presets import general
from search_spaces.space import grid_trials
from search_spaces.vary import VariedValues, is_range, question_about, typed, varied_values, vary, with_further
from tests.one_line_error import one_line_error

BASE = general(TASKS)


@pytest.mark.parametrize(
    ("key", "given", "values"),
    [
        ("smart.weight", "0,0.45, 1", (0.0, 0.45, 1.0)),
        ("smart.weight", "0.45", (0.45,)),
        ("smart.mode", "paper,random", ("paper", "random")),
        ("data.bucket_by_length", "true,false", (True, False)),
        ("encoder.dropout", "none,0.1", (None, 0.1)),
        ("pals.tasks", "sst,qqp", (("sst",), ("qqp",))),
        ("pals.tasks", "[sst],[sst,qqp],[]", (("sst",), ("sst", "qqp"), ())),
        ("encoder.trained_layers", "none,[0,1]", (None, (0, 1))),
        ("encoder.start_from", "/a..b,../c", ("/a..b", "../c")),
        ("tasks.*.batch_size", "8,16", (8, 16)),
        ("encoder.name", "a,owner/b, /c", ("a", "owner/b", "/c")),
        ("tasks.sst.prefix", ',"query: "', ("", "query: ")),
        ("tasks.sst.prefix", '"a, b: ",c', ("a, b: ", "c")),
        ("tasks.sst.prefix", '"say ""hi"", x",5" wide', ('say "hi", x', '5" wide')),
        ("tasks.sst.prefix", ("a, b: ", "c", "[x", '"'), ("a, b: ", "c", "[x", '"')),
        ("pals.tasks", (("sst",), ["sst", "qqp"], ()), (("sst",), ("sst", "qqp"), ())),
        ("encoder.dropout", (None, 0.1), (None, 0.1)),
    ],
)
def test_values_of_a_list_are_read_as_the_key_is_typed(
    key: str, given: VariedValues, values: tuple[object, ...]
) -> None:
    base = BASE.override({"optimizer.layer_decay": 1})
    space = vary(base, "overall", {key: given})
    assert [trial[key] for trial in grid_trials(space)] == list(values)
    assert [type(trial[key]) for trial in grid_trials(space)] == list(map(type, values))
    assert not space.ranges


@pytest.mark.parametrize(
    "texts",
    [
        ("a, b: ", "c"),
        ("[x", "y]"),
        ('"', '"'),
        ("", " "),
        ("[a]", "b"),
        ("1..2",),
        ('""', "a"),
        ("none", "5"),
        ("\tx", "y\n"),
    ],
)
def test_texts_are_typed_so_that_they_are_read_as_they_are(texts: tuple[str, ...]) -> None:
    assert varied_values(typed(texts)) == texts


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("optimizer.learning_rate", "1e-5..1e-4:log", Float(low=1e-5, high=1e-4, log=True)),
        ("encoder.max_length", "8 .. 64:log", Int(low=8, high=64, log=True)),
        ("tasks.*.batch_size", "8..32", Int(low=8, high=32)),
        ("encoder.dropout", "0..0.5", Float(low=0.0, high=0.5)),
    ],
)
def test_ends_of_a_range_are_read_as_the_key_is_typed(key: str, text: str, expected: Range) -> None:
    space = vary(BASE, "overall", {key: text})
    assert dict(space.ranges) == {key: expected}
    assert not space.grid


def test_lists_and_ranges_can_be_mixed() -> None:
    space = vary(BASE, "sst", {"optimizer.learning_rate": "1e-5..1e-4:log", "smart.weight": "0,1"})
    assert dict(space.grid) == {"smart.weight": (0.0, 1.0)}
    assert list(space.ranges) == ["optimizer.learning_rate"]
    assert (space.name, space.metric) == ("vary", "sst")


def test_keys_may_depend_on_each_other() -> None:
    """Neither key's values are allowed without the other's."""
    base = TrialConfig.from_json(BASE.override({"pals.tasks": ()}).to_json())
    space = vary(base, "overall", {"pals.size": "24,48", "pals.tasks": "[sst],[sst,qqp]"})
    assert [(trial["pals.size"], len(trial["pals.tasks"])) for trial in grid_trials(space)] == [
        (24, 1),
        (24, 2),
        (48, 1),
        (48, 2),
    ]


def test_question_names_the_keys() -> None:
    assert question_about(["a"]) == "Which value of a is best?"
    assert question_about(["a", "b", "c"]) == "Which values of a, b and c are best together?"


def test_only_two_numbers_are_a_range() -> None:
    assert all(map(is_range, ("1..2", "1e-5..1e-4:log", ".5..1.5", "-1..0:x")))
    assert not any(map(is_range, ("1,2", "a..b", "../a,../b", "1..2,3", "1..", "1:log", "")))


MISTAKES = {
    "smart.wieght=0,1": "unknown key 'smart.wieght'; did you mean 'smart.weight'?",
    "smart.weight=x,1": "smart.weight must be a number, got 'x'",
    "smart.weight=0,,1": "smart.weight must be a number, got ''",
    "smart.weight=": "smart.weight must have a value, got none",
    "smart.weight=2..1": "smart.weight: low must be below high, got 2.0 and 1.0",
    "smart.weight=0..1:log": "smart.weight: low must be above 0 on a logarithmic scale, got 0.0",
    "smart.weight=0..1:lin": "a range of smart.weight must end in its upper number or in :log, got 0..1:lin",
    "smart.weight=0..inf": "smart.weight must be finite, got inf",
    "smart.num_steps=0.5..2": "smart.num_steps must be a whole number, got '0.5'",
    "smart.mode=paper,papr": "smart.mode must be one of paper, unit_norm, random, got papr",
    "encoder.start_from=1..2": "encoder.start_from must have a list of values, as it is no number, got 1..2",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_one_line(mistake: str) -> None:
    key, _, text = mistake.partition("=")
    message = one_line_error(vary, BASE, "overall", {key: text})
    assert message.startswith("--vary: ")
    assert MISTAKES[mistake] in message


@pytest.mark.parametrize(
    ("begun", "given", "expected"),
    [
        ("1e-5,1e-4", "1e-4,3e-4,1e-5", "1e-5,1e-4,3e-4"),
        ("1e-5,1e-4", "0.00001,1e-4", "1e-5,1e-4"),
        # a value that there was is missing
        ("1e-5,1e-4", "1e-4,3e-4", None),
        ("1e-5,1e-4", "1e-5..1e-4:log", None),
        # brackets and quotes stay as typed
        ("[sst],[sst,qqp]", "[sst,qqp],[sst],[sts]", "[sst],[sst,qqp],[sts]"),
        (',"query: "', '"query: ","a: ",', ',"query: ","a: "'),
        # values from Python
        ("1e-5,1e-4", (1e-4, 0.00001, 3e-4), "1e-5,1e-4,0.0003"),
        (("a, b", None), 'none,c,"a, b"', ("a, b", None, "c")),
        (((1, 2),), "[1,2],[3]", ((1, 2), "[3]")),
        # a key of text tells them apart
        (("1",), ("1", "1.0"), None),
        (("none",), ("none", None), None),
    ],
)
def test_further_values_follow_those_that_there_are(
    begun: VariedValues, given: VariedValues, expected: VariedValues | None
) -> None:
    assert with_further(begun, given) == expected


@pytest.mark.parametrize("text", ['"a, b: ,c', 'c,"', '"a" b,c'])
def test_quote_that_stays_open_is_refused(text: str) -> None:
    rule = "--vary: a value that begins with a quote must end with one, got "
    assert one_line_error(vary, BASE, "overall", {"tasks.sst.prefix": text}).startswith(rule)


def test_points_of_a_grid_keep_their_numbers_when_values_are_added() -> None:
    grids = [
        {"smart.weight": "0,1", "smart.num_steps": "1,2"},
        {"smart.weight": "0,1,3", "smart.num_steps": "1,2"},
        {"smart.weight": "0,1,3", "smart.num_steps": "1,2,4"},
    ]
    begun, wider, widest = (vary(BASE, "overall", grid, grids[:place]) for place, grid in enumerate(grids))
    points = grid_trials(widest)
    assert points[:4] == grid_trials(begun)
    assert points[:6] == grid_trials(wider)
    assert len(points) == 9
    assert {tuple(one.items()) for one in points} == {
        tuple(one.items()) for one in grid_trials(vary(BASE, "overall", grids[-1]))
    }
