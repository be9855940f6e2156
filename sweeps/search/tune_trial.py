"""A Tune trial: a light process that hands its trial to the channel and the lane's reports to Tune.

It holds no device, and this file imports no torch, so that it starts fast and is reused for the next trial. The
scheduler's verdicts do not pass through it: a callback of Tune (`sweeps.search.tune_run`) gives them to the channel.
"""

from collections.abc import Mapping
from typing import Any

import ray
from ray import tune

from sweeps.lanes.channel import BEST_PREFIX, channel_name

HEAD_NODE = {"CPU": 0, "node:__internal_head__": 0.001}
"""Resources of the process: a negligible share of the head node's marker, as Tune rejects an empty request."""


class TuneTrial(tune.Trainable):  # type: ignore[misc]
    """Submits a trial, and returns a scored epoch of it at each step, the last time its end."""

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:  # noqa: ARG003
        """Returns what Tune reserves for the process.
        A wrapper of Tune would show under its own name in Ray's dashboard."""
        return tune.PlacementGroupFactory([HEAD_NODE])

    def __repr__(self) -> str:
        """Its name in Ray's dashboard, which asks once: the sweep, as the process is reused for other trials."""
        return f"{self.sweep} search"

    def setup(self, config: dict[str, Any]) -> None:
        """Tune has started the process, or restarted it: then the channel knows the trial, and repeats its reports."""
        self.sweep = config["sweep"]
        self.channel = ray.get_actor(channel_name(self.sweep))
        self.submit(config["trial"])

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Tune hands the next trial to the process; its own `config` is the new one already."""
        self.submit(new_config["trial"])
        return True

    def submit(self, trial: Mapping[str, Any]) -> None:
        """Hands a trial to the channel."""
        self.name, self.num_seen = str(trial["trial_id"]), 0
        self.title = " ".join((self.name, ", ".join(f"{key}={value}" for key, value in trial["params"].items())))
        ray.get(self.channel.submit.remote(dict(trial)))

    def step(self) -> dict[str, Any]:
        """Waits for the trial's next scored epoch, or its end. Ray's dashboard shows the trial in the call's name."""
        call = self.channel.next_report.options(name=self.title)
        report = ray.get(call.remote(self.name, self.num_seen))
        self.num_seen += 1
        return tune_metrics(report)

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Nothing: the trial's folder holds its state."""

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Nothing."""


def tune_metrics(report: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the metrics that Tune's schedulers and searchers get;
    `epoch` counts overall scores, `done` is a trial's end."""
    bests = {f"{BEST_PREFIX}{name}": score for name, score in report.get("bests", {}).items()}
    return {
        **bests,
        "epoch": report.get("scored_epoch", 0),
        "trained_epochs": report.get("epoch", 0),
        "best": report.get("best", float("-inf")),
        "is_last": report.get("is_last", False),
        "status": report.get("status", ""),
        "error": report.get("error"),
        "done": "status" in report,
    }
