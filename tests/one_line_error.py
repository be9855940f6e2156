"""Messages of refused calls and commands: each must be one line."""

from collections.abc import Callable
from typing import ParamSpec

import pytest

P = ParamSpec("P")


def one_line_error(call: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> str:
    """The message of the ValueError that a call raises."""
    with pytest.raises(ValueError) as caught:
        call(*arguments, **named)
    message = str(caught.value)
    assert "\n" not in message
    return message


def one_line_exit(main: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a command prints that ends with exit code 2, without `error: `."""
    assert main([str(argument) for argument in arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")
