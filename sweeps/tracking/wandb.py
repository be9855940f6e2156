"""Weights & Biases, by its usual variables: WANDB_API_KEY, WANDB_PROJECT, WANDB_ENTITY, WANDB_MODE, WANDB_DIR, ...

A run of each trial is in the sweep's group, and its type is the configuration; one further run of the sweep has the
answer and the files. Without a login, runs are kept offline, for `wandb sync`. That sends one folder of a run in place
of another, so a run that goes on offline is kept whole in a new folder.
"""

import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import wandb

from sweeps.tracking.tracker import PROJECT_NAME, TrackedRun, TrackedSweep, tracker_folder


class Wandb:
    """Several runs at a time, without W&B's own record of machine, code, paths and output."""

    def __init__(self, sweep: TrackedSweep, note: Callable[[str], None]) -> None:
        self._sweep = sweep
        self._runs: dict[str, wandb.Run] = {}
        # Before the login, which fixes it. The working folder of a submitted job is a copy that Ray deletes.
        self._folder = Path(os.environ.setdefault("WANDB_DIR", str(tracker_folder())), "wandb")
        self._mode: Literal["offline"] | None = (
            None if "WANDB_MODE" in os.environ or wandb.login(prompt=False) else "offline"
        )
        self._is_offline = "offline" in (self._mode, os.environ.get("WANDB_MODE"))
        if self._is_offline:
            note(f"W&B: runs are kept offline; to send them: wandb sync {shlex.quote(str(self._folder))}/offline-run-*")

    def begin(self, trial: TrackedRun) -> bool:
        """Opens the trial's run."""
        if trial.name not in self._runs:
            self._delete_offline(trial)
            self._runs[trial.name] = self._open(
                id=trial.id,
                name=trial.name,
                job_type=f"configuration {trial.settings['configuration']:04}",
                config={**trial.settings, "config": trial.config},
            )
        return self._is_offline or not self._runs[trial.name].resumed

    def discard(self, trial: TrackedRun) -> None:
        """Deletes the folders of a run that is offline. Any other stays, `(replaced)`: W&B's steps only rise."""
        if trial.name in self._runs:  # an attempt that failed may have ended it
            self._runs[trial.name].name = f"{trial.name} (replaced)"
            self.end(trial, "interrupted", {})
        self._delete_offline(trial)

    def log(self, trial: TrackedRun, step: int, values: Mapping[str, float]) -> None:
        """Adds a row to the run's history."""
        self._runs[trial.name].log(dict(values), step=step)

    def end(self, trial: TrackedRun, status: str, values: Mapping[str, float]) -> None:
        """Adds best scores and status to the summary; W&B shows an interrupted or failed trial as failed."""
        run = self._runs[trial.name]
        run.summary.update({**values, "status": status})
        run.finish(exit_code=int(status in ("failed", "interrupted")))
        del self._runs[trial.name]

    def finish(self, answer: str, files: Sequence[Path]) -> None:
        """Adds a run of the sweep, with an artifact of its files."""
        run = self._open(id=self._sweep.id, name=self._sweep.name, job_type="sweep", config={})
        run.summary.update({"question": self._sweep.question, "answer": answer})
        artifact = wandb.Artifact(self._sweep.id, type="sweep")
        with artifact.new_file("answer.txt") as stream:
            stream.write(answer)
        for path in files:
            artifact.add_file(str(path))
        run.log_artifact(artifact)
        run.finish()

    def _delete_offline(self, trial: TrackedRun) -> None:
        """Deletes what an earlier process, or this one, has kept of a run offline."""
        for folder in self._folder.glob(f"offline-run-????????_??????-{trial.id}") if self._is_offline else ():
            shutil.rmtree(folder)

    def _open(self, **settings: Any) -> wandb.Run:
        return wandb.init(
            mode=self._mode,
            project=os.environ.get("WANDB_PROJECT", PROJECT_NAME),
            group=self._sweep.name,
            resume="allow",
            reinit="create_new",
            settings=wandb.Settings(
                silent=True,
                console="off",
                disable_code=True,
                disable_git=True,
                host="",  # else the name of this machine is a field of each run
                x_disable_machine_info=True,
                x_disable_meta=True,
                x_disable_stats=True,
                x_save_requirements=False,
            ),
            **settings,
        )
