"""How a command ends: the plan of a dry run, and an exit code with one line for what went wrong."""

import contextlib
import errno
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from transformers import AutoModel

from mtlib.model.encoder import quiet_transformers
from mtlib.runtime.program_names import PROJECT_FOLDER
from sweeps.cli.start import command_line, exit_code_of, print_only, run_given
from tests.architectures import DECODERS
from tests.one_line_error import one_line_error

Capture = pytest.CaptureFixture[str]
Given = dict[str, Any]

WEIGHTS = ["0", "0.3", "0.45", "0.5", "0.7", "1", "3"]
SMALL = {
    "stages.0.epochs": "1",
    "stages.1.epochs": "1",
    "encoder.max_length": "32",
    "tasks.sst.scored_train_rows": "11",
}


@pytest.fixture
def given(tiny_folder: Path, tiny_encoder_folder: Path, tmp_path: Path) -> Given:
    """Options of a small sweep on tiny data."""
    places = {"data": str(tiny_folder), "encoder": str(tiny_encoder_folder), "storage": str(tmp_path)}
    return {"space": "smart_lambda", "name": "first", "set": SMALL, **places}


def test_dry_run_prints_the_plan_and_leaves_nothing(given: Given, tmp_path: Path, capsys: Capture) -> None:
    assert run_given({**given, "dry_run": True}, "") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines if line.lstrip().startswith("000")] == WEIGHTS
    assert any(line.startswith("In all 7 trainings") for line in lines)
    assert any(line.startswith("Disk: ") and "at most" in line for line in lines)
    assert lines[-1] == "Dry run: nothing was started."
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("is_decoder", "message"),
    [(False, "cannot be loaded: "), (True, "whose first token does not attend to later tokens (llama)")],
)
def test_dry_run_refuses_an_unsupported_encoder_as_the_run_does(
    is_decoder: bool, message: str, given: Given, tiny_encoder_folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    """Though it does not read its weights whole."""
    encoder = Path(shutil.copytree(tiny_encoder_folder, tmp_path / "changed"))
    if is_decoder:
        with quiet_transformers():
            AutoModel.from_config(DECODERS["llama"]).save_pretrained(encoder)
    else:
        (encoder / "model.safetensors").write_bytes(b"{")
    asked = {**given, "encoder": str(encoder)}
    error = one_line_error(run_given, {**asked, "dry_run": True}, "")
    assert message in error
    assert "Dry run" not in capsys.readouterr().out
    assert one_line_error(run_given, asked, "") == error
    assert not (tmp_path / "first").exists()


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("a must be 1, got 2"), 2, "error: a must be 1, got 2"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(errno.ENOSPC, "No space left", "a.parquet"), 1, "error: the disk is full: "),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), 1, "error: the disk is full: "),
        (
            ConnectionResetError("reset"),
            1,
            "error: a file or the network cannot be used: reset; continue with --resume",
        ),
    ],
)
def test_what_went_wrong_is_an_exit_code_and_one_line(
    error: BaseException, code: int, line: str, capsys: Capture
) -> None:
    assert exit_code_of(Mock(side_effect=error)) == code
    (printed,) = capsys.readouterr().err.splitlines()
    assert printed.startswith(line)


@contextlib.contextmanager
def closed_output() -> Iterator[None]:
    """Standard output is a pipe whose reader has closed it."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as output, contextlib.redirect_stdout(output):
        yield


def test_reader_that_stops_early_ends_a_sweep_and_is_no_error_of_what_only_prints(capsys: Capture) -> None:
    with closed_output():
        assert exit_code_of(Mock(side_effect=BrokenPipeError)) == 130
        assert print_only(Mock(side_effect=BrokenPipeError)) == 0
    assert capsys.readouterr().err == "interrupted: standard output was closed; --resume continues what has begun\n"


def test_command_line_can_be_typed_again() -> None:
    arguments = ["--space", "s", "--set", "a=b c"]
    command = command_line("sweeps/run.py", arguments)
    assert command == "python sweeps/run.py --space s --set 'a=b c'"
    assert shlex.split(command)[2:] == arguments


PROGRAM = """
import atexit, os, threading
from sweeps.cli.start import exit_process
atexit.register(os._exit, 11)  # as what Ray leaves behind: a thread that Python takes down inside it ends the process
threading.Thread(target=threading.Event().wait, name={name!r}, daemon=True).start()
print("said")
exit_process(3)
"""


@pytest.mark.parametrize(("name", "code"), [("sweep: lane0", 3), ("other", 11)])
def test_thread_inside_ray_does_not_change_the_exit_code(name: str, code: int) -> None:
    command = [sys.executable, "-c", PROGRAM.format(name=name)]
    done = subprocess.run(command, cwd=PROJECT_FOLDER, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (code, "said\n" if code == 3 else done.stdout)
