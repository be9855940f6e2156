"""Rows of cells from Hugging Face data sets: from the hub, a `save_to_disk` folder, or a folder of data files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtlib.config.data import HUB_PREFIX
from mtlib.data.file_readers import Row, cell_text, find_columns
from mtlib.runtime.errors import first_line, nearest_first

if TYPE_CHECKING:
    from datasets import Dataset

SAVED_NAMES = ("dataset_dict.json", "state.json")
"""Files that identify a folder that `save_to_disk` wrote, with several splits or one."""


def read_hub_data(path: str, split: str, columns: Sequence[str], *, numbered: bool = False) -> Iterator[Row]:
    """Rows of one split of a data set; class labels are read as integers.

    Args:
        path: `hf://NAME`, or `hf://NAME#CONFIGURATION`. NAME is a local folder if it is absolute, else a hub name. A
            folder that `save_to_disk` wrote is loaded from disk, any other by `load_dataset`.
        split: name of the split in the data set.
        columns, numbered: as in `read_stream`.

    Raises:
        ValueError: in one line. The library `datasets` is missing; the data set, split or a column is not there; a
            value is neither text nor a number.
    """
    data = load_split(path, split)
    positions = find_columns(f"{path} {split}", data.column_names, columns, numbered)
    wanted = [column for column, position in zip(columns, positions, strict=True) if position is not None]
    values = data.select_columns(wanted).with_format(None).to_dict()
    for number, row in enumerate(zip(*(values[column] for column in wanted), strict=True)):
        where = f"{path} {split}:{number}"
        cells = [cell_text(where, column, value) for column, value in zip(wanted, row, strict=True)]
        yield where, cells if positions[0] is not None else [str(number), *cells]


def split_hub_path(path: str, split: str) -> tuple[str, str]:
    """`hf://NAME#CONFIGURATION:SPLIT` as the path of the data set and the name of the split, `split` if it has none."""
    name, colon, own = path.removeprefix(HUB_PREFIX).rpartition(":")
    return (HUB_PREFIX + name, own) if colon else (path, split)


def load_split(path: str, split: str) -> "Dataset":
    """One split of the data set that a path names; a data set without splits counts as train."""
    try:
        import datasets
    except ImportError as error:
        rule = f"{path} needs the library datasets: pip install 'multitask-sweeps[datasets]'"
        raise ValueError(f"{rule} ({first_line(error)})") from error
    name, _, configuration = path.removeprefix(HUB_PREFIX).partition("#")
    datasets.disable_progress_bars()
    try:
        if Path(name).is_absolute() and any(Path(name, marker).is_file() for marker in SAVED_NAMES):
            loaded: Any = datasets.load_from_disk(name)
        else:
            loaded = datasets.load_dataset(name, configuration or None)
    except Exception as error:  # the type depends on the format and on the HTTP library
        raise ValueError(f"{path} must be a data set that can be read, got: {first_line(error)}") from error
    splits = loaded if isinstance(loaded, dict) else {"train": loaded}
    if split not in splits:
        raise ValueError(f"{path} has no split '{split}'; {nearest_first(split, list(splits))}")
    data: Dataset = splits[split]
    return data
