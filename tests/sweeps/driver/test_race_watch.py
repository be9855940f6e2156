"""Decisions are made in a thread once a round is complete, and are on record before the search hears of them."""

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from results.records.race import RaceRecord, race_of
from results.records.tables import read_trials
from results.records.trials import TrialRecord, read_sweep, write_sweep
from sweeps.driver.race_watch import RaceWatch
from tests.results.page.recorded_sweep import sweep_info, write_recorded_sweep

RACE = {"options": {"data": None, "until_decided": 0.0, "replicates": 3}, "race": [], "num_configurations": 3}
RACE |= {"first_look": {"configurations": 3, "replicates": None}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A race of three weights with three rounds."""
    folder = tmp_path / "mine"
    write_recorded_sweep(folder, num_replicates=3)
    write_sweep(folder, sweep_info("mine", **RACE))
    return folder


def racing() -> Any:
    """A table that knows of no decision."""
    return SimpleNamespace(race=RaceRecord())


def wait_for(watch: RaceWatch, records: list[TrialRecord]) -> list[str]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if lines := watch.update(records):
            return lines
        time.sleep(0.02)
    raise AssertionError("nothing was decided")


def test_complete_rounds_are_decided_and_recorded(folder: Path) -> None:
    table = racing()
    watch, records = RaceWatch(str(folder), table), read_trials(folder)
    lines = wait_for(watch, records)
    assert [line.partition(":")[0] for line in lines] == [f"Round {n}" for n in range(2, 2 + len(lines))]
    assert table.race.decisions
    assert race_of(read_sweep(folder)) == table.race
    assert watch.finish() == []


def test_finish_decides_what_is_complete(folder: Path) -> None:
    table = racing()
    assert RaceWatch(str(folder), table).finish()
    assert table.race.end
    again = RaceWatch(str(folder), table)
    before = (folder / "sweep.json").read_bytes()
    assert again.finish() == []
    assert (folder / "sweep.json").read_bytes() == before


def test_scores_that_cannot_be_compared_stop_the_sweep(folder: Path) -> None:
    info = json.loads((folder / "sweep.json").read_text())
    info["space"]["metric"] = "unknown"
    info.pop("schema_version")
    write_sweep(folder, info)
    with pytest.raises(Exception, match="unknown"):
        RaceWatch(str(folder), racing()).finish()


def test_what_cannot_be_decided_by_the_trials_there_are_is_not_tried_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The predictions of one may be lost, which the driver does not know."""
    decide_nothing = Mock(return_value=RaceRecord())
    monkeypatch.setattr("sweeps.driver.race_watch.decide", decide_nothing)
    watch, records = RaceWatch(str(folder), racing()), read_trials(folder)
    assert watch.is_due(records)
    for _ in range(100):
        watch.update(records)
        time.sleep(0.001)
    decide_nothing.assert_called_once()
    assert not watch.is_due(records)
