"""MLflow, by its usual variables: MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME, MLFLOW_TRACKING_TOKEN, ...

The sweep is a run that has the answer and the files; the run of each trial is nested in it.
"""

import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from sweeps.tracking.tracker import PROJECT_NAME, TrackedRun, TrackedSweep, tracker_folder

PARENT_TAG = "mlflow.parentRunId"
"""By which MLflow nests runs."""
ID_TAG = "multitask_sweeps.id"
"""By which a run is found again."""
RUN_STATUSES = {"failed": "FAILED", "interrupted": "KILLED"}
"""MLflow's words for how a trial ended, where that is not FINISHED."""


class MLflow:
    """Uses MLflow's client, which has no current run."""

    def __init__(self, sweep: TrackedSweep, note: Callable[[str], None]) -> None:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT_NAME)
        uri, files = os.environ.get("MLFLOW_TRACKING_URI"), None
        what = f"MLflow: the sweep is a run of experiment {name}"
        if uri is None:  # not in the working folder, which of a submitted job is a copy that Ray deletes
            own = tracker_folder()
            uri, files = f"sqlite:///{own / 'mlflow.db'}", (own / "mlruns").as_uri()
            what += f"; to see it: mlflow ui --backend-store-uri {shlex.quote(uri)}"
        note(what)
        self._sweep, self._client = sweep, MlflowClient(uri)
        found = self._client.get_experiment_by_name(name)
        self._experiment = found.experiment_id if found else self._client.create_experiment(name, files)
        self._runs: dict[str, str] = {}
        """MLflow's id of each run, by ours."""
        self._steps: dict[str, int] = {}
        """The last step of each run."""
        self._open(sweep.id, sweep.name, {"question": sweep.question})

    def begin(self, trial: TrackedRun) -> None:
        """Opens the trial's run, with searched values as parameters and the configuration as a file."""
        tags = {"sweep": self._sweep.name, PARENT_TAG: self._runs[self._sweep.id]}
        if self._open(trial.id, trial.name, tags):
            params = [Param(key, str(value)) for key, value in trial.settings.items() if key != "question"]
            self._client.log_batch(self._runs[trial.id], params=params)
            self._client.log_dict(self._runs[trial.id], dict(trial.config), "config.json")

    def log(self, trial: TrackedRun, step: int, values: Mapping[str, float]) -> None:
        """Adds points to the run's metrics."""
        now = int(1000 * time.time())
        metrics = [Metric(name, value, now, step) for name, value in values.items()]
        self._client.log_batch(self._runs[trial.id], metrics=metrics)
        self._steps[trial.id] = step

    def end(self, trial: TrackedRun, status: str, values: Mapping[str, float]) -> None:
        """Adds best scores and status, and ends the run."""
        run = self._runs[trial.id]
        if status != "interrupted":
            now, step = int(1000 * time.time()), self._steps.get(trial.id, 0)
            self._client.log_batch(run, metrics=[Metric(name, value, now, step) for name, value in values.items()])
        self._client.set_tag(run, "status", status)
        self._client.set_terminated(run, RUN_STATUSES.get(status, "FINISHED"))

    def finish(self, answer: str, files: Sequence[Path]) -> None:
        """Adds the answer and the files to the sweep's run, and ends it."""
        run = self._runs[self._sweep.id]
        self._client.log_text(run, answer, "answer.txt")
        for path in files:
            self._client.log_artifact(run, str(path))
        self._client.set_terminated(run)

    def _open(self, own_id: str, name: str, tags: Mapping[str, str]) -> bool:
        """Finds the run with this id, or creates it; whether it is new."""
        if own_id in self._runs:
            return False
        found = self._client.search_runs([self._experiment], f"tags.`{ID_TAG}` = '{own_id}'", max_results=1)
        if found:
            self._runs[own_id] = found[0].info.run_id
            self._client.update_run(found[0].info.run_id, status="RUNNING")
            return False
        run = self._client.create_run(self._experiment, run_name=name, tags={**tags, ID_TAG: own_id})
        self._runs[own_id] = run.info.run_id
        return True
