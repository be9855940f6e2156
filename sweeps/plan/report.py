"""A sweep's plan as lines of text: its configurations, optimizer steps and disk. Nothing is started."""

import functools
import itertools
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from rich.filesize import decimal

from mtlib.config.schema import to_dict
from mtlib.config.trial import TrialConfig, named_entries
from mtlib.data.tables import Table
from mtlib.model.encoder import PretrainedEncoder
from mtlib.runtime.command_line import counted
from mtlib.runtime.console import COMMAND_INDENT, PrintedTable, output_width, table_lines, wrapped
from mtlib.runtime.storage import local_path
from mtlib.stages.effective_settings import length_counts
from mtlib.stages.keys import Cut
from mtlib.stages.plan import plan_stages
from results.answers.group_words import few_groups_words
from results.stats.effects.searched_keys import NO_VALUE, own_value
from results.stats.groups import drawn_groups, text_groups_of
from results.stats.texts import capitalized, value_text, value_texts
from search_spaces.domain import LEARNING_SEARCHES, Choice, Condition, Float, Range, key_title
from search_spaces.space import SearchSpace, describe_space, encoder_names, grid_trials, search_domain
from search_spaces.space_file import is_path
from search_spaces.space_json import as_tuples
from search_spaces.vary import typed, typed_value
from sweeps.cluster.gpu_shares import workers_on_gpus
from sweeps.cluster.usable_resources import usable_cpus
from sweeps.driver.trials.stage_order import find_cuts
from sweeps.options import SweepOptions
from sweeps.plan.disk import disk_need, expected_best, measure_model, most_best
from sweeps.plan.inputs import SweepInputs, planned_configs
from sweeps.search.base_point import base_point

T = TypeVar("T")

MAX_SKIPPED_ROWS = 10
"""Unusable rows that are named; `sweep.json` names them all."""
FALLING = ("cosine", "slanted_triangular")
"""Schedules whose rate falls to 0."""
EXPECTED_ROUNDS = 6
"""Trainings for each configuration of a race: the median of simulated ones (`docs/measurements/statistics.md`)."""


def describe_sweep(options: SweepOptions, inputs: SweepInputs) -> list[str]:
    """Returns the question, data and encoder of a sweep, and where its files go."""
    space, names = inputs.space, encoder_names(inputs.space)
    rows = ", ".join(f"{task} {rows:,}" for task, rows in inputs.train_rows_of(space.base).items())
    file = f"Space: {options.space}; --resume reads the copy in the sweep's folder"
    lines = [
        f"Sweep {options.name}: {space.question}",
        *([file] if isinstance(options.space, str) and is_path(options.space) else []),
        f"Data: {inputs.data_folder} (train rows: {rows})",
        f"Encoder{'s' * (len(names) > 1)}: {', '.join(names)}",
        *wrapped(describe_base(options, space), output_width()),
        f"Files: {options.folder}",
        *wrapped(
            [*inputs.notes, *describe_unused_methods(space), *describe_early_ends(planned_configs(options, space))],
            output_width(),
        ),
    ]
    left_out = (f"Left out: {line}." for line in inputs.left_out)
    few_groups = few_groups_lines(space, inputs, is_race=options.until_decided is not None)
    held_out = [*few_groups, *describe_held_out(options.hold_out, inputs.held_out)]
    return [*lines, *held_out, *describe_skipped(inputs.skipped), *left_out]


def few_groups_lines(space: SearchSpace, inputs: SweepInputs, *, is_race: bool) -> list[str]:
    """Returns a line if dev rows are in too few groups for the sweep to claim any difference, and one if held-out rows
    are, whose score then has no interval; empty otherwise."""
    lines = []
    for what, tables in (("dev", inputs.rows("dev")), ("held-out", inputs.held_out)):
        found = {}
        for task, table in tables.items():
            drawn = drawn_groups(np.zeros((1, len(table.ids))), text_groups_of(table))
            if not drawn.are_usable:
                found[space.base.task(task).title] = drawn
        if found:
            ends = is_race and what == "dev"
            more = "; the race would end after its first decision" if ends else ""
            lines.append(f"{capitalized(few_groups_words(found, what))}{more}.")
    return wrapped(lines, output_width())


def describe_base(options: SweepOptions, space: SearchSpace) -> list[str]:
    """Returns what the base configuration has of each searched key, with what differences are from where that is no
    value, and offers to add it to a list of --vary."""
    base, grid, parts, offers = to_dict(space.base), dict(describe_space(space)["grid"]), [], []
    for title, item in ((key_title(key), item) for key, item in search_domain(space).items()):
        own = own_value(base, title, grid.get(title, ()))
        text = title if own is NO_VALUE else f"{title} {value_text(own)}"
        if isinstance(item, Choice) and own not in map(as_tuples, item.values):
            text += " (none of the values: differences are from the value with the best mean)"
            if own is not NO_VALUE and title in options.vary:
                shown = typed_value(own)
                wider = shlex.quote(f"{title}={typed(options.vary[title])},{shown}")
                offers.append(
                    f"{title} {shown} is not tried: nothing is compared with what you have. To add it: --vary {wider}"
                )
        parts.append(text)
    return [f"Base configuration: {', '.join(parts)}", *offers]


def describe_unused_methods(space: SearchSpace) -> list[str]:
    """Returns a line that names the user's own methods that no trial uses; empty where each is used."""
    origins = space.base.methods.origins
    if not origins:  # else each configuration of the space is looked at
        return []
    metrics = {("metrics", task.metric) for task in space.base.data.tasks.values()}
    used = metrics.union(*map(named_entries, space.configs))
    unused = [f"{entry[1]} ({file.name})" for entry, file in origins.items() if entry not in used]
    how = "name a method by --set, --vary or in the space, a metric in tasks.toml"
    return [f"Used by no trial: {', '.join(unused)}; {how}."] if unused else []


def describe_early_ends(configs: Sequence[TrialConfig]) -> list[str]:
    """Returns a line where a stage may end before its falling rate is low; empty otherwise."""
    patient = {own.optimizer.schedule for own in configs if any(stage.patience for stage in own.stages)}
    rule = "the rate falls over the planned steps, so a stage that ends early stops while it is still high"
    way = "constant_with_warmup does not fall"
    return [f"stages.N.patience with the schedule {name}: {rule} ({way})." for name in FALLING if name in patient]


def describe_held_out(share: float, tables: Mapping[str, Table]) -> list[str]:
    """Returns the number of held-out train rows of each task, in a line; empty where none are."""
    rows = ", ".join(f"{task} {len(table.ids):,}" for task, table in tables.items())
    return [f"Held out for a last score, {share:g} of train: {rows} rows."] if rows else []


def describe_skipped(skipped: Sequence[str]) -> list[str]:
    """Returns the number of unusable rows, and the first of them."""
    if not skipped:
        return []
    shown = [f"  {line}" for line in skipped[:MAX_SKIPPED_ROWS]]
    more = [f"  and {len(skipped) - MAX_SKIPPED_ROWS} more"] if len(skipped) > MAX_SKIPPED_ROWS else []
    return [f"{counted(len(skipped), 'row')} cannot be used and will be left out:", *shown, *more]


def describe_trials(options: SweepOptions, inputs: SweepInputs) -> list[str]:
    """Returns a line for every configuration of a grid, or for every key of the search domain."""
    times = describe_times(options)
    if options.num_drawn is not None:
        domain, conditions = search_domain(inputs.space), inputs.space.conditions
        drawn = [
            f"{COMMAND_INDENT}{key_title(key)}: {describe_range(item)}{condition_text(conditions.get(key))}"
            for key, item in domain.items()
        ]
        lines = [f"{options.num_drawn} configurations drawn by {options.search}, each trained {times}, from"]
        starts_at_base = options.search in LEARNING_SEARCHES and base_point(inputs.space) is not None
        if options.search == "gp" and conditions:
            drawn.append("Keys with a condition are drawn at random; --search tpe learns about them too.")
        return lines + drawn + ["The first is the base configuration."] * starts_at_base
    trials, steps = grid_trials(inputs.space), steps_of_each(options, inputs)
    texts = [value_texts([overrides[key] for overrides in trials]) for key in trials[0]]
    values = zip(*texts, strict=True) if texts else [()]
    rows = [[f"{number:04d}", *own, f"{steps[number]:,}"] for number, own in enumerate(values)]
    titles = ["configuration", *trials[0], "steps"]
    title = f"{counted(len(trials), 'configuration')} on the grid, each trained {times}:"
    return [title, *align_columns([titles, *rows])]


def describe_times(options: SweepOptions) -> str:
    """Returns how often each configuration is trained."""
    common, total = ("once" if n == 1 else f"{n} times" for n in (options.common_replicates, options.replicates))
    if options.until_decided is not None:
        which = "" if options.replicate_best is None else f"the {options.replicate_best} best "
        return f"{common}, then {which}in rounds until it is decided, at most {total} in all"
    return (
        common if options.replicate_best is None else f"{common}, then the {options.replicate_best} best {total} in all"
    )


def describe_range(item: Range) -> str:
    """Returns a range or choice as text."""
    if isinstance(item, Choice):
        return "one of " + ", ".join(value_texts(item.values))
    kind = "a number" if isinstance(item, Float) else "a whole number"
    return f"{kind} from {value_text(item.low)} to {value_text(item.high)}{', logarithmic' * item.log}"


def condition_text(condition: Condition | None) -> str:
    """Returns the condition under which a key is sampled, as text; empty without one."""
    if condition is None:
        return ""
    return f", only where {key_title(condition.key)} is {' or '.join(value_texts(condition.values))}"


@dataclass(frozen=True, kw_only=True)
class Span:
    """Epochs of one stage that are trained once, however many configurations share them."""

    config: TrialConfig
    """The first configuration that has them."""
    cut: Cut
    """Where they end."""
    steps: int
    """Their optimizer steps."""


def distinct_spans(options: SweepOptions, inputs: SweepInputs) -> list[Span]:
    """Returns what one replicate of each configuration trains, at most; configurations yet to be sampled share nothing.

    A stage that starts from the best weights of one before shares a little more than what is counted here.
    """

    def spans_of(config: TrialConfig) -> list[Span]:
        cuts = find_cuts(config, inputs.data_folder, options.workers, inputs.train_rows_of(config))
        ends = [0, *(cut.total_steps for cut in cuts)]
        steps = [end - start for start, end in itertools.pairwise(ends)]
        return [Span(config=config, cut=cut, steps=num) for cut, num in zip(cuts, steps, strict=True)]

    every = [span for spans in of_each(options, inputs, spans_of) for span in spans]
    if options.num_drawn is not None or not options.shares_stages:
        return every
    first: dict[str, Span] = {}
    for span in every:
        first.setdefault(span.cut.key, span)
    return list(first.values())


def steps_of_each(options: SweepOptions, inputs: SweepInputs) -> list[int]:
    """Returns the optimizer steps of every configuration."""
    return of_each(
        options, inputs, lambda own: sum(stage.num_steps for stage in plan_stages(own, inputs.train_rows_of(own)))
    )


def of_each(options: SweepOptions, inputs: SweepInputs, make: Callable[[TrialConfig], T]) -> list[T]:
    """Returns what `make` makes of every configuration, once of those yet to be sampled: they are the base one."""
    configs = planned_configs(options, inputs.space)
    return list(map(make, configs)) if options.num_drawn is None else [make(configs[0])] * len(configs)


def describe_total(options: SweepOptions, inputs: SweepInputs) -> str:
    """Trainings and optimizer steps of the whole sweep, of a race the expected ones too, and the steps that sharing
    stages saves."""
    own, times = sorted(steps_of_each(options, inputs), reverse=True), options.common_replicates
    steps, num_trials = count_steps(options, own), options.num_trials(len(own))
    drawn = ", counted as in the space's base configuration" if options.num_drawn is not None else ""
    stopped = f", fewer where {options.scheduler} stops trials" if options.scheduler != "none" else ""
    shared = (sum(own) - sum(span.steps for span in distinct_spans(options, inputs))) * times
    saved = f"; sharing stages saves {shared:,} of them ({shared / steps:.1%})" if shared else ""
    if (likely := in_expected_rounds(options)) != options:
        expected = f"about {counted(likely.num_trials(len(own)), 'training')} and {count_steps(likely, own):,}"
        race = f" {EXPECTED_ROUNDS} trainings for each configuration are the median of simulated races."
        return f"In all {expected} optimizer steps expected, at most {num_trials} and {steps:,}{drawn}{saved}.{race}"
    is_race, differ = options.until_decided is not None, options.replicate_best is not None and own[0] > own[-1]
    bounds = "at most " * is_race, "at most " * (is_race or differ)
    total = f"{bounds[0]}{counted(num_trials, 'training')} and {bounds[1]}{steps:,} optimizer steps"
    return f"In all {total}{drawn}{stopped}{saved}."


def count_steps(options: SweepOptions, own: Sequence[int]) -> int:
    """Returns the optimizer steps of all trainings, at most; `own` are those of each configuration, the most first."""
    times = options.common_replicates
    return sum(own) * times + sum(own[: options.replicate_best]) * (options.replicates - times)


def in_expected_rounds(options: SweepOptions) -> SweepOptions:
    """Returns the options of a race with as many rounds as are expected; others as they are."""
    if options.until_decided is None:
        return options
    return replace(options, replicates=min(options.replicates, max(EXPECTED_ROUNDS, options.chosen_by + 1)))


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells, the first one titles, as indented lines; columns of numbers are right-aligned."""
    titles, *cells = rows
    columns = enumerate(zip(*cells, strict=True))
    numbers = {at for at, column in columns if all(cell[:1].isdigit() for cell in column if cell)}
    table = PrintedTable(titles=titles, rows=cells, numbers=numbers, has_rule=False)
    tall = replace(table, titles=[title.split(" ") for title in titles])
    lines = table_lines(output_width() - len(COMMAND_INDENT), table, tall)
    return [f"{COMMAND_INDENT}{line}".rstrip() for line in lines]


def describe_disk_need(
    options: SweepOptions, inputs: SweepInputs, encoders: Mapping[str, PretrainedEncoder]
) -> list[str]:
    """Returns the disk that the sweep is expected to need and can need, how much is free where its folder will be,
    unless that is in a bucket, and a warning if it is too little.

    Of configurations yet to be sampled each counts with the largest of the encoders.
    """
    is_drawn, num_configs = options.num_drawn is not None, len(planned_configs(options, inputs.space))
    ends, num_concurrent = stored_ends(options, inputs), max_concurrent(options, options.num_trials(num_configs))

    @functools.cache
    def measure(config: TrialConfig) -> int:
        own = encoders.values() if is_drawn else (encoders[config.encoder.name],)
        return max(measure_model(config, encoder) for encoder in own)

    expected = disk_need(in_expected_rounds(options), inputs, ends, measure, num_concurrent, expected_best)
    need = disk_need(options, inputs, ends, measure, num_concurrent, most_best)
    likely = "" if decimal(expected) == decimal(need) else f"about {decimal(expected)} expected, "
    storage = local_path(options.storage)
    if storage is None:
        return [f"Disk: {likely}at most {decimal(need)}."]
    existing = next(folder for folder in (storage, *storage.parents) if folder.is_dir())
    free = shutil.disk_usage(existing).free
    warning = "Warning: the sweep may need more disk than is free; choose another --storage, or fewer trials."
    return [f"Disk: {likely}at most {decimal(need)}; {decimal(free)} free.", *([warning] if need > free else [])]


def stored_ends(options: SweepOptions, inputs: SweepInputs) -> list[TrialConfig]:
    """Returns a configuration for each end of a stage that is stored: no trial goes on from the last end of a schedule
    whose length counts."""
    spans = [span for span in distinct_spans(options, inputs) if span.cut.is_end]
    last = max(span.cut.stage for span in spans)
    return [span.config for span in spans if span.cut.stage < last or not length_counts(span.config, last)]


def max_concurrent(options: SweepOptions, num_trainings: int) -> int:
    """Returns the most trials that can run at the same time: as many as fit this machine, any number on a cluster."""
    wanted = min(num_trainings, options.concurrent or num_trainings)
    if options.address is not None:
        return wanted
    workers = usable_cpus() // options.cpus_per_worker
    if options.gpus_per_worker > 0:
        workers = min(workers, workers_on_gpus(torch.cuda.device_count(), options.gpus_per_worker))
    return min(wanted, max(1, workers // options.workers))
