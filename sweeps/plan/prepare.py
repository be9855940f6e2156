"""Turns the options of a sweep into what is run: no other place changes its space and its options."""

import dataclasses
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime

from mtlib.config.trial import with_methods
from mtlib.data.load import data_tasks
from mtlib.model.encoder import PretrainedEncoder, load_encoder, preview_encoder
from mtlib.runtime.console import ShowLines
from mtlib.runtime.errors import require
from mtlib.runtime.storage import check_answer, exists, is_file, local_path, open_folder
from results.records.trials import SWEEP_FILE, read_sweep, sweep_tasks
from search_spaces.claim import CLAIM_NAME, claim_space
from search_spaces.presets import general
from search_spaces.set_values import set_stages
from search_spaces.space import SearchSpace, encoder_names
from search_spaces.task_fit import chosen_tasks
from search_spaces.vary import NAME, vary
from sweeps.options import SweepOptions, SweepPlan
from sweeps.plan.checks.encoder import describe_families, describe_flash
from sweeps.plan.checks.machine import check_machine, describe_gpus, join_cluster, use_gpus
from sweeps.plan.checks.space import check_changes, check_space
from sweeps.plan.inputs import SweepInputs, planned_configs, read_inputs
from sweeps.plan.packing import pack_gpus
from sweeps.plan.precision import describe_precision, fit_encoders
from sweeps.plan.report import describe_sweep
from sweeps.plan.space_changes import (
    as_begun,
    change_base,
    find_methods,
    find_sources,
    read_asked_space,
    short_grid,
    with_present_definitions,
    with_searched_encoder,
)
from sweeps.plan.tokenizers import fit_tokenizers
from sweeps.tracking.tracker import check_trackers

TRYING = "Trying a step of each kind that the trials will take, here on the CPU ..."
"""Shown before encoders are found and tried, which takes about four seconds for BERT-base."""
MEASURING = "Measuring on a GPU how much memory the trials need ..."


@dataclass(frozen=True, kw_only=True)
class PreparedSweep:
    """A sweep that can be run: everything was found and fits, and no file of it is written."""

    options: SweepOptions
    """With a name, and a number of GPUs for each worker."""
    inputs: SweepInputs
    """Its space and its rows, whose texts are needed until they are tokenised."""
    encoders: Mapping[str, PretrainedEncoder]
    """By name, that of the base configuration first."""

    @property
    def plan(self) -> SweepPlan:
        """What the run needs of it once rows are tokenised."""
        return SweepPlan(
            options=self.options,
            space=self.inputs.space,
            data_folder=self.inputs.data_folder,
            num_parameters=max(encoder.num_parameters for encoder in self.encoders.values()),
        )


def prepare(options: SweepOptions, show: ShowLines, cluster: ExitStack) -> PreparedSweep:
    """Turns options into a sweep that can be run: a new one, a resumed one or a dry run, which fetches no weights.

    Args:
        options: as they are given.
        show: gets lines about the sweep as they become known.
        cluster: until it is closed, Ray is connected to the cluster, if there is an address of one.

    Raises:
        ValueError: one line: space, data, encoder, machine or storage do not fit the options.
    """
    # What takes no time to check, and of a resumed sweep its record.
    check_trackers(options.log_to)
    begun = read_sweep(options.folder) if options.resume else None

    # The question: the space of --space for the data's tasks, or general settings for --vary alone.
    methods = find_methods(options, begun)
    tasks = data_tasks(options.data, methods.own_metrics) if begun is None else sweep_tasks(begun)
    asked, kept = read_asked_space(options, tasks, methods)
    base = with_methods(general(chosen_tasks(tasks, options.set)), methods) if asked is None else asked.base
    options = with_name(options, asked)
    check_name_is_free(options)
    check_changes(options, base, asked)

    # The machine or the cluster, and its GPUs.
    join_cluster(options, cluster, lambda line: show([line]))
    options = use_gpus(options)
    check_machine(options)

    # The space that is searched: the base is changed first, as --vary, plans and --set depend on it.
    options = with_searched_encoder(options, base, asked)
    data_folder, encoder, notes = find_sources(options, base, asked)
    base = change_base(base, encoder, options)
    metric = "overall" if asked is None else asked.metric
    if options.claimed is not None:
        space = claim_space(base, metric, options.claimed)
    elif asked is None or options.vary:
        space = vary(base, metric, options.vary, options.smaller_grids)
    else:
        space = set_stages(short_grid(asked, base, options), options.set)
    if begun is not None:
        space = as_begun(with_present_definitions(space, options.data), begun)
    check_space(space, options)

    # The rows of all its configurations.
    inputs = read_inputs(space, data_folder)
    inputs = dataclasses.replace(
        inputs,
        kept_space=kept,
        notes=(*notes, *inputs.notes),
        precision_reason=None if begun is None else begun.get("precision_reason"),
    )
    show([*describe_sweep(options, inputs), describe_gpus(options), TRYING])

    # The encoders: their tokens, the precision in which a step runs, and how many trials share a GPU.
    encoders = load_encoders(options, space, show)
    inputs, encoders, token_lines = fit_tokenizers(options, inputs, encoders)
    inputs = fit_encoders(options, inputs, encoders)
    show([*token_lines, *describe_families(encoders.values()), *describe_precision(inputs)])
    if begun is None:
        show(describe_flash(options, inputs, encoders))
    if options.packs_gpus and not options.dry_run:
        show([MEASURING])
        num_trials = options.num_trials(len(planned_configs(options, space)))
        most = min(num_trials, options.concurrent or num_trials)  # at the same time, were the machine large enough
        options, line = pack_gpus(options, inputs.space.configs, encoders, most)
        show([line])
    return PreparedSweep(options=options, inputs=inputs, encoders=encoders)


def with_name(options: SweepOptions, asked: SearchSpace | None) -> SweepOptions:
    """Returns the options with a name for the sweep, where none is given: the space, the date and the time."""
    if options.name:
        return options
    of_claim = options.claim is not None
    space = CLAIM_NAME if of_claim else NAME if options.vary or asked is None else asked.name
    return dataclasses.replace(options, name=f"{space}-{datetime.now():%Y%m%d-%H%M%S}")


def check_name_is_free(options: SweepOptions) -> None:
    """Raises ValueError if a new sweep's name is taken already, or its storage does not answer or cannot be written."""
    check_answer(options.storage)
    if options.resume or not exists(options.folder):
        if (folder := local_path(options.folder)) is not None:
            found = next(place for place in (folder, *folder.parents) if os.access(place, os.F_OK))
            rule = "--storage must be a place that can be written"
            require(os.access(found, os.W_OK | os.X_OK), rule, f"{options.storage}: {found} is not")
        return
    is_sweep = is_file(open_folder(options.folder), SWEEP_FILE)
    rule = "a sweep's name must be new; choose another with --name, or leave it out for one made from the time"
    hint = "" if is_sweep else f"; it has no {SWEEP_FILE}: if a sweep was killed when it began there, delete it"
    raise ValueError(f"{rule}, got {options.folder}{hint}")


def load_encoders(options: SweepOptions, space: SearchSpace, show: ShowLines) -> dict[str, PretrainedEncoder]:
    """Returns the encoders of a space by name; a dry run says where they are instead of fetching their weights."""
    names = encoder_names(space)
    if not options.dry_run:
        return {name: load_encoder(name) for name in names}
    found = {name: preview_encoder(name) for name in names}
    for name, (_, place) in found.items():
        show([f"The encoder {name} is {place}." if len(found) > 1 else f"The encoder is {place}."])
    return {name: encoder for name, (encoder, _) in found.items()}
