"""A process that is killed just before any change it makes to the storage loses no more than a checkpoint's interval.

Python tells audit hooks of every file that is opened, renamed, linked or removed. One that raises stands for a kill:
the change does not happen, and none that cleaning up would make afterwards. What pyarrow and safetensors write
themselves is not told, but it becomes visible only with what is.
"""

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from mtlib.environment import describe_environment
from results.recovery import read_end, write_end
from sweeps.course import Course, find_course
from sweeps.lane_trial import TrialRun, finish_files, run_trial
from sweeps.lanes import stage_store
from sweeps.options import SweepPlan
from sweeps.stages import has_stage
from tests.sweeps.conftest import MakePlan
from tests.sweeps.plain_sweep import PlainLink, place_of
from tests.sweeps.trained_trials import FAST, assert_same, left_by

CHANGES = {"os.rename": 2, "os.link": 2, "os.remove": 1, "os.rmdir": 1, "shutil.rmtree": 1, "os.truncate": 1}
"""Events that tell of a change to a file, with the number of paths that each tells first; and `open`, for writing."""
INTERVAL = 2
"""Optimizer steps between two saved states."""
PARTS = 8
"""The points are dealt out to so many tests; the first of them runs always."""
CPU = torch.device("cpu")
TRIAL = "0000-r0"


class Killed(BaseException):
    """What comes instead of a change that a kill prevents."""


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
        paths = [str(path) for path in told[: CHANGES.get(event, 1)] if isinstance(path, str | os.PathLike)]
        if any(path.startswith(str(self.folder)) for path in paths):
            if self.last is not None and len(self.seen) >= self.last:
                raise Killed
            self.seen.append(f"{event} {paths[-1].removeprefix(str(self.folder))}")


def is_for_writing(told: tuple[Any, ...]) -> bool:
    """Whether a file is opened so that it can be changed."""
    return isinstance(told[2], int) and bool(told[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


WATCH = Watch()
sys.addaudithook(WATCH)  # it stays for good, and does nothing outside `watching`


@contextlib.contextmanager
def watching(folder: Path, last: int | None = None) -> Iterator[list[str]]:
    """The changes below a folder, of which only the first `last` happen."""
    WATCH.folder, WATCH.last, WATCH.seen = folder, last, []
    try:
        yield WATCH.seen
    finally:
        WATCH.folder = None


@pytest.fixture
def plan(make_plan: MakePlan, tiny_config: Any, tiny_folder: Path, tiny_encoder_folder: Path) -> SweepPlan:
    base = tiny_config.override({**FAST, "encoder.name": str(tiny_encoder_folder)})
    return make_plan(base=base, grid={"seed": (0,)}, data_folder=tiny_folder, state_steps=INTERVAL)


def course_of(plan: SweepPlan, changes: dict[str, Any]) -> Course:
    config = plan.base.override(changes)
    return find_course(config, plan.data_folder, plan.cache_folder, describe_environment(CPU))


def lane(plan: SweepPlan, course: Course, steps: list[int]) -> None:
    """What a lane does with one trial; the numbers of optimizer steps that it trains are added to `steps`."""
    place, link = place_of(plan, TRIAL), PlainLink(plan.folder, TRIAL)
    link.steps, line = steps, cast(Any, link)
    how, error = run_trial(TrialRun(course=course, place=place, link=line, device=CPU))
    write_end(plan.folder, TRIAL, {"how": how, "error": error, "time": time.time(), **link.facts})
    finish_files(place, how)


def copied(plan: SweepPlan, storage: Path, name: str) -> SweepPlan:
    """The same sweep in a copy of its storage."""
    shutil.copytree(plan.cache_folder.parent, storage, symlinks=True)
    return replace(plan, folder=storage / name, cache_folder=storage / plan.cache_folder.name)


SCENES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], int]] = {
    "alone": ([], {}, 12),
    "goes on from a stage": ([{}], {"tasks.sst.batch_size": 4}, 8),
    "goes on from a shorter trial": ([{}], {"stages.1.epochs": 3}, 4),
    "is there already": ([{}], {}, 0),
}
"""What others have trained before, what the trial is, and the steps that it must train."""
POINTS = [pytest.param(part, marks=[pytest.mark.slow] * (part > 0)) for part in range(PARTS)]


@pytest.mark.parametrize("part", POINTS)
@pytest.mark.parametrize("scene", SCENES)
def test_a_kill_before_any_change_costs_at_most_one_interval(
    scene: str, part: int, plan: SweepPlan, tmp_path: Path
) -> None:
    before, changes, num_steps = SCENES[scene]
    ground = replace(plan, folder=tmp_path / "ground" / "first", cache_folder=tmp_path / "ground" / "cache")
    for others in before:
        lane(ground, course_of(ground, others), [])
    course = course_of(ground, changes)
    whole = copied(ground, tmp_path / "whole", "second")
    with watching(tmp_path / "whole") as seen:
        lane(whole, course, steps := list[int]())
    assert len(steps) == num_steps
    expected = left_by(place_of(whole, TRIAL))
    assert len(seen) > 10
    for point in range(part, len(seen), PARTS):
        own = copied(ground, tmp_path / f"kill-{point}", "second")
        steps = []
        with watching(own.cache_folder.parent, last=point), pytest.raises(Killed):
            lane(own, course, steps)
        if read_end(own.folder, TRIAL) is None:
            lane(own, course, steps)
        assert len(steps) - num_steps <= INTERVAL, seen[point]
        assert_same(left_by(place_of(own, TRIAL)), expected)
        store = stage_store(own)
        assert store is not None
        assert all(has_stage(store, cut.key) for cut in course.cuts if cut.is_end), seen[point]
        shutil.rmtree(own.cache_folder.parent)
