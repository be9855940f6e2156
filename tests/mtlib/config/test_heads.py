"""The table of heads: what each entry's facts demand of a task's settings."""

from mtlib.config.heads import HEADS
from mtlib.config.network import TaskConfig
from tests.config_cases import assert_range
from tests.one_line_error import one_line_error


def test_head_that_gives_one_number_needs_a_loss_of_one_number() -> None:
    for name in (name for name, entry in HEADS.items() if entry.is_one_number):
        error = one_line_error(TaskConfig, loss="cross_entropy", encoding="bi", head=name)
        assert error.startswith(f"head {name} must have loss ")


def test_head_reads_only_its_encodings() -> None:
    for name, entry in HEADS.items():
        if entry.encodings:
            error = one_line_error(TaskConfig, loss="mean_squared_error", encoding="cross", head=name)
            assert error == f"head {name} must have encoding {' or '.join(entry.encodings)}, got cross"


def test_hidden_units_have_a_range() -> None:
    assert_range("tasks.sst.hidden_units", 0, 1)
