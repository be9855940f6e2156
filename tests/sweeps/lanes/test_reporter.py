"""A trial's line to the mailbox, with this file in the mailbox's place."""

import shutil
from dataclasses import asdict, dataclass
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
from mtlib.train import train
from mtlib.training.epoch_report import EpochReport, Point, StepProgress
from mtlib.training.evaluation import Predictions
from mtlib.training.step import Interrupted
from results.records.epochs import read_curves
from sweeps.lanes import reporter as reporter_module
from sweeps.lanes.reporter import TrialReporter, scores_in
from sweeps.reuse.finished_trials import ReusedWork
from sweeps.reuse.starting_point import StartingPoint, epochs_of
from tests.sweeps.search.test_tune_trial import Method

STEP = StepProgress(stage=0, epoch=1, step=7, num_steps=20)


def point(task: str, metric: str, value: float, split: str = "dev") -> Point:
    return Point(step=7, epoch=1, task=task, split=split, metric=metric, value=value, seconds=1.5)


def report_of(*points: Point, is_last: bool = False) -> EpochReport:
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


SCORED = (point("sst", "accuracy", 0.4), point("sst", "loss", 1.2), point("overall", "overall", 0.6))


def empty_mailbox() -> Any:
    """A mailbox that has no answers yet."""
    names = ("progress", "epoch", "worker_error", "end", "event")
    methods = {f"report_{name}": Method([None] if name in ("worker_error", "end") else []) for name in names}
    return SimpleNamespace(**methods, is_wanted=Method([]))


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A mailbox whose answers can be set; what is waited for has always come."""
    monkeypatch.setattr(ray, "get", lambda answer: answer)
    monkeypatch.setattr(ray, "wait", lambda found, **_settings: (found, []))
    monkeypatch.setattr(reporter_module, "PROGRESS_SECONDS", 0.0)
    return empty_mailbox()


@pytest.fixture(scope="module")
def short_config(tiny_config: TrialConfig) -> TrialConfig:
    """Three epochs of few steps."""
    return tiny_config.override({"smart.weight": 0, "stages.1.steps_per_epoch": 4})


def link_of(mailbox: Any, folder: Path, metric: str = "overall") -> TrialReporter:
    return TrialReporter(mailbox, folder, "0000-r0", metric)


def test_the_first_worker_says_where_it_is_and_goes_on(answers: Any, tmp_path: Path) -> None:
    answers.report_progress.answers = [False]
    assert link_of(answers, tmp_path).on_step(STEP)
    assert answers.report_progress.calls == [("0000-r0", {"stage": 0, "epoch": 1, "step": 7, "num_steps": 20})]


def test_it_stops_once_the_mailbox_wants_it_to(answers: Any, tmp_path: Path) -> None:
    answers.report_progress.answers = [False, True]
    link = link_of(answers, tmp_path)
    assert [link.on_step(STEP), link.on_step(STEP), link.on_step(STEP)] == [True, True, False]


def test_an_answer_that_has_not_come_is_not_waited_for(
    answers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "wait", lambda found, **_settings: ([], found))
    answers.report_progress.answers = [True]
    link = link_of(answers, tmp_path)
    assert all(link.on_step(STEP) for _ in range(5))
    assert len(answers.report_progress.calls) == 1


def test_progress_is_reported_only_now_and_then(answers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter_module, "PROGRESS_SECONDS", 100.0)
    answers.report_progress.answers = [False]
    link = link_of(answers, tmp_path)
    assert all(link.on_step(STEP) for _ in range(5))
    assert len(answers.report_progress.calls) == 1


def test_the_other_workers_say_nothing(answers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter_module, "worker_rank", lambda: 1)
    assert link_of(answers, tmp_path).on_step(STEP)
    assert answers.report_progress.calls == []


@pytest.mark.parametrize("must_stop", [True, False])
def test_an_epoch_is_recorded_before_it_is_reported_and_the_verdict_is_followed(
    answers: Any, tmp_path: Path, must_stop: bool
) -> None:
    link = link_of(answers, tmp_path)

    def answer(trial_id: str, _message: Any) -> bool:
        assert read_curves(tmp_path)["trial"].to_pylist() == [trial_id] * len(SCORED)
        return must_stop

    answers.report_epoch = SimpleNamespace(remote=answer)
    assert link.on_epoch(report_of(*SCORED)) is not must_stop
    assert link.is_stopped is must_stop


def test_a_trial_that_has_finished_is_not_called_stopped(answers: Any, tmp_path: Path) -> None:
    answers.report_epoch.answers = [True]
    link = link_of(answers, tmp_path)
    assert link.on_epoch(report_of(*SCORED, is_last=True))
    assert not link.is_stopped


def test_an_epoch_that_nobody_has_judged_ends_the_trial_as_interrupted(answers: Any, tmp_path: Path) -> None:
    answers.report_epoch.answers = [None]
    link = link_of(answers, tmp_path)
    with pytest.raises(Interrupted):
        link.on_epoch(report_of(*SCORED))
    assert not link.is_stopped


def test_other_workers_hear_that_nobody_has_judged(
    answers: Any, tmp_path: Path, short_config: TrialConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first worker says in the collective is what each of them follows."""
    monkeypatch.setattr(reporter_module, "worker_rank", lambda: 1)
    monkeypatch.setattr(reporter_module, "gather_from_workers", lambda own: [None, own])
    link = link_of(answers, tmp_path)
    with pytest.raises(Interrupted):
        link.on_epoch(report_of(*SCORED))
    with pytest.raises(Interrupted):
        link.replay(2, short_config)
    assert answers.report_epoch.calls == []


@pytest.mark.parametrize("judged", [0, 1, 2])
def test_a_state_is_not_saved_behind_an_epoch_that_nobody_has_judged_and_the_trial_loses_nothing_else(
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
        train(short_config, tiny_corpus, tiny_encoder, on_epoch=link_of(answers, tmp_path).on_epoch, states=states)
    numbers = newest_numbers(states)
    assert numbers is not None
    assert epochs_of(short_config, numbers) == judged
    answers.report_epoch.answers = [False] * 3
    answers.report_epoch.calls.clear()
    train(short_config, tiny_corpus, tiny_encoder, on_epoch=link_of(answers, tmp_path).on_epoch, states=states)
    assert [message["epoch"] for _, message in answers.report_epoch.calls] == list(range(judged + 1, 4))


@pytest.mark.parametrize(("metric", "score"), [("overall", 0.6), ("sst", 0.4), ("qqp", None)])
def test_the_message_holds_the_searched_score(answers: Any, tmp_path: Path, metric: str, score: float | None) -> None:
    answers.report_epoch.answers = [False]
    link_of(answers, tmp_path, metric).on_epoch(report_of(*SCORED))
    ((_, message),) = answers.report_epoch.calls
    assert message["score"] == score
    assert message["scores"] == {"sst": 0.4, "overall": 0.6}


def test_only_main_dev_scores_are_passed_on() -> None:
    points = (point("sts", "spearman", 0.1), point("sts", "pearson", 0.2), point("sts", "pearson", 0.3, "train"))
    assert scores_in([asdict(one) for one in points]) == {"sts": 0.2}
    assert scores_in([]) == {}


def test_a_trial_that_takes_nothing_over_says_so(answers: Any, tmp_path: Path) -> None:
    assert link_of(answers, tmp_path).facts == {"shared_steps": 0, "shared_seconds": 0.0, "taken_from": None}


def test_where_a_trial_begins_is_reported_and_kept_for_its_record(answers: Any, tmp_path: Path) -> None:
    answers.report_event.answers = [None]
    link = link_of(answers, tmp_path)
    shared = ReusedWork(steps=8, seconds=0.5, taken_from="other/0001-r0")
    link.report_starting_point(StartingPoint(epochs=2, reused=shared, note="it was damaged"))
    facts = {"shared_steps": 8, "shared_seconds": 0.5, "taken_from": "other/0001-r0"}
    reported = {**facts, "epochs": 2, "note": "it was damaged"}
    assert answers.report_event.calls == [("starting_point", "0000-r0", reported)]
    assert link.facts == facts


@pytest.mark.parametrize(("shared_seconds", "own"), [(0.0, 1.5), (0.5, 1.0), (2.0, 0.0)])
def test_what_others_have_worked_is_not_the_trials_own_time(
    answers: Any, tmp_path: Path, shared_seconds: float, own: float
) -> None:
    answers.report_event.answers, answers.report_epoch.answers = [None], [False]
    link = link_of(answers, tmp_path)
    link.report_starting_point(StartingPoint(epochs=0, reused=ReusedWork(seconds=shared_seconds)))
    link.on_epoch(report_of(*SCORED))
    assert answers.report_epoch.calls[0][1]["seconds"] == own


def test_a_stage_that_ends_is_reported(answers: Any, tmp_path: Path) -> None:
    answers.report_event.answers = [None, None]
    link = link_of(answers, tmp_path)
    link.report_stage_finished(0, None)
    link.report_stage_finished(1, "no room")
    expected = [{"stage": 0, "why_not": None}, {"stage": 1, "why_not": "no room"}]
    assert answers.report_event.calls == [("stage_finished", "0000-r0", facts) for facts in expected]


def test_a_trial_that_waits_hears_whether_it_should(answers: Any, tmp_path: Path) -> None:
    answers.is_wanted.answers = [True, False]
    link = link_of(answers, tmp_path)
    assert [link.is_wanted(), link.is_wanted()] == [True, False]


@dataclass(frozen=True)
class ReportedTrial:
    """A trial of three epochs, the first of which is not scored overall."""

    folder: Path
    """The folder of its sweep."""
    messages: list[dict[str, Any]]
    """What it has reported of its epochs."""


@pytest.fixture(scope="module")
def trained_once(
    short_config: TrialConfig,
    tiny_corpus: Corpus,
    tiny_encoder: PretrainedEncoder,
    tmp_path_factory: pytest.TempPathFactory,
) -> ReportedTrial:
    """A trial that all tests share; its folder is not to be changed."""
    folder, mailbox = tmp_path_factory.mktemp("trained"), empty_mailbox()
    mailbox.report_epoch.answers = [False] * 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray, "get", lambda answer: answer)
        train(short_config, tiny_corpus, tiny_encoder, on_epoch=link_of(mailbox, folder).on_epoch)
    return ReportedTrial(folder, [message for _, message in mailbox.report_epoch.calls])


@pytest.fixture
def reported(trained_once: ReportedTrial, tmp_path: Path) -> list[dict[str, Any]]:
    """What a trial, whose records are here, has reported of its three epochs."""
    shutil.copytree(trained_once.folder, tmp_path, dirs_exist_ok=True)
    return trained_once.messages


@pytest.mark.parametrize("epochs", [0, 1, 2, 3])
def test_epochs_that_are_done_are_reported_again_as_they_were_reported_first(
    answers: Any, tmp_path: Path, short_config: TrialConfig, reported: list[dict[str, Any]], epochs: int
) -> None:
    assert [message["scored_epoch"] for message in reported] == [0, 1, 2]
    answers.report_epoch.answers = [False] * epochs
    link = link_of(answers, tmp_path)
    assert link.replay(epochs, short_config) is None
    assert not link.is_stopped
    again = [message for _, message in answers.report_epoch.calls]
    for first, later in zip(reported[:epochs], again, strict=True):
        assert later == {**first, "is_replayed": True, "seconds": later["seconds"]}
        assert later["seconds"] == pytest.approx(first["seconds"], abs=0.5), "curves are stamped a little earlier"


def test_what_a_trial_waits_for_is_said_once(answers: Any, tmp_path: Path) -> None:
    answers.report_event.answers = [None, None]
    link = link_of(answers, tmp_path)
    for what in ("stage 0", "stage 0", "stage 1", "stage 1"):
        link.report_waiting(what)
    assert answers.report_event.calls == [("waiting", "0000-r0", {"what": f"stage {stage}"}) for stage in (0, 1)]


def test_replaying_ends_where_the_scheduler_stops_the_trial(
    answers: Any, tmp_path: Path, short_config: TrialConfig, reported: list[dict[str, Any]]
) -> None:
    assert len(reported) == 3
    answers.report_epoch.answers = [False, True]
    link = link_of(answers, tmp_path)
    assert link.replay(3, short_config) == 2
    assert link.is_stopped
    assert [message["epoch"] for _, message in answers.report_epoch.calls] == [1, 2]


@pytest.mark.usefixtures("reported")
def test_replaying_ends_where_nobody_judges_any_more(answers: Any, tmp_path: Path, short_config: TrialConfig) -> None:
    answers.report_epoch.answers = [False, None]
    link = link_of(answers, tmp_path)
    with pytest.raises(Interrupted):
        link.replay(3, short_config)
    assert not link.is_stopped
    assert len(answers.report_epoch.calls) == 2


@pytest.mark.usefixtures("reported")
def test_a_trial_is_not_stopped_behind_its_last_epoch(answers: Any, tmp_path: Path, short_config: TrialConfig) -> None:
    answers.report_epoch.answers = [False, False, True]
    link = link_of(answers, tmp_path)
    assert link.replay(3, short_config) is None
    assert not link.is_stopped


def test_other_workers_replay_nothing(
    answers: Any, tmp_path: Path, short_config: TrialConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter_module, "worker_rank", lambda: 1)
    monkeypatch.setattr(reporter_module, "gather_from_workers", lambda own: [0, own])
    assert link_of(answers, tmp_path).replay(3, short_config) is None
    assert answers.report_epoch.calls == []
