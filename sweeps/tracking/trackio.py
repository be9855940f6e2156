"""Trackio, by its usual variables: TRACKIO_DIR, TRACKIO_SPACE_ID, TRACKIO_SERVER_URL, ..."""

import contextlib
import contextvars
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import trackio

from sweeps.tracking.tracker import PROJECT_NAME, TrackedRun, TrackedSweep


class Trackio:
    """A run of each trial in the sweep's group, and one of the sweep with the answer."""

    def __init__(self, sweep: TrackedSweep, note: Callable[[str], None]) -> None:
        self._sweep = sweep
        note(f"Trackio: trackio show --project {PROJECT_NAME}")
        self._runs: dict[str, trackio.Run] = {}
        self._steps: dict[str, int] = {}
        """The last step of each open run."""

    def begin(self, trial: TrackedRun) -> bool:
        """Opens the trial's run."""
        if trial.id not in self._runs:
            self._runs[trial.id] = self._open(trial.id, {**trial.settings, "config": trial.config})
        return False  # Trackio does not say whether it is new

    def discard(self, trial: TrackedRun) -> None:
        """Deletes the trial's run on this machine; on a Space or a server it stays, with the status `replaced`."""
        if trial.id in self._runs:  # an attempt that failed may have ended it
            self.end(trial, "replaced", {})
        with contextlib.suppress(ValueError):  # the project is not on this machine
            for run in trackio.Api().runs(PROJECT_NAME):
                if run.name == trial.id:
                    run.delete()

    def log(self, trial: TrackedRun, step: int, values: Mapping[str, float]) -> None:
        """Adds a row."""
        self._runs[trial.id].log(dict(values), step=step)
        self._steps[trial.id] = step

    def end(self, trial: TrackedRun, status: str, values: Mapping[str, float]) -> None:
        """Adds best scores and status, and waits until all is sent."""
        if status != "interrupted":
            self._runs[trial.id].log({**values, "status": status}, step=self._steps.pop(trial.id, 0))
        self._runs.pop(trial.id).finish()

    def finish(self, answer: str, files: Sequence[Path]) -> None:  # noqa: ARG002
        """Adds a run of the sweep with the answer; Trackio keeps no files of a local project."""
        run = self._open(self._sweep.id, {"question": self._sweep.question})
        run.log({"answer": trackio.Markdown(answer)})
        run.finish()

    def _open(self, name: str, config: Mapping[str, Any]) -> trackio.Run:
        """Returns a run that stays open beside others: Trackio finishes the last one of the same context."""
        return contextvars.Context().run(
            trackio.init,
            project=PROJECT_NAME,
            name=name,
            group=self._sweep.name,
            config=dict(config),
            resume="allow",
            embed=False,
            auto_log_cpu=False,
            auto_log_gpu=False,
        )
