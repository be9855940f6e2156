"""Calls in threads of their own."""

import errno
import threading
from unittest.mock import Mock

import pytest

from sweeps.cluster.background_run import BackgroundRun, is_inside_ray


def test_run_lasts_as_long_as_its_call() -> None:
    may_end = threading.Event()
    run = BackgroundRun(lambda: may_end.wait(10), "lane0")
    run.wait(0.01)
    assert not run.is_over
    assert is_inside_ray()
    may_end.set()
    run.wait(10)
    assert run.is_over
    assert run.error is None


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (RuntimeError("no node is left\nTraceback ..."), "RuntimeError: no node is left"),
        (OSError(errno.EROFS, "Read-only file system", "/a"), "Read-only file system: /a"),
    ],
)
def test_failed_run_is_one_line(error: Exception, line: str) -> None:
    run = BackgroundRun(Mock(side_effect=error), "lane0")
    run.wait(10)
    assert run.error == line
