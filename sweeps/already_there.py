"""How much of a grid its storage holds already, found without training by the keys that lanes will look for."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from mtlib.checkpoint import StateFolder
from mtlib.environment import foresee_environment
from mtlib.stage_keys import Cut
from search_spaces.space import grid_trials
from sweeps.course import Course, find_course
from sweeps.finished import FINISHED_FOLDER, TrialPlace, is_noted
from sweeps.options import SweepOptions, SweepPlan, make_plan
from sweeps.prepare import Material
from sweeps.stage_tree import Known, distinct, train_on_paper
from sweeps.stages import STORE_FOLDER, StageStore, has_stage
from sweeps.trial_spec import make_spec


@dataclass(frozen=True, kw_only=True)
class Foreseen:
    """What of a sweep is there, and what is left."""

    num_trials: int
    num_whole: int
    """Trials that will be taken over whole from other sweeps."""
    num_steps_there: int
    """Optimizer steps that other sweeps have trained."""
    num_steps_left: int
    """Optimizer steps to be trained, those that trials of the sweep share counted once."""


def describe_there(options: SweepOptions, material: Material) -> list[str]:
    """How much of a grid the storage holds already; nothing where it holds nothing, or that cannot be known.

    What is yet to be drawn is not known, nor are the machines of a cluster, on which the bits of a result depend.

    Args:
        options: the checked command line.
        material: the checked data, and the space with every override.

    Raises:
        ValueError: the encoder, or weights to start from, cannot be loaded.
    """
    plan = make_plan(options, material.space, material.data_folder)
    is_known = plan.num_trials is None and plan.address is None and plan.shares
    if not is_known or is_empty(plan):
        return []
    found = foresee(plan)
    if not found.num_steps_there:
        return []
    whole = f", with {found.num_whole} of the {found.num_trials} trials whole" if found.num_whole else ""
    there = f"Other sweeps of this storage have trained {found.num_steps_there:,} of the steps that are left{whole}"
    return [f"{there}: {found.num_steps_left:,} remain."]


def is_empty(plan: SweepPlan) -> bool:
    """Whether the storage holds neither stages nor notes of finished trials."""
    return not any(any((plan.cache_folder / name).glob("*")) for name in (STORE_FOLDER, FINISHED_FOLDER))


def foresee(plan: SweepPlan) -> Foreseen:
    """What of a sweep over a grid its storage holds, should all workers be on a machine like this one."""
    courses = list_courses(plan)
    configs, cuts = [course.config for course in courses], [course.cuts for course in courses]
    alone, paths = (train_on_paper(configs, cuts, True, known) for known in (None, known_of(plan, cuts)))
    total, left = (
        sum(segment.steps for segment in distinct(found) if not segment.is_there) for found in (alone, paths)
    )
    num_whole = sum(path[-1].is_there for path in paths)
    return Foreseen(num_trials=len(paths), num_whole=num_whole, num_steps_there=total - left, num_steps_left=left)


def list_courses(plan: SweepPlan) -> list[Course]:
    """Every trial of a grid, with all that its result follows from."""
    device = "cuda" if plan.gpus_per_worker > 0 and torch.cuda.is_available() else "cpu"
    environment = foresee_environment(device, plan.num_workers, plan.cpus_per_worker)
    specs = [
        make_spec(plan.space, number, replicate, params)
        for number, params in enumerate(grid_trials(plan.space))
        for replicate in range(plan.replicates)
    ]
    return [find_course(spec.config, plan.data_folder, plan.cache_folder, environment) for spec in specs]


def known_of(plan: SweepPlan, cuts: Sequence[Sequence[Cut]]) -> Known:
    """What the storage holds of these trials."""
    store = StageStore(folder=plan.cache_folder / STORE_FOLDER, most_bytes=plan.keep_bytes)
    place = TrialPlace(
        folder=plan.folder,
        trial_id="",
        states=StateFolder(path=plan.folder),
        store=store,
        finished_folder=plan.cache_folder / FINISHED_FOLDER,
    )
    keys = {key for own in cuts for cut in own for key in (cut.key, cut.other_key) if key is not None}
    ends = {own[-1].key for own in cuts if is_noted(place, own[-1])}
    return Known(stages={key for key in keys if has_stage(store, key)}, ends=ends)
