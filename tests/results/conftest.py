"""Seeded reports, records and sweeps that the tests of results share."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mtlib.tasks import TASKS, overall_score, score_of
from mtlib.training.epoch_report import EpochReport, Point
from mtlib.training.evaluation import Predictions, task_metrics
from results.records.epochs import write_epoch
from results.records.tables import write_trials
from results.records.trials import TrialRecord, write_sweep
from results.sweep import Sweep
from tests.killed import Killed

ROWS = {"sst": 60, "qqp": 80, "sts": 50}


Kill = Callable[[int, bool], type[BaseException]]


def build_predictions(task: str, split: str, skill: float, seed: int) -> Predictions:
    """Predictions that follow the labels more closely the higher the skill; the labels are always the same."""
    labels_of, noise_of = np.random.default_rng(len(task + split)), np.random.default_rng(seed)
    rows, kind = ROWS[task], TASKS[task].kind
    if kind == "regression":
        labels = labels_of.uniform(0, 5, rows)
        logits = (skill * labels + noise_of.normal(size=rows))[:, None]
    else:
        classes = labels_of.integers(0, TASKS[task].num_classes, rows)
        labels = classes.astype(np.float64)
        logits = noise_of.normal(size=(rows, TASKS[task].num_logits))
        logits += skill * (np.eye(5)[classes] if kind == "classes" else 2 * labels[:, None] - 1)
    ids = [f"{task}-{split}-{row}" for row in range(rows)]
    return Predictions(
        task=task, split=split, ids=ids, labels=labels.astype(np.float32), logits=logits.astype(np.float32)
    )


def build_report(
    epoch: int,
    *,
    skill: float = 1.0,
    seed: int = 0,
    tasks: Sequence[str] = ("sst", "qqp", "sts"),
    has_total: bool = True,
) -> EpochReport:
    """An epoch's report, with 2 rows of SST train scored too."""
    splits = [(task, "dev") for task in tasks] + ([("sst", "train")] if "sst" in tasks else [])
    predictions = [build_predictions(task, split, skill, seed + 97 * epoch) for task, split in splits]
    found = [
        (part.task, part.split, metric, value)
        for part in predictions
        for metric, value in task_metrics(TASKS[part.task], part.logits, part.labels).items()
    ]
    found += [(task, "train", "loss", 1 / epoch) for task in tasks]
    scores = {
        task: score_of(task, value, TASKS)
        for task, split, metric, value in found
        if (split, metric) == ("dev", TASKS[task].metric)
    }
    total = overall_score(scores, TASKS) if has_total else None
    if total is not None:
        found.append(("overall", "dev", "overall", total))
    points = [
        Point(step=10 * epoch, epoch=epoch, task=task, split=split, metric=metric, value=value, seconds=float(epoch))
        for task, split, metric, value in found
    ]
    return EpochReport(
        epoch=epoch,
        stage=0,
        step=10 * epoch,
        seconds=float(epoch),
        points=tuple(points),
        predictions=tuple(predictions),
        overall=total,
        is_last=False,
    )


def build_record(number: int, replicate: int = 0, status: str = "complete", **changes: Any) -> TrialRecord:
    """A trial's record with values in every field."""
    values: dict[str, Any] = {
        "trial_id": f"{number:04d}-r{replicate}",
        "number": number,
        "config_hash": f"{number}{replicate}",
        "replicate": replicate,
        "seed": 3,
        "status": status,
        "params": {"smart.weight": 0.5 * number},
        "config": '{"seed":3}',
        "best": {"sst": 0.5, "qqp": 0.75, "sts": 0.5, "overall": 2 / 3},
        "last": {"sst": 0.25, "qqp": 0.75, "sts": 0.5, "overall": 7 / 12},
        "best_epoch": {"sst": 2, "qqp": 3, "sts": 1, "overall": 2},
        "epochs": 3,
        "steps": 30,
        "shared_steps": 20,
        "device_seconds": 2.5,
        "wall_seconds": 1.25,
        "peak_memory_bytes": 2**31,
        "checkpoint": f"trials/{number:04d}-r{replicate}/checkpoint",
        "taken_from": "earlier/0004-r0" if status == "reused" else None,
        "error": "RuntimeError: out of memory" if status == "failed" else None,
        "host": "laptop",
        "started": "2024-05-01T10:00:00.000+00:00",
    }
    return TrialRecord(**{**values, **changes})


@pytest.fixture
def make_report() -> Callable[..., EpochReport]:
    return build_report


@pytest.fixture
def make_record() -> Callable[..., TrialRecord]:
    return build_record


@pytest.fixture
def sweep_folder(tmp_path: Path) -> Path:
    """A sweep of three trials, two epochs each; the third is still running."""
    folder = tmp_path / "sweep"
    write_sweep(folder, {"name": "example", "space": {"name": "smart_lambda"}})
    write_trials(folder, [build_record(0), build_record(1), build_record(2, status="running")], tuple(TASKS))
    for number in range(3):
        for epoch in (1, 2):
            write_epoch(folder, f"{number:04d}-r0", build_report(epoch, skill=0.4 * number + 0.2 * epoch, seed=number))
    return folder


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """A scored sweep of three trials, of which the second is far better than the others, alone or together."""
    from tests.results.selection.scored_sweep import build_sweep

    return build_sweep(tmp_path / "mine", 0.2, 3.0, 0.2)


@pytest.fixture
def kill_at_rename(monkeypatch: pytest.MonkeyPatch) -> Kill:
    """`kill_at_rename(n, is_before)`: kills just before or just after the n-th rename of a file.

    Returns what is raised then; afterwards files are named as ever.
    """
    real = Path.rename

    def kill(number: int, is_before: bool) -> type[BaseException]:
        remaining = [number]

        def fake(path: Path, target: Path) -> Path:
            remaining[0] -= 1
            if remaining[0] or not is_before:
                real(path, target)
            if not remaining[0]:
                monkeypatch.setattr(Path, "rename", real)
                raise Killed
            return target

        monkeypatch.setattr(Path, "rename", fake)
        return Killed

    return kill


@pytest.fixture
def recorded_sweep(tmp_path: Path) -> Sweep:
    """A finished sweep of three weights with three replicates each."""
    from tests.results.page.recorded_sweep import write_recorded_sweep  # it imports this file

    return write_recorded_sweep(tmp_path / "mine")
