"""Python source is run from its content; every error names the line of the file."""

import types

import pytest

from mtlib.runtime.source_code import naming_lines, parsed_code, run_source
from tests.one_line_error import one_line_error


def run(text: str) -> types.ModuleType:
    module = types.ModuleType("mine")
    run_source(text.encode(), "mine.py", module)
    return module


def test_content_is_run_in_the_module() -> None:
    assert run("import math\nVALUE = math.floor(2.5)\n").VALUE == 2


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x = 1\ny = x / 0\n", "mine.py, line 2: ZeroDivisionError: division by zero"),
        ("\n\nraise ValueError('too few\\nsee above')\n", "mine.py, line 3: too few"),
        ("def f(:\n", "mine.py, line 1: SyntaxError: invalid syntax"),
    ],
)
def test_error_names_the_line(text: str, error: str) -> None:
    assert one_line_error(run, text) == error


def test_line_of_an_error_is_the_last_one_in_the_file() -> None:
    def fail() -> None:
        raise KeyError("elsewhere")

    module = run("def call(other):\n    other()\n\n\ndef outer(other):\n    call(other)\n")
    with pytest.raises(ValueError, match=r"^mine.py, line 2: KeyError"), naming_lines("mine.py"):
        module.outer(fail)
    with pytest.raises(ValueError, match=r"^another.py: KeyError"), naming_lines("another.py"):
        module.outer(fail)


def test_comments_docstrings_and_layout_do_not_count() -> None:
    plain = parsed_code(b"def f(x):\n    return x + 1\n")
    assert parsed_code(b'"""Doc."""\n\n\ndef f(x):  # why\n    """Doc."""\n    return (x\n        + 1)\n') == plain
    assert parsed_code(b"def f(x):\n    return x + 2\n") != plain
    assert parsed_code(b'class A:\n    """Doc."""\n') == parsed_code(b"class A:\n    pass\n")
