"""The exact state of a trial, from which a killed trial resumes bit for bit.

A folder holds the two newest states, `state-<step>-<n>/`; a damaged one is ignored. Tensors are safetensors, the rest
is JSON; nothing is pickled. Everything is written completely, then renamed; if the disk is full, earlier states stay.
"""

import contextlib
import errno
import json
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from mtlib.runtime.checksum import file_crc32
from mtlib.runtime.errors import require

STATES_KEPT = 2
"""The newest state, and the one before it in case the newest is damaged."""
WEIGHTS_KEPT_BYTES = 4
"""Bytes of one parameter's weight on disk (fp32)."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""System error numbers for no space: on the disk, in a quota, or below the process's limit of file size."""


class DiskFull(OSError):  # noqa: N818 - named like StopIteration
    """There is no room for a state or for weights; earlier ones are undamaged."""


@dataclass(frozen=True, kw_only=True)
class StateFolder:
    """The folder of a trial's states and best weights, and how often states are saved."""

    path: Path
    checkpoint_steps: int = 500
    """Optimizer steps between states within an epoch, at least 1; one is kept at each epoch's end as well."""
    keeps_end: bool = False
    """Whether a state is kept after the last epoch too, so that a longer trial can continue from it."""

    def __post_init__(self) -> None:
        require(self.checkpoint_steps >= 1, "checkpoint_steps must be at least 1", self.checkpoint_steps)


@dataclass(frozen=True, kw_only=True)
class State:
    """One moment of a trial."""

    tensors: Mapping[str, Tensor]
    numbers: Mapping[str, Any]
    """Position, sums, best scores: JSON, whose floats are read back exactly."""


def save_state(folder: StateFolder, step: int, state: State) -> None:
    """Writes the state after optimizer step `step`; it and the newest before it stay, `STATES_KEPT` in all.

    Raises:
        DiskFull: there is no room for it; the states before it stay.
    """
    partial = folder.path / ".state.partial"
    shutil.rmtree(partial, ignore_errors=True)
    folder.path.mkdir(parents=True, exist_ok=True)
    with room_for(f"the state after step {step}", state.tensors, partial):
        write_tensors(state.tensors, partial / "tensors")
        numbers = json.dumps(dict(state.numbers))
        sums = {"tensors": file_crc32(partial / "tensors"), "numbers": zlib.crc32(numbers.encode())}
        (partial / "state.json").write_text(json.dumps({"checksums": sums, "numbers": numbers}))
    # A second state after the same step gets a name of its own: at no time is a good one missing.
    taken = [int(path.name.rpartition("-")[2]) for path in folder.path.glob(f"state-{step:09d}-*")]
    target = folder.path / f"state-{step:09d}-{max(taken, default=-1) + 1:03d}"
    partial.rename(target)
    # States of later steps are damaged ones that were passed over: they must not take the place of good ones.
    kept = [path for path in saved_states(folder) if path <= target][:STATES_KEPT]
    for old in saved_states(folder):
        if old not in kept:
            shutil.rmtree(old)


@contextlib.contextmanager
def room_for(what: str, tensors: Mapping[str, Tensor], partial: Path) -> Iterator[None]:
    """Makes a new folder to write tensors into; removes it if that fails, and raises DiskFull if there is no room."""
    try:
        partial.mkdir()
        yield
    except (OSError, SafetensorError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        why = why_full(error)
        if why is None:
            raise
        need = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        rule = f"the disk must have room for {what}, {need:,} bytes"
        got = f"{shutil.disk_usage(partial.parent).free:,} bytes free in {partial.parent}"
        raise DiskFull(f"{rule}, got {got} ({why})") from error


def why_full(error: BaseException) -> str | None:
    """The system's message if an error means that there is no room for a file; None for any other error."""
    if not isinstance(error, OSError | SafetensorError):
        return None
    number, text = getattr(error, "errno", None), str(error)  # safetensors has the system's words in its text only
    return next((os.strerror(full) for full in FULL if full == number or os.strerror(full) in text), None)


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)


def load_state(folder: StateFolder) -> State | None:
    """The newest undamaged state, or None."""
    return next((state for state in map(read_state, saved_states(folder)) if state is not None), None)


def newest_numbers(folder: StateFolder) -> Mapping[str, Any] | None:
    """The numbers of the newest state whose numbers are undamaged; its tensors are not read."""
    return next((found[1] for found in map(read_numbers, saved_states(folder)) if found is not None), None)


def place_state(folder: StateFolder, step: int, source: Path) -> None:
    """Moves the state in `source`, saved after optimizer step `step`, into a folder without states."""
    assert not saved_states(folder), folder
    folder.path.mkdir(parents=True, exist_ok=True)
    source.rename(folder.path / f"state-{step:09d}-000")


def saved_states(folder: StateFolder) -> list[Path]:
    """Folders of states, newest first."""
    return sorted(folder.path.glob("state-*"), reverse=True)


def read_state(path: Path) -> State | None:
    """The state at `path`; None if it is truncated or its checksum is wrong."""
    found = read_numbers(path)
    try:
        if found is None or found[0] != file_crc32(path / "tensors"):
            return None
        return State(tensors=load_file(path / "tensors"), numbers=found[1])
    except (OSError, SafetensorError):
        return None


def read_numbers(path: Path) -> tuple[int, Mapping[str, Any]] | None:
    """The tensors' checksum and the numbers of the state at `path`; None if they are truncated or damaged."""
    try:
        described = json.loads((path / "state.json").read_text())
        sums, numbers = described["checksums"], described["numbers"]
        if sums["numbers"] != zlib.crc32(numbers.encode()):
            return None
        return int(sums["tensors"]), json.loads(numbers)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def set_aside(path: Path) -> Path:
    """Renames a state that cannot be used, so that it is not found again, and nothing is lost; its new path."""
    target = path.with_name(f"aside-{path.name}")
    shutil.rmtree(target, ignore_errors=True)
    path.rename(target)
    return target


def drop_states(folder: StateFolder) -> None:
    """Removes the states of a trial that has ended; its best weights stay."""
    for path in (*saved_states(folder), *folder.path.glob("aside-*"), *folder.path.glob(".*.partial")):
        shutil.rmtree(path, ignore_errors=True)
