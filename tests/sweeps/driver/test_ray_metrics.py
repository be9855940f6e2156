"""The metrics of a sweep follow its events; Prometheus reads them in `tests/deploy/test_grafana.py`."""

from typing import Any

import pytest

from sweeps.driver import ray_metrics
from sweeps.driver.ledger import Ledger, apply_event, open_ledger
from sweeps.driver.ray_metrics import GAUGES, SweepMetrics
from sweeps.lanes.channel import Event
from tests.sweeps.conftest import MakePlan

Values = dict[tuple[str, frozenset[tuple[str, str]]], float]
PROGRESS: dict[str, Any] = {
    "stage": 0,
    "epoch": 1,
    "step": 30,
    "num_steps": 120,
    "learning_rate": 2e-5,
    "num_rows": 1000,
    "num_tokens": 20_000,
    "peak_memory_bytes": 5_000,
}


class Gauges:
    """Ray's gauges, which keep what they are set to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.values: Values = {}
        self.now = 1000.0
        monkeypatch.setattr(ray_metrics, "Gauge", lambda name, _text, tag_keys: Gauge(self.values, name, tag_keys))
        monkeypatch.setattr("time.monotonic", lambda: self.now)

    def of(self, name: str, **labels: str) -> float | None:
        return self.values.get((name, frozenset({"sweep": "sweep", **labels}.items())))


class Gauge:
    """One of them."""

    def __init__(self, values: Values, name: str, tag_keys: tuple[str, ...]) -> None:
        self.values, self.name, self.tag_keys = values, name, tag_keys

    def set(self, value: float, tags: dict[str, str]) -> None:
        assert tuple(sorted(tags)) == tuple(sorted(self.tag_keys))
        self.values[self.name, frozenset(tags.items())] = value


@pytest.fixture
def gauges(monkeypatch: pytest.MonkeyPatch) -> Gauges:
    return Gauges(monkeypatch)


@pytest.fixture
def ledger(make_plan: MakePlan) -> Ledger:
    return open_ledger(make_plan())


class Driver:
    """Applies events as the driver does, five seconds after each other."""

    def __init__(self, ledger: Ledger, gauges: Gauges) -> None:
        self.ledger, self.gauges, self.metrics = ledger, gauges, SweepMetrics()

    def hear(self, kind: Any, trial_id: str | None = "0000-r0", **facts: Any) -> None:
        event = Event(kind=kind, lane="sweep-lane0", trial_id=trial_id, facts=facts)
        self.gauges.now += 5
        self.gauges.values.clear()
        apply_event(self.ledger, event)
        self.metrics.on_event(event, self.ledger)


def point(task: str, split: str, metric: str, value: float) -> dict[str, Any]:
    return {"task": task, "split": split, "metric": metric, "value": value, "step": 40, "epoch": 1, "seconds": 1.0}


def test_running_trial_has_scores_losses_rates_and_steps(ledger: Ledger, gauges: Gauges) -> None:
    driver, labels = Driver(ledger, gauges), {"trial": "0000-r0", "lane": "sweep-lane0"}
    driver.hear("lane_open", None, host="here")
    driver.hear("started", host="here", why=None)
    driver.hear("progress", **PROGRESS)
    driver.hear("progress", **{**PROGRESS, "step": 40, "num_rows": 1500, "num_tokens": 21_000})
    assert gauges.of("sweep_steps_done", **labels) == 40
    assert gauges.of("sweep_steps_left", **labels) == 80
    assert gauges.of("sweep_learning_rate", **labels) == 2e-5
    assert gauges.of("sweep_peak_memory_bytes", **labels) == 5_000
    assert gauges.of("sweep_rows_per_second", **labels) == 100
    assert gauges.of("sweep_tokens_per_second", **labels) == 200
    points = [
        point("sst", "train", "loss", 1.5),
        point("sst", "train", "smart", 0.25),
        point("sst", "train", "tokens", 900.0),
        point("sst", "train", "steps", 40.0),
        point("sst", "dev", "accuracy", 0.5),
    ]
    scores = {"sst": 0.5, "sts": 0.75, "overall": 0.6}
    driver.hear("report", epoch=1, scores=scores, step=40, seconds=1.0, points=points)
    assert gauges.of("sweep_dev_score", **labels, task="sst") == 0.5
    assert gauges.of("sweep_dev_score", **labels, task="sts") == 0.75
    assert gauges.of("sweep_dev_score", **labels, task="overall") == gauges.of("sweep_best_score") == 0.6
    terms = {dict(tags)["term"]: value for (name, tags), value in gauges.values.items() if name == "sweep_train_mean"}
    assert terms == {"loss": 1.5, "smart": 0.25}
    assert gauges.of("sweep_rows_per_second", **labels) == 0, "it evaluates"
    assert {name for name, _ in gauges.values} == set(GAUGES)


def test_trial_that_has_ended_or_waits_for_a_lane_is_not_set_any_more(ledger: Ledger, gauges: Gauges) -> None:
    driver = Driver(ledger, gauges)
    for trial_id, kind, facts in (
        ("0000-r0", "ended", {"how": "complete", "error": None, "was_started": True}),
        ("0001-r0", "requeued", {"why": "its node died"}),
    ):
        driver.hear("started", trial_id, host="here", why=None)
        driver.hear("progress", trial_id, **PROGRESS)
        assert any(dict(tags).get("trial") == trial_id for _, tags in gauges.values)
        driver.hear(kind, trial_id, **facts)
        assert not any("trial" in dict(tags) for _, tags in gauges.values)
    assert gauges.of("sweep_trials", status="complete") == 1
    assert gauges.of("sweep_trials", status="queued") == 2
    assert gauges.of("sweep_trials", status="failed") == 0


def test_rates_begin_again_with_a_trial_that_is_resumed(ledger: Ledger, gauges: Gauges) -> None:
    driver = Driver(ledger, gauges)
    driver.hear("started", host="here", why=None)
    driver.hear("progress", **PROGRESS)
    driver.hear("resumed", host="here", why=None)
    driver.hear("progress", **{**PROGRESS, "num_rows": 10})
    assert gauges.of("sweep_rows_per_second", trial="0000-r0", lane="sweep-lane0") is None
