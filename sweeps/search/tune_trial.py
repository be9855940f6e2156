"""A Tune trial: a light function that hands its configuration to a lane and passes the lane's reports to Tune.

It holds no device, and this file imports no torch, so that its process starts fast. The scheduler's decisions do not
pass through it: a callback of Tune (`sweeps.search.tune_run`) gives them to the mailbox.
"""

from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray import tune
from ray.actor import ActorHandle

from sweeps.cluster.ray_internals import HEAD_NODE_RESOURCES
from sweeps.lanes.messages import BEST_PREFIX, TrialEnd


class TrialFailed(RuntimeError):  # noqa: N818 - says what happened
    """The trial failed or was interrupted on its lane."""


def trial_function(mailbox: ActorHandle[Any]) -> Callable[[dict[str, Any]], None]:
    """The function that Tune runs for every trial, with the little it needs of the cluster."""

    def trial(config: dict[str, Any]) -> None:
        forward_reports(mailbox, config)

    return tune.with_resources(trial, HEAD_NODE_RESOURCES)  # type: ignore[no-any-return]


def forward_reports(mailbox: ActorHandle[Any], suggested: Mapping[str, str]) -> None:
    """Submits a trial, as the searcher suggests it, and reports to Tune until it has ended; raises TrialFailed.

    Ray's dashboard shows the trial's title, in one call per epoch.
    """
    trial_id = suggested["trial_id"]
    ray.get(mailbox.submit.remote(trial_id, suggested["config"]))
    while True:
        message = ray.get(mailbox.next_report.options(name=suggested["title"]).remote(trial_id))
        if isinstance(message, TrialEnd):
            break
        tune.report(tune_metrics(message))
    if message.status in ("failed", "interrupted"):
        raise TrialFailed(message.error or message.status)


def tune_metrics(report: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics that Tune's schedulers and searchers get; `epoch` counts overall scores."""
    bests = {f"{BEST_PREFIX}{name}": score for name, score in report["bests"].items()}
    return {
        **bests,
        "epoch": report["scored_epoch"],
        "trained_epochs": report["epoch"],
        "best": report["best"],
        "is_last": report["is_last"],
    }
