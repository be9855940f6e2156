"""The command that prints a Grafana dashboard of running sweeps; `--help` shows how to load it.

Its panels ask Prometheus for the metrics of `sweeps.driver.ray_metrics`.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from mtlib.runtime.command_line import SUCCESS, WRONG_USE, new_parser, parse_words, run_command

DESCRIPTION = "Prints a Grafana dashboard of running sweeps, as a JSON file that Grafana imports."
EXAMPLES = f"""\
example, on the machine where Ray was started; the file is for Grafana's "Dashboards, New, Import"
(where RAY_TMPDIR or TMPDIR is set, it stands for /tmp):
  prometheus --config.file=/tmp/ray/session_latest/metrics/prometheus/prometheus.yml
  python sweeps/grafana.py > sweeps.json

exit codes: {SUCCESS} printed, {WRONG_USE} wrong use
"""
OF_SWEEP = '{sweep=~"$sweep"}'
WIDTH, HEIGHT = 12, 8
"""Of a panel in Grafana's grid, which is 24 wide."""


@dataclass(frozen=True, kw_only=True)
class TimeSeries:
    """A time series in the dashboard."""

    title: str
    query: str
    """In PromQL; `$sweep` is the variable at the top of the dashboard."""
    legend: str
    """What names a line; `{{label}}` stands for a label's value."""
    unit: str = "short"
    """One of Grafana's units."""


PANELS = (
    TimeSeries(title="Trials", query=f"sum by (status) (ray_sweep_trials{OF_SWEEP})", legend="{{status}}"),
    TimeSeries(
        title="Best score so far",
        query=f"max by (sweep) (ray_sweep_best_score{OF_SWEEP})",
        legend="{{sweep}}",
    ),
    TimeSeries(
        title="Overall dev score of running trials",
        query='max by (trial) (ray_sweep_dev_score{sweep=~"$sweep", task="overall"})',
        legend="{{trial}}",
    ),
    TimeSeries(
        title="Dev score by task",
        query='max by (trial, task) (ray_sweep_dev_score{sweep=~"$sweep", task!="overall"})',
        legend="{{trial}} {{task}}",
    ),
    TimeSeries(
        title="Training loss by task",
        query='max by (trial, task) (ray_sweep_train_mean{sweep=~"$sweep", term="loss"})',
        legend="{{trial}} {{task}}",
    ),
    TimeSeries(
        title="Penalties and norms of gradients by task",
        query='max by (trial, task, term) (ray_sweep_train_mean{sweep=~"$sweep", term!="loss"})',
        legend="{{trial}} {{task}} {{term}}",
    ),
    TimeSeries(
        title="Learning rate",
        query=f"max by (trial) (ray_sweep_learning_rate{OF_SWEEP})",
        legend="{{trial}}",
        unit="sci",
    ),
    TimeSeries(
        title="Share of steps done",
        query=f"max by (trial) (ray_sweep_steps_done{OF_SWEEP} / (ray_sweep_steps_done + ray_sweep_steps_left))",
        legend="{{trial}}",
        unit="percentunit",
    ),
    TimeSeries(title="Rows a second", query=f"sum by (lane) (ray_sweep_rows_per_second{OF_SWEEP})", legend="{{lane}}"),
    TimeSeries(
        title="Tokens a second", query=f"sum by (lane) (ray_sweep_tokens_per_second{OF_SWEEP})", legend="{{lane}}"
    ),
    TimeSeries(
        title="Peak memory",
        query=f"max by (lane) (ray_sweep_peak_memory_bytes{OF_SWEEP})",
        legend="{{lane}}",
        unit="bytes",
    ),
    TimeSeries(title="Open lanes", query=f"sum by (sweep) (ray_sweep_lanes{OF_SWEEP})", legend="{{sweep}}"),
)


def dashboard() -> dict[str, Any]:
    """Returns the dashboard in Grafana's JSON model, with two variables: the data source and the sweeps."""
    source = {"type": "prometheus", "uid": "${datasource}"}
    variables = [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {
            "name": "sweep",
            "label": "Sweep",
            "type": "query",
            "datasource": source,
            "query": {"query": "label_values(ray_sweep_trials, sweep)", "refId": "sweep"},
            "definition": "label_values(ray_sweep_trials, sweep)",
            "includeAll": True,
            "multi": True,
            "current": {"text": "All", "value": "$__all"},
            "allValue": ".*",
            "refresh": 2,  # with the time range
        },
    ]
    return {
        "uid": "multitask-sweeps",
        "title": "Multi-task sweeps",
        "tags": ["ray"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables},
        "panels": [panel_of(number, panel, source) for number, panel in enumerate(PANELS)],
    }


def panel_of(number: int, panel: TimeSeries, source: dict[str, str]) -> dict[str, Any]:
    """Returns a panel in Grafana's JSON model, the `number`-th of two columns."""
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": source,
        "gridPos": {"x": number % 2 * WIDTH, "y": number // 2 * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [{"refId": "A", "datasource": source, "expr": panel.query, "legendFormat": panel.legend}],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    return run_command(lambda: print_dashboard(arguments))


def print_dashboard(arguments: Sequence[str] | None) -> None:
    """Prints the dashboard; `arguments` are those of this process if None."""
    parse_words(build_parser(), arguments)
    sys.stdout.write(json.dumps(dashboard(), indent=2) + "\n")


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser."""
    return new_parser("python sweeps/grafana.py", "> FILE", DESCRIPTION, EXAMPLES)


if __name__ == "__main__":
    sys.exit(main())
