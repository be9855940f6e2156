"""The run of Ray Tune, in a thread of the driver: it suggests trials and decides on their reports."""

from pathlib import Path
from typing import Any

from ray import tune
from ray.actor import ActorHandle
from ray.tune.schedulers import TrialScheduler

from sweeps.cluster.connection import BackgroundRun
from sweeps.cluster.ray_internals import patient_tune
from sweeps.search.searcher import SweepSearcher
from sweeps.search.tune_trial import trial_function


class DecisionCallback(tune.Callback):  # type: ignore[misc]
    """Passes each decision of the scheduler to the lane that waits for it, without the detour over the trial."""

    def __init__(self, mailbox: ActorHandle[Any]) -> None:
        self._mailbox = mailbox

    def on_trial_result(self, *, trial: Any, result: dict[str, Any], **_info: Any) -> None:
        """Tune marks a report as done if the scheduler stops the trial."""
        self._mailbox.set_decision.remote(trial.config["trial_id"], result["trained_epochs"], bool(result["done"]))

    def on_trial_error(self, *, trial: Any, **_info: Any) -> None:
        """Tune has given up the trial, so its lane must end it."""
        self._mailbox.cancel_trial.remote(trial.config["trial_id"], "its process in Ray Tune died")


def start_tune(
    mailbox: ActorHandle[Any], searcher: SweepSearcher, scheduler: TrialScheduler, storage: Path
) -> BackgroundRun:
    """Starts Tune; its own files go into `storage`, where nothing reads them."""
    tuner = tune.Tuner(
        trial_function(mailbox),
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            scheduler=scheduler,
            num_samples=-1,
            reuse_actors=True,
            trial_name_creator=trial_name,
            trial_dirname_creator=trial_name,
        ),
        run_config=tune.RunConfig(
            name="trials", storage_path=str(storage), verbose=0, callbacks=[DecisionCallback(mailbox)]
        ),
    )

    def fit() -> None:
        with patient_tune():
            tuner.fit()

    return BackgroundRun(fit, "search")


def trial_name(trial: Any) -> str:
    """Tune's name of a trial is ours."""
    return str(trial.config["trial_id"])
