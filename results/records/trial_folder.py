"""A trial's folder, `trials/<trial>/`: all that is known of a trial, written by the process that trains it.

- `trial.json`: its configuration, where and when it began, the environments it was trained in.
- `epochs/0003.parquet`: an epoch with its predictions (`results.records.epochs`).
- `end.json`: how it ended, written last. The end of a pruned trial is written by the driver, which alone knows it.
- `checkpoint/`: states and best weights (`mtlib.checkpoints`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.fs as fs

from mtlib.runtime.storage import delete_file, full_path
from mtlib.tasks import Task, score_of
from results.records.epochs import Epoch, epoch_path, read_epochs
from results.records.files import json_checksum, read_json, write_json
from results.records.trials import COMPLETED, OVERALL, TrialRecord

TRIAL_FILE, END_FILE = "trial.json", "end.json"


@dataclass(frozen=True, kw_only=True)
class TrialStart:
    """The content of `trial.json`."""

    trial_id: str
    number: int
    replicate: int
    seed: int
    params: Mapping[str, Any]
    """Searched values by dotted key."""
    config: str
    """The whole configuration as canonical JSON."""
    config_hash: str
    started: str
    """ISO 8601, UTC."""
    host: str
    """Where it runs, or ran last."""
    shared_steps: int = 0
    """Optimizer steps reused from the stage store or another trial."""
    shared_seconds: float = 0.0
    """Seconds that they took when they were trained."""
    taken_from: str | None = None
    """`sweep/trial` of the equal trial whose result was reused."""
    environments: tuple[Mapping[str, Any], ...] = ()
    """What the trial was trained in, as `describe_environment` gives it: several where code, libraries or a device
    changed between a stop and a resume."""
    micro_batch_sizes: tuple[int | None, ...] = ()
    """The `micro_batch_size` of each stage: the configured one, or that with which its steps fit the GPU's memory."""
    notes: tuple[str, ...] = ()
    """What happened to it, a line each: states that could not be used, environments that changed."""


@dataclass(frozen=True, kw_only=True)
class TrialEnd:
    """The content of `end.json`."""

    how: str
    """`complete`, `reused`, `pruned` or `failed`."""
    error: str | None = None
    """Why it failed, in one line."""
    epochs: int = 0
    """Epochs that count: all of a complete trial; a pruned one may have trained on before it was told."""
    time: float = 0.0
    """Seconds since 1970."""
    wall_seconds: float = 0.0
    """Seconds that it has had a lane."""
    peak_memory_bytes: int = 0
    key: str = ""
    """The key of the state at its end, by which equal trials reuse it; empty where they may not."""


@dataclass(frozen=True, kw_only=True)
class TrialFiles:
    """What a trial's folder says, without predictions, weights and states."""

    start: TrialStart | None
    """None where `trial.json` is missing or damaged."""
    epochs: tuple[Epoch, ...]
    """From the first on, up to a missing or damaged one."""
    end: TrialEnd | None
    damage: tuple[str, ...] = ()
    """A line for each file that is truncated or damaged."""

    @property
    def counted_epochs(self) -> tuple[Epoch, ...]:
        """The epochs that count: a pruned trial may have trained on before it was told."""
        if self.end is None or self.end.how != "pruned":
            return self.epochs
        return self.epochs[: self.end.epochs]


def trial_path(trial: str, name: str) -> str:
    """Returns where a file of a trial is in the sweep's folder."""
    return f"trials/{trial}/{name}"


def write_start(root: fs.SubTreeFileSystem, start: TrialStart) -> None:
    """Writes `trial.json`."""
    write_checked(root, trial_path(start.trial_id, TRIAL_FILE), vars(start))


def write_end(root: fs.SubTreeFileSystem, trial: str, end: TrialEnd) -> None:
    """Writes `end.json`."""
    write_checked(root, trial_path(trial, END_FILE), vars(end))


def write_checked(root: fs.SubTreeFileSystem, path: str, content: Mapping[str, Any]) -> None:
    """Writes plain JSON with its checksum."""
    write_json(root, path, {"crc32": json_checksum(content), "content": content})


def delete_end(root: fs.SubTreeFileSystem, trial: str) -> None:
    """Deletes `end.json` of a trial that is trained again, if there is one."""
    delete_file(root, trial_path(trial, END_FILE))


def read_start(root: fs.SubTreeFileSystem, trial: str) -> TrialStart | None:
    """Returns the content of `trial.json`; None if there is none. ValueError if it is truncated or damaged."""
    content = read_checked(root, trial_path(trial, TRIAL_FILE))
    if content is None:
        return None
    names = ("environments", "micro_batch_sizes", "notes")
    return TrialStart(**{**content, **{name: tuple(content.get(name, ())) for name in names}})


def read_end(root: fs.SubTreeFileSystem, trial: str) -> TrialEnd | None:
    """Returns the content of `end.json`; None if there is none. ValueError if it is truncated or damaged."""
    content = read_checked(root, trial_path(trial, END_FILE))
    return None if content is None else TrialEnd(**content)


def read_checked(root: fs.SubTreeFileSystem, path: str) -> dict[str, Any] | None:
    """Returns what was given to `write_checked`; None if there is no file. ValueError if it is truncated or damaged."""
    try:
        found = read_json(root, path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    content = found.get("content")
    if not isinstance(content, dict) or found.get("crc32") != json_checksum(content):
        raise ValueError(f"{full_path(root, path)}: truncated or damaged: its checksum is wrong")
    return content


def read_trial(root: fs.SubTreeFileSystem, trial: str) -> TrialFiles:
    """Returns what a trial's folder says; damaged files are named in `damage`, and count as missing."""
    start, end = None, None
    epochs, damage = read_epochs(root, trial)
    try:
        start = read_start(root, trial)
        end = read_end(root, trial)
    except ValueError as error:
        damage.append(str(error))
    if end is not None and end.how in COMPLETED and len(epochs) < end.epochs and not damage:
        damage.append(f"{full_path(root, epoch_path(trial, len(epochs) + 1))} is missing")
    return TrialFiles(start=start, epochs=tuple(epochs), end=end, damage=tuple(damage))


def record_of(files: TrialFiles, tasks: Mapping[str, Task], num_workers: int) -> TrialRecord:
    """Returns a trial as a row of `trials.parquet`; one that has not ended is `interrupted`.

    Of equal scores the first is the best.
    """
    start, end, epochs = files.start, files.end, files.counted_epochs
    assert start is not None, "the folder must hold trial.json"
    best: dict[str, float] = {}
    last: dict[str, float] = {}
    best_epoch: dict[str, int] = {}
    for epoch in epochs:
        for name, value in scores_in(epoch.points, tasks).items():
            last[name] = value
            if value > best.get(name, float("-inf")):
                best[name], best_epoch[name] = value, int(epoch.points[0]["epoch"])
    newest: Mapping[str, Any] = epochs[-1].points[0] if epochs else {"step": 0, "seconds": 0.0}
    facts = epochs[-1].facts if epochs else {}
    own = max(0.0, newest["seconds"] - start.shared_seconds)
    return TrialRecord(
        trial_id=start.trial_id,
        number=start.number,
        config_hash=start.config_hash,
        replicate=start.replicate,
        seed=start.seed,
        status="interrupted" if end is None else end.how,
        params=start.params,
        config=start.config,
        best=best,
        last=last,
        best_epoch=best_epoch,
        epochs=len(epochs),
        steps=newest["step"],
        shared_steps=min(start.shared_steps, newest["step"]),
        device_seconds=own * num_workers,
        wall_seconds=facts.get("wall_seconds", 0.0) if end is None else max(end.wall_seconds, 0.0),
        peak_memory_bytes=max(facts.get("peak_memory_bytes", 0), 0 if end is None else end.peak_memory_bytes),
        checkpoint=trial_path(start.trial_id, "checkpoint") if epochs else None,
        taken_from=start.taken_from,
        error=None if end is None else end.error,
        host=start.host,
        started=start.started,
    )


def log_path(trial_id: str, rank: int = 0) -> str:
    """Returns where a trial's log is in the sweep's folder. A worker of another rank has one where it met an error."""
    return trial_path(trial_id, f"log{f'-{rank}' if rank else ''}.txt")


def scores_in(points: Iterable[Mapping[str, Any]], tasks: Mapping[str, Task]) -> dict[str, float]:
    """Returns the main dev score of each task that has been active, and the overall score if there is one;
    higher is better."""
    metrics = {name: task.metric for name, task in tasks.items()}
    return {
        point["task"]: score_of(point["task"], point["value"], tasks)
        for point in points
        if point["split"] == "dev" and point["metric"] == metrics.get(point["task"], OVERALL)
    }
