"""Expected times of the trials that are left, by hand."""

from typing import Any

import pytest

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from results.records.trials import TrialRecord
from sweeps.cli.time_left import num_planned_epochs, seconds_left
from tests.results.conftest import build_record

CONFIG = TrialConfig(stages=(StageConfig(tasks=("qqp",), epochs=1), StageConfig(tasks=("sst",), epochs=3))).to_json()


def trial(number: int, status: str, seconds: float, *, epochs: int = 4) -> TrialRecord:
    changes: Any = {"status": status, "config": CONFIG, "wall_seconds": seconds, "epochs": epochs}
    return build_record(number, **changes)


def left(*records: TrialRecord, num_left: int = 3, num_lanes: int = 1, **progress: Any) -> float | None:
    running = {name.replace("_", "-"): own for name, own in progress.items()}
    by_id = {record.trial_id: record for record in records}
    return seconds_left(by_id, running, 1000.0, num_left=num_left, num_lanes=num_lanes)


def test_planned_epochs_are_of_all_stages() -> None:
    assert num_planned_epochs(trial(0, "running", 1.0)) == 4


@pytest.mark.parametrize("status", ["queued", "failed", "interrupted", "reused"])
def test_nothing_is_expected_of_trials_without_a_time_of_their_own(status: str) -> None:
    assert left(trial(0, status, 10.0)) is None
    assert left() is None


def test_trials_take_the_mean_of_those_that_trained_and_ended() -> None:
    done = trial(0, "complete", 100.0), trial(1, "pruned", 20.0), trial(2, "reused", 0.0)
    assert left(*done) == pytest.approx(3 * 60)
    assert left(*done, num_lanes=2) == pytest.approx(3 * 60 / 2)
    assert left(*done, num_left=0) is None
