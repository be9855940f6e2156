"""The metrics of a sweep in Ray: what Prometheus and Grafana get from the cluster, and Ray's dashboard with them.

The driver sets them for trials that run. Ray stops exporting a value that is not set again for two of its report
intervals (10 s each), so that trials which have ended leave no label values behind.
"""

import time
from collections.abc import Iterable, Iterator, Mapping

from ray.util.metrics import Gauge

from mtlib.tasks import Task, value_of
from mtlib.training.epoch_report import STEPS, TOKENS
from results.records.trials import STATUSES, best_trial
from sweeps.driver.trials.table import TrialRow, TrialTable

SET_SECONDS = 5.0
"""Between two settings of all values."""
TRIAL_LABELS = ("sweep", "trial", "lane")
"""Labels of what a running trial has."""
GAUGES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "sweep_trials": ("Trials by status.", ("sweep", "status")),
    "sweep_lanes": ("Open lanes.", ("sweep",)),
    "sweep_best_score": ("Highest dev score so far, by what the search maximises, as rankings show it.", ("sweep",)),
    "sweep_dev_score": ("Newest dev score of a task or overall, as rankings show it.", (*TRIAL_LABELS, "task")),
    "sweep_train_mean": (
        "Mean of a term (loss, penalty, norm of gradients) over the batches of the newest epoch.",
        (*TRIAL_LABELS, "task", "term"),
    ),
    "sweep_learning_rate": ("Highest learning rate of any parameter.", TRIAL_LABELS),
    "sweep_rows_per_second": ("Train rows a second, of all workers of the trial; 0 while it evaluates.", TRIAL_LABELS),
    "sweep_tokens_per_second": ("Tokens of these rows, without padding.", TRIAL_LABELS),
    "sweep_steps_done": ("Optimizer steps done.", TRIAL_LABELS),
    "sweep_steps_left": ("Optimizer steps to the trial's end.", TRIAL_LABELS),
    "sweep_peak_memory_bytes": ("Peak memory of rank 0 so far, on the GPU, else of its process.", TRIAL_LABELS),
}
"""Description and labels of each. Ray puts `ray_` before the names."""


class SweepMetrics:
    """Keeps Ray's metrics of a sweep up to date."""

    def __init__(self, table: TrialTable) -> None:
        self._table = table
        self._gauges = {name: Gauge(name, text, tag_keys=labels) for name, (text, labels) in GAUGES.items()}
        self._set_at = 0.0
        """When the values were last set, on the monotonic clock."""
        self._counts: dict[tuple[str, int], Mapping[str, int]] = {}
        """Rows and tokens that each trial that runs, by its id and attempt, had trained then."""

    def update(self) -> None:
        """Sets all values if they were last set a while ago."""
        seconds = time.monotonic() - self._set_at
        if seconds < SET_SECONDS:
            return
        self._set_at += seconds
        with self._table.lock:
            running = [row for row in self._table.rows.values() if row.progress is not None]
            values = [*sweep_values(self._table), *trial_values(running, self._table.plan.tasks)]
            for row in running:
                for kind, before in self._counts.get((row.trial_id, row.attempt), {}).items():
                    values.append(
                        (f"sweep_{kind}_per_second", labels_of(row), (counts_of(row)[kind] - before) / seconds)
                    )
            self._counts = {(row.trial_id, row.attempt): counts_of(row) for row in running}
        for name, labels, value in values:
            self._gauges[name].set(value, {"sweep": self._table.plan.options.name, **labels})


MetricValue = tuple[str, dict[str, str], float]
"""Name of a metric, its labels but the sweep's, and its value."""


def sweep_values(table: TrialTable) -> Iterator[MetricValue]:
    """Yields the metrics of the sweep as a whole."""
    counts, metric = table.counts, table.plan.space.metric
    best = best_trial(list(table.records.values()), metric)
    for status in STATUSES:
        yield "sweep_trials", {"status": status}, counts.get(status, 0)
    yield "sweep_lanes", {}, len(table.open_lanes)
    if best is not None:
        yield "sweep_best_score", {}, value_of(metric, best.best[metric], table.plan.tasks)


def trial_values(running: Iterable[TrialRow], tasks: Mapping[str, Task]) -> Iterator[MetricValue]:
    """Yields the metrics of the trials that run."""
    for row in running:
        labels, progress = labels_of(row), row.progress or {}
        for task, score in row.record.last.items():
            yield "sweep_dev_score", {**labels, "task": task}, value_of(task, score, tasks)
        for point in row.points:
            if point["metric"] not in (TOKENS, STEPS):
                terms = {"task": point["task"], "term": point["metric"]}
                yield "sweep_train_mean", {**labels, **terms}, point["value"]
        if "step" in progress:
            yield "sweep_learning_rate", labels, progress["learning_rate"]
            yield "sweep_steps_done", labels, progress["step"]
            yield "sweep_steps_left", labels, progress["num_steps"] - progress["step"]
            yield "sweep_peak_memory_bytes", labels, progress["peak_memory_bytes"]


def labels_of(row: TrialRow) -> dict[str, str]:
    """Returns the labels of a trial's metrics, but the sweep's."""
    return {"trial": row.trial_id, "lane": str(row.lane)}


def counts_of(row: TrialRow) -> dict[str, int]:
    """Returns the rows and tokens that a trial has trained; nothing before its first progress."""
    progress = row.progress or {}
    return {kind: progress[f"num_{kind}"] for kind in ("rows", "tokens") if f"num_{kind}" in progress}
