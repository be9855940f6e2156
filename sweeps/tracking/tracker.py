"""What a tracker is: a place where people watch runs, such as TensorBoard, W&B, MLflow or Trackio."""

import importlib
import importlib.util
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from mtlib.runtime.errors import require_name
from mtlib.runtime.program_names import DEFAULT_STORAGE

PROJECT_NAME = "multitask-sweeps"
"""Name of the project or experiment, unless the tracker's own variable says another."""


def tracker_folder() -> Path:
    """Returns where trackers keep files unless their own variables name a place;
    the same whichever folder a run starts in."""
    folder = Path(DEFAULT_STORAGE).expanduser()
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


@dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """A trial as trackers get it: plain data, without paths of this machine."""

    id: str
    """The id of its run: the sweep's and its own."""
    name: str
    """E.g. `0003-r0`."""
    number: int
    """The number of its configuration."""
    settings: Mapping[str, Any]
    """Sweep, question, configuration, replicate, seed, and the searched values by their keys."""
    config: Mapping[str, Any]
    """The whole configuration."""


class Tracker(Protocol):
    """One tracker. Every method may raise any exception, and is then called again with the same arguments."""

    def __init__(self, sweep: TrackedSweep, note: Callable[[str], None]) -> None:
        """Connects to the tracker; `note` shows a line, such as how to look at the runs."""

    def begin(self, trial: TrackedRun) -> None:
        """Opens the run of a trial, or continues it."""

    def log(self, trial: TrackedRun, step: int, values: Mapping[str, float]) -> None:
        """Adds points to curves of a run that was begun, at an optimizer step above those before."""

    def end(self, trial: TrackedRun, status: str, values: Mapping[str, float]) -> None:
        """Closes a run with its best scores; one that is `interrupted` may be continued."""

    def finish(self, answer: str, files: Sequence[Path]) -> None:
        """Keeps the answer and files of a sweep that has ended."""


@dataclass(frozen=True, kw_only=True)
class TrackerEntry:
    """A tracker that can be named by --log-to."""

    place: str
    """Module and class."""
    package: str
    """What must be installed."""


TRACKERS: Mapping[str, TrackerEntry] = {
    "tensorboard": TrackerEntry(place="sweeps.tracking.tensorboard:TensorBoard", package="tensorboardX"),
    "wandb": TrackerEntry(place="sweeps.tracking.wandb:Wandb", package="wandb"),
    "mlflow": TrackerEntry(place="sweeps.tracking.mlflow:MLflow", package="mlflow"),
    "trackio": TrackerEntry(place="sweeps.tracking.trackio:Trackio", package="trackio"),
}
"""Every tracker by its name."""


def check_trackers(names: Collection[str]) -> None:
    """Raises ValueError unless every name is one of `TRACKERS` and its package is installed."""
    for name in names:
        require_name(name, TRACKERS, "tracker")
        if importlib.util.find_spec(TRACKERS[name].package) is None:
            raise ValueError(f"--log-to {name} must have its package: pip install 'multitask-sweeps[{name}]'")


def make_tracker(name: str, sweep: TrackedSweep, note: Callable[[str], None]) -> Tracker:
    """Returns a tracker by its name; its package is loaded."""
    module, _, maker = TRACKERS[name].place.partition(":")
    made: Tracker = getattr(importlib.import_module(module), maker)(sweep, note)
    return made


def curve_values(points: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Names and values of an epoch's points: `dev/sst/accuracy`, `train/qqp/loss`, `dev/overall`, and its `epoch`."""
    values = {}
    for point in points:
        names = dict.fromkeys((point["split"], point["task"], point["metric"]))  # `overall` is a task and its metric
        values["/".join(names)] = float(point["value"])
        values["epoch"] = float(point["epoch"])
    return {name: value for name, value in values.items() if math.isfinite(value)}
