"""Whole sweeps on a real Ray: how trials end, what Optuna and the records hold, and that nothing is left running."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import numpy as np
import optuna
import pytest
import ray
import torch
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from ray.exceptions import ActorDiedError

import sweeps.driver.run_sweep
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.data.token_cache import tokenize
from mtlib.model.encoder import load_encoder
from mtlib.train import train
from mtlib.training.epoch_report import EpochReport
from results.records.driver_file import DRIVER_FILE, Ownership
from results.records.predictions import read_predictions
from results.records.race import RaceRecord, RoundDecision
from results.records.tables import read_trials
from results.records.trials import SWEEP_COPY, SWEEP_FILE, TrialRecord, write_sweep
from search_spaces.space import SearchSpace
from sweeps.cluster.background_run import is_inside_ray
from sweeps.driver.history import read_known
from sweeps.driver.run_sweep import (
    OnEvent,
    RunningSweep,
    SweepOutcome,
    SweepRun,
    close_sweep,
    handle_event,
    keep_house,
    outcome_of,
    run_on_ray,
    run_plan,
)
from sweeps.driver.trials.changes import MAX_UNEXPLAINED
from sweeps.driver.trials.table import Event, open_table
from sweeps.driver.trials.trial import make_trial
from sweeps.lanes.training_inputs import TrainingInputs
from sweeps.options import SweepOptions, SweepPlan
from sweeps.search.study import JOURNAL_NAME, NUMBER_ATTRIBUTE
from tests.driver_files import write_driver
from tests.local_table import LocalTable
from tests.recorded_trials import write_trial
from tests.sweeps.conftest import MakePlan
from tests.sweeps.driver.trials.test_changes import begin
from tests.training_inputs import read_inputs_of

pytestmark = pytest.mark.ray

KILLED, STEADY, STOPPED, DIVERGING = (f"{number:04d}-r0" for number in range(4))
SEARCHED = ("optimizer.learning_rate", "evaluation.batch_size")
VALUES = ((1e-3, 64), (1e-5, 64), (1e-3, 32), (1e30, 64))
"""By trial, learning rate and evaluation batch size. Labels are random: the less is learned, the better the score, so
that the third trial, scored as low as the first, is stopped after its first epoch."""


@dataclass(frozen=True, kw_only=True)
class FinishedSweep:
    """A sweep that has been run, and its events."""

    plan: SweepPlan
    outcome: SweepOutcome
    events: list[Event]
    records: dict[str, TrialRecord]
    when_trained: dict[str, str]
    """Statuses by the records on disk when the answer was due."""

    def of(self, kind: str, trial_id: str) -> list[Event]:
        return [event for event in self.events if (event.kind, event.trial_id) == (kind, trial_id)]


class Killer:
    """Kills the lane's worker when a given trial has reported its second epoch, or is resumed."""

    def __init__(self, times: dict[str, int]) -> None:
        self.times = times
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        trial_id = str(event.trial_id)
        is_time = event.kind == "resumed" or (event.kind == "report" and event.facts["epoch"] == 2)
        if is_time and self.times.get(trial_id, 0) > 0:
            self.times[trial_id] -= 1
            started = [old for old in self.events if old.trial_id == trial_id and "workers" in old.facts]
            os.kill(started[-1].facts["workers"][0][1], signal.SIGKILL)


@pytest.fixture(scope="module")
def sweep(
    private_ray: None,  # noqa: ARG001 - must be there
    tmp_path_factory: pytest.TempPathFactory,
    tiny_folder: Path,
    tiny_encoder_folder: Path,
) -> FinishedSweep:
    """A sweep with one lane, whose worker is killed once; starting workers takes most of the time."""
    return run_on_one_lane(tmp_path_factory.mktemp("storage"), tiny_folder, tiny_encoder_folder, VALUES, {KILLED: 1})


def run_on_one_lane(
    storage: Path, data: Path, encoder: Path, values: Sequence[tuple[float, int]], kills: dict[str, int]
) -> FinishedSweep:
    """Runs a sweep over learning rates and evaluation batch sizes; `kills` are those of `Killer`."""
    space = SearchSpace(name="rates", question="?", base=small_config(encoder), grid={SEARCHED: tuple(values)})
    options = SweepOptions(
        space="rates", name="everything", storage=str(storage), scheduler="asha", concurrent=1, checkpoint_steps=5
    )
    Path(options.folder).mkdir()
    plan, killer = SweepPlan(options=options, space=space, data_folder=data), Killer(kills)
    when_trained: dict[str, str] = {}
    outcome = run_owned(plan, killer, on_trained=lambda: when_trained.update(statuses(options.folder)))
    records = {record.trial_id: record for record in read_trials(options.folder)}
    return FinishedSweep(plan=plan, outcome=outcome, events=killer.events, records=records, when_trained=when_trained)


def run_owned(plan: SweepPlan, on_event: OnEvent, **others: Any) -> SweepOutcome:
    """Runs a new sweep in its folder."""
    write_sweep(plan.options.folder, {"name": plan.options.name})
    with Ownership(plan.options.folder) as ownership:
        return run_plan(open_table(plan), read_inputs_of(plan), on_event, ownership, **others)


def statuses(folder: str) -> dict[str, str]:
    """The statuses of the trials by the table that is on disk."""
    return {record.trial_id: record.status for record in read_trials(folder)}


def small_config(encoder: Path) -> TrialConfig:
    """One stage with all tasks, so that every epoch is scored; dropout on."""
    stage = StageConfig(tasks=("sst", "qqp", "sts"), epochs=3, steps_per_epoch=12)
    changes = {"encoder.name": str(encoder), "encoder.max_length": 32, "encoder.dropout": 0.1, "smart.tasks": ["sst"]}
    return TrialConfig(stages=(stage,)).override(changes)


def reports_without_ray(sweep: FinishedSweep, trial_id: str) -> list[EpochReport]:
    """Reports of the trial trained in this process, on one thread like the lane's worker."""
    config = TrialConfig.from_json(sweep.records[trial_id].config)
    encoder = load_encoder(config.encoder.name)
    corpus = tokenize(read_data(config, sweep.plan.data_folder), encoder.tokenizer, sweep.plan.options.cache_folder)
    reports: list[EpochReport] = []

    def keep(report: EpochReport) -> bool:
        reports.append(report)
        return True

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        train(config, corpus, encoder, on_epoch=keep)
    finally:
        torch.set_num_threads(threads)
    return reports


def test_every_trial_ends_as_expected(sweep: FinishedSweep) -> None:
    found = {trial_id: record.status for trial_id, record in sweep.records.items()}
    assert found == {KILLED: "complete", STEADY: "complete", STOPPED: "pruned", DIVERGING: "failed"}
    assert sweep.outcome.counts == {"complete": 2, "pruned": 1, "failed": 1}
    assert not sweep.outcome.is_interrupted
    assert sweep.outcome.error is None


def test_records_are_on_disk_before_the_answer_is_read_from_them(sweep: FinishedSweep) -> None:
    assert sweep.when_trained == {trial_id: record.status for trial_id, record in sweep.records.items()}


def test_killed_worker_is_restarted_and_its_trial_continues_from_its_checkpoint(sweep: FinishedSweep) -> None:
    (resumed,) = sweep.of("resumed", KILLED)
    assert resumed.facts["attempt"] == 2
    assert list(dict.fromkeys(event.facts["epoch"] for event in sweep.of("report", KILLED))) == [1, 2, 3]
    steps = [event.facts["step"] for event in sweep.of("progress", KILLED) if event.time > resumed.time]
    assert all(step > 12 for step in steps), "the first epoch of 12 steps is not trained again"


@pytest.mark.parametrize("trial_id", [KILLED, STEADY])
def test_trials_in_a_lane_equal_trials_in_a_new_process(sweep: FinishedSweep, trial_id: str) -> None:
    """Bit for bit. The first was killed and resumed, the second trained in a warm lane."""
    for report in reports_without_ray(sweep, trial_id):
        for cold in report.predictions:
            warm = read_predictions(
                sweep.plan.options.folder, cold.task, cold.split, trial=trial_id, epoch=report.epoch
            )
            assert warm["id"].to_pylist() == cold.ids
            assert np.array_equal(np.array(warm["logits"].to_pylist(), dtype=np.float32), cold.logits)


def test_trial_stopped_by_the_scheduler_leaves_its_lane_at_that_report(sweep: FinishedSweep) -> None:
    (report,) = sweep.of("report", STOPPED)
    (end,) = sweep.of("ended", STOPPED)
    (start,) = sweep.of("started", DIVERGING)
    assert report.time <= end.time <= start.time
    assert end.lane == start.lane


def test_optuna_study_holds_all_trials(sweep: FinishedSweep) -> None:
    storage = JournalStorage(JournalFileBackend(f"{sweep.plan.options.folder}/{JOURNAL_NAME}"))
    trials = optuna.load_study(study_name=sweep.plan.options.name, storage=storage).trials
    states = {"complete": "COMPLETE", "pruned": "PRUNED", "failed": "FAIL"}
    for trial in trials:
        record = sweep.records[f"{trial.user_attrs[NUMBER_ATTRIBUTE]:04d}-r0"]
        assert trial.state.name == states[record.status]
        scores = {event.facts["epoch"]: event.facts["score"] for event in sweep.of("report", record.trial_id)}
        highest = np.maximum.accumulate(list(scores.values()))
        assert list(trial.intermediate_values.values()) == list(highest)
        assert trial.value == (record.best["overall"] if record.status != "failed" else None)


def test_resources_are_freed_and_no_process_is_left(sweep: FinishedSweep) -> None:
    assert ray.available_resources()["CPU"] == 2
    left = {path.name for path in Path(sweep.plan.options.folder).iterdir()}
    assert left == {"trials.parquet", "curves.parquet", "trials", SWEEP_FILE, SWEEP_COPY, JOURNAL_NAME, DRIVER_FILE}
    states = list(Path(sweep.plan.options.folder).glob("trials/*/checkpoint/state-*"))
    assert states == [], "an ended trial needs no state"


@pytest.mark.parametrize("has_start", [False, True])
def test_trial_that_died_with_its_workers_has_failed_on_record(make_plan: MakePlan, has_start: bool) -> None:
    """They may have died before they wrote anything, say for want of memory."""
    plan = make_plan()
    write_sweep(plan.options.folder, {})
    local, spec = LocalTable(plan), make_trial(plan.space, 0, 0, {"smart.weight": 0.0})
    if has_start:
        write_trial(plan.options.folder, spec, "interrupted", (0.5,))
    parts = ("dispatcher", "services", "silent_workers", "searcher", "stopper", "tune_run", "metrics")
    nothing: dict[str, Any] = {name: Mock() for name in parts}
    given: Any = SimpleNamespace(table=local.table, on_event=lambda _event: None)
    lanes: Any = SimpleNamespace(ever_open=set(), closed=set(), failures=[])
    sweep = RunningSweep(run=given, lanes=lanes, **nothing)
    begin(local)
    local.table.rows["0000-r0"].kills = [frozenset("n")] * MAX_UNEXPLAINED
    local.tell("workers_died", lane="a", why="it died")
    for event in local.events():
        handle_event(sweep, event)
    (record,) = read_known(plan.options, "overall", plan.tasks).records
    error = f"its workers died {MAX_UNEXPLAINED} times at one place: it died"
    assert (record.status, record.error, record.epochs) == ("failed", error, int(has_start))
    assert record.config == spec.config
    assert record.host == ("here")


def idle_sweep(plan: SweepPlan, **parts: Any) -> RunningSweep:
    """A sweep without Ray, whose notes are appended to `parts["notes"]`."""
    notes = parts.pop("notes", [])
    parts_of_run = ("inputs", "on_trained", "ownership", "interrupts")
    run = SweepRun(
        table=open_table(plan),
        on_event=lambda event: notes.append(event.facts["text"]),
        scratch=Path(plan.options.folder),
        **{name: Mock() for name in parts_of_run},
    )
    names = ("dispatcher", "lanes", "silent_workers", "searcher", "stopper", "tune_run", "metrics")
    lanes: Any = SimpleNamespace(runs=[], ever_open=set(), closed=set(), failures=[])
    given: dict[str, Any] = {**{name: Mock() for name in names}, "services": Mock(are_well=False), "lanes": lanes}
    return RunningSweep(run=run, **given, **parts)


def test_housekeeping_does_not_count_as_inside_ray_and_ends_before_the_records_are_closed(
    make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()
    monkeypatch.setattr(sweeps.driver.run_sweep, "prune_weights", lambda *_arguments: may_end.wait(60))
    monkeypatch.setattr(sweeps.driver.run_sweep, "close", lambda *_arguments: None)
    sweep = idle_sweep(make_plan(), must_prune=True)
    keep_house(sweep)
    assert sweep.housekeeping is not None
    assert not is_inside_ray()
    threading.Timer(0.5, may_end.set).start()
    close_sweep(sweep, 0.0)
    assert not sweep.housekeeping.is_alive()


def run_without_ray(plan: SweepPlan, monkeypatch: pytest.MonkeyPatch, notes: list[str] | None = None) -> Any:
    """A run whose trials have ended, for `run_on_ray` without a Ray."""
    sweep = idle_sweep(plan, notes=[] if notes is None else notes)
    answers = {"connected_to_ray": contextlib.nullcontext(), "fits_cluster": True}
    answers |= {
        "describe_cluster": "",
        "put_inputs": None,
        "start_sweep": sweep,
        "handle_until_end": None,
        "close_sweep": None,
        "save_tables": None,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(sweeps.driver.run_sweep, name, Mock(return_value=answer))
    run: Any = replace(sweep.run, table=Mock(num_left=0, plan=plan))
    run.inputs.num_bytes, run.interrupts.count, run.interrupts.unannounced = 0, 0, None
    return run


@pytest.mark.parametrize("error", [ValueError("sweep.json is damaged"), OSError("No space left on device")])
def test_tables_that_cannot_be_written_do_not_fail_a_sweep_whose_trials_have_ended(
    make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    run = run_without_ray(make_plan(), monkeypatch)
    monkeypatch.setattr(sweeps.driver.run_sweep, "save_tables", Mock(side_effect=error))
    assert run_on_ray(run) is None
    run.on_trained.assert_called_once()


@pytest.mark.parametrize("name", ["put_inputs", "start_sweep", "handle_until_end"])
def test_what_ray_loses_at_any_time_is_why_the_sweep_failed_unless_a_signal_ended_it(
    make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    notes = list[str]()
    run = run_without_ray(make_plan(), monkeypatch, notes)
    monkeypatch.setattr(sweeps.driver.run_sweep, name, Mock(side_effect=ActorDiedError()))
    assert run_on_ray(run) == "Ray failed: The actor died unexpectedly before finishing this task."
    run.interrupts.count, run.interrupts.unannounced = 1, "SIGTERM"  # sent to the whole process group
    assert run_on_ray(run) is None
    assert any("Stopped by SIGTERM. Continue with: " in note for note in notes)


@pytest.mark.slow
@pytest.mark.usefixtures("private_ray")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal_stops_cleanly(
    make_plan: MakePlan, tiny_folder: Path, tiny_encoder_folder: Path, number: signal.Signals
) -> None:
    base = small_config(tiny_encoder_folder).override({"stages.0.steps_per_epoch": 2000})
    plan = make_plan(base=base, data_folder=tiny_folder, concurrent=1)
    stopped_at, notes = list[float](), list[str]()

    def press(event: Event) -> None:
        notes.extend([event.facts["text"]] if event.kind == "note" else [event.kind] if event.kind == "ended" else [])
        if event.kind == "progress" and event.facts["step"] > 20 and not stopped_at:
            stopped_at.append(time.monotonic())
            os.kill(os.getpid(), number)

    outcome = run_owned(plan, press)
    told = [note for note in notes if note == "ended" or "--resume" in note]
    assert ("--resume" in told[0]) == (number != signal.SIGINT), "what sends it may not wait until a state is saved"
    assert time.monotonic() - stopped_at[0] < 10
    assert outcome.is_interrupted
    assert outcome.counts == {"interrupted": 1, "queued": 2}
    assert [record.status for record in read_trials(plan.options.folder)] == ["interrupted", "queued", "queued"]
    assert list(Path(plan.options.folder).glob("trials/0000-r0/checkpoint/state-*")), "it can go on from here"
    assert ray.available_resources()["CPU"] == 2


@pytest.mark.usefixtures("private_ray")
def test_sweep_too_large_for_the_cluster_is_one_error(
    make_plan: MakePlan, tiny_folder: Path, tiny_encoder_folder: Path
) -> None:
    plan = make_plan(base=small_config(tiny_encoder_folder), data_folder=tiny_folder, workers=8)
    with pytest.raises(ValueError, match=r"must fit this machine, which has 2 CPUs.*needs 8 workers of 1 CPU"):
        run_owned(plan, lambda _event: None)


def test_sweep_that_another_driver_has_taken_is_not_written_into(
    make_plan: MakePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan()
    write_sweep(plan.options.folder, {"name": plan.options.name})
    write_driver(plan.options.folder, id="other")
    write_trial(plan.options.folder, make_trial(plan.space, 0, 0, {"smart.weight": 0.0}), "complete", (0.5,))
    before = {path: path.stat().st_mtime_ns for path in Path(plan.options.folder).rglob("*")}
    ownership, inputs = Ownership(plan.options.folder), cast(TrainingInputs, None)
    monkeypatch.setattr(sweeps.driver.run_sweep, "run_on_ray", lambda _run: "TuneError: Traceback")
    outcome = run_plan(open_table(plan), inputs, lambda _event: None, ownership)
    assert outcome.is_lost
    assert "has taken the sweep over" in str(outcome.error)
    assert {path: path.stat().st_mtime_ns for path in Path(plan.options.folder).rglob("*")} == before


@pytest.mark.parametrize(
    ("race", "verdict"),
    [
        (None, "open"),
        (RaceRecord(), "open"),
        (RaceRecord(decisions=(RoundDecision(num_rounds=3, open=(0, 1), end="last round"),)), "open"),
        (RaceRecord(decisions=(RoundDecision(num_rounds=3, open=(0, 1), end="shown"),)), "shown"),
        (RaceRecord(decisions=(RoundDecision(num_rounds=3, open=(0, 1), end="excluded"),)), "excluded"),
    ],
)
def test_outcome_of_a_claim_has_its_verdict(make_plan: MakePlan, race: RaceRecord | None, verdict: str) -> None:
    of_claim = make_plan(
        claim="smart.weight=1 beats base", until_decided=0.0, replicates=5, grid={"smart.weight": (0, 1)}
    )
    assert outcome_of(open_table(replace(of_claim, race=race)), ()).verdict == verdict


def test_outcome_of_a_race_for_the_best_has_no_verdict(make_plan: MakePlan) -> None:
    plan = make_plan(until_decided=0.0, replicates=5)
    assert outcome_of(open_table(replace(plan, race=RaceRecord())), ()).verdict == ""
