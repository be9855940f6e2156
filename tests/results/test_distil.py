"""The place of a command that has moved."""

import pytest

from results.distil import main
from tests.one_line_error import one_line_exit


def test_it_says_where_the_command_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert "python sweeps/distil.py" in one_line_exit(main, capsys)
