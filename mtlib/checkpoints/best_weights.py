"""The weights of a trial's best epochs, and their checksums.

A trial's folder holds them as `weights/epoch-<n>.safetensors`, `weights/checksums.json` and `best.json`. They are
written completely, then renamed; if the disk is full, the earlier ones stay.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from mtlib.checkpoints.state import StateFolder, room_for, write_tensors
from mtlib.runtime.checksum import file_crc32

ModelWeights = dict[str, Tensor]
"""All weights of a model by name."""

CHECKSUMS = "checksums.json"
"""In the folder of the weights: CRC-32 by file name."""


def keep_best(folder: StateFolder, epoch: int, best_epochs: Mapping[str, int], weights: Mapping[str, Tensor]) -> None:
    """Keeps the weights of the best epochs and removes those of epochs that are no longer the best.

    Args:
        epoch: the epoch that has just been scored.
        best_epochs: best epoch by task name and `overall`; `weights` are written if `epoch` is among them.
        weights: the model's weights after that epoch.

    Raises:
        DiskFull: there is no room for them; earlier weights stay.
    """
    partial, target = folder.path / ".kept.partial", weights_path(folder, epoch)
    shutil.rmtree(partial, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    is_best, wanted = epoch in best_epochs.values(), {weights_path(folder, best) for best in best_epochs.values()}
    sums = {path.name: known for path, known in known_checksums(folder).items() if path in wanted}
    with room_for(f"the weights of epoch {epoch}", weights if is_best else {}, partial):
        if is_best:
            write_tensors(weights, partial / target.name)
            sums[target.name] = file_crc32(partial / target.name)
        (partial / CHECKSUMS).write_text(json.dumps(sums, sort_keys=True))
        (partial / "best.json").write_text(json.dumps(dict(best_epochs), sort_keys=True))
    if is_best:
        (partial / target.name).rename(target)
    (partial / CHECKSUMS).rename(target.parent / CHECKSUMS)
    (partial / "best.json").rename(folder.path / "best.json")
    partial.rmdir()
    for path in target.parent.glob("epoch-*.safetensors"):
        if path not in wanted:
            path.unlink()


def known_checksums(folder: StateFolder) -> dict[Path, int]:
    """CRC-32 of the best weights by path; nothing where they are not known."""
    path = folder.path / "weights" / CHECKSUMS
    try:
        return {path.with_name(name): value for name, value in read_checksums(path.read_bytes()).items()}
    except (OSError, ValueError):
        return {}


def read_checksums(content: bytes) -> dict[str, int]:
    """CRC-32 by file name from the content of `checksums.json`; ValueError if it is damaged."""
    try:
        return {str(name): int(value) for name, value in json.loads(content).items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{CHECKSUMS} is truncated or damaged") from error


def check_weights(folder: StateFolder, epoch: int) -> None:
    """Raises ValueError, which names the file, if the weights of a best epoch are missing, truncated or damaged.

    Weights that were kept before there were checksums count as whole.
    """
    path = weights_path(folder, epoch)
    if not path.is_file():
        raise ValueError(f"{path} is missing")
    sums = path.with_name(CHECKSUMS)
    expected = read_checksums(sums.read_bytes()).get(path.name) if sums.exists() else None
    if expected not in (None, file_crc32(path)):
        raise ValueError(f"{path} is truncated or damaged: its checksum is wrong")


def weights_path(folder: StateFolder, epoch: int) -> Path:
    return folder.path / "weights" / f"epoch-{epoch:04d}.safetensors"
