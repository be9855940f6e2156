"""A trial's reporter: what it sends to the mailbox, which this file stands in for, and its use of the answers."""

import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray

from mtlib.checkpoints.state import StateFolder, newest_numbers
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.tasks import TASKS
from mtlib.train import train
from mtlib.training.epoch_report import EpochReport, Point, StepProgress
from mtlib.training.evaluation import Predictions
from mtlib.training.step import Interrupted
from results.records.tables import read_curves
from sweeps.lanes import reporter as reporter_module
from sweeps.lanes.reporter import TrialReporter, scores_in
from sweeps.reuse.finished_trials import ReusedWork
from sweeps.reuse.starting_point import StartingPoint, epochs_of
from tests.sweeps.search.test_tune_trial import Method

STEP = StepProgress(stage=0, epoch=1, step=7, num_steps=20)


def make_point(task: str, metric: str, value: float, split: str = "dev") -> Point:
    return Point(step=7, epoch=1, task=task, split=split, metric=metric, value=value, seconds=1.5)


def make_report(*points: Point, is_last: bool = False) -> EpochReport:
    predictions = Predictions(
        task="sst", split="dev", ids=["a"], labels=np.zeros(1, np.float32), logits=np.zeros((1, 5), np.float32)
    )
    return EpochReport(
        epoch=1,
        scored_epoch=1,
        stage=0,
        step=7,
        seconds=1.5,
        points=points,
        predictions=(predictions,),
        overall=0.6,
        is_last=is_last,
    )


SCORED = (make_point("sst", "accuracy", 0.4), make_point("sst", "loss", 1.2), make_point("overall", "overall", 0.6))


def empty_mailbox() -> Any:
    """A mailbox that has no answers yet."""
    names = ("progress", "epoch", "worker_error", "end", "event")
    methods = {f"report_{name}": Method([None] if name in ("worker_error", "end") else []) for name in names}
    return SimpleNamespace(**methods, is_wanted=Method([True] * 9))


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A mailbox whose answers can be set; they are available at once."""
    monkeypatch.setattr(ray, "get", lambda answer: answer)
    monkeypatch.setattr(ray, "wait", lambda found, **_settings: (found, []))
    monkeypatch.setattr(reporter_module, "PROGRESS_SECONDS", 0.0)
    return empty_mailbox()


@pytest.fixture(scope="module")
def short_config(tiny_config: TrialConfig) -> TrialConfig:
    """Three epochs of few steps."""
    return tiny_config.override({"smart.weight": 0, "stages.1.steps_per_epoch": 4})


def make_reporter(mailbox: Any, folder: Path, metric: str = "overall") -> TrialReporter:
    return TrialReporter(mailbox, folder, "0000-r0", metric, TASKS)


def test_first_worker_reports_its_step_and_continues(answers: Any, tmp_path: Path) -> None:
    answers.report_progress.answers = [False]
    assert make_reporter(answers, tmp_path).on_step(STEP)
    assert answers.report_progress.calls == [("0000-r0", {"stage": 0, "epoch": 1, "step": 7, "num_steps": 20})]


def test_trial_stops_when_the_mailbox_asks(answers: Any, tmp_path: Path) -> None:
    answers.report_progress.answers = [False, True]
    reporter = make_reporter(answers, tmp_path)
    assert [reporter.on_step(STEP), reporter.on_step(STEP), reporter.on_step(STEP)] == [True, True, False]


def test_pending_answer_is_not_waited_for(answers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "wait", lambda found, **_settings: ([], found))
    answers.report_progress.answers = [True]
    reporter = make_reporter(answers, tmp_path)
    assert all(reporter.on_step(STEP) for _ in range(5))
    assert len(answers.report_progress.calls) == 1


def test_progress_is_reported_at_intervals(answers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter_module, "PROGRESS_SECONDS", 100.0)
    answers.report_progress.answers = [False]
    reporter = make_reporter(answers, tmp_path)
    assert all(reporter.on_step(STEP) for _ in range(5))
    assert len(answers.report_progress.calls) == 1


def test_other_workers_report_nothing(answers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter_module, "worker_rank", lambda: 1)
    assert make_reporter(answers, tmp_path).on_step(STEP)
    assert answers.report_progress.calls == []


@pytest.mark.parametrize("must_stop", [True, False])
def test_epoch_is_recorded_before_it_is_reported_and_the_decision_is_followed(
    answers: Any, tmp_path: Path, must_stop: bool
) -> None:
    reporter = make_reporter(answers, tmp_path)

    def answer(trial_id: str, _message: Any) -> bool:
        assert read_curves(tmp_path)["trial"].to_pylist() == [trial_id] * len(SCORED)
        return must_stop

    answers.report_epoch = SimpleNamespace(remote=answer)
    assert reporter.on_epoch(make_report(*SCORED)) is not must_stop
    assert reporter.is_stopped is must_stop


def test_finished_trial_is_not_stopped(answers: Any, tmp_path: Path) -> None:
    answers.report_epoch.answers = [True]
    reporter = make_reporter(answers, tmp_path)
    assert reporter.on_epoch(make_report(*SCORED, is_last=True))
    assert not reporter.is_stopped


def test_missing_decision_interrupts_the_trial(answers: Any, tmp_path: Path) -> None:
    answers.report_epoch.answers = [None]
    reporter = make_reporter(answers, tmp_path)
    with pytest.raises(Interrupted):
        reporter.on_epoch(make_report(*SCORED))
    assert not reporter.is_stopped


def test_missing_decision_reaches_the_other_workers(
    answers: Any, tmp_path: Path, short_config: TrialConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All workers follow the value that the first one broadcasts."""
    monkeypatch.setattr(reporter_module, "worker_rank", lambda: 1)
    monkeypatch.setattr(reporter_module, "gather_from_workers", lambda own: [None, own])
    reporter = make_reporter(answers, tmp_path)
    with pytest.raises(Interrupted):
        reporter.on_epoch(make_report(*SCORED))
    with pytest.raises(Interrupted):
        reporter.replay(2, short_config)
    assert answers.report_epoch.calls == []


@pytest.mark.parametrize("judged", [0, 1, 2])
def test_no_state_is_saved_after_an_epoch_without_a_decision(
    answers: Any,
    tmp_path: Path,
    short_config: TrialConfig,
    tiny_corpus: Corpus,
    tiny_encoder: PretrainedEncoder,
    judged: int,
) -> None:
    states = StateFolder(path=tmp_path / "states", checkpoint_steps=3)
    answers.report_epoch.answers = [*[False] * judged, None]
    with pytest.raises(Interrupted):
        train(
            short_config, tiny_corpus, tiny_encoder, on_epoch=make_reporter(answers, tmp_path).on_epoch, states=states
        )
    numbers = newest_numbers(states)
    assert numbers is not None
    assert epochs_of(short_config, numbers) == judged
    answers.report_epoch.answers = [False] * 3
    answers.report_epoch.calls.clear()
    train(short_config, tiny_corpus, tiny_encoder, on_epoch=make_reporter(answers, tmp_path).on_epoch, states=states)
    assert [message["epoch"] for _, message in answers.report_epoch.calls] == list(range(judged + 1, 4))


@pytest.mark.parametrize(("metric", "score"), [("overall", 0.6), ("sst", 0.4), ("qqp", None)])
def test_message_holds_the_searched_score(answers: Any, tmp_path: Path, metric: str, score: float | None) -> None:
    answers.report_epoch.answers = [False]
    make_reporter(answers, tmp_path, metric).on_epoch(make_report(*SCORED))
    ((_, message),) = answers.report_epoch.calls
    assert message["score"] == score
    assert message["scores"] == {"sst": 0.4, "overall": 0.6}


def test_only_main_dev_scores_are_sent() -> None:
    points = (
        make_point("sts", "spearman", 0.1),
        make_point("sts", "pearson", 0.2),
        make_point("sts", "pearson", 0.3, "train"),
    )
    assert scores_in([asdict(one) for one in points], TASKS) == {"sts": 0.2}
    assert scores_in([], TASKS) == {}


def test_a_lower_error_is_a_higher_score() -> None:
    tasks = {"sts": replace(TASKS["sts"], metric="rmse")}
    point = Point(step=1, epoch=1, task="sts", split="dev", metric="rmse", value=0.3, seconds=1.0)
    assert scores_in([asdict(point)], tasks) == {"sts": -0.3}


def test_starting_point_without_reuse_is_reported(answers: Any, tmp_path: Path) -> None:
    assert make_reporter(answers, tmp_path).facts == {"shared_steps": 0, "shared_seconds": 0.0, "taken_from": None}


def test_starting_point_is_reported_and_recorded(answers: Any, tmp_path: Path) -> None:
    answers.report_event.answers = [None]
    reporter = make_reporter(answers, tmp_path)
    shared = ReusedWork(steps=8, seconds=0.5, taken_from="other/0001-r0")
    reporter.report_starting_point(StartingPoint(epochs=2, reused=shared, note="it was damaged"))
    facts = {"shared_steps": 8, "shared_seconds": 0.5, "taken_from": "other/0001-r0"}
    reported = {**facts, "epochs": 2, "note": "it was damaged"}
    assert answers.report_event.calls == [("starting_point", "0000-r0", reported)]
    assert reporter.facts == facts


@pytest.mark.parametrize(("shared_seconds", "own"), [(0.0, 1.5), (0.5, 1.0), (2.0, 0.0)])
def test_reused_seconds_are_not_the_trials_own(answers: Any, tmp_path: Path, shared_seconds: float, own: float) -> None:
    answers.report_event.answers, answers.report_epoch.answers = [None], [False]
    reporter = make_reporter(answers, tmp_path)
    reporter.report_starting_point(StartingPoint(epochs=0, reused=ReusedWork(seconds=shared_seconds)))
    reporter.on_epoch(make_report(*SCORED))
    assert answers.report_epoch.calls[0][1]["seconds"] == own


def test_finished_stage_is_reported(answers: Any, tmp_path: Path) -> None:
    answers.report_event.answers = [None, None]
    reporter = make_reporter(answers, tmp_path)
    reporter.report_stage_finished(0, None)
    reporter.report_stage_finished(1, "no room")
    expected = [{"stage": 0, "why_not": None}, {"stage": 1, "why_not": "no room"}]
    assert answers.report_event.calls == [("stage_finished", "0000-r0", facts) for facts in expected]


def test_waiting_trial_learns_whether_it_is_wanted(answers: Any, tmp_path: Path) -> None:
    answers.is_wanted.answers = [True, False]
    reporter = make_reporter(answers, tmp_path)
    assert [reporter.is_wanted(), reporter.is_wanted()] == [True, False]


def test_trial_of_an_ending_sweep_ends_at_its_next_step_with_its_epoch_decided(
    answers: Any,
    tmp_path: Path,
    short_config: TrialConfig,
    tiny_corpus: Corpus,
    tiny_encoder: PretrainedEncoder,
) -> None:
    states = StateFolder(path=tmp_path / "states")
    answers.report_progress.answers, answers.report_epoch.answers = [False] * 99, [False] * 3
    answers.is_wanted.answers = [True, False]

    def train_more() -> None:
        reporter = make_reporter(answers, tmp_path)
        on_step, on_epoch = reporter.on_step, reporter.on_epoch
        train(short_config, tiny_corpus, tiny_encoder, on_step=on_step, on_epoch=on_epoch, states=states)

    with pytest.raises(Interrupted):
        train_more()
    numbers = newest_numbers(states)
    assert numbers is not None
    assert (epochs_of(short_config, numbers), numbers["step"]) == (2, 1)
    answers.is_wanted.answers = [True]
    train_more()
    assert [message["epoch"] for _, message in answers.report_epoch.calls] == [1, 2, 3]


@dataclass(frozen=True)
class ReportedTrial:
    """A trial of three epochs, the first of which has no overall score."""

    folder: Path
    """Folder of its sweep."""
    messages: list[dict[str, Any]]
    """Its messages about epochs."""


@pytest.fixture(scope="module")
def trained_once(
    short_config: TrialConfig,
    tiny_corpus: Corpus,
    tiny_encoder: PretrainedEncoder,
    tmp_path_factory: pytest.TempPathFactory,
) -> ReportedTrial:
    """A trial that all tests share; its folder must not be changed."""
    folder, mailbox = tmp_path_factory.mktemp("trained"), empty_mailbox()
    mailbox.report_epoch.answers = [False] * 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray, "get", lambda answer: answer)
        train(short_config, tiny_corpus, tiny_encoder, on_epoch=make_reporter(mailbox, folder).on_epoch)
    return ReportedTrial(folder, [message for _, message in mailbox.report_epoch.calls])


@pytest.fixture
def reported(trained_once: ReportedTrial, tmp_path: Path) -> list[dict[str, Any]]:
    """The recorded trial with its reports of three epochs."""
    shutil.copytree(trained_once.folder, tmp_path, dirs_exist_ok=True)
    return trained_once.messages


@pytest.mark.parametrize("epochs", [0, 1, 2, 3])
def test_finished_epochs_are_replayed_as_first_reported(
    answers: Any, tmp_path: Path, short_config: TrialConfig, reported: list[dict[str, Any]], epochs: int
) -> None:
    assert [message["scored_epoch"] for message in reported] == [0, 1, 2]
    answers.report_epoch.answers = [False] * epochs
    reporter = make_reporter(answers, tmp_path)
    assert reporter.replay(epochs, short_config) is None
    assert not reporter.is_stopped
    again = [message for _, message in answers.report_epoch.calls]
    for first, later in zip(reported[:epochs], again, strict=True):
        assert later == {**first, "is_replayed": True, "seconds": later["seconds"]}
        assert later["seconds"] == pytest.approx(first["seconds"], abs=0.5), "curves are stamped a little earlier"


def test_an_epoch_without_scores_is_replayed_as_first_reported(
    answers: Any, tmp_path: Path, short_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    config = short_config.override({"stages.1.score_every": 2})
    answers.report_epoch.answers = [False] * 6
    reporter = make_reporter(answers, tmp_path)
    train(config, tiny_corpus, tiny_encoder, on_epoch=reporter.on_epoch)
    assert reporter.replay(3, config) is None
    first, again = ([message for _, message in answers.report_epoch.calls[part]] for part in (slice(3), slice(3, 6)))
    assert [message["scored_epoch"] for message in first] == [0, 0, 1]
    assert [(message["scores"], message["score"]) for message in first][1] == ({}, None)
    for one, other in zip(first, again, strict=True):
        assert other == {**one, "is_replayed": True, "seconds": other["seconds"]}


def test_reason_for_waiting_is_reported_once(answers: Any, tmp_path: Path) -> None:
    answers.report_event.answers = [None, None]
    reporter = make_reporter(answers, tmp_path)
    for what in ("stage 0", "stage 0", "stage 1", "stage 1"):
        reporter.report_waiting(what)
    assert answers.report_event.calls == [("waiting", "0000-r0", {"what": f"stage {stage}"}) for stage in (0, 1)]


def test_replay_ends_where_the_scheduler_stops_the_trial(
    answers: Any, tmp_path: Path, short_config: TrialConfig, reported: list[dict[str, Any]]
) -> None:
    assert len(reported) == 3
    answers.report_epoch.answers = [False, True]
    reporter = make_reporter(answers, tmp_path)
    assert reporter.replay(3, short_config) == 2
    assert reporter.is_stopped
    assert [message["epoch"] for _, message in answers.report_epoch.calls] == [1, 2]


@pytest.mark.usefixtures("reported")
def test_replay_ends_at_a_missing_decision(answers: Any, tmp_path: Path, short_config: TrialConfig) -> None:
    answers.report_epoch.answers = [False, None]
    reporter = make_reporter(answers, tmp_path)
    with pytest.raises(Interrupted):
        reporter.replay(3, short_config)
    assert not reporter.is_stopped
    assert len(answers.report_epoch.calls) == 2


@pytest.mark.usefixtures("reported")
def test_trial_is_not_stopped_after_its_last_epoch(answers: Any, tmp_path: Path, short_config: TrialConfig) -> None:
    answers.report_epoch.answers = [False, False, True]
    reporter = make_reporter(answers, tmp_path)
    assert reporter.replay(3, short_config) is None
    assert not reporter.is_stopped


def test_other_workers_replay_nothing(
    answers: Any, tmp_path: Path, short_config: TrialConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter_module, "worker_rank", lambda: 1)
    monkeypatch.setattr(reporter_module, "gather_from_workers", lambda own: [0, own])
    assert make_reporter(answers, tmp_path).replay(3, short_config) is None
    assert answers.report_epoch.calls == []
