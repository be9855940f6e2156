"""Chooses the ensembles of all tasks from sweeps: reads the candidates of each task and chooses among them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from mtlib.config.methods import methods_of_tree
from mtlib.runtime.errors import first_line, require, require_name
from mtlib.runtime.method_file import MethodFile
from mtlib.runtime.storage import Location
from mtlib.tasks import in_order
from results.ensembles.candidates import Pool, read_pool, read_tasks
from results.ensembles.methods import AUTOMATIC, ONE_MODEL, with_own
from results.ensembles.selection_method import Settings
from results.records.selection import RecordedSearch, Selection, TaskSelection
from results.records.tables import read_trials
from results.records.trials import TrialRecord, read_sweep, sweep_tasks
from results.selection.base_configuration import find_base
from results.selection.select_ensemble import check_rows, select_ensemble
from results.selection.shared_model import SharedModel, choose_shared_model

OnProgress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class SelectionRequest:
    """What to choose, and how."""

    sweeps: Sequence[Location]
    """Folders, or URIs of copies, all scored on the same dev examples."""
    tasks: Sequence[str] | None = None
    """None: all that some trial was scored on."""
    method: str = AUTOMATIC
    """`AUTOMATIC`, `ONE_MODEL`, or a selection method by its name."""
    files: Sequence[MethodFile] = ()
    """A user's files of methods, besides those of the sweeps."""
    settings: Settings = field(default_factory=Settings)
    repeats: int = 5
    """The repeats of cross-fitting, at least 1."""
    base: str | None = None
    """Trial whose configuration is the base configuration, see `find_base`; None for the first sweep's base."""


def select_from(
    request: SelectionRequest, *, command: str = "", on_progress: OnProgress = lambda _line: None
) -> Selection:
    """Chooses the ensembles of some tasks from sweeps; `on_progress` gets a line for each task.

    A task for which nothing can be chosen does not keep the others from it.

    Raises:
        ValueError: one line: a name or a number is wrong, there is no sweep, no trial was scored; or, where nothing can
            be chosen for any task, as `read_pool` and `select_ensemble`.
    """
    settings, sweeps = request.settings, request.sweeps
    require(settings.max_models >= 1, "--max-models must be at least 1", settings.max_models)
    require(settings.bags >= 0, "bags must be at least 0", settings.bags)
    require(settings.seed >= 0, "seed must be at least 0", settings.seed)
    require(request.repeats >= 1, "repeats must be at least 1", request.repeats)
    infos = {str(sweep): read_sweep(sweep) for sweep in sweeps}
    of_sweeps = (methods_of_tree(info.get("base") or {}).files for info in infos.values())
    table = with_own(request.files, [file for files in of_sweeps for file in files])
    require_name(request.method, (AUTOMATIC, ONE_MODEL, *table), "method")
    base = find_base(sweeps, request.base)
    known = in_order({name for info in infos.values() for name in sweep_tasks(info)})
    wanted = list(dict.fromkeys(request.tasks or scored_tasks(sweeps, known)))
    for name in wanted:  # before reading, which takes long
        require_name(name, known, "task")
    tasks = read_tasks(sweeps, wanted)
    pools, not_chosen = dict[str, Pool](), dict[str, str]()
    for name in wanted:
        on_progress(f"{tasks[name].title}: reading predictions ...")
        with unless_wrong(name, not_chosen):
            pool = read_pool(sweeps, tasks[name])
            check_rows(pool, settings)
            pools[name] = pool
    shared_model, found = find_shared_model(pools, request), dict[str, TaskSelection]()
    for name, pool in pools.items():
        on_progress(f"{pool.task.title}: choosing among {len(pool.candidates):,} candidates ...")
        with unless_wrong(name, not_chosen):
            found[name] = select_ensemble(
                pool,
                settings,
                method=request.method,
                table=table,
                num_repeats=request.repeats,
                shared_model=shared_model,
                base=base,
            )
    if not found:
        raise ValueError(next(iter(not_chosen.values())))
    return Selection(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        sweeps={sweep: (info.get("data") or {}).get("fingerprint", "not recorded") for sweep, info in infos.items()},
        num_folds=settings.num_folds,
        num_repeats=request.repeats,
        seed=settings.seed,
        max_models=settings.max_models,
        searches={sweep: search_of(info, read_trials(sweep)) for sweep, info in infos.items()},
        tasks=found,
        not_chosen=not_chosen,
        definitions=tasks,
    )


@contextmanager
def unless_wrong(name: str, not_chosen: dict[str, str]) -> Iterator[None]:
    """Notes why nothing can be chosen for a task, by its name; the others go on."""
    try:
        yield
    except ValueError as error:
        not_chosen[name] = first_line(error)


def find_shared_model(pools: Mapping[str, Pool], request: SelectionRequest) -> SharedModel | None:
    """Returns the best model for all tasks together; None if there is no task, one task alone, or no such model.

    Raises:
        ValueError: it is the requested method, and there is none.
    """
    is_requested = request.method == ONE_MODEL
    if not pools or (len(pools) == 1 and not is_requested):
        return None
    try:
        return choose_shared_model(pools, request.settings, num_repeats=request.repeats)
    except ValueError:
        if is_requested:
            raise
        return None


def search_of(info: Mapping[str, Any], records: Sequence[TrialRecord]) -> RecordedSearch:
    """Returns a sweep's search and scheduler, from `sweep.json` and its trials."""
    numbers = {record.number for record in records if record.status != "failed"}
    search, scheduler = (str(info.get(key, "not recorded")) for key in ("search", "scheduler"))
    return RecordedSearch(search=search, scheduler=scheduler, num_configurations=len(numbers))


def scored_tasks(sweeps: Sequence[Location], tasks: Iterable[str]) -> list[str]:
    """Returns those of some tasks that some trial was scored on that has not failed; ValueError if none was."""
    records = [record for sweep in sweeps for record in read_trials(sweep) if record.status != "failed"]
    found = [task for task in tasks if any(task in record.best for record in records)]
    rule = "there must be a trial that was scored on dev and has not failed"
    require(bool(found), rule, f"none in {', '.join(map(str, sweeps))}")
    return found
