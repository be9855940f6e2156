"""Reads the best weights of a trial from a sweep's folder or its mirror."""

import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.fs as fs

from mtlib.runtime.errors import first_line, require
from results.records.files import full_path, is_file
from results.records.trials import TrialRecord

if TYPE_CHECKING:  # `results` must load without torch
    from mtlib.checkpoints.best_weights import ModelWeights

WHY_GONE = " (a sweep deletes those of trials that are not among the best, see --keep-models)"


def read_trial_weights(root: fs.SubTreeFileSystem, record: TrialRecord, epoch: int) -> "ModelWeights":
    """The weights of one of a trial's best epochs, from 1, on the CPU.

    Raises:
        ValueError: in one line: the weights are missing, or damaged; those kept before there were checksums count as
            whole if they can be read.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    from mtlib.checkpoints.best_weights import CHECKSUMS, read_checksums, weights_path
    from mtlib.checkpoints.state import StateFolder

    rule = f"trial {record.trial_id} ({record.status}) must have kept weights"
    require(record.checkpoint is not None, rule, f"none{WHY_GONE * (record.epochs > 0)}")
    path = weights_path(StateFolder(path=Path(str(record.checkpoint))), epoch)
    try:
        content = read_bytes(root, path)
        sums_path = path.with_name(CHECKSUMS)
        sums = read_checksums(read_bytes(root, sums_path)) if is_file(root, sums_path.as_posix()) else {}
        require(sums.get(path.name) in (None, zlib.crc32(content)), "its checksum must be right", "another one")
        weights: ModelWeights = load(content)
    except (OSError, ValueError, SafetensorError) as error:
        is_gone = isinstance(error, FileNotFoundError)
        what = f"missing{WHY_GONE}" if is_gone else f"truncated or damaged: {first_line(error)}"
        raise ValueError(f"weights must be whole, {full_path(root, path.as_posix())} is {what}") from error
    return weights


def read_bytes(root: fs.SubTreeFileSystem, path: Path) -> bytes:
    """A file's content."""
    with root.open_input_stream(path.as_posix()) as stream:
        content: bytes = stream.readall()
    return content
