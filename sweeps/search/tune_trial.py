"""A Tune trial: a light process that fetches a trial's scored epochs from the table of trials for Tune.

It holds no device, and this file imports no torch, so that it starts fast and is reused for the next trial. The
scheduler's verdicts do not pass through it: a callback of Tune (`sweeps.search.tune_run`) tells them to the table.
"""

from collections.abc import Mapping
from typing import Any

import ray
from ray import tune

from sweeps.driver.trials.messages import Message
from sweeps.lanes.channel import channel_name

HEAD_NODE = {"CPU": 0, "node:__internal_head__": 0.001}
"""Resources of the process: a negligible share of the head node's marker, as Tune rejects an empty request."""


class TuneTrial(tune.Trainable):  # type: ignore[misc]
    """Returns a scored epoch of its trial at each step, the last time its end."""

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:  # noqa: ARG003
        """Returns what Tune reserves for the process.
        A wrapper of Tune would show under its own name in Ray's dashboard."""
        return tune.PlacementGroupFactory([HEAD_NODE])

    def __repr__(self) -> str:
        """Its name in Ray's dashboard, which asks once: the sweep, as the process is reused for other trials."""
        return f"{self.sweep} search"

    def setup(self, config: dict[str, Any]) -> None:
        """Tune has started the process, or restarted it: then all reports come again."""
        self.sweep = config["sweep"]
        self.channel = ray.get_actor(channel_name(self.sweep))
        self.begin(config["trial"])

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Tune hands the next trial to the process; its own `config` is the new one already."""
        self.begin(new_config["trial"])
        return True

    def begin(self, trial: Mapping[str, Any]) -> None:
        """Begins with a trial, which the table knows since it was suggested."""
        self.name, self.num_seen = str(trial["trial_id"]), 0
        self.title = " ".join((self.name, ", ".join(f"{key}={value}" for key, value in trial["params"].items())))

    def step(self) -> dict[str, Any]:
        """Waits for the trial's next scored epoch, or its end. Ray's dashboard shows the trial in the call's name."""
        call = self.channel.ask.options(name=self.title)
        message = Message(kind="wants_report", trial_id=self.name, facts={"num_seen": self.num_seen})
        report: dict[str, Any] = ray.get(call.remote(message))
        self.num_seen += 1
        return report

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Nothing: the trial's folder holds its state."""

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Nothing."""
