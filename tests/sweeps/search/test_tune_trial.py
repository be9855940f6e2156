"""A Tune trial submits, passes reports on, and ends as its lane reports; a channel in this process replaces Ray's."""

import subprocess
import sys
from typing import Any

import pytest
import ray

from mtlib.runtime.program_names import PROJECT_FOLDER
from sweeps.search.tune_trial import TuneTrial, tune_metrics
from tests.local_channel import PLACE, LocalChannel, call_at_once

TRIAL = {"trial_id": "0003-r0", "params": {"smart.weight": 0.5}}
REPORT = {
    "epoch": 3,
    "scored_epoch": 1,
    "step": 40,
    "is_last": True,
    "scores": {"sst": 0.4, "overall": 0.6},
    "score": 0.6,
}


class Here(LocalChannel):
    """A channel with the names that its calls get."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def options(self, name: str) -> "Here":
        self.names.append(name)
        return self


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    call_at_once(monkeypatch)
    here = Here()
    monkeypatch.setattr(ray, "get_actor", {"one-channel": here}.__getitem__)
    return here


def started() -> TuneTrial:
    """The process as Tune starts it with its trial, without what Tune's own constructor asks Ray."""
    process: TuneTrial = object.__new__(TuneTrial)
    process.setup({"sweep": "one", "trial": TRIAL})
    return process


def train(here: Here, trial_id: str, status: str | None, report: dict[str, Any] | None = None) -> None:
    """What a lane does with the trial."""
    attempt = here.call("next_trial", "lane0", PLACE).attempt
    if report is not None:
        here.call("report_epoch", trial_id, attempt, report)
    if status is not None:
        here.call("report_end", trial_id, attempt, status, "sst: loss is nan" if status == "failed" else None, {})


@pytest.mark.parametrize("status", ["complete", "reused", "failed", "interrupted"])
def test_reports_are_passed_on_until_the_trial_has_ended(here: Here, status: str) -> None:
    process = started()
    train(here, "0003-r0", status, REPORT)
    first, last = process.step(), process.step()
    assert (first["epoch"], first["best"], first["done"], first["status"]) == (1, 0.6, False, "")
    assert (last["epoch"], last["best"], last["done"], last["status"]) == (1, 0.6, True, status)
    assert set(here.names) == {"0003-r0 smart.weight=0.5"}, "as Ray's dashboard shows them"


def test_tune_counts_scored_epochs_and_sees_the_best_scores() -> None:
    found = tune_metrics({**REPORT, "best": 0.7, "bests": {"sst": 0.5, "overall": 0.7}})
    names = ("epoch", "trained_epochs", "best", "is_last", "best_sst", "best_overall", "done")
    assert [found[name] for name in names] == [1, 3, 0.7, True, 0.5, 0.7, False]
    nothing = tune_metrics({"status": "failed", "error": "it broke"})
    assert (nothing["epoch"], nothing["best"], nothing["done"]) == (0, float("-inf"), True)


def test_trials_process_loads_no_torch() -> None:
    program = "import sys, sweeps.search.tune_trial; assert not {'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=PROJECT_FOLDER, check=True)
