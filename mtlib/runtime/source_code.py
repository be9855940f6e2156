"""Python source by its content: run with errors that name their line, and compared without what changes no number."""

import ast
import contextlib
import importlib.util
import traceback
import types
from collections.abc import Iterator

from mtlib.runtime.errors import first_line, typed_line


def run_source(source: str | bytes, path: str, module: types.ModuleType) -> None:
    """Runs a file's content in a module; ValueError with the line of the file where it stops."""
    code = compile_source(source, path)
    with naming_lines(path):
        exec(code, vars(module))


@contextlib.contextmanager
def naming_lines(path: str) -> Iterator[None]:
    """While code of a file runs, turns any error into a ValueError with the line of the file, if it has one."""
    try:
        yield
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        place = f"{path}, line {lines[-1]}" if lines else path
        raise ValueError(f"{place}: {typed_line(error)}") from error


def compile_source(source: str | bytes, path: str) -> types.CodeType:
    """Returns the code of a file; ValueError with the line that is no Python."""
    try:
        text = source if isinstance(source, str) else importlib.util.decode_source(source)
        return compile(text, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        place = f"{path}, line {error.lineno}" if error.lineno else path
        raise ValueError(f"{place}: {type(error).__name__}: {error.msg}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {first_line(error)}") from error


def parsed_code(source: str | bytes) -> str:
    """Returns a file's code without comments, docstrings and layout, which change no number."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):  # a docstring, or the string under a field
            kept = [item for item in body if not (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant))]
            node.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(tree)
