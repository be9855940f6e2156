"""The weights of a trial's best epochs, and their checksums.

A trial's folder holds them as `weights/epoch-<n>.safetensors`, `weights/checksums.json` and `best.json`, which is
written last. If the disk is full, the earlier ones stay.
"""

import json
import zlib
from collections.abc import Mapping, Set

from torch import Tensor

from mtlib.checkpoints.state import StateFolder, num_bytes, room_for, write_tensors
from mtlib.runtime.storage import delete_file, full_path, is_temporary, list_files, read_bytes, write_bytes

ModelWeights = dict[str, Tensor]
"""All weights of a model by name."""

BEST_FILE = "best.json"
"""Best epoch by task and `overall`."""
WEIGHTS_FOLDER = "weights"
CHECKSUMS_FILE = f"{WEIGHTS_FOLDER}/checksums.json"
"""CRC-32 by name of file."""


def keep_best(
    folder: StateFolder,
    epoch: int,
    best_epochs: Mapping[str, int],
    weights: Mapping[str, Tensor],
    needed: Set[int] = frozenset(),
) -> None:
    """Keeps the weights of the best epochs and removes an epoch's weights when it is no longer the best.

    Args:
        epoch: the epoch that has just been scored.
        best_epochs: best epoch by task name and `overall`; `weights` are written if `epoch` is among them.
        weights: the model's weights after that epoch.
        needed: further epochs whose weights stay: the best ones by a saved state, from which the trial may resume.

    Raises:
        DiskFull: there is no room for them; earlier weights stay.
        OSError: the storage cannot be written.
    """
    root, wanted = folder.root, {*best_epochs.values(), *needed}
    sums = {file: known for file, known in known_checksums(folder).items() if file in map(weights_file, wanted)}
    is_best = epoch in best_epochs.values()
    what, need = f"the weights of epoch {epoch}", num_bytes(weights)
    if not is_best:
        what, need = "the list of best epochs", sum(map(len, best_files(best_epochs, sums).values()))
    with room_for(what, need, root):
        if is_best:
            sums[weights_file(epoch)] = write_tensors(root, weights_file(epoch), weights)
        write_best(folder, best_epochs, sums)
    delete_weights(folder, wanted)


def write_best(folder: StateFolder, best_epochs: Mapping[str, int], sums: Mapping[str, int]) -> None:
    """Writes the CRC-32 of weights by file, and then the best epochs by score."""
    for path, content in best_files(best_epochs, sums).items():
        write_bytes(folder.root, path, content)


def best_files(best_epochs: Mapping[str, int], sums: Mapping[str, int]) -> dict[str, bytes]:
    """Returns the contents that `write_best` writes."""
    by_name = {file.removeprefix(f"{WEIGHTS_FOLDER}/"): value for file, value in sums.items()}
    found = {CHECKSUMS_FILE: by_name, BEST_FILE: dict(best_epochs)}
    return {path: json.dumps(content, sort_keys=True).encode() for path, content in found.items()}


def delete_weights(folder: StateFolder, wanted: Set[int]) -> None:
    """Deletes the weights of all epochs but the wanted ones, and files that a kill has left."""
    kept = {*map(weights_file, wanted), *([CHECKSUMS_FILE] if wanted else [])}
    for info in list_files(folder.root, WEIGHTS_FOLDER):
        if info.path not in kept or is_temporary(info.path):
            delete_file(folder.root, info.path)


def read_best(folder: StateFolder) -> dict[str, int]:
    """Best epoch by task and `overall`; FileNotFoundError if there is no such file, ValueError if it is damaged."""
    return read_whole_numbers(folder, BEST_FILE)


def known_checksums(folder: StateFolder) -> dict[str, int]:
    """CRC-32 of the best weights by file; nothing where they are not known."""
    try:
        return read_checksums(folder)
    except (FileNotFoundError, ValueError):
        return {}


def read_checksums(folder: StateFolder) -> dict[str, int]:
    """CRC-32 of weights by file; FileNotFoundError if there is no such file, ValueError if it is damaged."""
    return {f"{WEIGHTS_FOLDER}/{name}": value for name, value in read_whole_numbers(folder, CHECKSUMS_FILE).items()}


def read_whole_numbers(folder: StateFolder, path: str) -> dict[str, int]:
    """Returns numbers by name; FileNotFoundError if there is no such file, ValueError if it is damaged."""
    content = read_bytes(folder.root, path)
    try:
        return {str(name): int(value) for name, value in json.loads(content).items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{full_path(folder.root, path)} is truncated or damaged") from error


def check_best(folder: StateFolder) -> dict[str, int]:
    """Reads the weights of all best epochs, and returns these; raises as `read_best` and `read_weights`."""
    best = read_best(folder)
    for epoch in sorted(set(best.values())):
        read_weights(folder, epoch)
    return best


def read_weights(folder: StateFolder, epoch: int) -> bytes:
    """Returns the content of a best epoch's file of weights; weights without a known checksum count as whole.

    Raises:
        ValueError: it is missing, truncated or damaged; the message names the file.
    """
    path, root = weights_file(epoch), folder.root
    name = full_path(root, path)
    try:
        content = read_bytes(root, path)
    except FileNotFoundError as error:
        raise ValueError(f"{name} is missing") from error
    try:
        expected = read_checksums(folder).get(path)
    except FileNotFoundError:
        expected = None
    if expected not in (None, zlib.crc32(content)):
        raise ValueError(f"{name} is truncated or damaged: its checksum is wrong")
    return content


def weights_file(epoch: int) -> str:
    """Returns the file of an epoch's weights in a trial's folder."""
    return f"{WEIGHTS_FOLDER}/epoch-{epoch:04d}.safetensors"
