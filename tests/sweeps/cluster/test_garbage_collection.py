"""Thresholds of the garbage collector."""

import gc

from sweeps.cluster.garbage_collection import THRESHOLDS, collect_rarely


def test_collector_stays_on_and_runs_rarely() -> None:
    before = gc.get_threshold()
    try:
        collect_rarely()
        assert gc.isenabled()
        assert gc.get_threshold() == THRESHOLDS
        assert all(new > old for new, old in zip(gc.get_threshold(), (700, 10, 10), strict=True))
    finally:
        gc.set_threshold(*before)
