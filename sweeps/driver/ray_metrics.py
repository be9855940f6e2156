"""The metrics of a sweep in Ray: what Prometheus and Grafana get from the cluster, and Ray's dashboard with them.

The driver sets them for trials that run. Ray stops exporting a value that is not set again for two of its report
intervals (10 s each), so that trials which have ended leave no label values behind.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ray.util.metrics import Gauge

from mtlib.tasks import value_of
from mtlib.training.epoch_report import STEPS, TOKENS
from results.records.trials import STATUSES, best_trial
from sweeps.driver.ledger import Ledger
from sweeps.lanes.channel import Event

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


@dataclass(kw_only=True)
class LaneProgress:
    """What the metrics need to know of a trial that runs."""

    lane: str
    progress: Mapping[str, Any] = field(default_factory=dict)
    """Facts of its newest progress."""
    counts_before: Mapping[str, int] = field(default_factory=dict)
    """`counts` when the values were last set."""
    means: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """By task and term."""

    @property
    def counts(self) -> dict[str, int]:
        """Rows and tokens that it has trained; none before its first progress."""
        return {kind: self.progress[f"num_{kind}"] for kind in ("rows", "tokens") if self.progress}


class SweepMetrics:
    """Keeps Ray's metrics of a sweep up to date by its events."""

    def __init__(self) -> None:
        self._gauges = {name: Gauge(name, text, tag_keys=labels) for name, (text, labels) in GAUGES.items()}
        self._trials: dict[str, LaneProgress] = {}
        self._set_at = 0.0
        """When the values were last set, on the monotonic clock."""

    def on_event(self, event: Event, ledger: Ledger) -> None:
        """Takes note of an event, and sets all values if they were last set a while ago."""
        note(self._trials, event)
        seconds = time.monotonic() - self._set_at
        if seconds < SET_SECONDS:
            return
        self._set_at += seconds
        sweep = ledger.plan.options.name
        for name, labels, value in metric_values(ledger, self._trials, seconds):
            self._gauges[name].set(value, {"sweep": sweep, **labels})
        for trial in self._trials.values():
            trial.counts_before = trial.counts


def note(trials: dict[str, LaneProgress], event: Event) -> None:
    """Updates what is known of the running trials by an event."""
    name = str(event.trial_id)
    if event.kind in ("started", "resumed"):
        trials[name] = LaneProgress(lane=str(event.lane))
    elif event.kind in ("ended", "requeued"):
        trials.pop(name, None)
    elif event.kind == "progress" and name in trials:
        trials[name].progress = event.facts
    elif event.kind == "report" and name in trials:
        trials[name].means = {
            (point["task"], point["metric"]): point["value"]
            for point in event.facts["points"]
            if point["split"] == "train" and point["metric"] not in (TOKENS, STEPS)
        }


def metric_values(
    ledger: Ledger, trials: Mapping[str, LaneProgress], seconds: float
) -> Iterator[tuple[str, dict[str, str], float]]:
    """Name, labels but the sweep's, and value of each metric, `seconds` after the last time."""
    tasks, counts, metric = ledger.plan.tasks, ledger.counts, ledger.plan.space.metric
    best = best_trial(list(ledger.records.values()), metric)
    for status in STATUSES:
        yield "sweep_trials", {"status": status}, counts.get(status, 0)
    yield "sweep_lanes", {}, len(ledger.lanes)
    if best is not None:
        yield "sweep_best_score", {}, value_of(metric, best.best[metric], tasks)
    for name, trial in trials.items():
        labels, progress = {"trial": name, "lane": trial.lane}, trial.progress
        for task, score in ledger.records[name].last.items():
            yield "sweep_dev_score", {**labels, "task": task}, value_of(task, score, tasks)
        for (task, term), value in trial.means.items():
            yield "sweep_train_mean", {**labels, "task": task, "term": term}, value
        if progress:
            yield "sweep_learning_rate", labels, progress["learning_rate"]
            yield "sweep_steps_done", labels, progress["step"]
            yield "sweep_steps_left", labels, progress["num_steps"] - progress["step"]
            yield "sweep_peak_memory_bytes", labels, progress["peak_memory_bytes"]
        for kind, before in trial.counts_before.items():
            yield f"sweep_{kind}_per_second", labels, (trial.counts[kind] - before) / seconds
