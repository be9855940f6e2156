"""Failed and unfinished trials are named with the command that goes on."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from results.health.trials import early_ends, failed_trials, unfinished_trials
from tests.results.conftest import build_record
from tests.results.health.given import only, sweep_of

STOPPED = datetime(2024, 5, 1, tzinfo=UTC)


def test_failed_trials_are_grouped_by_reason() -> None:
    records = [build_record(0, status="failed"), build_record(1), build_record(2, status="failed")]
    records.append(build_record(3, status="failed", error="Bad luck.", params={}))
    two, one = failed_trials(sweep_of(records, path=Path("/my sweeps/mine; rm")))
    assert two.level == "problem"
    trials = "0000-r0 (smart.weight 0), 0002-r0 (smart.weight 1)"
    assert two.what == f"2 trials failed: RuntimeError: out of memory. Failed: {trials}"
    assert two.command == "python sweeps/run.py --resume '/my sweeps/mine; rm' --retry-failed"
    assert one.what == "1 trial failed: Bad luck. Failed: 0003-r0"
    assert list(failed_trials(sweep_of([build_record(0)]))) == []


@pytest.mark.parametrize(
    "reason",
    [
        "sst: loss is nan at step 3",
        "sst: smart_penalty is inf at step 3",
        "qqp: a prediction on dev is not finite",
        "training diverged",
    ],
)
def test_trials_that_diverged_get_other_advice(reason: str) -> None:
    record = build_record(0, status="failed", error=f"{reason}\nin a line below")
    found = only(failed_trials(sweep_of([record])))
    assert "in a line below" not in found.what
    assert (found.advice.startswith("lower the learning rate"), found.command) == (True, "")


def test_trials_whose_stage_ended_early_are_named_with_their_steps() -> None:
    counts = {"0000-r0": (5, 5), "0001-r0": (5, 0), "0002-r0": (0, 5), "0003-r0": (5, 0)}
    rows = [
        (trial, epoch, task, "train", "steps", float(count * (task == "sst")))
        for trial, own in counts.items()
        for epoch, count in enumerate(own, start=1)
        for task in ("sst", "qqp")
    ]
    statuses = ("complete", "complete", "reused", "running")
    records = [build_record(number, status=status, steps=1200) for number, status in enumerate(statuses)]
    found = only(early_ends(sweep_of(records, rows)))
    assert found.what.endswith("had not risen, in 2 trials: 0001-r0 (1,200 steps), 0002-r0 (1,200 steps)")
    assert found.level == "note"
    assert list(early_ends(sweep_of(records[:1], rows))) == []


def test_running_sweep_is_resumed_only_once_it_has_stopped() -> None:
    records = [build_record(0, status="failed"), build_record(1, status="running"), build_record(2, status="queued")]
    for stopped in (None, STOPPED):
        sweep = sweep_of(records, stopped_at=stopped)
        (failed,), (end,) = failed_trials(sweep), unfinished_trials(sweep)
        assert "1 running, 1 queued" in end.what
        assert ("--resume" in end.command) is (stopped is not None)
        assert failed.advice.startswith("once the sweep has stopped") is (stopped is None)
        assert failed.command.endswith("--retry-failed")
    assert list(unfinished_trials(sweep_of(records[:1]))) == []


def test_trials_that_a_limit_has_left_are_counted_though_they_are_not_on_record() -> None:
    options = {"search": "grid", "replicates": 20, "until_decided": 0.0}
    info = {"options": options, "num_configurations": 2, "race": [], "stopped_by": "--max-hours 0.25"}
    found = only(unfinished_trials(sweep_of([build_record(0), build_record(1)], info=info)))
    assert "38 queued" in found.what
    assert "2 of at most 40 trials ended" in found.what
    assert "--max-hours 0.25 stopped the sweep" in found.what
    assert "--resume" in found.command, "it is not running, though its driver may still write the page"
