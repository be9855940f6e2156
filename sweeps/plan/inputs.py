"""The inputs of a sweep: space, data and encoder, found, read and checked on the driver before anything starts."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mtlib.config.methods import Methods, methods_of_tree, read_methods
from mtlib.config.schema import to_dict
from mtlib.config.task_file import SPLITS, TASK_FILE
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig, with_methods
from mtlib.data.cut_rows import CutRows
from mtlib.data.load import TableKey, data_tasks, find_held_sources, find_row_sources
from mtlib.data.row_sources import HELD, RowSources, check_files, describe_sources, read_tables
from mtlib.data.tables import Table, content_fingerprint
from mtlib.demo.corpus import demo_folder
from mtlib.demo.overrides import DEMO_NOTE, demo_overrides, demo_stages
from mtlib.runtime.checksum import hash_of
from mtlib.runtime.errors import first_line, require
from mtlib.runtime.storage import check_answer, exists, expanded_path, is_file, join_location, open_folder
from mtlib.tasks import Task, in_order
from results.ensembles.methods import with_own
from results.records.trials import SPACE_FILE, SWEEP_FILE, TokenizerRecord, read_sweep, sweep_tasks
from search_spaces.domain import ALL_STAGES_PREFIX, expand_stages, expand_tasks, key_title
from search_spaces.presets import general
from search_spaces.space import Grid, SearchSpace, changed_keys, choice_values, grid_configs, search_domain
from search_spaces.space_file import find_space, is_path
from search_spaces.task_fit import chosen_tasks, trained_tasks, with_definitions
from search_spaces.vary import split_values, vary
from sweeps.options import ENCODER_KEY, SweepOptions
from sweeps.plan.differences import differences, listed
from sweeps.plan.inert_keys import check_keys_matter
from sweeps.plan.space_checks import (
    check_comparable,
    check_encoder_names,
    check_held_out_files,
    check_held_out_share,
    check_starts,
)

FLAG_OF_KEY = {
    ENCODER_KEY: "--encoder",
    "seed": "--seed",
    "replicate": "--replicates",
    "data.hold_out": "--hold-out",
}
"""Configuration keys that --set and --vary refuse, with the flag that sets each; --vary takes a list of encoders."""


@dataclass(frozen=True, kw_only=True)
class SweepInputs:
    """The space of a sweep and the data it learns from, read and checked."""

    space: SearchSpace
    """Its base has the demonstration's overrides, encoder, seed, --hold-out and --set applied."""
    space_source: bytes | None = None
    """The content of the space's file; None for a built-in space."""
    data_folder: Path
    num_rows: Mapping[TableKey, int]
    """Usable rows by (set, split), in the first configuration of the space that reads the set; the base comes first."""
    other_rows: Mapping[tuple[TableKey, RowSources], int] = dataclasses.field(default_factory=dict)
    """Usable rows of configurations that read a set from other files than the first one, or from further files."""
    tables: Mapping[tuple[TableKey, RowSources], Table] = dataclasses.field(default_factory=dict)
    """All tables that trials read, until they are tokenised: texts take more memory than their tokens."""
    held_out: Mapping[str, Table] = dataclasses.field(default_factory=dict)
    """The held-out rows by task; empty where none are."""
    dev: Mapping[str, Table] = dataclasses.field(default_factory=dict)
    """The dev rows by task, as the first configuration reads them that has the task."""
    fingerprint: str
    """SHA-256 of all tables."""
    fingerprints: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """SHA-256 of each table, by `set-split`, with its sources in parentheses for tables of `other_rows`."""
    skipped: tuple[str, ...]
    """One line per unusable row."""
    left_out: tuple[str, ...] = ()
    """One line per label that is left out by choice."""
    notes: tuple[str, ...]
    """Notes on data and encoder to print."""
    tokenizers: Mapping[str, TokenizerRecord] = dataclasses.field(default_factory=dict)
    """How texts become tokens, by encoder; empty until encoders are loaded."""
    cut_rows: Sequence[CutRows] = ()
    """The train rows that are longer than `encoder.max_length`; empty until encoders are loaded."""
    precision_reason: str | None = None
    """Why the base's precision was chosen, in a clause; None where it is the user's or the space's."""

    @property
    def train(self) -> dict[str, Table]:
        """The train rows by task, as the first configuration reads them that has the task."""
        tables = first_tables(self.tables)[0].items()
        return {name: table for (name, split), table in tables if split == "train" and name == table.task}

    def rows_of(self, config: TrialConfig) -> dict[TableKey, int]:
        """Usable rows by (set, split), as a point of the space has them."""
        wanted = find_row_sources(config, self.data_folder).items() if self.other_rows else ()
        return {**self.num_rows, **{pair[0]: self.other_rows[pair] for pair in wanted if pair in self.other_rows}}

    def train_rows_of(self, config: TrialConfig) -> dict[str, int]:
        """Usable train rows by set, as a point of the space has them."""
        return {name: rows for (name, split), rows in self.rows_of(config).items() if split == "train"}


def check_name_is_free(options: SweepOptions) -> None:
    """Raises ValueError if a new sweep's name is taken already, or its storage does not answer."""
    check_answer(options.storage)
    if options.resume or not exists(options.folder):
        return
    is_sweep = is_file(open_folder(options.folder), SWEEP_FILE)
    rule = "a sweep's name must be new; choose another with --name, or leave it out for one made from the time"
    hint = "" if is_sweep else f"; it has no {SWEEP_FILE}: if a sweep was killed when it began there, delete it"
    raise ValueError(f"{rule}, got {options.folder}{hint}")


def read_inputs(options: SweepOptions) -> SweepInputs:
    """Finds the space, the data and the encoder's name, applies every override and reads the data.

    Raises:
        ValueError: one line: a name that is taken, an unknown space, key or value, or data that cannot be used.
    """
    check_name_is_free(options)
    methods = find_methods(options)
    # A resumed sweep has the tasks that it began with.
    begun = sweep_tasks(read_sweep(options.folder)) if options.resume else None
    tasks = data_tasks(options.data, methods.own_metrics) if begun is None else begun
    given, source = read_space(options, tasks, methods)
    if given is None:
        base, name = with_methods(general(chosen_tasks(tasks, options.set)), methods), "general"
    else:
        base, name = given.base, given.name
    check_changes(options, base, given)
    options = with_searched_encoder(options, base, given)
    folder, encoder, notes = find_sources(options, base, name)
    space = configure(given, base, encoder, options)
    space = as_begun(space, options) if options.resume else space
    check_encoder_names(space)
    check_starts(space)
    check_held_out_share(space)
    check_comparable(space, options)
    if not options.resume:
        check_keys_matter(space)
    everything = read_points(space, folder)
    tables, others = first_tables(everything)
    check_held_out_files(space, [key for key, _ in others])
    return SweepInputs(
        space=space,
        space_source=source,
        data_folder=folder,
        num_rows={key: len(table.ids) for key, table in tables.items()},
        other_rows={pair: len(table.ids) for pair, table in others.items()},
        tables={pair: table for pair, table in everything.items() if pair[0][1] != HELD},
        held_out={task: table for (task, split), table in tables.items() if split == HELD},
        dev={task: table for (task, split), table in tables.items() if split == "dev"},
        fingerprint=inputs_fingerprint(tables, others),
        fingerprints=table_fingerprints(tables, others),
        # Several tables may hold one file, whose lines are named once.
        skipped=tuple(dict.fromkeys(line for table in everything.values() for line in table.skipped)),
        left_out=tuple(dict.fromkeys(line for table in everything.values() for line in table.left_out)),
        notes=notes,
        precision_reason=read_sweep(options.folder).get("precision_reason") if options.resume else None,
    )


def find_methods(options: SweepOptions) -> Methods:
    """Returns the methods that configurations may name; of a resumed sweep, those of the files as it began with."""
    if options.resume:
        return methods_of_tree(read_sweep(options.folder)["base"])
    methods = read_methods(options.methods)
    with_own(methods.files)  # a mistake in a selection method would show at the sweep's end only
    return methods


def as_begun(space: SearchSpace, options: SweepOptions) -> SearchSpace:
    """Returns a resumed sweep's space with the precision that it began with in place of `auto`,
    and present definitions."""
    space = with_present_definitions(space, options.data)
    if space.base.precision != "auto":
        return space
    base = space.base.override({"precision": read_sweep(options.folder)["base"]["precision"]})
    return dataclasses.replace(space, base=base)


def with_present_definitions(space: SearchSpace, folder: Path | None) -> SearchSpace:
    """Returns a resumed sweep's space with the definitions that the data has now of the tasks that it trains.

    These may have another title and other files, whose rows are compared. Other tasks stay as the sweep began with.

    Raises:
        ValueError: one line: the definitions cannot be read, or that of a task that is trained has changed or is gone.
    """
    begun, now = space.base.data.tasks, data_tasks(folder, space.base.methods.own_metrics)
    trained = in_order(trained_tasks(space))
    gone = [name for name in trained if name not in now]
    require(not gone, f"{folder} must define the tasks that the sweep began with", f"no {', '.join(gone)}")
    trees = ({name: comparable(tasks[name]) for name in trained} for tasks in (begun, now))
    found = list(differences("tasks", *trees))
    require(not found, f"the tasks must be defined as they were when the sweep began ({TASK_FILE})", listed(found))
    return with_definitions(space, {**begun, **{name: now[name] for name in trained}})


def comparable(task: Task) -> dict[str, Any]:
    """Returns a task's definition as a tree, without its title and the paths of its files, which change no trial."""
    tree: dict[str, Any] = to_dict(task)
    del tree["title"]
    if task.files is not None:
        for split in SPLITS:
            del tree["files"][split]
        tree["files"]["dev_share"] = task.files.dev_share
    return tree


def read_space(
    options: SweepOptions, tasks: Mapping[str, Task], methods: Methods
) -> tuple[SearchSpace | None, bytes | None]:
    """Returns the space of --space for the data's tasks, and the content of its file unless it is built in.

    Of a resumed sweep it is the file's copy that is read.
    """
    if options.space is None:
        return None, None
    is_copy = options.resume and is_path(options.space)
    place = join_location(options.folder, SPACE_FILE) if is_copy else options.space
    return find_space(place, tasks, options.set, methods)


def read_points(space: SearchSpace, folder: Path) -> dict[tuple[TableKey, RowSources], Table]:
    """Reads the data of all points of a space, each table once, by (set, split) and what it is read from.

    Held-out rows are split `held`. Raises ValueError as `mtlib.data.load.read_data`, for all points together.
    """
    wanted = (find(config, folder) for config in space.configs for find in (find_row_sources, find_held_sources))
    pairs = {pair: None for found in wanted for pair in found.items()}
    check_files((sources for _, sources in pairs), folder)
    read = read_tables((sources for _, sources in pairs), folder)
    return {(key, sources): read[sources] for key, sources in pairs}


def first_tables(
    everything: Mapping[tuple[TableKey, RowSources], Table],
) -> tuple[dict[TableKey, Table], dict[tuple[TableKey, RowSources], Table]]:
    """Tables by (set, split), as in the first point that has them; and those of points that have them otherwise."""
    tables: dict[TableKey, Table] = {}
    others: dict[tuple[TableKey, RowSources], Table] = {}
    for (key, sources), table in everything.items():
        if key in tables:
            others[key, sources] = table
        else:
            tables[key] = table
    return tables, others


def inputs_fingerprint(tables: Mapping[TableKey, Table], others: Mapping[tuple[TableKey, RowSources], Table]) -> str:
    """Returns the fingerprint of all tables."""
    further = sorted(content_fingerprint({key: table}) for (key, _), table in others.items())
    fingerprint = content_fingerprint(tables)
    return hash_of([fingerprint, *further]) if further else fingerprint


def table_fingerprints(
    tables: Mapping[TableKey, Table], others: Mapping[tuple[TableKey, RowSources], Table]
) -> dict[str, str]:
    """Returns the fingerprint of each table, by its name as in `SweepInputs.fingerprints`."""
    named = {"-".join(key): (key, table) for key, table in tables.items()}
    for (key, sources), table in others.items():
        named[f"{'-'.join(key)} ({describe_sources(sources)})"] = key, table
    return {name: content_fingerprint({key: table}) for name, (key, table) in named.items()}


def check_changes(options: SweepOptions, base: TrialConfig, space: SearchSpace | None) -> None:
    """Raises ValueError if --set names a key that is searched, or --set or --vary one that has a flag of its own.

    `space` is the one of --space; its keys are not searched where --vary names others.
    """
    for flag, changes in (("--set", options.set), ("--vary", options.vary)):
        for key, value in changes.items():
            rule = f"{key} must be given by {FLAG_OF_KEY.get(key)}, not by {flag}"
            is_list = (flag, key) == ("--vary", ENCODER_KEY)
            require(key not in FLAG_OF_KEY or is_list, rule, f"{key}={value}")
            rule = f"{flag} must leave the definitions of tasks to {TASK_FILE} in the data folder"
            require(not f"{key}.".startswith("data.tasks."), rule, f"{key}={value}")
    if options.vary or space is None:
        place, searched = "--vary", list(expand_tasks(options.vary, base.active_tasks))
    else:
        keys = space.grid if options.search == "grid" else search_domain(space)
        place, searched = f"space '{space.name}'", [dotted for key in keys for dotted in changed_keys(space, key)]
    rule = f"--set must leave alone what {place} searches ({', '.join(searched)})"
    hint = "; 'stages.*.KEY=VALUE' sets a key in all stages of all trials" if "stages" in searched else ""
    for key, value in expand_tasks(options.set, base.active_tasks).items():
        is_hit = any(sets_searched(key, dotted) for dotted in searched)
        require(not is_hit, rule, f"{key}={value}{hint if key.startswith('stages.') else ''}")


def sets_searched(key: str, searched: str) -> bool:
    """Returns whether a key of --set changes a key that is searched; `stages.*.KEY` is set within a whole list of
    stages, but not within a single stage of it."""
    if key.startswith(ALL_STAGES_PREFIX):
        is_single_stage = searched.count(".") == 1 and searched.startswith("stages.")
        return is_single_stage or fnmatchcase(searched, key)
    return key == searched or key.startswith(f"{searched}.")


def with_searched_encoder(options: SweepOptions, base: TrialConfig, space: SearchSpace | None) -> SweepOptions:
    """Returns the options with an encoder for the base configuration, where encoders are searched: its own one if it is
    among them, else the first; ValueError if one is given beside them.

    `space` is the one of --space.
    """
    if options.vary or space is None:
        names = split_values(options.vary[ENCODER_KEY]) if ENCODER_KEY in options.vary else []
    else:
        names = list(choice_values(space, ENCODER_KEY))
    if not names:
        return options
    require(options.encoder is None, f"--encoder must be left out where {ENCODER_KEY} is searched", options.encoder)
    return dataclasses.replace(options, encoder=base.encoder.name if base.encoder.name in names else names[0])


def find_sources(options: SweepOptions, base: TrialConfig, name: str) -> tuple[Path, str, tuple[str, ...]]:
    """Returns the data folder, the encoder's hub name or folder, and notes to print about the demonstration's.

    `name` is that of the settings in `base`.
    """
    if options.data is not None:
        return options.data, options.encoder or base.encoder.name, ()
    with writing_to(options.storage):
        corpus, tiny_encoder = demo_folder(options.cache_folder)
    if options.encoder is not None:
        note = f"No --data: the demonstration corpus is used, with your encoder and the settings of '{name}'."
        return corpus, options.encoder, (note,)
    return corpus, str(tiny_encoder), (DEMO_NOTE,)


@contextmanager
def writing_to(place: str) -> Iterator[None]:
    """Turns any error of writing to the storage, a folder or a URI, into one line."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"--storage must be a place that can be written, got {place}: {first_line(error)}") from error


def configure(space: SearchSpace | None, base: TrialConfig, encoder: str, options: SweepOptions) -> SearchSpace:
    """Returns the space to search: --vary's, or that of --space, `space`, with what `change_base` makes of its base.

    Raises:
        ValueError: --set or --vary has an unknown key or a wrong value, or the search does not suit the space.
    """
    changed = change_base(base, encoder, options)
    if options.vary or space is None:
        metric = "overall" if space is None else space.metric
        varied = vary(changed, metric, options.vary, options.smaller_grids)
        rule = "--search grid must have a list of values for each key of --vary"
        ranges = [f"{key}={text}" for key, text in options.vary.items() if key in varied.ranges]
        require(options.search != "grid" or not ranges, rule, ", ".join(ranges))
        return varied
    has_grid = bool(space.grid) or options.search != "grid"
    require(has_grid, f"--search must be tpe or random for space '{space.name}', which has no grid", options.search)
    is_short = is_demonstration(options)
    grid = change_plans(space, lambda config: demo_stages(config.stages)) if is_short else space.grid
    return set_stages(dataclasses.replace(space, base=changed, grid=grid), options.set)


def is_demonstration(options: SweepOptions) -> bool:
    """Returns whether the demonstration's data and encoder are used."""
    return options.data is None and options.encoder is None


def change_base(base: TrialConfig, encoder: str, options: SweepOptions) -> TrialConfig:
    """Returns a base configuration with the demonstration's overrides, encoder, seed, --hold-out and --set."""
    base = base.override(demo_overrides(base)) if is_demonstration(options) else base
    given = {"encoder.name": encoder, "seed": options.seed, "data.hold_out": options.hold_out}
    base = base.override(given)
    try:
        base = base.override(expand_keys(options.set, base))
    except ValueError as error:
        raise ValueError(f"--set: {error}") from error
    if base.encoder.start_from is not None:  # workers run in another folder than the command
        base = base.override({"encoder.start_from": str(expanded_path(base.encoder.start_from).resolve())})
    return base


def expand_keys(changes: Mapping[str, str], base: TrialConfig) -> dict[str, str]:
    """Changes by dotted key, in which a star stands for every task or stage of a configuration."""
    return expand_stages(expand_tasks(changes, base.active_tasks), len(base.stages))


def set_stages(space: SearchSpace, changes: Mapping[str, str]) -> SearchSpace:
    """Returns the space with what `changes`, those of --set, set in every stage, in its searched whole stages too.

    Raises:
        ValueError: a value does not suit a searched plan.
    """
    own = {key: value for key, value in changes.items() if key.startswith(ALL_STAGES_PREFIX)}
    if not own:
        return space
    try:
        return dataclasses.replace(
            space, grid=change_plans(space, lambda config: config.override(expand_keys(own, config)).stages)
        )
    except ValueError as error:
        raise ValueError(f"--set: {error}") from error


def change_plans(space: SearchSpace, change: Callable[[TrialConfig], tuple[StageConfig, ...]]) -> Grid:
    """Returns the space's grid, in which whole stages that a name stands for are those that `change` makes of a
    configuration with the name's overrides; ValueError names it."""
    grid, tasks = dict(space.grid), space.base.active_tasks
    for key, named in space.grid.items():
        plans = {}
        for name, changes in named.items() if isinstance(named, Mapping) else ():
            plans[name] = changes
            if "stages" in changes:
                try:
                    config = space.base.override(expand_tasks(changes, tasks))
                    plans[name] = {**changes, "stages": change(config)}
                except ValueError as error:
                    raise ValueError(f"{key_title(key)}={name}: {error}") from error
        grid[key] = plans or grid[key]
    return grid


def planned_configs(options: SweepOptions, space: SearchSpace) -> list[TrialConfig]:
    """Returns one configuration per trial: those of the grid, or the base for each that is yet to be sampled."""
    return grid_configs(space) if options.num_drawn is None else [space.base] * options.num_drawn
