"""A trial's reporter: what it writes and sends, to a table in this process, and its use of the answers."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from mtlib.checkpoints.state import StateFolder, newest_numbers
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.runtime.storage import open_folder
from mtlib.tasks import TASKS, Task
from mtlib.train import train
from mtlib.training.epoch_report import EpochReport, Point, StepProgress
from mtlib.training.step import Interrupted
from results.records.epochs import read_epoch, trial_epochs
from sweeps.driver.trials.messages import Message
from sweeps.lanes import reporter as reporter_module
from sweeps.lanes.reporter import Reporter
from tests.local_table import Asked, LocalChannel, LocalTable, call_at_once
from tests.results.conftest import build_report

STEP = StepProgress(stage=0, epoch=1, step=7, num_steps=20, learning_rate=0.1, num_rows=56, num_tokens=700)
NAME = "0000-r0"


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> LocalTable:
    monkeypatch.setattr(reporter_module, "PROGRESS_SECONDS", 0.0)
    call_at_once(monkeypatch)
    return LocalTable()


@pytest.fixture(scope="module")
def short_config(tiny_config: TrialConfig) -> TrialConfig:
    """Three epochs of few steps, the first without an overall score."""
    return tiny_config.override({"smart.weight": 0, "stages.1.steps_per_epoch": 4})


def make_reporter(
    local: LocalTable, folder: Path, metric: str = "overall", tasks: Mapping[str, Task] = TASKS
) -> Reporter:
    """The reporter of a trial that has just been handed to a lane; verdicts must be given beforehand."""
    channel: Any = LocalChannel(local)
    return Reporter(channel, open_folder(folder), local.assign(NAME), metric, tasks, torch.device("cpu"))


def decide(local: LocalTable, verdicts: Mapping[int, bool]) -> None:
    """The scheduler's verdicts, by epoch, before they are asked for."""
    for epoch, stop in verdicts.items():
        local.decide(epoch, stop, NAME)


def be_second(monkeypatch: pytest.MonkeyPatch, first: Any) -> None:
    """Makes this process the second worker, which hears `first` from the first one."""
    monkeypatch.setattr(reporter_module, "worker_rank", lambda: 1)
    monkeypatch.setattr(reporter_module, "gather_from_workers", lambda own: [first, own])
    monkeypatch.setattr(reporter_module, "from_rank_0", lambda _call: first)


def test_first_worker_reports_its_step_until_the_channel_asks_it_to_stop(local: LocalTable, tmp_path: Path) -> None:
    reporter = make_reporter(local, tmp_path)
    assert reporter.on_step(STEP)
    (event,) = local.events("progress")
    assert dict(event.facts).items() >= asdict(STEP).items()
    assert event.facts["peak_memory_bytes"] > 2**20
    local.tell("stop")
    assert [reporter.on_step(STEP), reporter.on_step(STEP)] == [True, False]


def test_other_workers_report_nothing(
    local: LocalTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_config: TrialConfig
) -> None:
    reporter = make_reporter(local, tmp_path)
    be_second(monkeypatch, "stop")
    assert reporter.on_step(STEP)
    assert not reporter.on_epoch(build_report(1))
    assert reporter.is_stopped
    be_second(monkeypatch, 2)
    assert reporter.replay(2, short_config) == 2
    be_second(monkeypatch, "end")
    with pytest.raises(Interrupted):
        reporter.on_epoch(build_report(1))
    assert (local.events("progress", "report"), trial_epochs(open_folder(tmp_path), NAME)) == ([], [])


@pytest.mark.parametrize("stop", [True, False])
def test_epoch_is_written_before_it_is_reported_and_the_verdict_is_followed(
    local: LocalTable, tmp_path: Path, stop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter, written = make_reporter(local, tmp_path), []
    hear_question = local.hear_question

    def note(message: Message) -> Asked:
        written.extend(trial_epochs(open_folder(tmp_path), NAME))
        return hear_question(message)

    monkeypatch.setattr(local, "hear_question", note)
    decide(local, {1: stop})
    assert reporter.on_epoch(build_report(1)) is not stop
    assert reporter.is_stopped is stop
    assert written == [1]
    facts = read_epoch(open_folder(tmp_path), NAME, 1).facts
    assert facts.keys() == {"wall_seconds", "peak_memory_bytes", "constant"}
    assert facts["constant"] == {"sst": False, "qqp": False, "sts": False}
    (event,) = local.events("report")
    assert {name: event.facts[name] for name in facts} == facts


@pytest.mark.parametrize("metric", ["overall", "sts"])
def test_report_holds_main_dev_scores_and_the_trials_own_seconds(
    local: LocalTable, tmp_path: Path, metric: str
) -> None:
    reporter, report = make_reporter(local, tmp_path, metric), build_report(2)
    reporter.shared_seconds = 0.5
    decide(local, {2: False})
    reporter.on_epoch(report)
    (event,) = local.events("report")
    assert event.facts["scores"].keys() == {"sst", "qqp", "sts", "overall"}
    assert event.facts["scores"]["overall"] == report.overall
    assert event.facts["score"] == event.facts["scores"][metric]
    assert (event.facts["epoch"], event.facts["step"], event.facts["seconds"]) == (2, 20, 1.5)


def test_the_log_has_values_of_metrics_not_scores(local: LocalTable, tmp_path: Path) -> None:
    tasks = {**TASKS, "sts": replace(TASKS["sts"], metric="rmse")}
    point = Point(step=10, epoch=1, task="sts", split="dev", metric="rmse", value=0.75, seconds=1.0)
    reporter = make_reporter(local, tmp_path, "sts", tasks)
    decide(local, {1: False})
    reporter.on_epoch(replace(build_report(1), points=(point,)))
    assert "step 10: sts 0.7500" in (tmp_path / "trials" / NAME / "log.txt").read_text()
    (event,) = local.events("report")
    assert event.facts["scores"] == {"sts": -0.75}


def test_no_state_is_saved_after_an_epoch_without_a_verdict(
    local: LocalTable,
    tmp_path: Path,
    short_config: TrialConfig,
    tiny_corpus: Corpus,
    tiny_encoder: PretrainedEncoder,
) -> None:
    reporter, states = make_reporter(local, tmp_path), StateFolder(path=tmp_path / "states", checkpoint_steps=3)

    def on_epoch(report: EpochReport) -> bool:
        if report.epoch == 2:
            local.tell("stop")
        return reporter.on_epoch(report)

    with pytest.raises(Interrupted):
        train(short_config, tiny_corpus, tiny_encoder, on_epoch=on_epoch, states=states)
    numbers = newest_numbers(states)
    assert numbers is not None
    assert (numbers["stage"], numbers["epoch"]) == (1, 0), "the second epoch would be skipped after a resume"


def test_trial_of_an_ending_sweep_ends_at_the_step_after_its_epoch(local: LocalTable, tmp_path: Path) -> None:
    reporter = make_reporter(local, tmp_path)
    local.tell("wind_down")
    assert reporter.on_step(STEP)
    decide(local, {1: False})
    assert reporter.on_epoch(build_report(1))
    assert not reporter.on_step(STEP)


def reports_of(config: TrialConfig) -> list[EpochReport]:
    """The trial's epochs: QQP alone, then all tasks."""
    first = build_report(1, tasks=("qqp",), has_total=False)
    later = [build_report(epoch) for epoch in (2, 3)]
    assert sum(stage.epochs for stage in config.stages) == 3
    return [first, later[0], replace(later[1], is_last=True)]


def test_finished_epochs_are_sent_again_as_first_reported(
    local: LocalTable, tmp_path: Path, short_config: TrialConfig
) -> None:
    first = make_reporter(local, tmp_path)
    decide(local, {2: False})
    for report in reports_of(short_config):
        first.on_epoch(report)
    reported, record = [event.facts for event in local.events("report")], local.table.records[NAME]
    again_table = LocalTable()
    again = make_reporter(again_table, tmp_path)
    decide(again_table, {2: False})
    channel: Any = again._channel
    assert again.replay(3, short_config) is None
    assert again.wall_seconds >= reported[-1]["wall_seconds"]
    (message,) = channel.messages
    assert list(message.facts["epochs"]) == [dict(facts) for facts in reported]
    seen = again_table.table.records[NAME]
    assert (seen.best, seen.epochs, seen.steps) == (record.best, 3, record.steps)


def test_replay_ends_where_the_scheduler_stops_the_trial(
    local: LocalTable, tmp_path: Path, short_config: TrialConfig
) -> None:
    reporter = make_reporter(local, tmp_path)
    decide(local, {2: False})
    for report in reports_of(short_config):
        reporter.on_epoch(report)
    local = LocalTable()
    reporter = make_reporter(local, tmp_path)
    decide(local, {2: True})
    assert reporter.replay(3, short_config) == 2
    assert reporter.is_stopped
    local = LocalTable()
    reporter = make_reporter(local, tmp_path)
    local.tell("stop")
    with pytest.raises(Interrupted):
        reporter.replay(3, short_config)
    assert reporter.replay(0, short_config) is None
