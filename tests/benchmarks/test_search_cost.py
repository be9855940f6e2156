"""The cost of a search against that of training everything, by hand."""

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.search_cost import cost_of, cost_one_by_one, lines_of, planned_steps
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from results.records.trials import TrialRecord
from tests.results.conftest import build_record

CONFIG = TrialConfig(stages=(StageConfig(tasks=("qqp",), epochs=3, steps_per_epoch=200),)).to_json()
MORNING = "2026-01-02T09:{:02}:00.000+00:00"


def trial(number: int, status: str, *, begin: int, minutes: float, epochs: int = 3, replicate: int = 0) -> TrialRecord:
    """A trial of 200 steps an epoch that starts `begin` minutes after nine."""
    seconds = 60 * minutes
    changes: Any = {
        "started": MORNING.format(begin),
        "wall_seconds": seconds,
        "device_seconds": seconds,
        "epochs": epochs,
    }
    changes |= {"steps": 200 * epochs, "shared_steps": 0}
    return build_record(number, replicate=replicate, status=status, config=CONFIG, **changes)


FIRSTS = (
    trial(0, "complete", begin=0, minutes=6),
    trial(1, "pruned", begin=0, minutes=2, epochs=1),
    trial(2, "pruned", begin=2, minutes=5, epochs=2),
)


def test_a_sweeps_wall_time_is_from_the_first_start_to_the_last_end() -> None:
    cost = cost_of(FIRSTS)
    assert (cost.trials, cost.steps, cost.device_seconds, cost.wall_seconds) == (3, 1200, 780, 420)


def test_trials_that_were_stopped_are_extrapolated_to_their_end() -> None:
    cost = cost_one_by_one(FIRSTS)
    assert (cost.trials, cost.steps) == (3, 1800)
    assert cost.wall_seconds == cost.device_seconds == pytest.approx(60 * (6 + 6 + 7.5))


def test_steps_of_other_trials_cost_nothing_but_are_trained_where_all_is() -> None:
    shared = replace(trial(1, "complete", begin=0, minutes=4), shared_steps=200)
    assert cost_of([shared]).steps == 400
    whole = cost_one_by_one([shared])
    assert whole.steps == 600
    assert whole.wall_seconds == pytest.approx(60 * 6)


@pytest.mark.parametrize(("first", "steps"), [(80, 80 + 2 * 260), (None, 300)])
def test_planned_steps_are_those_of_the_stages_or_follow_from_the_epochs(first: int | None, steps: int) -> None:
    stages = (
        StageConfig(tasks=("qqp",), epochs=1, steps_per_epoch=first),
        StageConfig(tasks=("sst",), epochs=2, steps_per_epoch=260),
    )
    record = trial(0, "pruned", begin=0, minutes=1, epochs=2)
    assert planned_steps(replace(record, steps=200, config=TrialConfig(stages=stages).to_json())) == steps


def test_replicates_and_failed_trials_count_among_all_trials_only() -> None:
    again = trial(0, "complete", begin=7, minutes=6, replicate=1)
    failed = trial(4, "failed", begin=7, minutes=2, epochs=1)
    reused = trial(3, "reused", begin=7, minutes=0, epochs=0)
    lines = lines_of([*FIRSTS, again, failed, reused])
    assert [line.split()[-8:] for line in lines[1:4]] == [
        ["replicates", "3", "1,200", "(0.67)", "13:00", "(0.67)", "7:00", "(0.36)"],
        ["trials", "5", "2,000", "(1.11)", "21:00", "(1.08)", "13:00", "(0.67)"],
        ["one", "3", "1,800", "(1.00)", "19:30", "(1.00)", "19:30", "(1.00)"],
    ]
    assert lines[-1] == "Left out, as they trained no step: 1 trial"


def test_a_sweep_without_times_is_refused() -> None:
    with pytest.raises(ValueError, match="must have first replicates"):
        lines_of([trial(0, "running", begin=0, minutes=1)])
