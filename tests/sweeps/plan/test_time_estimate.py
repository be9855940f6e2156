"""The estimated time of a sweep: sums by hand of given times of steps, and one that is really timed."""

import dataclasses
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from mtlib.model.encoder import load_encoder
from search_spaces.space import Grid, load_space
from sweeps.options import SweepOptions
from sweeps.plan.inputs import SweepInputs
from sweeps.plan.precision import fit_encoders
from sweeps.plan.report import max_concurrent
from sweeps.plan.time_estimate import (
    MOST_TIMED_ROWS,
    OVERHEAD_SECONDS,
    StepTime,
    describe_time,
    estimate_seconds,
    step_timer,
)
from tests.prepared import inputs_of, prepare_rows
from tests.sweeps.plan.conftest import Build

ROWS = {("sst", "train"): 320, ("sst", "dev"): 100}
SECOND = StepTime(step=1.0, row=1.0)


def single_task(**stage: Any) -> SweepInputs:
    """Inputs of one configuration of SST: 10 steps of 32 rows in each of two epochs."""
    space = load_space("smart_lambda")
    changes = {f"stages.0.{key}": value for key, value in {"tasks": "sst", "epochs": 2, **stage}.items()}
    own = {
        "tasks.sst.batch_size": 32,
        "tasks.sst.probe_rows": 64,
        "tasks.sst.scored_train_rows": 0,
        "precision": "fp32",
    }
    base = dataclasses.replace(space.base, stages=space.base.stages[:1]).override({**changes, **own})
    grid: Grid = {"optimizer.learning_rate": (1e-5, 2e-5, 3e-5)}
    return inputs_of(dataclasses.replace(space, base=base, grid=grid, published=()), ROWS)


@pytest.mark.parametrize(("replicates", "concurrent"), [(1, 1), (2, 1), (1, 2)])
def test_steps_and_predicted_rows_are_summed_over_trials_and_divided_among_lanes(
    options: Build, replicates: int, concurrent: int
) -> None:
    given: SweepOptions = options(replicates=replicates, concurrent=concurrent, reuse=False)
    of_trial = 20 * 0.5 + (2 * 100 + 64) * 0.01
    rounds = math.ceil(3 * replicates / max_concurrent(given, 3 * replicates))
    found = estimate_seconds(given, single_task(), lambda _config, _name: StepTime(step=0.5, row=0.01))
    assert found == pytest.approx(OVERHEAD_SECONDS + rounds * of_trial)


def test_trials_of_the_demonstration_are_timed_here_and_not_on_gpus(options: Build) -> None:
    given: SweepOptions = options()
    inputs = prepare_rows(given)
    name = inputs.space.base.encoder.name
    encoders = {name: load_encoder(name)}
    inputs = fit_encoders(given, inputs, encoders)
    (line,) = describe_time(given, inputs, encoders)
    assert line.startswith("About ")
    assert describe_time(dataclasses.replace(given, gpus_per_worker=1), inputs, encoders) == []


def test_race_has_an_expected_time_beside_the_longest_and_a_limit_that_cuts_it_is_named(
    options: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeps.plan.time_estimate.step_timer", lambda *_: lambda _config, _name: SECOND)
    raced: SweepOptions = options(until_decided=0.0, replicates=20, concurrent=1, reuse=False, max_hours=0.5)
    (line,) = describe_time(raced, single_task(), {})
    assert line.startswith("About 86 minutes expected, at most 4.7 hours, here")
    assert "--max-hours 0.5 stops it before" in line
    (line,) = describe_time(dataclasses.replace(raced, max_hours=2), single_task(), {})
    assert "--max-hours" not in line


def test_of_a_large_batch_a_part_is_timed_and_no_more_rows_than_train_has(
    options: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With passes, updates and predictions of a second each, a batch twice the timed one takes a second more."""
    inputs = prepare_rows(options())
    encoders = {inputs.space.base.encoder.name: load_encoder(inputs.space.base.encoder.name)}
    inputs = fit_encoders(options(), inputs, encoders)
    monkeypatch.setattr("sweeps.plan.time_estimate.fastest", lambda _function: 1.0)
    steps = {}
    with TemporaryDirectory() as folder:
        time_of = step_timer(options(), inputs, encoders, Path(folder))
        for size in (MOST_TIMED_ROWS, 2 * MOST_TIMED_ROWS, 100_000):
            steps[size] = time_of(inputs.space.base.override({"tasks.sst.batch_size": size}), "sst").step
    num_rows = inputs.rows_of(inputs.space.base)["sst", "train"]
    assert num_rows > 2 * MOST_TIMED_ROWS
    assert list(steps.values()) == [2.0, 3.0, 1 + num_rows / MOST_TIMED_ROWS]
