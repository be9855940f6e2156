"""A trial's line to the mailbox, with this file in the mailbox's place."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray

from mtlib.evaluate import Predictions
from mtlib.reports import EpochReport, Point, Progress
from results.epochs import read_curves
from sweeps import lane_link
from sweeps.lane_link import LaneLink, dev_scores
from tests.sweeps.test_trial import Method

STEP = Progress(stage=0, epoch=1, step=7, num_steps=20)


def point(task: str, metric: str, value: float, split: str = "dev") -> Point:
    return Point(step=7, epoch=1, task=task, split=split, metric=metric, value=value, seconds=1.5)


def report_of(*points: Point, is_last: bool = False) -> EpochReport:
    predictions = Predictions(
        task="sst", split="dev", ids=["a"], labels=np.zeros(1, np.float32), logits=np.zeros((1, 5), np.float32)
    )
    return EpochReport(
        epoch=1,
        scored_epoch=1,
        num_scored_epochs=2,
        stage=0,
        step=7,
        seconds=1.5,
        points=points,
        predictions=(predictions,),
        overall=0.6,
        best_overall=0.6,
        is_last=is_last,
    )


SCORED = (point("sst", "accuracy", 0.4), point("sst", "loss", 1.2), point("overall", "overall", 0.6))


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A mailbox whose answers can be set; what is waited for has always come."""
    monkeypatch.setattr(ray, "get", lambda answer: answer)
    monkeypatch.setattr(ray, "wait", lambda found, **_settings: (found, []))
    monkeypatch.setattr(lane_link, "PROGRESS_SECONDS", 0.0)
    return SimpleNamespace(progress=Method([]), report=Method([]), suspect=Method([None]), ended=Method([None]))


def link_of(mailbox: Any, folder: Path, metric: str = "overall") -> LaneLink:
    return LaneLink(mailbox, folder, "0000-r0", metric)


def test_the_first_worker_says_where_it_is_and_goes_on(answers: Any, tmp_path: Path) -> None:
    answers.progress.answers = [False]
    assert link_of(answers, tmp_path).on_step(STEP)
    assert answers.progress.calls == [("0000-r0", {"stage": 0, "epoch": 1, "step": 7, "num_steps": 20})]


def test_it_stops_once_the_mailbox_wants_it_to(answers: Any, tmp_path: Path) -> None:
    answers.progress.answers = [False, True]
    link = link_of(answers, tmp_path)
    assert [link.on_step(STEP), link.on_step(STEP), link.on_step(STEP)] == [True, True, False]


def test_an_answer_that_has_not_come_is_not_waited_for(
    answers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "wait", lambda found, **_settings: ([], found))
    answers.progress.answers = [True]
    link = link_of(answers, tmp_path)
    assert all(link.on_step(STEP) for _ in range(5))
    assert len(answers.progress.calls) == 1


def test_progress_is_told_only_now_and_then(answers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_link, "PROGRESS_SECONDS", 100.0)
    answers.progress.answers = [False]
    link = link_of(answers, tmp_path)
    assert all(link.on_step(STEP) for _ in range(5))
    assert len(answers.progress.calls) == 1


def test_the_other_workers_say_nothing(answers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_link, "worker_rank", lambda: 1)
    assert link_of(answers, tmp_path).on_step(STEP)
    assert answers.progress.calls == []


@pytest.mark.parametrize("must_stop", [True, False])
def test_an_epoch_is_recorded_before_it_is_reported_and_the_verdict_is_followed(
    answers: Any, tmp_path: Path, must_stop: bool
) -> None:
    link = link_of(answers, tmp_path)

    def answer(trial_id: str, _message: Any) -> bool:
        assert read_curves(tmp_path)["trial"].to_pylist() == [trial_id] * len(SCORED)
        return must_stop

    answers.report = SimpleNamespace(remote=answer)
    assert link.on_epoch(report_of(*SCORED)) is not must_stop
    assert link.is_stopped is must_stop


def test_a_trial_that_has_finished_is_not_called_stopped(answers: Any, tmp_path: Path) -> None:
    answers.report.answers = [True]
    link = link_of(answers, tmp_path)
    assert link.on_epoch(report_of(*SCORED, is_last=True))
    assert not link.is_stopped


@pytest.mark.parametrize(("metric", "score"), [("overall", 0.6), ("sst", 0.4), ("qqp", None)])
def test_the_message_holds_the_searched_score(answers: Any, tmp_path: Path, metric: str, score: float | None) -> None:
    answers.report.answers = [False]
    link_of(answers, tmp_path, metric).on_epoch(report_of(*SCORED))
    ((_, message),) = answers.report.calls
    assert message["score"] == score
    assert message["scores"] == {"sst": 0.4, "overall": 0.6}


def test_only_main_dev_scores_are_passed_on() -> None:
    points = (point("sts", "spearman", 0.1), point("sts", "pearson", 0.2), point("sts", "pearson", 0.3, "train"))
    assert dev_scores(report_of(*points)) == {"sts": 0.2}
