"""The run of Ray Tune, in a thread of the driver: it suggests trials and decides on their reports."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.fs as fs
from ray import tune
from ray.tune.schedulers import TrialScheduler

from results.records.trial_folder import TrialEnd, write_end
from sweeps.cluster.background_run import BackgroundRun
from sweeps.driver.trials.messages import Message
from sweeps.search.searcher import SweepSearcher
from sweeps.search.tune_trial import TuneTrial

MAX_DEATHS = 20
"""Deaths of one trial's process in Tune, which holds nothing, after which Ray itself must be broken."""


class VerdictCallback(tune.Callback):  # type: ignore[misc]
    """Tells the table each verdict of the scheduler.

    It alone writes the end of a pruned trial, before the lane hears of it: so an end on record is never in doubt.
    """

    def __init__(self, tell: Callable[[Message], None], root: fs.SubTreeFileSystem) -> None:
        self._tell, self._root = tell, root

    def on_trial_result(self, *, trial: Any, result: dict[str, Any], **_info: Any) -> None:
        """Tune marks a report as done if the scheduler stops the trial; a trial's end has a status."""
        if result["status"]:
            return
        trial_id, epoch = trial.config["trial"]["trial_id"], result["trained_epochs"]
        if result["done"]:
            write_end(self._root, trial_id, TrialEnd(how="pruned", epochs=epoch, time=time.time()))
        self._tell(Message(kind="verdict", trial_id=trial_id, facts={"epoch": epoch, "stop": bool(result["done"])}))

    def __getstate__(self) -> dict[str, Any]:
        """Nothing for Tune's own snapshot, which is never read."""
        return {}

    def on_trial_error(self, *, trial: Any, **_info: Any) -> None:
        """Tune has given up a trial's process, which has died `MAX_DEATHS` times."""
        why = f"Ray Tune could not keep a process for {trial.config['trial']['trial_id']}"
        self._tell(Message(kind="tune_failed", facts={"why": why}))


class SweepStopper(tune.Stopper):  # type: ignore[misc]
    """Ends Tune once the sweep is stopped."""

    def __init__(self) -> None:
        self._is_stopped = threading.Event()

    def stop(self) -> None:
        """Lets Tune end, whatever its trials do."""
        self._is_stopped.set()

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:  # noqa: ARG002
        """Returns whether a trial stops after a report: that is the scheduler's verdict alone."""
        return False

    def stop_all(self) -> bool:
        """Returns whether Tune ends."""
        return self._is_stopped.is_set()

    def __getstate__(self) -> dict[str, Any]:
        """Nothing for Tune's own snapshot, which is never read."""
        return {}


def start_tune(
    tell: Callable[[Message], None],
    searcher: SweepSearcher,
    scheduler: TrialScheduler,
    stopper: SweepStopper,
    root: fs.SubTreeFileSystem,
    scratch: Path,
) -> BackgroundRun:
    """Starts Tune, whose verdicts `tell` the table of trials; its own files go into `scratch`, where nothing reads
    them; ends of pruned trials go into `root`."""
    tuner = tune.Tuner(
        TuneTrial,
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            scheduler=scheduler,
            num_samples=-1,  # the searcher ends the run
            reuse_actors=True,  # an actor takes a second or more to start, and a light trial has no state of its own
            trial_name_creator=trial_name,
            trial_dirname_creator=trial_name,
        ),
        run_config=tune.RunConfig(
            name="trials",
            storage_path=str(scratch),
            verbose=0,
            callbacks=[VerdictCallback(tell, root)],
            stop=stopper,
            failure_config=tune.FailureConfig(max_failures=MAX_DEATHS),
        ),
    )
    return BackgroundRun(tuner.fit, "search")


def trial_name(trial: Any) -> str:
    """Tune's name of a trial is ours."""
    return str(trial.config["trial"]["trial_id"])
