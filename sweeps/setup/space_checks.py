"""What must hold for every point of a space before a sweep is prepared: layers, starting weights, comparability."""

import json
from collections.abc import Iterator
from pathlib import Path

from mtlib.config.trial import TrialConfig
from mtlib.errors import require
from search_spaces.space import SearchSpace, grid_configs, range_configs
from sweeps.options import SweepOptions


def all_points(space: SearchSpace) -> Iterator[TrialConfig]:
    """The base, every grid point, and every choice, or both ends, of each range on its own."""
    yield space.base
    yield from grid_configs(space)
    yield from range_configs(space)


def check_named_layers(space: SearchSpace) -> None:
    """Raises ValueError if the space names a layer that the encoder, a local folder that tells its layers, lacks.

    Any other encoder is checked once it is loaded.
    """
    path = Path(space.base.encoder.name) / "config.json"
    num_layers = json.loads(path.read_text()).get("num_hidden_layers") if path.is_file() else None
    last = max((layer for config in all_points(space) for layer in named_layers(config)), default=-1)
    rule = f"the encoder of space '{space.name}' must have layers 0 to {last}, which it names"
    require(num_layers is None or last < num_layers, rule, f"{num_layers} layers in {space.base.encoder.name}")


def check_starts(space: SearchSpace) -> None:
    """Raises ValueError if weights to start from are missing, or named by a path that is another place to a worker."""
    for start in {config.encoder.start_from: None for config in all_points(space)}:
        path = Path(start or "/").expanduser()
        require(path.is_absolute(), "encoder.start_from must be an absolute path where a space searches it", start)
        require(path.exists(), "encoder.start_from must be a folder or a file", f"{start}, which is missing")


def check_comparable(space: SearchSpace, options: SweepOptions) -> None:
    """Raises ValueError if trials are to be compared while they run, and train different tasks."""
    found = sorted({config.active_tasks for config in all_points(space)})
    is_compared = options.search == "tpe" or options.scheduler != "none"
    rule = f"--search tpe and --scheduler compare trials, which in space '{space.name}' train different tasks"
    require(not is_compared or len(found) == 1, rule, "; ".join(" ".join(tasks) for tasks in found))


def named_layers(config: TrialConfig) -> tuple[int, ...]:
    """Layers that a configuration names by their numbers."""
    chosen = (layer for task in config.active_tasks for layer in config.tasks[task].chosen_layers)
    return (*(config.encoder.trained_layers or ()), *chosen)
