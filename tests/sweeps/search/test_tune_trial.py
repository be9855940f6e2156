"""A Tune trial submits, passes reports on, and ends as its lane reports; this file stands in for Ray."""

import subprocess
import sys
from typing import Any

import pytest
import ray
from ray import tune

from results.records.files import PROJECT_FOLDER
from sweeps.lanes.messages import TrialEnd
from sweeps.search.tune_trial import TrialFailed, forward_reports, tune_metrics

REPORT = {
    "epoch": 3,
    "scored_epoch": 1,
    "step": 40,
    "seconds": 1.5,
    "is_last": False,
    "scores": {"sst": 0.4, "overall": 0.6},
    "score": 0.6,
    "best": 0.7,
    "bests": {"sst": 0.5, "overall": 0.7},
}


class Method:
    """An actor's method that answers at once and records its calls."""

    def __init__(self, answers: list[Any]) -> None:
        self.answers = answers
        self.calls: list[Any] = []

    def options(self, **settings: Any) -> "Method":
        self.calls.append(settings)
        return self

    def remote(self, *arguments: Any) -> Any:
        self.calls.append(arguments)
        return self.answers.pop(0)


class MailboxStub:
    def __init__(self, *messages: Any) -> None:
        self.submit = Method([None])
        self.next_report = Method(list(messages))


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Reports to Tune."""
    reports: list[dict[str, Any]] = []
    monkeypatch.setattr(ray, "get", lambda answer: answer)
    monkeypatch.setattr(tune, "report", reports.append)
    return reports


def run(mailbox: Any) -> None:
    forward_reports(mailbox, {"trial_id": "0003-r0", "config": "{}", "title": "0003-r0 smart.weight=0.5"})


def test_reports_are_passed_on_until_the_trial_is_complete(reported: list[dict[str, Any]]) -> None:
    mailbox = MailboxStub(
        REPORT, {**REPORT, "epoch": 4, "scored_epoch": 2, "is_last": True}, TrialEnd(status="complete")
    )
    run(mailbox)
    assert mailbox.submit.calls == [("0003-r0", "{}")]
    assert [report["epoch"] for report in reported] == [1, 2]


def test_calls_carry_the_trials_name(reported: list[dict[str, Any]]) -> None:
    mailbox = MailboxStub(TrialEnd(status="complete"))
    run(mailbox)
    assert mailbox.next_report.calls[0] == {"name": "0003-r0 smart.weight=0.5"}
    assert reported == []


@pytest.mark.parametrize("how", ["failed", "interrupted"])
def test_trial_without_a_result_fails_in_tune(reported: list[dict[str, Any]], how: Any) -> None:
    with pytest.raises(TrialFailed, match="sst: loss is nan"):
        run(MailboxStub(REPORT, TrialEnd(status=how, error="sst: loss is nan at step 3")))
    assert len(reported) == 1


def test_pruned_trial_returns(reported: list[dict[str, Any]]) -> None:
    run(MailboxStub(REPORT, TrialEnd(status="pruned")))
    assert len(reported) == 1


def test_tune_counts_scored_epochs_and_sees_the_best_scores() -> None:
    assert tune_metrics(REPORT) == {
        "epoch": 1,
        "trained_epochs": 3,
        "best": 0.7,
        "is_last": False,
        "best_sst": 0.5,
        "best_overall": 0.7,
    }


def test_trials_process_loads_no_torch() -> None:
    program = (
        "import sys, sweeps.search.tune_trial; assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], cwd=PROJECT_FOLDER, check=True)


def test_reused_trial_is_complete_for_tune(reported: list[dict[str, Any]]) -> None:
    run(MailboxStub({**REPORT, "is_last": True}, TrialEnd(status="reused")))
    assert [report["is_last"] for report in reported] == [True]
