"""The exact state of a trial, from which a killed trial resumes bit for bit.

A folder, on a disk or in a bucket, holds the two newest states, `state-<step>-<n>/tensors` and `state.json`, which is
written last: without it there is no state. A damaged one is ignored. Tensors are safetensors, the rest is JSON; nothing
is pickled. If the disk is full, earlier states stay.
"""

import contextlib
import errno
import json
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

import pyarrow.fs as fs
from safetensors import SafetensorError
from safetensors.torch import load, save, save_file
from torch import Tensor

from mtlib.runtime.checksum import file_crc32
from mtlib.runtime.errors import require
from mtlib.runtime.storage import (
    Location,
    copy_file,
    delete_file,
    delete_folder,
    is_temporary,
    list_files,
    local_path,
    move_file,
    open_folder,
    read_bytes,
    subfolder,
    write_bytes,
    write_local,
)

STATES_KEPT = 2
"""The newest state, and the one before it in case the newest is damaged."""
WEIGHTS_KEPT_BYTES = 4
"""Bytes of one parameter's weight on disk (fp32)."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""System error numbers for no space: on the disk, in a quota, or below the process's limit of file size."""
TENSORS_FILE, NUMBERS_FILE = "tensors", "state.json"
STATE, ASIDE = "state-", "aside-"
"""Beginnings of the names of states' folders, and of those that are set aside."""


class DiskFull(OSError):  # noqa: N818 - named like StopIteration
    """There is no room for a state or for weights; earlier ones are undamaged."""


@dataclass(frozen=True, kw_only=True)
class StateFolder:
    """The folder of a trial's states and best weights, and how often states are saved."""

    path: Location
    checkpoint_steps: int = 500
    """Optimizer steps between states within an epoch, at least 1; one is kept at each epoch's end as well."""
    keeps_end: bool = False
    """Whether a state is kept after the last epoch too, so that a longer trial can continue from it."""
    least_seconds: float = 0.0
    """Least time between two states, at least 0; one at a stage's end, and one before an interruption, do not wait."""
    in_background: bool = False
    """Whether files are written by a thread while training goes on."""

    def __post_init__(self) -> None:
        require(self.checkpoint_steps >= 1, "checkpoint_steps must be at least 1", self.checkpoint_steps)

    @property
    def root(self) -> fs.SubTreeFileSystem:
        """The folder, opened."""
        return open_folder(self.path)


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
        OSError: the storage cannot be written.
    """
    root, found = folder.root, state_files(folder)
    # A second state after the same step gets a name of its own: at no time is a good one missing.
    taken = [int(other.rpartition("-")[2]) for other in found if other.startswith(f"{STATE}{step:09d}-")]
    name = f"{STATE}{step:09d}-{max(taken, default=-1) + 1:03d}"
    try:
        with room_for(f"the state after step {step}", num_bytes(state.tensors), root):
            checksum = write_tensors(root, f"{name}/{TENSORS_FILE}", state.tensors)
            numbers = json.dumps(dict(state.numbers))
            sums = {"tensors": checksum, "numbers": zlib.crc32(numbers.encode())}
            content = json.dumps({"checksums": sums, "numbers": numbers})
            write_bytes(root, f"{name}/{NUMBERS_FILE}", content.encode())
    except BaseException:
        with contextlib.suppress(OSError):
            delete_folder(root, name)
        raise
    # States of later steps are damaged ones that were passed over: they must not take the place of good ones.
    earlier = sorted((other for other in whole_states(found) if other < name), reverse=True)
    for other in found.keys() - {*earlier[: STATES_KEPT - 1]}:
        delete_state(root, other)


@contextlib.contextmanager
def room_for(what: str, need: int, root: fs.SubTreeFileSystem) -> Iterator[None]:
    """Raises DiskFull in place of an error that means that there is no room for so many bytes."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        number, text = getattr(error, "errno", None), str(error)  # safetensors has the system's words in its text only
        why = next((os.strerror(full) for full in FULL if full == number or os.strerror(full) in text), None)
        place = local_path(root)
        if why is None or place is None:
            raise
        rule = f"the disk must have room for {what}, {need:,} bytes"
        raise DiskFull(f"{rule}, got {shutil.disk_usage(place).free:,} bytes free in {place} ({why})") from error


def num_bytes(tensors: Mapping[str, Tensor]) -> int:
    """Returns the size of tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def write_tensors(root: fs.SubTreeFileSystem, path: str, tensors: Mapping[str, Tensor]) -> int:
    """Writes tensors as a safetensors file, whole or not at all; returns its CRC-32."""
    on_host = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    if local_path(root) is None:
        content = save(on_host)
        write_bytes(root, path, content)
        return zlib.crc32(content)
    checksums = []

    def write(temporary: Any) -> None:
        temporary.touch()
        mode = temporary.stat().st_mode
        save_file(on_host, temporary)  # without a second copy of all bytes
        temporary.chmod(mode)  # safetensors lets nobody else read what it writes, whatever the umask
        checksums.append(file_crc32(temporary))

    write_local(root, path, write)
    return checksums[0]


def load_state(folder: StateFolder) -> State | None:
    """Returns the newest undamaged state, or None; OSError where the storage cannot be read."""
    found = (read_state(folder, name) for name in saved_states(folder))
    return next((state for state in found if state is not None), None)


def newest_numbers(folder: StateFolder) -> Mapping[str, Any] | None:
    """Returns the numbers of the newest state whose numbers are undamaged; its tensors are not read."""
    found = (read_numbers(folder, name) for name in saved_states(folder))
    return next((numbers[1] for numbers in found if numbers is not None), None)


def place_state(folder: StateFolder, step: int, source: fs.SubTreeFileSystem) -> None:
    """Copies the state in `source`, saved after optimizer step `step`, into a folder without states."""
    assert not saved_states(folder), folder
    target = subfolder(folder.root, f"{STATE}{step:09d}-000")
    for name in (TENSORS_FILE, NUMBERS_FILE):
        copy_file(source, name, target, name)


def saved_states(folder: StateFolder) -> list[str]:
    """Names of the folders of states, newest first."""
    return sorted(whole_states(state_files(folder)), reverse=True)


def state_files(folder: StateFolder) -> dict[str, set[str]]:
    """Returns the files of each folder of a state, also of those that a kill has left without numbers."""
    found: dict[str, set[str]] = {}
    for info in list_files(folder.root, ""):
        name, _, file = str(info.path).partition("/")
        if name.startswith(STATE):
            found.setdefault(name, set()).add(file)
    return found


def whole_states(found: Mapping[str, Set[str]]) -> list[str]:
    """Names of the folders that have numbers."""
    return [name for name, files in found.items() if NUMBERS_FILE in files]


def read_state(folder: StateFolder, name: str) -> State | None:
    """Returns the state in the folder of this name; None if it is missing, truncated or its checksum is wrong."""
    found = read_numbers(folder, name)
    if found is None:
        return None
    try:
        content = read_bytes(folder.root, f"{name}/{TENSORS_FILE}")
        if zlib.crc32(content) != found[0]:
            return None
        return State(tensors=load(content), numbers=found[1])
    except (FileNotFoundError, SafetensorError):
        return None


def read_numbers(folder: StateFolder, name: str) -> tuple[int, Mapping[str, Any]] | None:
    """Returns the tensors' checksum and the numbers of a state; None if they are missing, truncated or damaged."""
    try:
        described = json.loads(read_bytes(folder.root, f"{name}/{NUMBERS_FILE}"))
        sums, numbers = described["checksums"], described["numbers"]
        if sums["numbers"] != zlib.crc32(numbers.encode()):
            return None
        return int(sums["tensors"]), json.loads(numbers)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None


def set_aside(folder: StateFolder, name: str) -> str:
    """Renames a state that cannot be used, so that it is not found again, and nothing is lost; its new name."""
    root, aside = folder.root, f"{ASIDE}{name}"
    delete_folder(root, aside)
    for file in (NUMBERS_FILE, TENSORS_FILE):
        with contextlib.suppress(FileNotFoundError):
            move_file(root, f"{name}/{file}", f"{aside}/{file}")
    delete_folder(root, name)
    return aside


def delete_state(root: fs.SubTreeFileSystem, name: str) -> None:
    """Deletes a state, `state.json` first: a kill leaves no state without tensors."""
    delete_file(root, f"{name}/{NUMBERS_FILE}")
    delete_folder(root, name)


def drop_states(folder: StateFolder) -> None:
    """Removes the states of a trial that has ended, and what a kill has left;
    best weights, and states that were set aside, stay."""
    root = folder.root
    for name in state_files(folder):
        delete_state(root, name)
    for info in list_files(root, ""):
        if is_temporary(info.path):
            delete_file(root, info.path)
