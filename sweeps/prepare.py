"""What a sweep learns from, found, read and checked on the driver before anything starts."""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mtlib.config import TrialConfig
from mtlib.data import content_fingerprint, read_folder
from mtlib.demo import DEMO_NOTE, DEMO_OVERRIDES, demo_folder
from mtlib.schema import first_line, require
from mtlib.tasks import TASKS
from results.storage import list_files, open_folder
from search_spaces.space import (
    Choice,
    SearchSpace,
    dotted_keys,
    grid_trials,
    load_space,
    search_domain,
    trial_overrides,
)
from sweeps.options import SweepOptions

OWN_FLAGS = {"encoder.name": "--encoder", "seed": "--seed", "replicate": "--replicates"}
"""Configuration keys that have a flag of their own."""


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where data and encoder come from."""

    data_folder: Path
    encoder: str
    """Hub name or absolute folder."""
    overrides: Mapping[str, object]
    """Configuration that only the demonstration encoder needs, by dotted key."""
    notes: tuple[str, ...]
    """What a person must be told about them."""


@dataclass(frozen=True, kw_only=True)
class Material:
    """What a sweep learns from, read and checked."""

    space: SearchSpace
    """The question, its base with encoder, seed, demonstration overrides and --set applied, in this order."""
    data_folder: Path
    num_rows: Mapping[tuple[str, str], int]
    """Usable rows by (task, split)."""
    fingerprint: str
    """SHA-256 of what was read."""
    skipped: tuple[str, ...]
    """One line per unusable row."""
    notes: tuple[str, ...]
    """What a person must be told about data and encoder."""

    @property
    def num_train_rows(self) -> dict[str, int]:
        """Usable train rows by task."""
        return {task: rows for (task, split), rows in self.num_rows.items() if split == "train"}


def check_name_is_free(options: SweepOptions) -> None:
    """Raises ValueError if a sweep of this name is there already, here or at the mirror."""
    rule = "a sweep's name must be new; choose another with --name, or leave it out for one made from the time"
    require(not options.folder.exists(), rule, options.folder)
    if options.mirror is not None:
        try:
            is_used = bool(list_files(open_folder(mirror_location(options)), ""))
        except OSError as error:
            raise ValueError(
                f"--storage must be a URI that can be read, got {options.mirror}: {first_line(error)}"
            ) from error
        require(not is_used, rule, mirror_location(options))


def mirror_location(options: SweepOptions) -> str:
    """Where the copies of this sweep's records go."""
    assert options.mirror is not None
    return f"{options.mirror.rstrip('/')}/{options.name}"


def prepare(options: SweepOptions) -> Material:
    """Finds the space, the data and the encoder's name, applies every override and reads the data.

    Raises:
        ValueError: one line: an unknown space, key or value, or data that cannot be used.
    """
    space = load_space(options.space)
    has_grid = bool(space.grid) or options.search != "grid"
    require(has_grid, f"--search must be tpe or random for space '{space.name}', which has no grid", options.search)
    check_changes(space, options)
    sources = find_sources(options, space)
    space = configure(space, sources, options)
    tables = read_folder(sources.data_folder, active_tasks(space))
    return Material(
        space=space,
        data_folder=sources.data_folder,
        num_rows={key: len(table.ids) for key, table in tables.items()},
        fingerprint=content_fingerprint(tables),
        skipped=tuple(line for table in tables.values() for line in table.skipped),
        notes=sources.notes,
    )


def check_changes(space: SearchSpace, options: SweepOptions) -> None:
    """Raises ValueError if --set names a key that the space searches, or that has a flag of its own."""
    keys = space.grid if options.search == "grid" else search_domain(space)
    searched = [dotted for key in keys for dotted in dotted_keys(key)]
    for key, value in options.changes.items():
        hits = [dotted for dotted in searched if key == dotted or key.startswith(f"{dotted}.")]
        rule = f"--set must leave alone what space '{space.name}' searches ({', '.join(searched)})"
        require(not hits, rule, f"{key}={value}")
        require(key not in OWN_FLAGS, f"{key} must be given by {OWN_FLAGS.get(key)}, not by --set", f"{key}={value}")


def find_sources(options: SweepOptions, space: SearchSpace) -> Sources:
    """Data and encoder that were named, the space's own encoder, or the demonstration's where nothing was named."""
    if options.data is not None:
        encoder = options.encoder or space.base.encoder.name
        return Sources(data_folder=options.data, encoder=encoder, overrides={}, notes=())
    with writing_to(options.storage):
        corpus, tiny_encoder = demo_folder(options.cache_folder)
    if options.encoder is not None:
        note = f"No --data: the demonstration corpus is used, with your encoder and the settings of '{space.name}'."
        return Sources(data_folder=corpus, encoder=options.encoder, overrides={}, notes=(note,))
    return Sources(data_folder=corpus, encoder=str(tiny_encoder), overrides=DEMO_OVERRIDES, notes=(DEMO_NOTE,))


@contextmanager
def writing_to(place: Path | str) -> Iterator[None]:
    """Turns whatever hinders writing to the storage, a folder or a URI, into one line."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"--storage must be a place that can be written, got {place}: {first_line(error)}") from error


def configure(space: SearchSpace, sources: Sources, options: SweepOptions) -> SearchSpace:
    """The space with encoder, seed, the demonstration's overrides and --set in its base, and so checked again."""
    given = {"encoder.name": sources.encoder, "seed": options.seed}
    base = space.base.override({**sources.overrides, **given})
    try:
        base = base.override(options.changes)
    except ValueError as error:
        raise ValueError(f"--set: {error}") from error
    return dataclasses.replace(space, base=base)


def active_tasks(space: SearchSpace) -> tuple[str, ...]:
    """Tasks that some trial of the space trains, in the order of `TASKS`."""
    named = {task for config in all_points(space) for task in config.active_tasks}
    return tuple(task for task in TASKS if task in named)


def all_points(space: SearchSpace) -> Iterator[TrialConfig]:
    """The base, every grid point, and every choice, or both ends, of each range on its own."""
    yield space.base
    yield from grid_configs(space)
    for key, item in space.ranges.items():
        for value in item.values if isinstance(item, Choice) else (item.low, item.high):
            yield space.base.override(trial_overrides({key: value}))


def grid_configs(space: SearchSpace) -> list[TrialConfig]:
    """The configuration of every grid point, in order."""
    return [space.base.override(overrides) for overrides in grid_trials(space)]


def planned_configs(options: SweepOptions, space: SearchSpace) -> list[TrialConfig]:
    """One configuration per trial: those of the grid, or the base for each that is yet to be drawn."""
    return grid_configs(space) if options.num_trials is None else [space.base] * options.num_trials
