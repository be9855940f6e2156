"""A Tune trial: a light function that hands its configuration to a lane and passes the lane's reports to Tune.

It holds no device, and this file imports no torch, so that its process starts fast. Verdicts do not come this way:
the sweep's callback gives them to the mailbox as soon as the scheduler has decided.
"""

from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray import tune
from ray.actor import ActorHandle

from sweeps.cluster.ray_internals import HEAD_NODE_RESOURCES
from sweeps.lanes.messages import TrialEnd


class TrialFailed(RuntimeError):  # noqa: N818 - says what happened
    """The trial ended on its lane without a result."""


def trial_function(mailbox: ActorHandle[Any]) -> Callable[[dict[str, Any]], None]:
    """The function that Tune runs for every trial, with the little it needs of the cluster."""

    def trial(config: dict[str, Any]) -> None:
        forward_reports(mailbox, config["trial_id"], config["config"], config["title"])

    return tune.with_resources(trial, HEAD_NODE_RESOURCES)  # type: ignore[no-any-return]


def forward_reports(mailbox: ActorHandle[Any], trial_id: str, config: str, title: str) -> None:
    """Submits a trial and reports to Tune until it has ended.

    Args:
        mailbox: the sweep's mailbox.
        trial_id: the trial.
        config: its configuration, as JSON.
        title: name of the calls in Ray's dashboard, one call per epoch.

    Raises:
        TrialFailed: the trial failed or was interrupted.
    """
    ray.get(mailbox.submit.remote(trial_id, config))
    while True:
        message = ray.get(mailbox.next_report.options(name=title).remote(trial_id))
        if isinstance(message, TrialEnd):
            break
        tune.report(tune_metrics(message))
    if message.status in ("failed", "interrupted"):
        raise TrialFailed(message.error or message.status)


def tune_metrics(report: Mapping[str, Any]) -> dict[str, Any]:
    """What Tune's schedulers and searchers see of a report: `epoch` counts from the first overall score."""
    return {
        "epoch": report["scored_epoch"],
        "trained_epochs": report["epoch"],
        "best": report["best"],
        "is_last": report["is_last"],
    }
