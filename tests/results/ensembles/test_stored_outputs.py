"""Outputs that are read when they are needed."""

import numpy as np
import pytest

from results.ensembles import stored_outputs
from results.ensembles.outputs import Outputs
from results.ensembles.stored_outputs import StoredOutputs, remember, restrict

ARRAY = np.arange(24, dtype=np.float32).reshape(4, 3, 2)


class Reads:
    """Reads single candidates of an array, and lists those that were read."""

    def __init__(self) -> None:
        self.places: list[int] = []

    def __call__(self, place: int) -> Outputs:
        self.places.append(place)
        return np.asarray(ARRAY[place])


def store(reads: Reads) -> StoredOutputs:
    digests = tuple(bytes([place]) for place in range(4))
    return StoredOutputs(read=reads, places=np.arange(4), values=ARRAY[:, :, 0], digests=digests)


def test_indexing_equals_that_of_an_array_and_reads_nothing_else() -> None:
    reads = Reads()
    stored = store(reads)
    assert (len(stored), reads.places) == (4, [])
    np.testing.assert_array_equal(stored[2], ARRAY[2])
    np.testing.assert_array_equal(stored[np.int64(-1)], ARRAY[-1])
    np.testing.assert_array_equal(stored[np.array([3, 0, 3])], ARRAY[[3, 0, 3]])
    assert reads.places == [2, 3, 3, 0, 3]
    np.testing.assert_array_equal(np.stack([stored[place] for place in range(4)]), ARRAY)
    with pytest.raises(IndexError):
        stored[4]


def test_part_of_a_part_reads_the_right_candidates() -> None:
    reads = Reads()
    some = restrict(store(reads), np.array([3, 1, 0]))
    assert isinstance(some, StoredOutputs)
    part = restrict(some, np.array([2, 0]))
    assert isinstance(part, StoredOutputs)
    assert reads.places == []
    np.testing.assert_array_equal(part.values, ARRAY[[0, 3], :, 0])
    assert part.digests == (b"\0", b"\3")
    np.testing.assert_array_equal(part[np.array([0, 1])], ARRAY[[0, 3]])


def test_only_the_last_outputs_are_kept_within_the_memory_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_outputs, "CACHE_BYTES", 2 * ARRAY[0].nbytes)
    reads = Reads()
    read = remember(reads, ARRAY[0].nbytes)
    for place in (0, 1, 0, 1, 2, 0):
        np.testing.assert_array_equal(read(place), ARRAY[place])
    assert reads.places == [0, 1, 2, 0]
