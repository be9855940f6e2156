"""A user's file of methods, by its content."""

import pickle
import uuid
from pathlib import Path

import pytest

from mtlib.runtime.method_file import (
    MethodFile,
    line_of_method,
    permit_stored,
    permitted,
    read_method_file,
    run_method_file,
    trusting_methods,
)
from tests.one_line_error import one_line_error

SOURCE = '''\
"""Mine."""

FACTOR = 2.0


def divide(number):
    """A share of it."""
    return FACTOR / number
'''


def file_of(source: str) -> MethodFile:
    return permitted("mine.py", source)


def test_content_is_read_and_run_once_in_a_process(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_bytes(b"\xef\xbb\xbf" + SOURCE.replace("\n", "\r\n").encode())
    file = read_method_file(tmp_path / "mine.py")
    assert file == file_of(SOURCE)
    assert run_method_file(file) is run_method_file(file_of(SOURCE))
    assert run_method_file(file).divide(4) == 0.5
    assert run_method_file(file_of(SOURCE.replace("2.0", "3.0"))).divide(4) == 0.75


def test_digest_is_of_the_code_alone() -> None:
    file = file_of(SOURCE)
    assert file.digest == file_of(SOURCE.replace("A share of it", "Another text") + "# a comment\n").digest
    assert file.digest != file_of(SOURCE.replace("2.0", "3.0")).digest


def test_line_of_an_error_in_a_file_is_named() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run_method_file(file_of(SOURCE)).divide(0)
    assert line_of_method(caught.value) == "mine.py, line 8"
    assert line_of_method(KeyError()) is None


def test_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    missing = tmp_path / "missing.py"
    message = one_line_error(read_method_file, missing)
    assert message == f"--methods must be a file that can be read, got '{missing}': No such file or directory"
    (tmp_path / "mine.py").write_bytes(b"# \xff\n")
    assert one_line_error(read_method_file, tmp_path / "mine.py").startswith(f"{tmp_path / 'mine.py'}: ")


def test_content_of_unknown_origin_runs_only_where_a_driver_has_sent_it() -> None:
    file = MethodFile(name="mine.py", source=f"ID = '{uuid.uuid4()}'")
    assert one_line_error(run_method_file, file).endswith("got one of unknown origin")
    assert run_method_file(pickle.loads(pickle.dumps(file))).ID in file.source


def test_stored_content_is_permitted_once_for_all(tmp_path: Path) -> None:
    """Not by a command that runs nothing; later the file is read by one that may run what is the user's."""
    content = {"name": "mine.py", "source": f"ID = '{uuid.uuid4()}'"}
    (tmp_path / "record.json").touch()
    with trusting_methods(None):
        permit_stored({"base": {"methods": [content]}}, tmp_path, "record.json")
    assert one_line_error(run_method_file, MethodFile(**content)).endswith("is not run by this command")
    permit_stored([content], tmp_path, "record.json")
    with trusting_methods(None):
        permit_stored([content], tmp_path, "record.json")
    assert run_method_file(MethodFile(**content)).ID
