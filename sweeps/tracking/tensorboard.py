"""TensorBoard: a folder of event files for each trial, written by tensorboardX, which needs no torch."""

import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tensorboardX import SummaryWriter
from tensorboardX.summary import hparams

from mtlib.runtime.storage import expanded_path, local_path
from sweeps.tracking.tracker import TrackedRun, TrackedSweep, allowed_name, tracker_folder

FOLDER_VARIABLE = "TENSORBOARD_LOGGING_DIR"
"""Another folder for the runs; transformers' trainer reads the same."""
TENSORBOARD_FORBIDDEN = re.compile(r"[^-/\w.]|^/")
"""What names of scalars must not have."""


def runs_folder(sweep: TrackedSweep) -> Path:
    """Returns where the runs are: in the sweep's folder;
    for a sweep in a bucket, by its name in the default storage."""
    if variable := os.environ.get(FOLDER_VARIABLE):
        return expanded_path(variable) / sweep.name
    folder = local_path(sweep.folder)
    return (folder or tracker_folder() / sweep.name) / "tensorboard"


class TensorBoard:
    """Writes scalars by step, the configuration as text, and at the end searched values beside scores (HParams)."""

    def __init__(self, sweep: TrackedSweep, note: Callable[[str], None]) -> None:
        self._folder = runs_folder(sweep)
        note(f"TensorBoard: tensorboard --logdir {shlex.quote(str(self._folder))}")
        self._writers: dict[str, SummaryWriter] = {}

    def begin(self, trial: TrackedRun) -> bool:
        """Opens the trial's writer."""
        if trial.name in self._writers:
            return False
        is_new = not (self._folder / trial.name).exists()
        # Without a suffix of its own, a file is overwritten by one that is opened in the same second.
        suffix = f".{time.time_ns()}"
        writer = SummaryWriter(str(self._folder / trial.name), filename_suffix=suffix, flush_secs=1)
        self._writers[trial.name] = writer
        if is_new:
            writer.add_text("configuration", f"```\n{json.dumps(trial.config, indent=2)}\n```")
        return is_new

    def discard(self, trial: TrackedRun) -> None:
        """Deletes the trial's points.

        `purge_step` would hide them for some readers only (findings/tensorboard_purge_step_is_read_in_three_ways.sh).
        """
        if trial.name in self._writers:  # an attempt that failed may have closed it
            self._writers.pop(trial.name).close()
        shutil.rmtree(self._folder / trial.name, ignore_errors=True)

    def log(self, trial: TrackedRun, step: int, values: Mapping[str, float]) -> None:
        """Adds scalars."""
        for name, value in values.items():
            self._writers[trial.name].add_scalar(allowed_name(name, TENSORBOARD_FORBIDDEN), value, step)

    def end(self, trial: TrackedRun, status: str, values: Mapping[str, float]) -> None:
        """Adds the trial to the table of HParams, unless it may be continued."""
        writer = self._writers.pop(trial.name)
        if status != "interrupted":
            kinds = (bool, int, float, str)
            shown = {key: value if isinstance(value, kinds) else str(value) for key, value in trial.settings.items()}
            del shown["question"]
            best = {allowed_name(name, TENSORBOARD_FORBIDDEN): value for name, value in values.items()}
            for summary in hparams({**shown, "status": status}, best):
                writer.file_writer.add_summary(summary)
            for name, value in best.items():
                writer.add_scalar(name, value)
        writer.close()

    def finish(self, answer: str, files: Sequence[Path]) -> None:  # noqa: ARG002
        """Adds the answer as text; TensorBoard keeps no files."""
        with SummaryWriter(str(self._folder)) as writer:
            writer.add_text("answer", answer.replace("\n", "\n\n"))
