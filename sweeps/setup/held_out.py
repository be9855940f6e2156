"""The train rows that a sweep keeps aside from all its trials: the same for all, said, and recorded."""

from collections.abc import Iterable, Mapping

from mtlib.data.load import TableKey
from mtlib.data.row_sources import HELD
from mtlib.data.tables import Table
from mtlib.errors import require
from results.records.files import Location
from results.records.hold_out import HoldOutRecord, describe_rows, write_hold_out
from search_spaces.space import SearchSpace
from sweeps.setup.space_checks import all_points


def check_shares(space: SearchSpace) -> None:
    """Raises ValueError unless all trials keep the same share aside: what is chosen is scored on one part."""
    found = sorted({config.data.hold_out for config in all_points(space)})
    rule = f"data.hold_out must be left to --hold-out, the same for all trials, in space '{space.name}'"
    require(len(found) == 1, rule, ", ".join(f"{share:g}" for share in found))


def check_files_alike(space: SearchSpace, others: Iterable[TableKey]) -> None:
    """Raises ValueError if a task's rows would be kept aside from other files in some trials than in the first.

    Args:
        space: what is searched.
        others: sets and splits of which some trials read other files.
    """
    differing = sorted({task for task, split in others if split == HELD})
    rule = f"--hold-out must find a task's train rows in the same place in all trials of space '{space.name}'"
    require(not differing, rule, f"different files of {', '.join(differing)}")


def describe_held(share: float, held: Mapping[str, Table]) -> list[str]:
    """How many train rows of each task are kept aside, in a line; nothing where none are."""
    rows = ", ".join(f"{task} {len(table.ids):,}" for task, table in held.items())
    return [f"Held out for a last score, {share:g} of train: {rows} rows."] if rows else []


def record_held(folder: Location, share: float, held: Mapping[str, Table]) -> None:
    """Writes `hold_out.json` into a sweep's folder, unless nothing is kept aside."""
    if held:
        write_hold_out(folder, HoldOutRecord(share=share, tasks=describe_rows(held)))
