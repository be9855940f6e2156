"""Reads the best weights of a trial."""

from typing import TYPE_CHECKING

import pyarrow.fs as fs

from mtlib.runtime.errors import first_line, require
from mtlib.runtime.storage import full_path, subfolder
from results.records.trials import TrialRecord

if TYPE_CHECKING:  # `results` must load without torch
    from mtlib.checkpoints.best_weights import ModelWeights

WHY_GONE = " (a sweep deletes those of trials that are not among the best, see --keep-models)"


def read_trial_weights(root: fs.SubTreeFileSystem, record: TrialRecord, epoch: int) -> "ModelWeights":
    """Returns the weights of one of a trial's best epochs, from 1, on the CPU.

    Raises:
        ValueError: in one line: the weights are missing, or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    from mtlib.checkpoints.best_weights import read_weights, weights_file
    from mtlib.checkpoints.state import StateFolder

    rule = f"trial {record.trial_id} ({record.status}) must have kept weights"
    require(record.checkpoint is not None, rule, f"none{WHY_GONE * (record.epochs > 0)}")
    folder = StateFolder(path=subfolder(root, str(record.checkpoint)))
    try:
        weights: ModelWeights = load(read_weights(folder, epoch))
    except (OSError, SafetensorError) as error:
        name = full_path(folder.root, weights_file(epoch))
        raise ValueError(f"weights must be whole, {name} is truncated or damaged: {first_line(error)}") from error
    except ValueError as error:
        is_gone = str(error).endswith("is missing")
        raise ValueError(f"weights must be whole, {error}{WHY_GONE * is_gone}") from error
    return weights
