"""What a tracker is: a place where people watch runs, such as TensorBoard, W&B, MLflow or Trackio."""

import importlib
import importlib.util
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mtlib.runtime.checksum import hash_of
from mtlib.runtime.errors import require_name
from mtlib.runtime.program_names import DEFAULT_STORAGE
from mtlib.runtime.storage import expanded_path

PROJECT_NAME = "multitask-sweeps"
"""Name of the project or experiment, unless the tracker's own variable says another."""
NAME_LETTERS = 250
"""The most letters of a name in MLflow, the tracker that takes the fewest."""


def tracker_folder() -> Path:
    """Returns where trackers keep files unless their own variables name a place;
    the same whichever folder a run starts in."""
    folder = expanded_path(DEFAULT_STORAGE)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@dataclass(frozen=True, kw_only=True)
class TrackedSweep:
    """A sweep as trackers get it."""

    name: str
    id: str
    """Its name and a part of a hash of when it was created: another sweep of its name has another one."""
    question: str
    folder: str
    """Path or URI."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Of its data, by `data`, and of its encoders, by their names in configurations."""


@dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """A trial as trackers get it: plain data, without paths of this machine."""

    id: str
    """The id of its run: the sweep's and its own."""
    name: str
    """E.g. `0003-r0`."""
    settings: Mapping[str, Any]
    """Sweep, question, configuration, replicate, seed, fingerprints, and the searched values by their keys."""
    config: Mapping[str, Any]
    """The whole configuration."""


class Tracker(Protocol):
    """One tracker. Every method may raise any exception, and is then called again with the same arguments."""

    def __init__(self, sweep: TrackedSweep, note: Callable[[str], None]) -> None:
        """Connects to the tracker; `note` shows a line, such as how to look at the runs."""

    def begin(self, trial: TrackedRun) -> bool:
        """Opens the run of a trial, or continues it; whether it needs all points from the first epoch on."""

    def discard(self, trial: TrackedRun) -> None:
        """Takes back a run that was begun, of which epochs were given up; another begins with another id."""

    def log(self, trial: TrackedRun, step: int, values: Mapping[str, float]) -> None:
        """Adds points to curves of a run that was begun, at an optimizer step above those before.

        Values may be infinite or NaN.
        """

    def end(self, trial: TrackedRun, status: str, values: Mapping[str, float]) -> None:
        """Closes a run with its best scores; one that is `interrupted` may be continued."""

    def finish(self, answer: str, files: Sequence[Path]) -> None:
        """Keeps the answer and files of a sweep that has ended."""


TRACKERS: Mapping[str, tuple[str, str]] = {
    "tensorboard": ("TensorBoard", "tensorboardX"),
    "wandb": ("Wandb", "wandb"),
    "mlflow": ("MLflow", "mlflow"),
    "trackio": ("Trackio", "trackio"),
}
"""By the name of every tracker, which is that of its module, its class and the package that must be installed."""


SERVER_VARIABLES = {"wandb": "WANDB_BASE_URL", "mlflow": "MLFLOW_TRACKING_URI", "trackio": "TRACKIO_SERVER_URL"}
"""By the name of a tracker, the variable that has the address of its server."""


def check_trackers(names: Collection[str]) -> None:
    """Raises ValueError unless every name is one of `TRACKERS` and its package is installed."""
    for name in names:
        require_name(name, TRACKERS, "tracker")
        if importlib.util.find_spec(TRACKERS[name][1]) is None:
            raise ValueError(f"--log-to {name} must have its package: pip install 'multitask-sweeps[{name}]'")


def make_tracker(name: str, sweep: TrackedSweep, note: Callable[[str], None]) -> Tracker:
    """Returns a tracker by its name; its package is loaded."""
    module = importlib.import_module(f"sweeps.tracking.{name}")
    made: Tracker = getattr(module, TRACKERS[name][0])(sweep, note)
    return made


def curve_values(points: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Names and values of an epoch's points: `dev/sst/accuracy`, `train/qqp/loss`, `dev/overall`, and its `epoch`."""
    values = {}
    for point in points:
        names = dict.fromkeys((point["split"], point["task"], point["metric"]))  # `overall` is a task and its metric
        values["/".join(names)] = float(point["value"])
        values["epoch"] = float(point["epoch"])
    return values


def allowed_name(name: str, forbidden: re.Pattern[str]) -> str:
    """Returns a name that a tracker takes: with `_` for forbidden characters, and of `NAME_LETTERS` at most.

    `*` becomes `_`, which is no task's or stage's name. After any other change a part of the name's hash keeps names
    apart.
    """
    plain = name.replace("*", "_")
    allowed = forbidden.sub("_", plain)
    is_name = allowed == plain and len(plain) <= NAME_LETTERS
    return allowed if is_name else f"{allowed[: NAME_LETTERS - 9]}-{hash_of(name)[:8]}"
