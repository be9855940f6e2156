"""What a sweep would do, as lines of text: its trials, stages, optimizer steps and disk. Nothing is started."""

import itertools
import json
import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mtlib.plan import PlannedStage, plan_stages
from search_spaces.domain import Choice, Condition, Float, Range, key_title
from search_spaces.space import grid_trials, search_domain
from sweeps.disk import describe_disk, estimate_disk
from sweeps.options import SweepOptions
from sweeps.prepare import Material, mirror_location, planned_configs

Plan = tuple[PlannedStage, ...]

WIDTH = 100
"""Columns of running text."""

MOST_SKIPPED = 10
"""Unusable rows that are named; `sweep.json` names them all."""


def describe_sweep(options: SweepOptions, material: Material) -> list[str]:
    """The question, what it is asked of, and where the answer goes."""
    space = material.space
    rows = ", ".join(f"{task} {rows:,}" for task, rows in material.num_train_rows.items())
    copies = f", copies of the records in {mirror_location(options)}" if options.mirror else ""
    lines = [
        f"Sweep {options.name}: {space.question}",
        f"Data: {material.data_folder} (train rows: {rows})",
        f"Encoder: {space.base.encoder.name}",
        f"Files: {options.folder}{copies}",
        *(line for note in material.notes for line in textwrap.wrap(note, WIDTH)),
    ]
    return [*lines, *describe_skipped(material.skipped), *(f"Left out: {line}." for line in material.left_out)]


def describe_skipped(skipped: Sequence[str]) -> list[str]:
    """How many rows cannot be used, and which."""
    if not skipped:
        return []
    shown = [f"  {line}" for line in skipped[:MOST_SKIPPED]]
    more = [f"  and {len(skipped) - MOST_SKIPPED} more"] if len(skipped) > MOST_SKIPPED else []
    rows = "1 row" if len(skipped) == 1 else f"{len(skipped)} rows"
    return [f"{rows} cannot be used and will be left out:", *shown, *more]


def describe_trials(options: SweepOptions, material: Material) -> list[str]:
    """A line for every trial of a grid, or for every key of the search domain."""
    times = "once" if options.replicates == 1 else f"{options.replicates} times"
    if options.num_trials is not None:
        domain, conditions = search_domain(material.space), material.space.conditions
        rows = [[key_title(key), describe_range(item) + where(conditions.get(key))] for key, item in domain.items()]
        lines = [f"{options.num_trials} configurations drawn by {options.search}, each trained {times}, from"]
        return lines + columns(rows)
    trials = grid_trials(material.space)
    rows = [["trial", *trials[0]]]
    for number, overrides in enumerate(trials):
        values = [plain(value) for value in overrides.values()]
        rows += [[f"{number:04d}-r{replicate}", *values] for replicate in range(options.replicates)]
    return [f"{len(trials)} configurations on the grid, each trained {times}:", *columns(rows)]


def describe_range(item: Range) -> str:
    """A range or choice in words."""
    if isinstance(item, Choice):
        return "one of " + ", ".join(plain(value) for value in item.values)
    kind = "a number" if isinstance(item, Float) else "a whole number"
    return f"{kind} from {item.low:g} to {item.high:g}{', logarithmic' * item.log}"


def where(condition: Condition | None) -> str:
    """Where a key is drawn, in words; nothing if everywhere."""
    if condition is None:
        return ""
    return f", only where {key_title(condition.key)} is {' or '.join(plain(value) for value in condition.values)}"


def plain(value: Any) -> str:
    """A searched value as text: words as they are, the rest as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def describe_stages(options: SweepOptions, material: Material) -> list[str]:
    """Stages and optimizer steps of every group of trials that have the same plan, and their sum."""
    groups: dict[Plan, list[int]] = {}
    for number, plan in enumerate(planned_stages(options, material)):
        groups.setdefault(plan, []).append(number)
    lines: list[str] = []
    for plan, numbers in groups.items():
        names = ", ".join(f"{number:04d}" for number in numbers)
        lines += ["Stages of each trial:" if len(groups) == 1 else f"Stages of {names}:", *stage_lines(plan)]
    return [*lines, describe_total(options, material)]


def planned_stages(options: SweepOptions, material: Material) -> list[Plan]:
    """The plan of every configuration."""
    configs = planned_configs(options, material.space)
    return [plan_stages(config, material.train_rows_of(config)) for config in configs]


def describe_total(options: SweepOptions, material: Material) -> str:
    """Trainings and optimizer steps of the whole sweep."""
    plans = planned_stages(options, material)
    steps = sum(num_steps(plan) for plan in plans) * options.replicates
    total = f"In all {len(plans) * options.replicates} trainings and {steps:,} optimizer steps"
    drawn = ", counted as in the space's base configuration" if options.num_trials is not None else ""
    stopped = f", fewer where {options.scheduler} stops trials" if options.scheduler != "none" else ""
    return f"{total}{drawn}{stopped}."


def stage_lines(plan: Plan) -> list[str]:
    """A table of one plan's stages."""
    rows = [["stage", "tasks", "order", "epochs", "steps per epoch", "steps"]]
    for stage in plan:
        numbers = [str(stage.epochs), describe_steps(stage), f"{stage.num_steps:,}"]
        rows.append([str(stage.index), describe_data(stage), stage.order, *numbers])
    rows.append(["all", "", "", str(sum(stage.epochs for stage in plan)), "", f"{num_steps(plan):,}"])
    return columns(rows)


def describe_data(stage: PlannedStage) -> str:
    """A stage's tasks, and its extra data behind a plus."""
    extra = ["+", *stage.extra_data] if stage.extra_data else []
    return " ".join([*stage.tasks, *extra])


def describe_steps(stage: PlannedStage) -> str:
    """Optimizer steps of an epoch, or the fewest and the most where epochs differ."""
    fewest, most = min(stage.steps), max(stage.steps)
    return f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"


def num_steps(plan: Plan) -> int:
    """Optimizer steps of a whole trial."""
    return sum(stage.num_steps for stage in plan)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells, the first of them titles, as indented lines; columns of numbers are aligned at the right."""
    aligned = [align(column) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(cells).rstrip() for cells in zip(*aligned, strict=True)]


def align(cells: Sequence[str]) -> list[str]:
    """Cells of one column at equal width."""
    width = max(map(len, cells))
    is_number = all(cell[:1].isdigit() for cell in cells[1:] if cell)
    return [cell.rjust(width) if is_number else cell.ljust(width) for cell in cells]


def describe_need(options: SweepOptions, material: Material, num_parameters: int | None) -> list[str]:
    """The disk that the sweep will need, beside what is free where its folder will be."""
    configs = planned_configs(options, material.space)
    disk = estimate_disk(configs, options.replicates, material, num_parameters)
    return describe_disk(disk, shutil.disk_usage(nearest_folder(options.storage)).free)


def nearest_folder(path: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    return next(folder for folder in itertools.chain([path], path.parents) if folder.is_dir())
