"""The inputs of a sweep: its space, and the rows that its configurations read, on the driver before anything starts."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mtlib.config.trial import TrialConfig
from mtlib.data.cut_rows import CutRows
from mtlib.data.load import TableKey, find_held_sources, find_row_sources
from mtlib.data.row_sources import HELD, RowSources, check_files, describe_sources, read_tables
from mtlib.data.tables import Table, content_fingerprint
from mtlib.runtime.checksum import hash_of
from results.records.trials import TokenizerRecord
from search_spaces.space import SearchSpace, grid_configs
from sweeps.options import SweepOptions
from sweeps.plan.checks.space import check_held_out_files


@dataclass(frozen=True, kw_only=True)
class SweepInputs:
    """The space of a sweep and the data it learns from, read and checked."""

    space: SearchSpace
    """Its base has the demonstration's overrides, encoder, seed, --hold-out and --set applied."""
    kept_space: bytes | None = None
    """What is kept of a space that is not built in: the content of its file, or JSON."""
    data_folder: Path
    num_rows: Mapping[TableKey, int]
    """Usable rows by (set, split), in the first configuration of the space that reads the set; the base comes first."""
    other_rows: Mapping[tuple[TableKey, RowSources], int] = dataclasses.field(default_factory=dict)
    """Usable rows of configurations that read a set from other files than the first one, or from further files."""
    tables: Mapping[tuple[TableKey, RowSources], Table] = dataclasses.field(default_factory=dict)
    """All tables that trials read, until they are tokenised: texts take more memory than their tokens."""
    held_out: Mapping[str, Table] = dataclasses.field(default_factory=dict)
    """The held-out rows by task; empty where none are."""
    fingerprint: str
    """SHA-256 of all tables."""
    fingerprints: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """SHA-256 of each table, by `set-split`, with its sources in parentheses for tables of `other_rows`."""
    skipped: tuple[str, ...]
    """One line per unusable row."""
    left_out: tuple[str, ...] = ()
    """One line per label that is left out by choice."""
    notes: tuple[str, ...] = ()
    """Notes on data and encoder to print."""
    tokenizers: Mapping[str, TokenizerRecord] = dataclasses.field(default_factory=dict)
    """How texts become tokens, by encoder; empty until encoders are loaded."""
    cut_rows: Sequence[CutRows] = ()
    """The train rows that are longer than `encoder.max_length`; empty until encoders are loaded."""
    precision_reason: str | None = None
    """Why the base's precision was chosen, in a clause; None where it is the user's or the space's."""

    def rows(self, split: str) -> dict[str, Table]:
        """The rows of a split by task, as the first configuration reads them that has the task."""
        tables = first_tables(self.tables)[0].items()
        return {name: table for (name, its), table in tables if its == split and name == table.task}

    def rows_of(self, config: TrialConfig) -> dict[TableKey, int]:
        """Usable rows by (set, split), as a point of the space has them."""
        wanted = find_row_sources(config, self.data_folder).items() if self.other_rows else ()
        return {**self.num_rows, **{pair[0]: self.other_rows[pair] for pair in wanted if pair in self.other_rows}}

    def train_rows_of(self, config: TrialConfig) -> dict[str, int]:
        """Usable train rows by set, as a point of the space has them."""
        return {name: rows for (name, split), rows in self.rows_of(config).items() if split == "train"}


def read_inputs(space: SearchSpace, folder: Path) -> SweepInputs:
    """Reads what every configuration of a space reads of a data folder; ValueError, one line, if it cannot be used."""
    everything = read_points(space, folder)
    tables, others = first_tables(everything)
    check_held_out_files(space, [key for key, _ in others])
    return SweepInputs(
        space=space,
        data_folder=folder,
        num_rows={key: len(table.ids) for key, table in tables.items()},
        other_rows={pair: len(table.ids) for pair, table in others.items()},
        tables={pair: table for pair, table in everything.items() if pair[0][1] != HELD},
        held_out={task: table for (task, split), table in tables.items() if split == HELD},
        fingerprint=inputs_fingerprint(tables, others),
        fingerprints=table_fingerprints(tables, others),
        # Several tables may hold one file, whose lines are named once.
        skipped=tuple(dict.fromkeys(line for table in everything.values() for line in table.skipped)),
        left_out=tuple(dict.fromkeys(line for table in everything.values() for line in table.left_out)),
        notes=tuple(dict.fromkeys(line for table in everything.values() for line in table.notes)),
    )


def read_points(space: SearchSpace, folder: Path) -> dict[tuple[TableKey, RowSources], Table]:
    """Reads the data of all points of a space, each table once, by (set, split) and what it is read from.

    Held-out rows are split `held`. Raises ValueError as `mtlib.data.load.read_data`, for all points together.
    """
    wanted = (find(config, folder) for config in space.configs for find in (find_row_sources, find_held_sources))
    pairs = {pair: None for found in wanted for pair in found.items()}
    check_files((sources for _, sources in pairs), folder)
    read = read_tables((sources for _, sources in pairs), folder)
    return {(key, sources): read[sources] for key, sources in pairs}


def first_tables(
    everything: Mapping[tuple[TableKey, RowSources], Table],
) -> tuple[dict[TableKey, Table], dict[tuple[TableKey, RowSources], Table]]:
    """Tables by (set, split), as in the first point that has them; and those of points that have them otherwise."""
    tables: dict[TableKey, Table] = {}
    others: dict[tuple[TableKey, RowSources], Table] = {}
    for (key, sources), table in everything.items():
        if key in tables:
            others[key, sources] = table
        else:
            tables[key] = table
    return tables, others


def inputs_fingerprint(tables: Mapping[TableKey, Table], others: Mapping[tuple[TableKey, RowSources], Table]) -> str:
    """Returns the fingerprint of all tables."""
    further = sorted(content_fingerprint({key: table}) for (key, _), table in others.items())
    fingerprint = content_fingerprint(tables)
    return hash_of([fingerprint, *further]) if further else fingerprint


def table_fingerprints(
    tables: Mapping[TableKey, Table], others: Mapping[tuple[TableKey, RowSources], Table]
) -> dict[str, str]:
    """Returns the fingerprint of each table, by its name as in `SweepInputs.fingerprints`."""
    named = {"-".join(key): (key, table) for key, table in tables.items()}
    for (key, sources), table in others.items():
        named[f"{'-'.join(key)} ({describe_sources(sources)})"] = key, table
    return {name: content_fingerprint({key: table}) for name, (key, table) in named.items()}


def planned_configs(options: SweepOptions, space: SearchSpace) -> list[TrialConfig]:
    """Returns one configuration per trial: those of the grid, or the base for each that is yet to be sampled."""
    return grid_configs(space) if options.num_drawn is None else [space.base] * options.num_drawn
