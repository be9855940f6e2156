"""How much disk a sweep will need, from the size of its encoder and the number of rows it predicts."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from mtlib.checkpoint import STATES_KEPT, WEIGHTS_KEPT_BYTES, estimate_bytes
from mtlib.config import TrialConfig
from mtlib.plan import tasks_active_by
from mtlib.tasks import TASKS
from sweeps.prepare import Material

BYTES_PER_PREDICTION = 20
"""Of an example's id and label in a compressed table; four bytes a logit come on top."""

WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
"""What a hub repository calls its weights."""


@dataclass(frozen=True, kw_only=True)
class Disk:
    """Bytes that a sweep needs."""

    weights: int | None
    """At most, for the best epochs' weights of all trials; None if the encoder's size is not known."""
    state: int | None
    """For one running trial's states."""
    predictions: int
    """For all epochs' predictions of all trials."""


def estimate_disk(configs: list[TrialConfig], replicates: int, material: Material, num_parameters: int | None) -> Disk:
    """Estimates what the sweep's folder will hold.

    Args:
        configs: one per configuration.
        replicates: trainings of each.
        material: how many rows each task has.
        num_parameters: of the encoder, None if not known.
    """
    predictions = replicates * sum(prediction_bytes(config, material) for config in configs)
    if num_parameters is None:
        return Disk(weights=None, state=None, predictions=predictions)
    weights, state = estimate_bytes(num_parameters, max(map(copies_in_state, configs)))
    num_best = replicates * sum(len(config.active_tasks) + 1 for config in configs)  # per task, and overall
    # One state more than are kept is there while it is written.
    return Disk(weights=num_best * weights, state=(STATES_KEPT + 1) * state, predictions=predictions)


def copies_in_state(config: TrialConfig) -> int:
    """Copies of the weights in a trial's state: a mean teacher's, and a stage's best for the next to start from."""
    return int(config.proximal.weight > 0) + int(any(stage.start_from == "best" for stage in config.stages))


def prediction_bytes(config: TrialConfig, material: Material) -> int:
    """Bytes of one trial's predictions: dev and scored train rows of each task, at each epoch since it is active."""
    total, num_rows = 0, material.rows_of(config)
    for index, stage in enumerate(config.stages):
        for task in tasks_active_by(config, index):
            scored = min(config.tasks[task].scored_train_rows, num_rows[task, "train"])
            rows = num_rows[task, "dev"] + scored
            total += stage.epochs * rows * (BYTES_PER_PREDICTION + 4 * TASKS[task].num_logits)
    return total


def describe_disk(disk: Disk, free: int) -> list[str]:
    """What the sweep will need in one line, and a warning in another if there is less."""
    if disk.weights is None or disk.state is None:
        predictions = f"{in_units(disk.predictions)} for predictions"
        return [f"Disk: {predictions}; the encoder is not on this machine yet, so checkpoints are not counted."]
    need = disk.weights + disk.state + disk.predictions
    parts = f"best weights {in_units(disk.weights)}, predictions {in_units(disk.predictions)}"
    line = f"Disk: at most {in_units(need)} ({parts}, state of each running trial {in_units(disk.state)})"
    warning = "Warning: the sweep may need more disk than is free; choose another --storage, or fewer trials."
    return [f"{line}; {in_units(free)} free.", *([warning] if need > free else [])]


def in_units(num_bytes: int) -> str:
    """`1.5 GB` and the like."""
    size, units = float(num_bytes), ["TB", "GB", "MB", "kB", "B"]
    while size >= 999.5 and len(units) > 1:
        size, _ = size / 1000, units.pop()
    return f"{size:.3g} {units[-1]}"


def count_parameters(encoder: str) -> int | None:
    """Parameters of an encoder, read from its files without loading it; None if it is not on this machine.

    Args:
        encoder: a hub name or a local folder.
    """
    files = local_weight_files(Path(encoder)) if Path(encoder).is_dir() else cached_weight_files(encoder)
    return sum(map(parameters_in_file, files)) or None


def local_weight_files(folder: Path) -> list[Path]:
    """The weight files in a folder, safetensors where there are both kinds."""
    return sorted(folder.glob("model*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))


def cached_weight_files(name: str) -> list[Path]:
    """The weight file of a hub name that has been downloaded already."""
    from huggingface_hub import try_to_load_from_cache

    found = (try_to_load_from_cache(name, file) for file in WEIGHT_FILES)
    return [Path(path) for path in found if isinstance(path, str)][:1]


def parameters_in_file(path: Path) -> int:
    """Parameters in one weight file: from the header of safetensors, from the size of others."""
    if path.suffix != ".safetensors":
        return path.stat().st_size // WEIGHTS_KEPT_BYTES
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return sum(math.prod(item["shape"]) for name, item in header.items() if name != "__metadata__")
