"""A process that is killed just before a change to the storage loses at most one checkpoint interval.

Python calls audit hooks for every file that is opened, renamed, linked or removed. A hook that raises simulates a kill:
neither this change nor any by later cleanup happens. pyarrow's deletions raise no audit events; they are counted where
the project asks for them.
"""

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.fs as fs
import pytest

from mtlib.runtime.environment import describe_environment
from mtlib.runtime.storage import delete_file, delete_folder, full_path, list_files, move_file, open_folder
from results.records.trial_folder import read_end
from results.records.trials import write_sweep
from sweeps.lanes.loaded_trial import LoadedTrial
from sweeps.options import SweepPlan
from sweeps.reuse.finished_trials import trial_folder
from sweeps.reuse.stage_store import has_stage, stage_store
from tests.killed import Killed
from tests.sweeps.conftest import MakePlan, with_options
from tests.sweeps.lanes.plain_sweep import CPU, PlainReporter, run_with
from tests.sweeps.reuse.trained_trials import FAST, assert_same, read_trial_files, train_trial
from tests.training_inputs import load_from_files

CHANGES = {"os.rename": 2, "os.link": 2, "os.remove": 1, "os.rmdir": 1, "shutil.rmtree": 1, "os.truncate": 1}
"""Audit events of file changes, with the number of paths that come first in their arguments; and `open` to write."""
DELETIONS: tuple[Callable[..., None], ...] = (delete_file, delete_folder, move_file)
"""Changes that pyarrow makes, without an audit event."""
PACKAGES = ("mtlib.", "results.", "sweeps.")
INTERVAL = 2
"""Optimizer steps between two saved states."""
PARTS = 24
"""The points are split into this many tests; the first of them always runs."""
TRIAL = "0000-r0"


@dataclass
class Watch:
    """Counts changes below a folder, and prevents all after a given one."""

    folder: Path | None = None
    last: int | None = None
    """Number of changes that may happen; None: any number."""
    seen: list[str] = field(default_factory=list)

    def __call__(self, event: str, case: tuple[Any, ...]) -> None:
        if self.folder is None or not (event in CHANGES or (event == "open" and is_for_writing(case))):
            return
        self.change(event, [absolute_path(path, case) for path in case[: CHANGES.get(event, 1)]])

    def change(self, event: str, paths: list[str]) -> None:
        """Counts a change to these paths, or prevents it."""
        if any(path.startswith(str(self.folder)) for path in paths):
            if self.last is not None and len(self.seen) >= self.last:
                raise Killed
            self.seen.append(f"{event} {paths[-1].removeprefix(str(self.folder))}")


def absolute_path(path: Any, case: tuple[Any, ...]) -> str:
    """The absolute path of a file; `rmtree` reports a folder's descriptor and names relative to it."""
    folder = case[-1]
    if isinstance(path, str | os.PathLike) and not Path(path).is_absolute() and isinstance(folder, int) and folder >= 0:
        return str(Path(f"/proc/self/fd/{folder}").readlink() / path)
    return str(path)


def is_for_writing(case: tuple[Any, ...]) -> bool:
    """Whether a file is opened for writing."""
    return isinstance(case[2], int) and bool(case[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


WATCH = Watch()
sys.addaudithook(WATCH)  # an audit hook cannot be removed; it does nothing outside `watching`


def watched(change: Callable[..., None]) -> Callable[..., None]:
    """A function of the storage that counts its change before it makes it."""

    def count_and_change(root: fs.SubTreeFileSystem, *paths: str) -> None:
        WATCH.change(change.__name__, [full_path(root, path) for path in paths])
        change(root, *paths)

    return count_and_change


@contextlib.contextmanager
def watching(folder: Path, last: int | None = None) -> Iterator[list[str]]:
    """Counts the changes below a folder, of which only the first `last` happen."""
    WATCH.folder, WATCH.last, WATCH.seen = folder, last, []
    try:
        with pytest.MonkeyPatch.context() as patch:
            for change in DELETIONS:
                for module in [module for name, module in sys.modules.items() if name.startswith(PACKAGES)]:
                    if getattr(module, change.__name__, None) is change:
                        patch.setattr(module, change.__name__, watched(change))
            yield WATCH.seen
    finally:
        WATCH.folder = None


@pytest.fixture
def plan(make_plan: MakePlan, tiny_config: Any, tiny_folder: Path, tiny_encoder_folder: Path) -> SweepPlan:
    base = tiny_config.override({**FAST, "encoder.name": str(tiny_encoder_folder)})
    return make_plan(base=base, grid={"seed": (0,)}, data_folder=tiny_folder, checkpoint_steps=INTERVAL)


def load_changed_trial(plan: SweepPlan, changes: dict[str, Any]) -> LoadedTrial:
    config = plan.space.base.override(changes)
    return load_from_files(config, plan.data_folder, plan.options.cache_folder, describe_environment(CPU))


def run_on_lane(plan: SweepPlan, trial: LoadedTrial, steps: list[int]) -> None:
    """Runs a trial as a lane does; adds the numbers of the trained optimizer steps to `steps`."""
    folder, reporter = trial_folder(plan.options, TRIAL), PlainReporter(plan.options.folder, TRIAL)
    reporter.steps = steps
    run_with(reporter, trial, folder)
    assert reporter.end in (("complete", None), ("reused", None))


def copy_sweep(plan: SweepPlan, storage: Path, name: str) -> SweepPlan:
    """The same sweep in a copy of its storage."""
    shutil.copytree(plan.options.cache_folder.parent, storage, symlinks=True)
    write_sweep(storage / name, {})
    return with_options(plan, storage=str(storage), name=name)


def stored_stages(plan: SweepPlan) -> set[str]:
    """Keys of all stored stages."""
    store = stage_store(plan.options)
    assert store is not None
    keys = {info.path.partition("/")[0] for info in list_files(store.root, "")}
    return {key for key in keys if has_stage(store, key)}


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is stored before a trial starts, and the work that it then has."""

    others: tuple[dict[str, Any], ...] = ()
    """Trials trained before, by their changes of the base."""
    changes: dict[str, Any] = field(default_factory=dict)
    """The trial's changes of the base."""
    own_epochs: int = 0
    """Epochs that the trial has trained itself without storing their stages."""
    num_steps: int
    """Optimizer steps that it must train."""


CASES = {
    "alone": Case(num_steps=12),
    "resumed": Case(own_epochs=2, num_steps=4),
    "from a stage": Case(others=({},), changes={"tasks.sst.batch_size": 4}, num_steps=8),
    "from a shorter trial": Case(others=({},), changes={"stages.1.epochs": 3}, num_steps=4),
    "from an equal trial": Case(others=({},), num_steps=0),
    "from an equal trial rather than its own state": Case(others=({},), own_epochs=2, num_steps=0),
}
POINTS = [pytest.param(part, marks=[pytest.mark.slow] * (part > 0)) for part in range(PARTS)]


@pytest.mark.parametrize("part", POINTS)
@pytest.mark.parametrize("name", CASES)
def test_kill_before_any_change_costs_at_most_one_interval(
    name: str, part: int, plan: SweepPlan, tmp_path: Path
) -> None:
    case = CASES[name]
    storage = with_options(plan, storage=f"{tmp_path}/storage", name="first")
    for others in case.others:
        run_on_lane(storage, load_changed_trial(storage, others), [])
    trial = load_changed_trial(storage, case.changes)
    own_place = trial_folder(with_options(storage, name="second", reuse=False).options, TRIAL)
    if case.own_epochs:
        train_trial(trial, own_place, until_epoch=case.own_epochs)
    whole = copy_sweep(storage, tmp_path / "whole", "second")
    with watching(tmp_path / "whole") as seen:
        run_on_lane(whole, trial, steps := list[int]())
    assert len(steps) == case.num_steps
    expected, kept = read_trial_files(trial_folder(whole.options, TRIAL)), stored_stages(whole)
    assert len(seen) > 10
    if case.own_epochs or not case.others:
        assert any(line.startswith("delete_file /second/trials/0000-r0/checkpoint/state-") for line in seen)
    for point in range(part, len(seen), PARTS):
        own = copy_sweep(storage, tmp_path / f"kill-{point}", "second")
        steps = []
        with watching(own.options.cache_folder.parent, last=point), pytest.raises(Killed):
            run_on_lane(own, trial, steps)
        if read_end(open_folder(own.options.folder), TRIAL) is None:
            run_on_lane(own, trial, steps)
        assert len(steps) - case.num_steps <= INTERVAL, seen[point]
        assert_same(read_trial_files(trial_folder(own.options, TRIAL)), expected)
        assert stored_stages(own) == kept != set(), seen[point]
        shutil.rmtree(own.options.cache_folder.parent)
