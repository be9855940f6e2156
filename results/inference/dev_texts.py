"""Reads the texts of the dev rows on which a sweep's trials were scored."""

from collections.abc import Sequence
from pathlib import Path

from mtlib.config.trial import TrialConfig
from mtlib.data.load import find_row_sources, read_all
from mtlib.data.tables import Table, content_fingerprint
from mtlib.runtime.errors import require
from mtlib.runtime.storage import Location
from results.records.tables import read_trials
from results.records.trials import SWEEP_FILE, read_sweep

DEV = "dev"


def read_dev_texts(
    sweep: Location, task: str, ids: Sequence[str] | None = None, data: Path | None = None
) -> tuple[tuple[str, ...], ...]:
    """Reads dev texts as a sweep's trials have read them.

    Args:
        sweep: folder of the sweep, or its URI.
        task: a task that some trial has learned.
        ids: of which rows, in which order; None for all in the order of the file.
        data: the data folder; None for the one that the sweep names.

    Returns:
        For each row one text or two, as the task has.

    Raises:
        ValueError: in one line: the folder is missing or not named, its file cannot be used, or its rows differ from
            those that were scored.
    """
    return pick_texts(read_dev_table(sweep, task, data), ids)


def read_dev_table(sweep: Location, task: str, data: Path | None = None) -> Table:
    """Reads the dev rows of a task; arguments and errors are those of `read_dev_texts`."""
    folder, key = data_folder(sweep, data), (task, DEV)
    table = read_all({key: find_row_sources(find_config(sweep, task), folder)[key]}, folder)[key]
    check_content(sweep, table)
    return table


def data_folder(sweep: Location, data: Path | None = None) -> Path:
    """The given data folder, or else that of the sweep; ValueError if it does not exist."""
    named = (read_sweep(sweep).get("data") or {}).get("folder")
    require(data is not None or named is not None, f"--data must name the data folder, which {sweep} does not", "none")
    folder = data or Path(str(named))
    rule = f"the data folder of {sweep} must be at the path recorded in {SWEEP_FILE}, or be named with --data"
    require(folder.is_dir(), rule, f"no folder {folder}")
    return folder


def find_config(sweep: Location, task: str) -> TrialConfig:
    """The configuration of a sweep's first trial on a task; ValueError if there is none."""
    for record in read_trials(sweep):
        config = TrialConfig.from_json(record.config)
        if task in config.active_tasks:
            return config
    raise ValueError(f"there must be a trial that learns {task}, got none in {sweep}")


def check_content(sweep: Location, table: Table) -> None:
    """Raises ValueError if a sweep has recorded other ids, texts or labels than a table's."""
    tables = (read_sweep(sweep).get("data") or {}).get("tables") or {}
    name = f"{table.task}-{DEV}"
    noted = [known for key, known in tables.items() if key == name or key.startswith(f"{name} (")]
    is_same = not noted or content_fingerprint({(table.task, DEV): table}) in noted
    require(is_same, f"rows of {name} must be those that {sweep} was scored on", f"different rows in {table.path}")


def pick_texts(table: Table, ids: Sequence[str] | None) -> tuple[tuple[str, ...], ...]:
    """The texts of some rows of a table, in the order of the ids; all if that is None."""
    texts = tuple(zip(*table.texts, strict=True))
    if ids is None or list(ids) == table.ids:
        return texts
    by_id = dict(zip(table.ids, texts, strict=True))
    num_twice = len(texts) - len(by_id)
    require(num_twice == 0, f"{table.path}: ids must be there once where rows are picked by them", f"{num_twice} twice")
    missing = [name for name in ids if name not in by_id]
    rule = f"rows of {table.task}-{DEV} must be those that were scored"
    require(not missing, rule, f"none with the id {''.join(missing[:1])} in {table.path}")
    return tuple(by_id[name] for name in ids)
