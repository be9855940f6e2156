"""Rows of cells from Hugging Face data sets: from the hub, a `save_to_disk` folder, or a folder of data files."""

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from mtlib.config.data import HUB_PREFIX, format_of
from mtlib.data.files.parquet_files import (
    BATCH_ROWS,
    carried_names,
    count_split_values,
    present_columns,
    table_rows,
)
from mtlib.data.files.read_file import carried_by, read_one_file
from mtlib.data.files.readers import Row, Wanted
from mtlib.runtime.errors import first_line, nearest_first, require
from mtlib.tasks import FileFormat

if TYPE_CHECKING:
    from datasets import Dataset, DatasetBuilder

SAVED_NAMES = ("dataset_dict.json", "state.json")
"""Files that identify a folder that `save_to_disk` wrote, with several splits or one."""
BLANK_ALONE = {"keep_default_na": False, "na_values": [""]}
"""Settings of the library's reader of CSV files, which otherwise takes texts such as `null` and `NA` for missing."""


def read_hub_data(path: str, split: str, wanted: Wanted) -> Iterator[Row]:
    """Rows of one split of a data set.

    Args:
        path: `hf://NAME`, or `hf://NAME#CONFIGURATION`. NAME is a local folder if it is absolute, else a hub name. A
            folder that `save_to_disk` wrote is loaded from disk, any other by `load_dataset`.
        split: name of the split in the data set.
        wanted: what is read. The names of a `ClassLabel` are carried.

    Raises:
        ValueError: in one line. The library `datasets` is missing; the data set, split or a column is not there; else
            as `table_rows`.
    """
    if files := local_files(path, split):
        for file in files:
            yield from read_one_file(file, wanted)
        return
    (data, sources), name = load_split(path, split), f"{path} {split}"
    columns = present_columns(name, data.column_names, wanted)
    mixed = [column for column in dict.fromkeys(columns) if is_json(data.features[column])]
    rule = f"{name}: the values of a column that is read must have one type in the files, all numbers or all texts"
    require(not mixed, rule, f"{', '.join(mixed)} of type Json, which the library datasets gives to mixed types")
    names = feature_names(data, columns[-1])
    for source, carried in names_in_files(sources, columns[-1]).items() if names else ():
        rule = f"{source}: column {columns[-1]} must have its classes in the order of the data set's first file"
        rule += f" ({', '.join(names)}), by which the library datasets names them all, or be read by its path"
        require(not carried or carried == tuple(names), rule, ", ".join(carried))
    count_split_values(data.features.arrow_schema, functools.partial(batches_of, data), wanted)
    yield from table_rows(batches_of(data, BATCH_ROWS, columns), name, columns, names, wanted)


def batches_of(data: "Dataset", size: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yields these columns of a split in batches of so many rows at most."""
    for table in data.select_columns(list(dict.fromkeys(columns))).with_format("arrow").iter(size):
        yield from table.to_batches()


def is_json(feature: Any) -> bool:
    """Whether a column, or the elements of its lists, are JSON: since version 4.7 the library `datasets` gives this
    type to a column of a file whose values have several types, and its texts then have quotation marks."""
    return type(getattr(feature, "feature", feature)).__name__ == "Json"


def names_in_files(sources: Sequence[str], column: str) -> dict[str, tuple[str, ...]]:
    """Returns the names that Parquet files themselves carry for the numbers of a column, by file; of files that are
    not on this machine the names of the first one, as each takes a request."""
    import fsspec  # comes with the library datasets

    local, found = [source for source in sources if "://" not in source], dict[str, tuple[str, ...]]()
    for source in local or sources[:1]:
        if format_of(source) == "parquet":
            # What it raises without a network depends on the HTTP library; the rows themselves were read.
            with contextlib.suppress(Exception), fsspec.open(source, "rb") as stream:
                found[source] = carried_names(pq.read_schema(stream), column)
    return found


def hub_class_names(path: str, split: str, column: str) -> dict[str, tuple[str, ...]]:
    """Returns the names that a split carries for the numbers of a column of class labels, or none, by file where it is
    read as files; ValueError as `read_hub_data`."""
    if files := local_files(path, split):
        folder = path.removeprefix(HUB_PREFIX).partition("#")[0]
        return {os.path.relpath(file, folder): carried_by(file, FileFormat(), column) for file in files}
    data, _ = load_split(path, split)
    return {f"{path} {split}": tuple(feature_names(data, column))}


def feature_names(data: "Dataset", column: str) -> Sequence[str]:
    """Returns the names of a column's class labels, or of the labels in its lists; none for any other."""
    feature = data.features.get(column)
    names: Sequence[str] = getattr(getattr(feature, "feature", feature), "names", ())
    return names


def local_files(path: str, split: str) -> list[Path]:
    """Returns the files of a split of a local folder of data files, which our own readers read as by their paths.

    None where the library has more to do: for a data set on the hub or saved to disk, one with a card, whose
    configuration may say how it is read, and files in a format that we do not read.
    """
    name, _, configuration = path.removeprefix(HUB_PREFIX).partition("#")
    has_rules = any(Path(name, one).is_file() for one in (*SAVED_NAMES, "README.md")) or configuration
    if not Path(name).is_absolute() or has_rules:
        return []
    import_datasets(path)
    try:
        found = make_builder(name, None).config.data_files or {}
    except Exception:  # `load_split` says so
        return []
    files = [Path(file) for file in found.get(split, ())]
    return files if all(file.is_file() and format_of(file.name) is not None for file in files) else []


def split_hub_path(path: str, split: str) -> tuple[str, str]:
    """`hf://NAME#CONFIGURATION:SPLIT` as the path of the data set and the name of the split, `split` if it has none."""
    whole, bracket, part = path.removeprefix(HUB_PREFIX).partition("[")  # a slice has a colon of its own
    name, colon, own = whole.rpartition(":")
    return (HUB_PREFIX + name, own + bracket + part) if colon else (path, split)


def check_access_token() -> None:
    """Raises ValueError if the hub's access token cannot be sent: a header of a request takes ASCII alone."""
    from huggingface_hub import get_token

    token = get_token() or ""
    wrong = next((at for at, letter in enumerate(token, 1) if not letter.isascii()), None)
    rule = "the hub's access token (HF_TOKEN, or as `hf auth login` stored it) must be ASCII"
    require(wrong is None, rule, f"another character at place {wrong}")


def load_split(path: str, split: str) -> tuple["Dataset", list[str]]:
    """Returns one split of the data set that a path names, and the paths of the files that it was made of as far as
    they are known; a data set without splits counts as train."""
    rule = f"a split of {path} must be named without a slice or a sum, as it is read whole"
    require(not set(split) & {"[", "+"}, rule, f"'{split}'")
    datasets = import_datasets(path)
    name, _, configuration = path.removeprefix(HUB_PREFIX).partition("#")
    sources: list[str] = []
    try:
        if Path(name).is_absolute() and any(Path(name, marker).is_file() for marker in SAVED_NAMES):
            loaded: Any = datasets.load_from_disk(name)
        else:
            check_access_token()
            builder = make_builder(name, configuration or None)
            builder.download_and_prepare()
            sources = list((builder.config.data_files or {}).get(split, ()))
            loaded = builder.as_dataset()
    except Exception as error:  # the type depends on the format and on the HTTP library
        raise ValueError(f"{path} must be a data set that can be read, got: {with_cause(error)}") from error
    splits = loaded if isinstance(loaded, dict) else {"train": loaded}
    if split not in splits:
        raise ValueError(f"{path} has no split '{split}'; {nearest_first(split, list(splits))}")
    return splits[split], sources


def with_cause(error: BaseException) -> str:
    """Returns the first line of an error, and of the one that it comes from."""
    cause = error.__cause__ or error.__context__
    lines = dict.fromkeys([first_line(error), *([] if cause is None else [first_line(cause)])])
    return ": ".join(lines)


def import_datasets(path: str) -> Any:
    """Returns the library, which prints nothing; ValueError, about a data set's path, if it is missing."""
    try:
        import datasets
    except ImportError as error:
        rule = f"{path} needs the library datasets: pip install 'multitask-sweeps[datasets]'"
        raise ValueError(f"{rule} ({first_line(error)})") from error
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # what it would print is in the error
    return datasets


def make_builder(name: str, configuration: str | None) -> "DatasetBuilder":
    """Returns the library's builder of a data set, for CSV files with `BLANK_ALONE`."""
    from datasets import load_dataset_builder

    try:
        builder = load_dataset_builder(name, configuration)
    except ValueError:  # without a network the library looks in its cache for what was made with the same settings
        with contextlib.suppress(Exception):
            return load_dataset_builder(name, configuration, **BLANK_ALONE)
        raise
    is_csv = hasattr(builder.config, "keep_default_na")
    return load_dataset_builder(name, configuration, **BLANK_ALONE) if is_csv else builder
