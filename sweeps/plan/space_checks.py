"""What must hold for every point of a space before a sweep starts: starting weights, rows, comparability."""

from collections.abc import Iterable

from mtlib.data.load import TableKey
from mtlib.data.row_sources import HELD
from mtlib.model.hub import read_encoder_name
from mtlib.runtime.errors import require
from mtlib.runtime.storage import expanded_path
from search_spaces.space import SearchSpace, choice_values, grid_trials
from sweeps.options import ENCODER_KEY, SweepOptions


def check_encoder_names(space: SearchSpace) -> None:
    """Raises ValueError if a space searches encoders by paths that are relative, or by folders that are missing."""
    for name in choice_values(space, ENCODER_KEY):
        rule = f"{ENCODER_KEY} must be a hub name or an absolute path where a space searches it"
        require(read_encoder_name(name, ENCODER_KEY) == name, rule, name)


def check_starts(space: SearchSpace) -> None:
    """Raises ValueError if starting weights are missing, or named by a path that is relative."""
    for start in {config.encoder.start_from: None for config in space.configs}:
        path = expanded_path(start or "/")
        require(path.is_absolute(), "encoder.start_from must be an absolute path where a space searches it", start)
        require(path.exists(), "encoder.start_from must be a folder or a file", f"{start}, which is missing")


def check_comparable(space: SearchSpace, options: SweepOptions) -> None:
    """Raises ValueError if the search, the scheduler or a race compares trials that train different tasks.

    A race must have two configurations to compare.
    """
    found = sorted({config.active_tasks for config in space.configs})
    is_compared = options.search == "tpe" or options.scheduler != "none" or options.until_decided is not None
    compares = "--search tpe and --scheduler compare" if options.until_decided is None else "--until-decided compares"
    rule = f"{compares} trials, which in space '{space.name}' train different tasks"
    way = " (a grid with --replicates 3 shows the effects on each task instead)"
    require(not is_compared or len(found) == 1, rule, "; ".join(" ".join(tasks) for tasks in found) + way)
    number = options.num_drawn or len(grid_trials(space))
    rule = "--until-decided must compare configurations (--vary KEY=A,B, a space with a grid, or --search)"
    require(options.until_decided is None or number > 1, rule, f"{number} in space '{space.name}'")


def check_held_out_share(space: SearchSpace) -> None:
    """Raises ValueError unless all trials hold out the same share: a selection is scored on one held-out part."""
    found = sorted({config.data.hold_out for config in space.configs})
    rule = f"data.hold_out must be left to --hold-out, the same for all trials, in space '{space.name}'"
    require(len(found) == 1, rule, ", ".join(f"{share:g}" for share in found))


def check_held_out_files(space: SearchSpace, others: Iterable[TableKey]) -> None:
    """Raises ValueError if some trials would hold out a task's rows from other files than the first one.

    `others` are the sets and splits of which some trials read other files.
    """
    differing = sorted({task for task, split in others if split == HELD})
    rule = f"--hold-out must find a task's train rows in the same place in all trials of space '{space.name}'"
    require(not differing, rule, f"different files of {', '.join(differing)}")
