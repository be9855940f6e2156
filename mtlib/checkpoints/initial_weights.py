"""Starting weights in place of pretrained ones: another trial's best weights, or an exported model's."""

import re
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from mtlib.checkpoints.best_weights import BEST_FILE, read_best, read_weights, weights_file
from mtlib.checkpoints.state import StateFolder
from mtlib.config.network import EncoderConfig
from mtlib.model.adapters import without_adapter
from mtlib.model.encoder import WRAPPED, digest_of
from mtlib.model.multitask import MultiTaskModel
from mtlib.model.weight_files import check_finite, fault_of_files
from mtlib.runtime.errors import first_line, require, require_name
from mtlib.runtime.storage import expanded_path
from mtlib.stages.active_weights import is_of_adapter, part_of_weight

ENCODER_FILE, TASKS_FILE = "model.safetensors", "tasks.safetensors"
"""An exported model: the encoder under the names that `transformers` gives it, and all else under ours."""
ENCODER, POOLER = "encoder.", "encoder.pooler."
"""Prefixes of the names of the encoder's weights in a model, and of a layer that is never used."""


def read_starting_weights(config: EncoderConfig) -> dict[str, Tensor] | None:
    """Reads the configured starting weights, by the names in their files; None if the pretrained ones are to stay.

    Raises:
        ValueError: in one line: there are no such weights, or they are damaged.
    """
    if config.start_from is None:
        return None
    path, files = expanded_path(config.start_from), list[Path]()
    rule = "encoder.start_from must hold undamaged weights"
    try:
        files += find_files(path, config.start_epoch)
        loaded = [load_file(file) for file in files]
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{rule}, got {path}: {fault_of_files(files) or first_line(error)}") from error
    if files[0].name == ENCODER_FILE:
        loaded[0] = with_prefix(loaded[0])
    found = {re.sub(WRAPPED, "", name): tensor for weights in loaded for name, tensor in weights.items()}
    check_finite(f"{rule}, in {path}", found.items())
    return found


def load_start(config: EncoderConfig, model: MultiTaskModel, start: Mapping[str, Tensor] | None) -> dict[str, str]:
    """Loads the configured starting weights, `start` of `read_starting_weights`, into a new model.

    Returns:
        SHA-256, in hexadecimal, of the weights taken, by part of the model; nothing if the pretrained ones stay.

    Raises:
        ValueError: in one line: the weights are not given, they do not fit the encoder, or none of them fits a head
            where heads are to start from there.
    """
    if config.start_from is None:
        return {}
    if start is None:
        rule = "the weights of encoder.start_from must be given, as read_starting_weights reads them"
        raise ValueError(f"{rule}, got none of {config.start_from}")
    own = model.state_dict()
    plain = {without_adapter(name): name for name in own if not is_of_adapter(name)}
    named = with_prefix(start) if own.keys().isdisjoint(start) else start  # as `transformers` saves an encoder
    weights = {name: tensor for name, tensor in named.items() if not name.startswith(POOLER)}
    rule = f"encoder.start_from must fit the encoder, in {config.start_from}"
    taken = encoder_part(weights)
    has_adapter = any(map(is_of_adapter, taken))
    require(not has_adapter, rule, "weights of a trial with an adapter, which must be exported first to start from it")
    check_fit(rule, taken, encoder_part({name: own[full] for name, full in plain.items()}))
    if config.start_heads:
        taken |= fitting_heads(config.start_from, weights, own)
    taken = {name: tensor.to(own[plain[name]].dtype) for name, tensor in taken.items()}
    model.load_state_dict({**own, **{plain[name]: tensor for name, tensor in taken.items()}})
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in taken.items():
        parts.setdefault(part_of_weight(name), {})[name] = tensor
    return {part: digest_of(weights) for part, weights in parts.items()}


def with_prefix(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns an encoder's weights, named as `transformers` does, under their names in a model."""
    return {f"{ENCODER}{name}": tensor for name, tensor in weights.items()}


def encoder_part(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in weights.items() if name.startswith(ENCODER)}


def fitting_heads(where: str, weights: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the parts outside the encoder, such as a task's head, whose weights all fit by name and shape;
    ValueError if there are none."""
    rest = [name for name in own if not name.startswith(ENCODER)]
    misfits = {part_of_weight(name) for name in rest if name not in weights or weights[name].shape != own[name].shape}
    fitting = {name: weights[name] for name in rest if part_of_weight(name) not in misfits}
    if not fitting:
        rule = "encoder.start_heads must be false unless heads fit"
        raise ValueError(f"{rule}, got {where}, which has no head weights that fit")
    return fitting


def find_files(path: Path, epoch: str) -> list[Path]:
    """Finds the files of weights that `path` stands for: itself, or those of a trial, checkpoint or model."""
    if path.is_file():
        return [path]
    for folder in (path, path / "checkpoint"):
        if (folder / BEST_FILE).is_file():
            return [best_weights(folder, epoch)]
    found = [path / name for name in (ENCODER_FILE, TASKS_FILE) if (path / name).is_file()]
    if not found or found[0].name != ENCODER_FILE:
        what = "which holds neither best.json nor model.safetensors" if path.is_dir() else "which is missing"
        raise ValueError(f"encoder.start_from must be a checkpoint's or model's folder, or a file, got {path}, {what}")
    return found


def best_weights(folder: Path, epoch: str) -> Path:
    """Returns the file of a checkpoint folder's best epoch, overall or of a task;
    checked where its checksum is known."""
    kept = StateFolder(path=folder)
    try:
        best_epochs = read_best(kept)
    except ValueError as error:
        raise ValueError(f"encoder.start_from must hold an undamaged {BEST_FILE}, got {folder}") from error
    rule = "encoder.start_from must hold weights of a best epoch"
    require(bool(best_epochs), rule, f"{folder}, whose weights were pruned, because other trials scored higher")
    require_name(epoch, best_epochs, f"encoder.start_epoch for {folder}")
    try:
        read_weights(kept, best_epochs[epoch])
    except ValueError as error:
        raise ValueError(f"encoder.start_from must hold undamaged weights, got {folder}: {error}") from error
    return folder / weights_file(best_epochs[epoch])


def check_fit(rule: str, weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Raises ValueError that begins with the rule unless the weights are the wanted ones by name and shape."""
    faults = {
        "missing": sorted(wanted.keys() - weights.keys()),
        "unknown to it": sorted(weights.keys() - wanted.keys()),
        "of another size": sorted(n for n in wanted.keys() & weights.keys() if wanted[n].shape != weights[n].shape),
    }
    for fault, names in faults.items():
        if names:
            count = f"{len(names)} weights are" if len(names) > 1 else "1 weight is"
            raise ValueError(f"{rule}: {count} {fault}, first {names[0]}")
