"""A Tune trial passes scored epochs on and ends as its lane does; a table in this process replaces Ray's channel."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from mtlib.runtime.program_names import PROJECT_FOLDER
from sweeps.search.tune_trial import TuneTrial
from tests.local_table import LocalChannel, LocalTable, call_at_once

NAME = "0003-r0"


@pytest.mark.parametrize("status", ["complete", "reused", "failed", "interrupted"])
def test_reports_are_passed_on_until_the_trial_has_ended(monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    call_at_once(monkeypatch)
    local, shown = LocalTable(), list[str]()
    channel: Any = LocalChannel(local)

    def show(name: str) -> SimpleNamespace:
        shown.append(name)
        return SimpleNamespace(remote=channel.ask.remote)

    channel.ask.options = show
    monkeypatch.setattr(ray, "get_actor", {"one-channel": channel}.__getitem__)
    local.assign(NAME)
    process: TuneTrial = object.__new__(TuneTrial)  # without what Tune's own constructor asks Ray
    process.setup({"sweep": "one", "trial": {"trial_id": NAME, "params": {"smart.weight": 0.5}}})
    local.report(3, 0.6, name=NAME, is_last=True)
    local.tell("left", NAME, status=status, error="sst: loss is nan" if status == "failed" else None, spent={})
    first, last = process.step(), process.step()
    assert (first["epoch"], first["trained_epochs"], first["best"], first["is_last"]) == (1, 3, 0.6, True)
    assert (first["done"], first["status"]) == (False, "")
    assert (last["epoch"], last["best"], last["done"], last["status"]) == (1, 0.6, True, status)
    assert set(shown) == {"0003-r0 smart.weight=0.5"}, "as Ray's dashboard shows them"


def test_trial_that_ends_without_a_scored_epoch_has_no_score() -> None:
    local = LocalTable()
    local.assign()
    local.tell("left", "t", status="failed", error="it broke", spent={})
    nothing = local.ask("wants_report", "t", num_seen=0).answer
    assert (nothing["epoch"], nothing["best"], nothing["done"]) == (0, float("-inf"), True)


def test_trials_process_loads_no_torch() -> None:
    program = "import sys, sweeps.search.tune_trial; assert not {'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=PROJECT_FOLDER, check=True)
