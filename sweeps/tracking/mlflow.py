"""MLflow, by its usual variables: MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME, MLFLOW_TRACKING_TOKEN, ...

The sweep is a run that has the answer and the files; the run of each trial is nested in it.
"""

import math
import os
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag

from sweeps.tracking.tracker import NAME_LETTERS, PROJECT_NAME, TrackedRun, TrackedSweep, allowed_name, tracker_folder

PARENT_TAG = "mlflow.parentRunId"
"""By which MLflow nests runs."""
ID_TAG = "multitask_sweeps.id"
"""By which a run is found again."""
RUN_STATUSES = {"failed": "FAILED", "interrupted": "KILLED"}
"""MLflow's words for how a trial ended, where that is not FINISHED."""
MLFLOW_FORBIDDEN = re.compile(r"[^/\w.\- ]|^[/.]|/(?=[/.]|$)")
"""What names of parameters, metrics and tags must not have: MLflow takes them for paths of files, on Windows too."""
PARAM_LETTERS, PARAMS_AT_ONCE = 6000, 100
"""The most letters of a parameter's value, which MLflow cuts, and the most parameters of a request."""


class MLflow:
    """Uses MLflow's client, which has no current run."""

    def __init__(self, sweep: TrackedSweep, note: Callable[[str], None]) -> None:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT_NAME)
        uri, files = os.environ.get("MLFLOW_TRACKING_URI"), None
        for variable, value in (("MAX_RETRIES", "1"), ("TIMEOUT", "10")):  # else it is silent for minutes
            os.environ.setdefault(f"MLFLOW_HTTP_REQUEST_{variable}", value)
        what = f"MLflow: the sweep is a run of experiment {name}"
        if uri is None:  # not in the working folder, which of a submitted job is a copy that Ray deletes
            own = tracker_folder()
            uri, files = f"sqlite:///{own / 'mlflow.db'}", (own / "mlruns").as_uri()
            what += f"; to see it: mlflow ui --backend-store-uri {shlex.quote(uri)}"
        self._sweep, self._client = sweep, MlflowClient(uri)
        found = self._client.get_experiment_by_name(name)
        self._experiment = found.experiment_id if found else self._client.create_experiment(name, files)
        self._runs: dict[str, str] = {}
        """MLflow's id of each run, by ours."""
        self._steps: dict[str, int] = {}
        """The last step of each run."""
        self._open(sweep.id, sweep.name, {"question": sweep.question})
        note(what)  # once the server has answered: it may be asked again and again

    def begin(self, trial: TrackedRun) -> bool:
        """Opens the trial's run, with searched values as parameters and the configuration as a file.

        `settings.json` has the settings as they are where parameters have other names or shorter values.
        """
        tags = {"sweep": self._sweep.name, PARENT_TAG: self._runs[self._sweep.id]}
        self._open(trial.id, trial.name, tags)
        run, texts = self._runs[trial.id], {key: str(value) for key, value in trial.settings.items()}
        del texts["question"]
        params = [Param(allowed_name(key, MLFLOW_FORBIDDEN), text) for key, text in texts.items()]
        data = self._client.get_run(run).data
        missing = [param for param in params if param.key not in data.params]  # some, after an attempt that failed
        if missing:
            self._client.log_dict(run, dict(trial.config), "config.json")
            if any(param.key not in texts or len(param.value) > PARAM_LETTERS for param in params):
                self._client.log_dict(run, dict(trial.settings), "settings.json")
        for first in range(0, len(missing), PARAMS_AT_ONCE):
            self._client.log_batch(run, params=missing[first : first + PARAMS_AT_ONCE])
        return not data.metrics

    def discard(self, trial: TrackedRun) -> None:
        """Deletes the trial's run, which MLflow can restore."""
        self._client.delete_run(self._runs[trial.id])
        del self._runs[trial.id]

    def log(self, trial: TrackedRun, step: int, values: Mapping[str, float]) -> None:
        """Adds points to the run's metrics; infinite ones become tags, as MLflow would keep 1.8e308."""
        now, metrics, tags = int(1000 * time.time()), list[Metric](), list[RunTag]()
        for name, value in values.items():
            key = allowed_name(name, MLFLOW_FORBIDDEN)
            if math.isinf(value):
                tags.append(RunTag(f"{key} at step {step}"[-NAME_LETTERS:], str(value)))
            else:
                metrics.append(Metric(key, value, now, step))
        self._client.log_batch(self._runs[trial.id], metrics=metrics, tags=tags)
        self._steps[trial.id] = step

    def end(self, trial: TrackedRun, status: str, values: Mapping[str, float]) -> None:
        """Adds best scores and status, and ends the run."""
        run = self._runs[trial.id]
        if status != "interrupted":
            self.log(trial, self._steps.get(trial.id, 0), values)
        self._client.set_tag(run, "status", status)
        self._client.set_terminated(run, RUN_STATUSES.get(status, "FINISHED"))

    def finish(self, answer: str, files: Sequence[Path]) -> None:
        """Adds the answer and the files to the sweep's run, and ends it."""
        run = self._runs[self._sweep.id]
        self._client.log_text(run, answer, "answer.txt")
        for path in files:
            self._client.log_artifact(run, str(path))
        self._client.set_terminated(run)

    def _open(self, own_id: str, name: str, tags: Mapping[str, str]) -> None:
        """Finds the run with this id, or creates it, unless it is open."""
        if own_id in self._runs:
            return
        found = self._client.search_runs([self._experiment], f"tags.`{ID_TAG}` = '{own_id}'", max_results=1)
        if found:
            self._runs[own_id] = found[0].info.run_id
            self._client.update_run(found[0].info.run_id, status="RUNNING")
        else:
            run = self._client.create_run(self._experiment, run_name=name, tags={**tags, ID_TAG: own_id})
            self._runs[own_id] = run.info.run_id
