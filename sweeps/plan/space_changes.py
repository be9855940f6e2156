"""What the options of a sweep change in the space that is asked for; `prepare` calls these in their order."""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mtlib.config.methods import Methods, methods_of_tree, read_methods
from mtlib.config.schema import to_dict
from mtlib.config.task_file import SPLITS, TASK_FILE
from mtlib.config.trial import TrialConfig
from mtlib.data.load import data_tasks
from mtlib.demo.corpus import demo_folder
from mtlib.demo.overrides import DEMO_NOTE, demo_overrides, demo_stages
from mtlib.runtime.errors import first_line, require
from mtlib.runtime.method_file import UntrustedCodeError, why_not_run
from mtlib.runtime.storage import expanded_path, join_location, open_folder, read_bytes
from mtlib.tasks import Task, in_order
from results.ensembles.methods import with_own
from results.records.trials import SPACE_FILE
from search_spaces.set_values import change_plans, expand_keys
from search_spaces.space import SearchSpace, choice_values
from search_spaces.space_file import find_space, is_path, run_space_file
from search_spaces.space_json import SPACE_JSON, space_from_json
from search_spaces.task_fit import trained_tasks, with_definitions
from search_spaces.vary import varied_values
from sweeps.options import ENCODER_KEY, SweepOptions
from sweeps.plan.differences import differences, listed

SweepRecord = Mapping[str, Any]
"""The content of `sweep.json`."""


def find_methods(options: SweepOptions, begun: SweepRecord | None) -> Methods:
    """Returns the methods that configurations may name; of a resumed sweep, those of the files as it began with."""
    if begun is not None:
        return methods_of_tree(begun["base"])
    methods = read_methods(options.methods)
    with_own(methods.files)  # a mistake in a selection method would show at the sweep's end only
    return methods


def read_asked_space(
    options: SweepOptions, tasks: Mapping[str, Task], methods: Methods
) -> tuple[SearchSpace | None, bytes | None]:
    """Returns the space of --space for the data's tasks, and what is kept of it unless it is built in.

    Of a resumed sweep it is the space that was kept. None without --space.

    Raises:
        ValueError: as `find_space`, the copy is gone, or it is Python that must not be run.
    """
    asked = options.space
    if asked is None:
        return None, None
    is_kept = isinstance(asked, str) and (asked == SPACE_JSON or is_path(asked))
    if not options.resume or not is_kept:
        return find_space(asked, tasks, options.set, methods)
    name = SPACE_JSON if asked == SPACE_JSON else SPACE_FILE
    place = join_location(options.folder, name)
    try:
        kept = read_bytes(open_folder(options.folder), name)
    except FileNotFoundError:
        raise ValueError(f"a sweep that is resumed must have the copy of its space, got no {place}") from None
    if name == SPACE_JSON:
        return find_space(space_from_json(kept), tasks, options.set, methods)
    if reason := why_not_run(options.folder, name):
        raise UntrustedCodeError(reason)
    return run_space_file(place, kept, tasks, options.set, methods), kept


def with_searched_encoder(options: SweepOptions, base: TrialConfig, asked: SearchSpace | None) -> SweepOptions:
    """Returns the options with an encoder for the base configuration, where encoders are searched: its own one if it is
    among them, else the first; ValueError if one is given beside them.

    `asked` is the space of --space.
    """
    if options.claimed is not None:
        names = tuple(options.claimed.values_of(ENCODER_KEY))
        if len(names) == 1:  # the other side has the encoder of the base
            return options
    elif options.vary or asked is None:
        names = varied_values(options.vary.get(ENCODER_KEY, ()))
    else:
        names = choice_values(asked, ENCODER_KEY)
    if not names:
        return options
    require(options.encoder is None, f"--encoder must be left out where {ENCODER_KEY} is searched", options.encoder)
    return dataclasses.replace(options, encoder=base.encoder.name if base.encoder.name in names else names[0])


def find_sources(
    options: SweepOptions, base: TrialConfig, asked: SearchSpace | None
) -> tuple[Path, str, tuple[str, ...]]:
    """Returns the folder of the data, the hub name or folder of the encoder, and notes to print.

    The demonstration's corpus and encoder are written if they are used.
    """
    if options.data is not None and not options.is_demonstration:
        return options.data, options.encoder or base.encoder.name, ()
    with writing_to(options.storage):
        corpus, tiny_encoder = demo_folder(options.cache_folder)
    if options.is_demonstration:
        notes = (DEMO_NOTE,) if options.data is None and options.encoder is None else ()
        return options.data or corpus, options.encoder or str(tiny_encoder), notes
    assert options.encoder is not None
    settings = "general" if asked is None else asked.name
    note = f"No --data: the demonstration corpus is used, with your encoder and the settings of '{settings}'."
    return corpus, options.encoder, (note,)


@contextmanager
def writing_to(place: str) -> Iterator[None]:
    """Turns any error of writing to the storage, a folder or a URI, into one line."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"--storage must be a place that can be written, got {place}: {first_line(error)}") from error


def change_base(base: TrialConfig, encoder: str, options: SweepOptions) -> TrialConfig:
    """Returns a base configuration with the demonstration's overrides, encoder, seed, --hold-out and --set."""
    base = base.override(demo_overrides(base)) if options.is_demonstration else base
    given = {"encoder.name": encoder, "seed": options.seed, "data.hold_out": options.hold_out}
    base = base.override(given)
    try:
        base = base.override(expand_keys(options.set, base))
    except ValueError as error:
        raise ValueError(f"--set: {error}") from error
    if base.encoder.start_from is not None:  # workers run in another folder than the command
        base = base.override({"encoder.start_from": str(expanded_path(base.encoder.start_from).resolve())})
    return base


def short_grid(asked: SearchSpace, base: TrialConfig, options: SweepOptions) -> SearchSpace:
    """Returns the space of --space around a changed base; the demonstration's whole plans of stages are short."""
    has_grid = bool(asked.grid) or options.search != "grid"
    require(has_grid, f"--search must be tpe, gp or random for space '{asked.name}', which has no grid", options.search)
    is_short = options.is_demonstration
    grid = change_plans(asked, lambda config: demo_stages(config.stages)) if is_short else asked.grid
    return dataclasses.replace(asked, base=base, grid=grid)


def as_begun(space: SearchSpace, begun: SweepRecord) -> SearchSpace:
    """Returns a resumed sweep's space with the precision that it began with in place of `auto`."""
    if space.base.precision != "auto":
        return space
    return dataclasses.replace(space, base=space.base.override({"precision": begun["base"]["precision"]}))


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
            for key in ("label_files", "file_labels"):
                del tree["files"][f"{split}_rows"][key]
        del tree["files"]["format"]["name"], tree["files"]["group_file"]
        tree["files"]["dev_share"] = task.files.dev_share
        tree["files"]["format"]["quoting"] = task.files.format.quoting or "none"  # as files without marks are read
    return tree
