"""Chooses the ensembles of all tasks from sweeps: reads the candidates of each, and puts the choices together."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from mtlib.schema import require, require_name
from mtlib.tasks import TASKS
from results.methods import Settings
from results.one_model import OneModel, choose_one_model
from results.pool import Pool, read_pool
from results.records import read_sweep, read_trials
from results.selecting import AUTOMATIC, METHODS, ONE_MODEL, methods_for, select
from results.selection import Selection
from results.storage import Location

NAMES = (AUTOMATIC, ONE_MODEL, *METHODS)
"""Ways to choose that can be asked for."""


def select_from(
    sweeps: Sequence[Location],
    *,
    tasks: Sequence[str] | None = None,
    method: str = AUTOMATIC,
    settings: Settings | None = None,
    num_repeats: int = 5,
    command: str = "",
    on_progress: Callable[[str], None] = lambda _line: None,
) -> Selection:
    """Chooses the ensembles of some tasks from sweeps.

    Args:
        sweeps: folders, or URIs of copies, all scored on the same dev examples.
        tasks: which; None for all that some trial was scored on.
        method: one of `NAMES`.
        settings: for the ways to choose.
        num_repeats: of cross-fitting, at least 1.
        command: for the record.
        on_progress: is given a line for each task.

    Raises:
        ValueError: one line: a name or a number is wrong, there is no sweep, no trial was scored; else as `read_pool`
            and `select`.
    """
    settings = settings or Settings()
    check_numbers(settings, num_repeats)
    require_name(method, NAMES, "method")
    names = None if method == AUTOMATIC else [method]
    fingerprints = {str(sweep): fingerprint_of(sweep) for sweep in sweeps}
    wanted = list(dict.fromkeys(tasks or tasks_of(sweeps)))
    for task in wanted:  # before anything is read, which takes long
        require_name(task, TASKS, "task")
        methods_for(TASKS[task], [] if method == ONE_MODEL else names)
    pools = {}
    for task in wanted:
        on_progress(f"{TASKS[task].title}: reading predictions ...")
        pools[task] = read_pool(sweeps, task)
    one, found = find_one_model(pools, settings, num_repeats, is_asked=method == ONE_MODEL), {}
    for task, pool in pools.items():
        on_progress(f"{TASKS[task].title}: choosing among {len(pool.candidates):,} candidates ...")
        found[task] = select(pool, settings, names=names, num_repeats=num_repeats, one=one)
    return Selection(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        sweeps=fingerprints,
        num_folds=settings.num_folds,
        num_repeats=num_repeats,
        seed=settings.seed,
        max_models=settings.max_models,
        tasks=found,
    )


def find_one_model(
    pools: Mapping[str, Pool], settings: Settings, num_repeats: int, *, is_asked: bool
) -> OneModel | None:
    """The best model for all tasks together; None if there is one task alone, or no such model, unless it is asked for.

    Raises:
        ValueError: it is asked for, and there is none.
    """
    if not is_asked and len(pools) == 1:
        return None
    try:
        return choose_one_model(pools, settings, num_repeats=num_repeats)
    except ValueError:
        if is_asked:
            raise
        return None


def check_numbers(settings: Settings, num_repeats: int) -> None:
    """Raises ValueError if there is nothing to be done so many times."""
    require(settings.max_models >= 1, "--max-models must be at least 1", settings.max_models)
    require(settings.num_bags >= 0, "--bags must be at least 0", settings.num_bags)
    require(settings.seed >= 0, "--seed must be at least 0", settings.seed)
    require(num_repeats >= 1, "--repeats must be at least 1", num_repeats)


def fingerprint_of(sweep: Location) -> str:
    """The fingerprint of a sweep's data; ValueError if there is no sweep."""
    return str((read_sweep(sweep).get("data") or {}).get("fingerprint", "not recorded"))


def tasks_of(sweeps: Sequence[Location]) -> list[str]:
    """The tasks that some trial was scored on that has not failed, in the order of `TASKS`; ValueError if none was."""
    records = [record for sweep in sweeps for record in read_trials(sweep) if record.status != "failed"]
    found = [task for task in TASKS if any(task in record.best for record in records)]
    rule = "there must be a trial that was scored on dev and has not failed"
    require(bool(found), rule, f"none in {', '.join(map(str, sweeps))}")
    return found
