"""Functions by the place that a table names."""

import json

import pytest

from mtlib.runtime.lazy_functions import load_function, name_of


def test_a_function_is_found_in_its_module() -> None:
    assert load_function("json:loads") is json.loads
    assert load_function("os.path:join")("a", "b") == "a/b"


def test_a_function_stands_for_itself() -> None:
    assert load_function(json.loads) is json.loads
    assert (name_of(json.loads), name_of("os.path:join")) == ("json:loads", "os.path:join")


@pytest.mark.parametrize(("place", "error"), [("json:no_such_function", AttributeError), ("no_module:f", ImportError)])
def test_a_wrong_place_raises(place: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        load_function(place)
