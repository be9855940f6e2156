"""A trial's log has its warnings and errors, and those of earlier attempts."""

import logging
import re
import warnings
from pathlib import Path
from unittest.mock import Mock

import pytest

from mtlib.runtime.storage import open_folder
from sweeps.lanes.trial_log import TrialLog


def read(folder: Path) -> str:
    return (folder / "trials/0003-r0/log.txt").read_text()


def test_lines_warnings_and_tracebacks_follow_those_of_earlier_attempts(tmp_path: Path) -> None:
    first = TrialLog(open_folder(tmp_path), "0003-r0")
    with first.collecting():
        first.add("epoch 1")
        logging.getLogger("a_package.module").warning("it is slow")
        logging.getLogger("a_package.module").info("not shown")
        warnings.warn("it is old", stacklevel=1)
    logging.getLogger("a_package.module").warning("of another trial")
    first.write()
    second = TrialLog(open_folder(tmp_path), "0003-r0")
    try:
        raise KeyError("lost")
    except KeyError as error:
        second.add_error(error)
    second.write()
    lines = read(tmp_path).splitlines()
    assert [re.sub(r"^[-\d]+ [\d:,]+ ", "", line) for line in lines[:2]] == ["epoch 1", "it is slow"]
    assert "it is old" in read(tmp_path)  # in a form that libraries may change
    assert lines[-1] == "KeyError: 'lost'"
    assert sum("Traceback" in line for line in lines) == 1
    assert "of another trial" not in read(tmp_path)
    assert "not shown" not in read(tmp_path)


def test_log_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeps.lanes.trial_log.write_bytes", Mock(side_effect=OSError("no space")))
    TrialLog(open_folder(tmp_path), "0003-r0").write()
    assert not (tmp_path / "trials").exists()
