"""The dashboard fits Grafana, and a real Prometheus answers all its queries while a sweep runs."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scripts import ROOT

PROMETHEUS = shutil.which("prometheus")
STEPS = ["stages.0.epochs=20", "stages.0.steps_per_epoch=100", "smart.weight=1"]


def panels() -> list[dict[str, Any]]:
    """The panels of the dashboard."""
    found: list[dict[str, Any]] = json.loads((ROOT / "deploy/grafana.json").read_text())["panels"]
    return found


def test_the_panels_fit_and_ask_for_metrics_that_a_sweep_has() -> None:
    places = [tuple(panel["gridPos"].values()) for panel in panels()]
    assert len({panel["id"] for panel in panels()}) == len(set(places)) == len(panels())
    assert all(place[0] + place[2] <= 24 for place in places), "Grafana's grid"
    asked = {name for panel in panels() for name in re.findall(r"ray_(sweep_\w+)", panel["targets"][0]["expr"])}
    assert asked == set(re.findall(r'"(sweep_\w+)"', (ROOT / "sweeps/driver/ray_metrics.py").read_text()))


@pytest.fixture
def running_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A sweep of the command line that runs while a test does; yields the folder of its Ray."""
    folder = Path("/tmp") / f"grafana-{time.monotonic_ns()}"
    folder.mkdir()
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    words = ["--vary", "optimizer.learning_rate=0.001,0.002", "--storage", str(tmp_path / "storage"), "--set", *STEPS]
    process = subprocess.Popen([sys.executable, "sweeps/run.py", *words], cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        yield folder
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def prometheus(running_sweep: Path, tmp_path: Path) -> Iterator[str]:
    """Debian's Prometheus, with the configuration that Ray has written; yields its address."""
    assert PROMETHEUS is not None
    config = running_sweep / "ray/session_latest/metrics/prometheus/prometheus.yml"
    deadline = time.monotonic() + 120
    while not config.exists():
        assert time.monotonic() < deadline
        time.sleep(1)
    data, address = tmp_path / "prometheus", "127.0.0.1:19090"
    words = [f"--config.file={config}", f"--storage.tsdb.path={data}", f"--web.listen-address={address}"]
    process = subprocess.Popen([PROMETHEUS, *words], stderr=subprocess.DEVNULL)
    try:
        yield f"http://{address}/api/v1"
    finally:
        process.terminate()
        process.wait(30)


def answer(address: str, query: str) -> list[dict[str, Any]]:
    """What Prometheus answers to an instant query; none while it does not listen."""
    try:
        with urllib.request.urlopen(f"{address}/query?{urllib.parse.urlencode({'query': query})}", timeout=10) as found:
            series: list[dict[str, Any]] = json.load(found)["data"]["result"]
            return series
    except urllib.error.HTTPError as error:
        raise AssertionError(error.read().decode()) from error
    except OSError:
        return []


@pytest.mark.slow
@pytest.mark.skipif(PROMETHEUS is None, reason="needs Debian's package prometheus")
def test_prometheus_answers_every_query_during_a_sweep(prometheus: str) -> None:
    deadline, left = time.monotonic() + 240, {panel["title"]: panel["targets"][0] for panel in panels()}
    while left and time.monotonic() < deadline:
        for title, target in list(left.items()):
            series = answer(prometheus, target["expr"].replace("$sweep", ".*"))
            labels = re.findall(r"{{(\w+)}}", target["legendFormat"])
            if series:
                assert all(set(labels) <= set(one["metric"]) for one in series), title
                assert all(abs(float(one["value"][1])) < 1e12 for one in series), title
                del left[title]
        time.sleep(2)
    assert not left
    running = answer(prometheus, 'ray_sweep_trials{status="running"}')
    trials = answer(prometheus, "count(ray_sweep_steps_done)")
    assert float(trials[0]["value"][1]) <= max(float(running[0]["value"][1]), 1) + 2, "only trials that live"
