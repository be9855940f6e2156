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


def read_dev_table(sweep: Location, task: str, data: Path | None = None) -> Table:
    """Reads the dev rows of a task as a sweep's trials have read them.

    Args:
        sweep: folder of the sweep, or its URI.
        task: a task that some trial has learned.
        data: the data folder; None for the one that the sweep names.

    Raises:
        ValueError: in one line: the folder is missing or not named, its file cannot be used, no trial has learned the
            task, or the sweep has recorded other ids, texts or labels.
    """
    configs = map(TrialConfig.from_json, dict.fromkeys(record.config for record in read_trials(sweep)))
    config = next((config for config in configs if task in config.active_tasks), None)
    if config is None:
        raise ValueError(f"there must be a trial that learns {task}, got none in {sweep}")
    folder, key = data_folder(sweep, data), (task, "dev")
    table = read_all({key: find_row_sources(config, folder)[key]}, folder)[key]
    tables = (read_sweep(sweep).get("data") or {}).get("tables") or {}
    name = f"{task}-dev"
    noted = [known for key, known in tables.items() if key == name or key.startswith(f"{name} (")]
    is_same = not noted or content_fingerprint({(task, "dev"): table}) in noted
    require(is_same, f"rows of {name} must be those that {sweep} was scored on", f"different rows in {table.path}")
    return table


def data_folder(sweep: Location, data: Path | None = None) -> Path:
    """Returns the given data folder, or else the sweep's own; ValueError if it does not exist."""
    named = (read_sweep(sweep).get("data") or {}).get("folder")
    require(data is not None or named is not None, f"--data must name the data folder, which {sweep} does not", "none")
    folder = data or Path(str(named))
    rule = f"the data folder of {sweep} must be at the path recorded in {SWEEP_FILE}, or be named with --data"
    require(folder.is_dir(), rule, f"no folder {folder}")
    return folder


def pick_texts(table: Table, ids: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Returns the texts of some rows of a table, one or two by row, in the order of the ids;
    ValueError if one is missing."""
    texts = tuple(zip(*table.texts, strict=True))
    if list(ids) == table.ids:
        return texts
    by_id = dict(zip(table.ids, texts, strict=True))
    num_twice = len(texts) - len(by_id)
    require(num_twice == 0, f"{table.path}: ids must be there once where rows are picked by them", f"{num_twice} twice")
    missing = [name for name in ids if name not in by_id]
    rule = f"rows of {table.task}-dev must be those that were scored"
    require(not missing, rule, f"none with the id {''.join(missing[:1])} in {table.path}")
    return tuple(by_id[name] for name in ids)
