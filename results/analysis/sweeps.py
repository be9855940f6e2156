"""Several sweeps as pandas data frames, one below the other: trials, curves, rankings and effects."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from mtlib.runtime.errors import first_line, require, require_name
from mtlib.runtime.storage import Location, absolute_location
from results.analysis.effects.searched_keys import searched_keys
from results.analysis.sweep import Sweep, load_sweep

SWEEP_COLUMN = "sweep"


@dataclass(frozen=True, kw_only=True)
class Sweeps:
    """Several sweeps. Their frames are those of the single ones with a first column `sweep`; a column that a sweep does
    not have is missing in its rows."""

    sweeps: tuple[Sweep, ...]
    """In the order given, at least one."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What the column `sweep` holds for each: its name, or, where several have the same name, the end of its path
        that tells them apart."""
        names = [sweep.name for sweep in self.sweeps]
        counts = Counter(names)
        ends = distinct_ends([str(sweep.path) for sweep in self.sweeps])
        return tuple(end if counts[name] > 1 else name for name, end in zip(names, ends, strict=True))

    @cached_property
    def trials(self) -> pd.DataFrame:
        """As `Sweep.trials`."""
        return stack(self, lambda sweep: sweep.trials)

    @cached_property
    def curves(self) -> pd.DataFrame:
        """As `Sweep.curves`."""
        return stack(self, lambda sweep: sweep.curves)

    def ranking(self) -> pd.DataFrame:
        """As `Sweep.ranking`: each sweep's configurations are compared among themselves only; raises as it does."""
        return stack(self, Sweep.ranking)

    def effects(self, bases: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """As `Sweep.effects`; raises as it does.

        Args:
            bases: as there; for each sweep those count whose key it searched. At least one sweep must have each key.
        """
        wanted, searched = bases or {}, set[str]()

        def effects_of(sweep: Sweep) -> pd.DataFrame:
            names = {key.name for key in searched_keys(sweep.info, sweep.records)}
            searched.update(names)
            return sweep.effects({name: value for name, value in wanted.items() if name in names})

        effects = stack(self, effects_of)
        for name in wanted:
            require_name(name, sorted(searched), "searched key")
        return effects


def distinct_ends(paths: Sequence[str]) -> list[str]:
    """The shortest ends of different paths, in whole names, that all differ."""
    parts = [path.partition("?")[0].rstrip("/").split("/") for path in paths]
    ends = list(paths)
    for depth in range(max(map(len, parts)), 0, -1):
        shorter = ["/".join(names[-depth:]) for names in parts]
        if len(set(shorter)) < len(shorter):
            break
        ends = shorter
    return ends


def load_sweeps(paths: Sequence[Location]) -> Sweeps:
    """Reads several sweeps, as `load_sweep` reads one.

    Args:
        paths: their folders or URIs of copies, at least one, each once.

    Raises:
        ValueError: there is none, one is given twice, or one cannot be read; one line says which.
    """
    rule = "load_sweeps takes a list of sweeps (load_sweep reads a single one)"
    require(not isinstance(paths, str | Path), rule, paths)
    require(len(paths) > 0, "load_sweeps needs at least one sweep", "none")
    sweeps = tuple(load_sweep(path) for path in paths)
    for path, number in Counter(map(absolute_location, paths)).items():
        require(number == 1, "each sweep must be given once", f"{path} {number} times")
    return Sweeps(sweeps=sweeps)


def stack(sweeps: Sweeps, frame_of: Callable[[Sweep], pd.DataFrame]) -> pd.DataFrame:
    """The frames of all sweeps, one below the other, with the column `sweep` first.

    Raises:
        ValueError: as `frame_of`; the line names the sweep.
    """
    frames = []
    for name, sweep in zip(sweeps.names, sweeps.sweeps, strict=True):
        try:
            frame = frame_of(sweep)
        except ValueError as error:
            raise ValueError(f"sweep {name}: {first_line(error)}") from None
        labels = pd.Series(name, index=frame.index, dtype="string", name=SWEEP_COLUMN)
        frames.append(pd.concat([labels, frame], axis=1))
    return stack_frames(frames)


def stack_frames(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Frames one below the other; a column that only later ones have stands before the one that it precedes there."""
    columns: list[str] = []
    for frame in frames:
        position = len(columns)
        for name in reversed([str(name) for name in frame]):
            if name in columns:
                position = columns.index(name)
            else:
                columns.insert(position, name)
    return pd.concat(frames, ignore_index=True)[columns]
