"""Are the records of two sweeps equal to the last digit? For changes to the code that must change no number.

Command:  python benchmarks/compare_sweeps.py BEFORE AFTER
Cost:     seconds
Prints:   per sweep and file what differs first, or that it is equal; exit code 0 if all is equal, else 1

BEFORE and AFTER are two folders of sweeps (`--storage`), made by one set of commands with two versions of the code on
one machine, or two sweeps. Compared are `trials.parquet`, `curves.parquet`, every epoch's predictions, the weights that
were kept and every `selection*.json` and `predicted*.csv`; also `ranking.csv` and `effects.csv`, where
`python results/table.py SWEEP --csv`, without and with `--effects`, was redirected to these. Not compared: hashes,
versions, times, memory, hosts, paths, and fields that only one of the two has (these are named).
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

NOT_COMPARED = {
    *("config_hash", "config", "host", "started", "checkpoint", "taken_from", "shared_steps"),
    *("device_seconds", "wall_seconds", "seconds", "peak_memory_bytes"),
    *("version", "created", "command", "sweep", "sweeps", "searches", "evaluations"),
}
"""Columns of tables and keys of selections that follow from the machine, the time or the version of the code."""
SORTED_BY = ("trial", "epoch", "step", "task", "split", "metric", "id")


def main() -> int:
    """Compares; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", metavar="BEFORE", type=Path)
    parser.add_argument("after", metavar="AFTER", type=Path)
    options = parser.parse_args()
    names = {folder: list_files(folder) for folder in (options.before, options.after)}
    for folder, files in names.items():
        if not files:
            parser.error(f"{folder} must be a folder of sweeps, but holds no records")
    num_different = 0
    for name in sorted({*names[options.before], *names[options.after]}):
        found = list(differences(options.before / name, options.after / name))
        one_sided = [line for line in found if line.startswith("only ")]
        different = [line for line in found if not line.startswith("only ")]
        num_different += bool(different)
        fields = sorted({line.rpartition(".")[2] for line in one_sided})
        notes = f" (in one of the two only: {', '.join(fields)})" if fields else ""
        print(f"{name}: {f'differs: {different[0]}, {len(different)} in all' if different else 'equal'}{notes}")
    print(f"{num_different} files differ" if num_different else "all compared files are equal")
    return 1 if num_different else 0


def list_files(folder: Path) -> list[Path]:
    """The files to compare, by path relative to the folder; hidden folders, such as that of stages, are left out."""
    patterns = (
        *("trials.parquet", "curves.parquet", "selection*.json", "predicted*.csv", "ranking.csv", "effects.csv"),
        *("trials/*/epochs/*.parquet", "trials/*/checkpoint/weights/*.safetensors"),
    )
    names = [path.relative_to(folder) for pattern in patterns for path in folder.rglob(pattern)]
    return sorted(name for name in names if not any(part.startswith(".") for part in name.parts))


def differences(before: Path, after: Path) -> Iterator[str]:
    """The differences between two files, in words."""
    missing = [path for path in (before, after) if not path.exists()]
    if missing:
        yield f"there is no {missing[0]}"
    elif before.suffix == ".parquet":
        yield from table_differences(pd.read_parquet(before), pd.read_parquet(after))
    elif before.suffix == ".json":
        yield from tree_differences("", json.loads(before.read_text()), json.loads(after.read_text()))
    elif before.read_bytes() != after.read_bytes():
        yield "other bytes"


def table_differences(before: pd.DataFrame, after: pd.DataFrame) -> Iterator[str]:
    """Columns of two tables that are not equal, row by row in one order."""
    for name in sorted({*before} ^ {*after}):
        yield f"only {'before' if name in before else 'after'}: column.{name}"
    columns = [name for name in before if name in after and name not in NOT_COMPARED]
    order = [name for name in SORTED_BY if name in columns]
    first, second = (table.sort_values(order, kind="stable", ignore_index=True)[columns] for table in (before, after))
    if len(first) != len(second):
        yield f"{len(first)} rows before, {len(second)} after"
        return
    for name in columns:
        ours, others = first[name].tolist(), second[name].tolist()
        is_other = [not is_equal(one, other) for one, other in zip(ours, others, strict=True)]
        if any(is_other):
            row = is_other.index(True)
            where = {key: first[key].tolist()[row] for key in order}
            yield f"{name} of {where}: {ours[row]!r} before, {others[row]!r} after"


def tree_differences(key: str, before: Any, after: Any) -> Iterator[str]:
    """Leaves of two trees that are not equal, by dotted key."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted({*before, *after} - NOT_COMPARED):
            if name in before and name in after:
                yield from tree_differences(f"{key}.{name}".lstrip("."), before[name], after[name])
            else:
                yield f"only {'before' if name in before else 'after'}: {key}.{name}"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from tree_differences(f"{key}.{number}", one, other)
    elif not is_equal(before, after):
        yield f"{key}: {before!r:.80} before, {after!r:.80} after"


def is_equal(one: Any, other: Any) -> bool:
    """Whether two values are the same to the last digit; what is missing is equal to what is missing."""
    if isinstance(one, np.ndarray | list) and isinstance(other, np.ndarray | list):
        return np.array_equal(np.asarray(one), np.asarray(other), equal_nan=np.asarray(one).dtype.kind == "f")
    return bool(one == other) or (pd.isna(one) is True and pd.isna(other) is True)


if __name__ == "__main__":
    sys.exit(main())
