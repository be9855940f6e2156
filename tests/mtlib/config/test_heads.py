"""The table of heads."""

import pytest

from mtlib.config.heads import HEADS
from mtlib.config.network import TaskConfig
from mtlib.runtime.lazy_functions import load_function
from tests.one_line_error import one_line_error


@pytest.mark.parametrize("name", HEADS)
def test_each_entry_has_a_function_and_says_what_it_is(name: str) -> None:
    entry = HEADS[name]
    assert callable(load_function(entry.function))
    assert entry.title
    assert entry.description


def test_head_that_gives_one_number_needs_a_loss_of_one_number() -> None:
    for name in (name for name, entry in HEADS.items() if entry.is_one_number):
        error = one_line_error(TaskConfig, loss="cross_entropy", encoding="bi", head=name)
        assert error.startswith(f"head {name} must have loss ")


def test_head_reads_only_its_encodings() -> None:
    for name, entry in HEADS.items():
        if entry.encodings:
            error = one_line_error(TaskConfig, loss="mean_squared_error", encoding="cross", head=name)
            assert error == f"head {name} must have encoding {' or '.join(entry.encodings)}, got cross"
