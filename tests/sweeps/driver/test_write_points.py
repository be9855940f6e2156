"""A process that is killed just before a change it makes to the storage loses no more than a checkpoint's interval.

Python tells audit hooks of every file that is opened, renamed, linked or removed. One that raises stands for a kill:
the change does not happen, and none that cleaning up would make afterwards. Of pyarrow's changes, of which Python is
not told, those that make a file visible are counted too; what it deletes is not.
"""

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pyarrow.fs as fs
import pytest
import torch

import results.records.files
from mtlib.checkpoints.state import drop_states
from mtlib.runtime.environment import describe_environment
from results.records.files import full_path
from results.records.recovery import read_end, write_end
from sweeps.lanes.loaded_trial import LoadedTrial, load_trial
from sweeps.lanes.worker_trial import TrialRun, run_trial
from sweeps.options import SweepPlan
from sweeps.reuse.finished_trials import trial_folder
from sweeps.reuse.stage_store import entry_folders, has_stage, stage_store
from tests.killed import Killed
from tests.sweeps.conftest import MakePlan, with_options
from tests.sweeps.lanes.plain_sweep import PlainReporter
from tests.sweeps.reuse.trained_trials import FAST, assert_same, read_trial_files, train_trial

CHANGES = {"os.rename": 2, "os.link": 2, "os.remove": 1, "os.rmdir": 1, "shutil.rmtree": 1, "os.truncate": 1}
"""Events that tell of a change to a file, with the number of paths that each tells first; and `open`, for writing."""
INTERVAL = 2
"""Optimizer steps between two saved states."""
PARTS = 24
"""The points are dealt out to so many tests; the first of them runs always."""
CPU = torch.device("cpu")
TRIAL = "0000-r0"


@dataclass
class Watch:
    """Counts changes below a folder, and lets none happen any more from a given one on."""

    folder: Path | None = None
    last: int | None = None
    """How many may happen; None: any number."""
    seen: list[str] = field(default_factory=list)

    def __call__(self, event: str, told: tuple[Any, ...]) -> None:
        if self.folder is None or not (event in CHANGES or (event == "open" and is_for_writing(told))):
            return
        self.change(event, [place_of_file(path, told) for path in told[: CHANGES.get(event, 1)]])

    def change(self, event: str, paths: list[str]) -> None:
        """Counts a change to these paths, or does not let it happen."""
        if any(path.startswith(str(self.folder)) for path in paths):
            if self.last is not None and len(self.seen) >= self.last:
                raise Killed
            self.seen.append(f"{event} {paths[-1].removeprefix(str(self.folder))}")


def place_of_file(path: Any, told: tuple[Any, ...]) -> str:
    """The absolute path of a file; a folder that is removed with all in it is told of as a descriptor and names."""
    folder = told[-1]
    if isinstance(path, str | os.PathLike) and not Path(path).is_absolute() and isinstance(folder, int) and folder >= 0:
        return str(Path(f"/proc/self/fd/{folder}").readlink() / path)
    return str(path)


def is_for_writing(told: tuple[Any, ...]) -> bool:
    """Whether a file is opened so that it can be changed."""
    return isinstance(told[2], int) and bool(told[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


WATCH = Watch()
sys.addaudithook(WATCH)  # it stays for good, and does nothing outside `watching`


@contextlib.contextmanager
def watching(folder: Path, last: int | None = None) -> Iterator[list[str]]:
    """The changes below a folder, of which only the first `last` happen."""
    real = results.records.files.rename

    def rename(root: fs.SubTreeFileSystem, source: str, target: str) -> None:
        WATCH.change("pyarrow", [full_path(root, target)])
        real(root, source, target)

    WATCH.folder, WATCH.last, WATCH.seen = folder, last, []
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(results.records.files, "rename", rename)
            yield WATCH.seen
    finally:
        WATCH.folder = None


@pytest.fixture
def plan(make_plan: MakePlan, tiny_config: Any, tiny_folder: Path, tiny_encoder_folder: Path) -> SweepPlan:
    base = tiny_config.override({**FAST, "encoder.name": str(tiny_encoder_folder)})
    return make_plan(base=base, grid={"seed": (0,)}, data_folder=tiny_folder, checkpoint_steps=INTERVAL)


def course_of(plan: SweepPlan, changes: dict[str, Any]) -> LoadedTrial:
    config = plan.space.base.override(changes)
    return load_trial(config, plan.data_folder, plan.options.cache_folder, describe_environment(CPU))


def lane(plan: SweepPlan, trial: LoadedTrial, steps: list[int]) -> None:
    """What a lane does with one trial; the numbers of optimizer steps that it trains are added to `steps`."""
    folder, link = trial_folder(plan.options, TRIAL), PlainReporter(plan.options.folder, TRIAL)
    link.steps, line = steps, cast(Any, link)
    how, error = run_trial(TrialRun(loaded=trial, folder=folder, reporter=line, device=CPU))
    write_end(plan.options.folder, TRIAL, {"how": how, "error": error, "time": time.time(), **link.facts})
    drop_states(folder.states)


def copied(plan: SweepPlan, storage: Path, name: str) -> SweepPlan:
    """The same sweep in a copy of its storage."""
    shutil.copytree(plan.options.cache_folder.parent, storage, symlinks=True)
    return with_options(plan, storage=storage, name=name)


def kept_stages(plan: SweepPlan) -> set[str]:
    """The keys of all stages in the store."""
    store = stage_store(plan.options)
    assert store is not None
    return {folder.name for folder in entry_folders(store) if has_stage(store, folder.name)}


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What there is before a trial begins, and what it then does."""

    others: tuple[dict[str, Any], ...] = ()
    """What has been trained before, by its difference to the base."""
    changes: dict[str, Any] = field(default_factory=dict)
    """What the trial is."""
    own_epochs: int = 0
    """Epochs that it has trained itself, unseen by the others."""
    num_steps: int
    """Optimizer steps that it must train."""


SCENES = {
    "alone": Scene(num_steps=12),
    "goes on": Scene(own_epochs=2, num_steps=4),
    "goes on from a stage": Scene(others=({},), changes={"tasks.sst.batch_size": 4}, num_steps=8),
    "goes on from a shorter trial": Scene(others=({},), changes={"stages.1.epochs": 3}, num_steps=4),
    "goes on from a shorter trial and not from itself": Scene(
        others=({},), changes={"stages.1.epochs": 3}, own_epochs=1, num_steps=4
    ),
    "is there already": Scene(others=({},), num_steps=0),
    "is there already though it had begun": Scene(others=({},), own_epochs=2, num_steps=0),
}
POINTS = [pytest.param(part, marks=[pytest.mark.slow] * (part > 0)) for part in range(PARTS)]


@pytest.mark.parametrize("part", POINTS)
@pytest.mark.parametrize("scene", SCENES)
def test_a_kill_before_any_change_costs_at_most_one_interval(
    scene: str, part: int, plan: SweepPlan, tmp_path: Path
) -> None:
    told = SCENES[scene]
    storage = with_options(plan, storage=tmp_path / "ground", name="first")
    for others in told.others:
        lane(storage, course_of(storage, others), [])
    trial = course_of(storage, told.changes)
    own_place = trial_folder(with_options(storage, name="second", reuse=False).options, TRIAL)
    if told.own_epochs:
        train_trial(trial, own_place, until_epoch=told.own_epochs)
    whole = copied(storage, tmp_path / "whole", "second")
    with watching(tmp_path / "whole") as seen:
        lane(whole, trial, steps := list[int]())
    assert len(steps) == told.num_steps
    expected, kept = read_trial_files(trial_folder(whole.options, TRIAL)), kept_stages(whole)
    assert len(seen) > 10
    if told.own_epochs or not told.others:
        assert any(line.startswith("os.remove /second/trials/0000-r0/checkpoint/state-") for line in seen)
    for point in range(part, len(seen), PARTS):
        own = copied(storage, tmp_path / f"kill-{point}", "second")
        steps = []
        with watching(own.options.cache_folder.parent, last=point), pytest.raises(Killed):
            lane(own, trial, steps)
        if read_end(own.options.folder, TRIAL) is None:
            lane(own, trial, steps)
        assert len(steps) - told.num_steps <= INTERVAL, seen[point]
        assert_same(read_trial_files(trial_folder(own.options, TRIAL)), expected)
        assert kept_stages(own) == kept != set(), seen[point]
        shutil.rmtree(own.options.cache_folder.parent)
