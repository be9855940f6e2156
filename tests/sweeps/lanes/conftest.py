"""Trials on a lane that wait for others do so without delay."""

import pytest

from sweeps.lanes import worker_trial


@pytest.fixture
def no_waiting_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_trial, "WAIT_SECONDS", 0.0)
