"""Tables of tasks, read from a data folder."""

from collections.abc import Iterable
from pathlib import Path

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.load import TableKey, read_data
from mtlib.data.tables import Table


def read_folder(folder: Path, tasks: Iterable[str], splits: Iterable[str] = ("train", "dev")) -> dict[TableKey, Table]:
    """Tables by (task, split) of a trial with these tasks."""
    config = TrialConfig(stages=(StageConfig(tasks=tuple(tasks)),))
    return {key: table for key, table in read_data(config, folder).items() if key[1] in splits}
