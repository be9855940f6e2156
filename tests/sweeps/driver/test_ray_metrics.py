"""The metrics of a sweep follow its events; Prometheus reads them in `tests/deploy/test_grafana.py`."""

from typing import Any

import pytest

from sweeps.driver import ray_metrics
from sweeps.driver.ray_metrics import GAUGES, SweepMetrics
from sweeps.options import SweepPlan
from tests.local_table import LocalTable
from tests.sweeps.conftest import MakePlan
from tests.sweeps.driver.trials.test_changes import begin

Values = dict[tuple[str, frozenset[tuple[str, str]]], float]
NAME, LANE = "0000-r0", "sweep-lane0"
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


class Driver:
    """Sets the metrics after messages, five seconds after each other."""

    def __init__(self, plan: SweepPlan, gauges: Gauges) -> None:
        self.local, self.gauges = LocalTable(plan), gauges
        self.metrics = SweepMetrics(self.local.table)

    def update(self) -> None:
        self.gauges.now += 5
        self.gauges.values.clear()
        self.metrics.update()

    def begin(self, name: str = NAME) -> None:
        begin(self.local, name, LANE)
        self.update()

    def move(self, name: str = NAME, attempt: int = 1, **facts: Any) -> None:
        self.local.ask("progress", name, attempt, **{**PROGRESS, **facts})
        self.update()


def point(task: str, split: str, metric: str, value: float) -> dict[str, Any]:
    return {"task": task, "split": split, "metric": metric, "value": value, "step": 40, "epoch": 1, "seconds": 1.0}


def test_running_trial_has_scores_losses_rates_and_steps(make_plan: MakePlan, gauges: Gauges) -> None:
    driver, labels = Driver(make_plan(), gauges), {"trial": NAME, "lane": LANE}
    driver.begin()
    driver.move()
    driver.move(step=40, num_rows=1500, num_tokens=21_000)
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
    driver.local.report(1, 0.6, name=NAME, scores=scores, step=40, points=points)
    driver.update()
    assert gauges.of("sweep_dev_score", **labels, task="sst") == 0.5
    assert gauges.of("sweep_dev_score", **labels, task="sts") == 0.75
    assert gauges.of("sweep_dev_score", **labels, task="overall") == gauges.of("sweep_best_score") == 0.6
    terms = {dict(tags)["term"]: value for (name, tags), value in gauges.values.items() if name == "sweep_train_mean"}
    assert terms == {"loss": 1.5, "smart": 0.25}
    assert gauges.of("sweep_rows_per_second", **labels) == 0, "it evaluates"
    assert {name for name, _ in gauges.values} == set(GAUGES)


def test_trial_that_has_ended_or_waits_for_a_lane_is_not_set_any_more(make_plan: MakePlan, gauges: Gauges) -> None:
    driver = Driver(make_plan(), gauges)

    def end(name: str) -> None:
        driver.local.tell("left", name, status="complete", error=None, spent={})

    def lose(_name: str) -> None:
        driver.local.tell("workers_died", lane=LANE, why="its node died")

    for name, leave in ((NAME, end), ("0001-r0", lose)):
        driver.begin(name)
        driver.move(name)
        assert any(dict(tags).get("trial") == name for _, tags in gauges.values)
        leave(name)
        driver.update()
        assert not any("trial" in dict(tags) for _, tags in gauges.values)
    assert gauges.of("sweep_trials", status="complete") == 1
    assert gauges.of("sweep_trials", status="queued") == 2
    assert gauges.of("sweep_trials", status="failed") == 0


def test_rates_begin_again_with_a_trial_that_is_resumed(make_plan: MakePlan, gauges: Gauges) -> None:
    driver = Driver(make_plan(), gauges)
    driver.begin()
    driver.move()
    driver.local.tell("workers_died", lane=LANE, why="its node died")
    driver.begin()
    driver.move(attempt=2, num_rows=10)
    assert gauges.of("sweep_rows_per_second", trial=NAME, lane=LANE) is None
