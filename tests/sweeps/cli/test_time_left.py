"""Expected times of the trials that are left, by hand."""

from typing import Any

import pytest

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from results.records.trials import TrialRecord
from sweeps.cli.time_left import ExpectedSeconds, expect_seconds, num_planned_epochs, seconds_to_train
from tests.results.conftest import build_record

CONFIG = TrialConfig(stages=(StageConfig(tasks=("qqp",), epochs=1), StageConfig(tasks=("sst",), epochs=3))).to_json()


def trial(number: int, status: str, seconds: float, *, replicate: int = 0, epochs: int = 4) -> TrialRecord:
    changes: Any = {"status": status, "config": CONFIG, "wall_seconds": seconds, "epochs": epochs}
    return build_record(number, replicate=replicate, **changes)


def test_planned_epochs_are_of_all_stages() -> None:
    assert num_planned_epochs(trial(0, "running", 1.0)) == 4


@pytest.mark.parametrize("status", ["running", "queued", "failed", "interrupted", "reused"])
def test_nothing_is_expected_of_trials_without_a_time_of_their_own(status: str) -> None:
    assert expect_seconds([trial(0, status, 10.0)]) is None
    assert expect_seconds([]) is None


def test_first_replicates_take_their_mean_and_further_ones_the_time_of_whole_trials() -> None:
    records = [trial(0, "complete", 100.0), trial(1, "pruned", 20.0, epochs=1), trial(2, "pruned", 30.0, epochs=1)]
    expected = expect_seconds([*records, trial(0, "complete", 140.0, replicate=1)])
    assert expected == ExpectedSeconds(first=50.0, further=120.0)


def test_while_no_trial_has_completed_a_whole_one_is_extrapolated() -> None:
    expected = expect_seconds([trial(0, "pruned", 20.0, epochs=1), trial(1, "pruned", 60.0, epochs=2)])
    assert expected == ExpectedSeconds(first=40.0, further=100.0)


def test_where_only_further_replicates_have_a_time_it_is_that_of_all() -> None:
    expected = expect_seconds([trial(0, "reused", 0.0), trial(0, "complete", 70.0, replicate=1)])
    assert expected == ExpectedSeconds(first=70.0, further=70.0)


@pytest.mark.parametrize(
    ("num_left", "firsts"),
    [(9, 6), (6, 6), (3, 3), (0, 0)],  # of 10 configurations 4 have begun
)
def test_what_is_left_are_first_replicates_as_long_as_there_are_any(num_left: int, firsts: int) -> None:
    statuses = ("complete", "pruned", "failed", "running", "queued", "interrupted")
    records = [trial(number, status, 1.0) for number, status in enumerate(statuses)]
    again = [trial(0, status, 1.0, replicate=1) for status in ("complete", "running", "queued")]
    expected = ExpectedSeconds(first=10.0, further=100.0)
    counts = {"num_configurations": 10, "num_left": num_left}
    total = seconds_to_train(expected, [*records, *again], **counts, running=[(0, 0.5), (1, 0.25)])
    assert total == pytest.approx(firsts * 10 + (num_left - firsts) * 100 + 0.5 * 10 + 0.25 * 100)
