"""Expected times of the trials that are left, by hand."""

from typing import Any

import pytest

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from results.records.trials import TrialRecord
from sweeps.cli.time_left import expect_seconds, num_planned_epochs, sum_seconds
from tests.results.conftest import build_record

CONFIG = TrialConfig(stages=(StageConfig(tasks=("qqp",), epochs=1), StageConfig(tasks=("sst",), epochs=3))).to_json()


def trial(number: int, status: str, seconds: float, *, replicate: int = 0, epochs: int = 4) -> TrialRecord:
    changes: Any = {"status": status, "config": CONFIG, "wall_seconds": seconds, "epochs": epochs}
    return build_record(number, replicate=replicate, **changes)


def test_planned_epochs_are_of_all_stages() -> None:
    assert num_planned_epochs(trial(0, "running", 1.0)) == 4


@pytest.mark.parametrize("status", ["running", "queued", "failed", "interrupted", "reused"])
def test_nothing_is_expected_of_trials_without_a_time_of_their_own(status: str) -> None:
    assert expect_seconds([trial(0, status, 10.0)], 1) is None
    assert expect_seconds([], 1) is None


def test_trials_that_may_be_stopped_take_the_mean_and_replicates_of_the_best_the_time_of_whole_trials() -> None:
    records = [trial(0, "complete", 100.0), trial(1, "pruned", 20.0, epochs=1), trial(2, "pruned", 30.0, epochs=1)]
    expected = expect_seconds([*records, trial(0, "complete", 140.0, replicate=1)], 1)
    assert expected is not None
    assert (expected.common, expected.further) == (50.0, 120.0)


def test_while_no_trial_has_completed_a_whole_one_is_extrapolated() -> None:
    expected = expect_seconds([trial(0, "pruned", 20.0, epochs=1), trial(1, "pruned", 60.0, epochs=2)], 1)
    assert expected is not None
    assert (expected.common, expected.further) == (40.0, 100.0)


def test_where_only_replicates_have_a_time_it_is_that_of_all() -> None:
    records = [trial(0, "reused", 0.0), trial(0, "complete", 70.0, replicate=1)]
    expected = expect_seconds(records, 1)
    assert expected is not None
    assert (expected.common, expected.further) == (70.0, 70.0)


def test_the_sum_counts_running_trials_by_what_is_left_of_them() -> None:
    expected = expect_seconds([trial(0, "complete", 100.0), trial(1, "pruned", 20.0, epochs=1)], 1)
    assert expected is not None
    total = sum_seconds(expected, 1, num_left=5, num_further=2, running=[(0, 0.5), (1, 0.25)])
    assert total == pytest.approx(3 * 60 + 2 * 100 + 0.5 * 60 + 0.25 * 100)
