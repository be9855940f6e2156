"""Outputs of candidates that stay in their sweeps' folders: those of one are read when they are needed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from results.ensembles.outputs import Outputs
from results.stats.resampling import Numbers

CACHE_BYTES = 2**29
"""Outputs of a task that are kept in memory."""


@dataclass(frozen=True, kw_only=True)
class StoredOutputs:
    """Outputs, (candidates, rows, width), that are indexed as an array by number or numbers of candidates."""

    read: Callable[[int], Outputs]
    """Reads those of one candidate, (rows, width), by its place among all candidates that were read."""
    places: Numbers
    """(candidates,)."""
    values: npt.NDArray[Any]
    """(candidates, rows), as `results.ensembles.candidates.Pool.values`: 1 or 4 bytes each, so all are kept."""
    digests: tuple[bytes, ...]
    """Of each candidate's outputs: equal where these are equal."""

    def __getitem__(self, numbers: int | np.integer | Numbers) -> Outputs:
        if isinstance(numbers, int | np.integer):
            return self.read(int(self.places[numbers]))
        return np.stack([self.read(int(place)) for place in self.places[numbers]])

    def __len__(self) -> int:
        return len(self.places)


def restrict(outputs: StoredOutputs, numbers: Numbers) -> Outputs:
    """Those of some candidates, none of them read."""
    digests = tuple(outputs.digests[number] for number in numbers)
    found = replace(outputs, places=outputs.places[numbers], values=outputs.values[numbers], digests=digests)
    return cast(Outputs, found)


def remember(read: Callable[[int], Outputs], num_bytes: int) -> Callable[[int], Outputs]:
    """As `read`, but the last ones that were read are kept, `CACHE_BYTES` of them, each of so many bytes."""
    return lru_cache(maxsize=max(1, CACHE_BYTES // num_bytes))(read)
