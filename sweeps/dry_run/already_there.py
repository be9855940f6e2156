"""How much of a grid its storage holds already, found without training by the keys that lanes will look for."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from mtlib.checkpoints.state import StateFolder
from mtlib.config.trial import TrialConfig
from mtlib.data.load import find_parts
from mtlib.data.table_parts import read_tables
from mtlib.data.token_cache import are_tokenized
from mtlib.runtime.environment import foresee_environment
from mtlib.stages.keys import Cut
from search_spaces.space import grid_trials
from sweeps.dry_run.model_size import measure_encoder
from sweeps.dry_run.stage_tree import Known, distinct, train_on_paper
from sweeps.lanes.loaded_trial import encoder_of, find_course
from sweeps.options import SweepOptions, SweepPlan, make_plan
from sweeps.reuse.finished_trials import FINISHED_FOLDER, TrialPlace, find_finished, score_names
from sweeps.reuse.stage_store import STORE_FOLDER, StageStore, entry_folders, has_stage
from sweeps.search.trial_spec import make_spec
from sweeps.setup.inputs import Material


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
    Nothing is fetched and nothing is written.

    Args:
        options: the checked command line.
        material: the checked data, and the space with every override.

    Raises:
        ValueError: the encoder, or weights to start from, cannot be loaded.
    """
    plan = make_plan(options, material.space, material.data_folder)
    if plan.num_trials is not None or plan.address is not None or not plan.reuse or is_empty(plan):
        return []
    configs = list_configs(plan)
    if not are_cached(plan, configs):
        return []
    found = foresee(plan, configs)
    if not found.num_steps_there:
        return []
    steps = found.num_steps_there + found.num_steps_left
    whole = f" ({found.num_whole} of the {found.num_trials} trials whole)" if found.num_whole else ""
    there = (
        f"Other sweeps of this storage have already trained {found.num_steps_there:,} of these {steps:,} steps{whole}"
    )
    return [f"{there}: {found.num_steps_left:,} are left to train."]


def is_empty(plan: SweepPlan) -> bool:
    """Whether the storage holds neither stages nor notes of finished trials."""
    return not entry_folders(store_of(plan)) and not any((plan.cache_folder / FINISHED_FOLDER).glob("*.json"))


def store_of(plan: SweepPlan) -> StageStore:
    """The storage's stages, none where none are shared."""
    return StageStore(folder=plan.cache_folder / STORE_FOLDER, most_bytes=plan.keep_bytes if plan.shares_stages else 0)


def list_configs(plan: SweepPlan) -> list[TrialConfig]:
    """The configuration of every trial of a grid, replicates included."""
    specs = (
        make_spec(plan.space, number, replicate, params)
        for number, params in enumerate(grid_trials(plan.space))
        for replicate in range(plan.replicates)
    )
    return [spec.config for spec in specs]


def are_cached(plan: SweepPlan, configs: Sequence[TrialConfig]) -> bool:
    """Whether encoders are on this machine and data are in the token cache: else nothing was trained with them here."""
    wanted = {
        (config.encoder.name, pair): None for config in configs for pair in find_parts(config, plan.data_folder).items()
    }
    if any(measure_encoder(name) is None for name in {name for name, _ in wanted}):
        return False
    tables = read_tables((parts for _, (_, parts) in wanted), plan.data_folder)
    return all(
        are_tokenized({key: tables[parts]}, encoder_of(name).tokenizer, plan.cache_folder)
        for name, (key, parts) in sorted(wanted, key=lambda pair: pair[0])
    )


def foresee(plan: SweepPlan, configs: Sequence[TrialConfig]) -> Foreseen:
    """What of these trials the storage holds, should all workers be on a machine like this one."""
    device = "cuda" if plan.gpus_per_worker > 0 and torch.cuda.is_available() else "cpu"
    environment = foresee_environment(device, plan.workers, plan.cpus_per_worker)
    cuts = [find_course(config, plan.data_folder, plan.cache_folder, environment).cuts for config in configs]
    known = known_of(plan, configs, cuts)
    alone, paths = (train_on_paper(configs, cuts, plan.shares_stages, there) for there in (Known(), known))
    total, left = (
        sum(segment.steps for segment in distinct(found) if not segment.is_there) for found in (alone, paths)
    )
    num_whole = sum(path[-1].is_there for path in paths)
    return Foreseen(num_trials=len(paths), num_whole=num_whole, num_steps_there=total - left, num_steps_left=left)


def known_of(plan: SweepPlan, configs: Sequence[TrialConfig], cuts: Sequence[Sequence[Cut]]) -> Known:
    """What the storage holds of these trials."""
    store = store_of(plan)
    place = TrialPlace(
        folder=plan.folder,
        trial_id="any",
        states=StateFolder(path=plan.folder),
        store=store,
        finished_folder=plan.cache_folder / FINISHED_FOLDER,
    )
    keys = {key for own in cuts for cut in own for key in (cut.key, cut.other_key) if key is not None}
    lasts = [(own[-1], score_names(config)) for config, own in zip(configs, cuts, strict=True)]
    ends = {last.key for last, names in lasts if find_finished(place, last, names)}
    return Known(stages={key for key in keys if has_stage(store, key)}, ends=ends)
