"""Functions by the place that a table names."""

import json

import pytest

from mtlib.runtime.lazy_functions import load_function, name_of


def test_a_function_is_found_in_its_module_or_stands_for_itself() -> None:
    assert load_function("json:loads") is load_function(json.loads) is json.loads
    assert load_function("os.path:join")("a", "b") == "a/b"
    assert (name_of(json.loads), name_of("os.path:join")) == ("json:loads", "os.path:join")
    with pytest.raises(ImportError):
        load_function("no_module:f")
