"""What must hold before a sweep starts: keys of --set and --vary, starting weights, rows, comparability."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from mtlib.config.task_file import TASK_FILE
from mtlib.config.trial import TrialConfig
from mtlib.data.load import TableKey
from mtlib.data.row_sources import HELD
from mtlib.model.hub import read_encoder_name
from mtlib.runtime.errors import require
from mtlib.runtime.storage import expanded_path
from search_spaces.domain import ALL_STAGES_PREFIX, LEARNING_SEARCHES, expand_tasks
from search_spaces.space import SearchSpace, changed_keys, choice_values, grid_trials, search_domain
from sweeps.options import ENCODER_KEY, SweepOptions
from sweeps.plan.checks.inert_keys import check_keys_matter

FLAG_OF_KEY = {
    ENCODER_KEY: "--encoder",
    "seed": "--seed",
    "replicate": "--replicates",
    "data.hold_out": "--hold-out",
}
"""Configuration keys that --set and --vary refuse, with the flag that sets each; --vary takes a list of encoders."""


def check_changes(options: SweepOptions, base: TrialConfig, asked: SearchSpace | None) -> None:
    """Raises ValueError if --set names a key that is searched, or --set, --vary or --claim one that has a flag of its
    own.

    `asked` is the space of --space; its keys are not searched where --vary or --claim names others.
    """
    claim = options.claimed
    sides = [] if claim is None else [("--claim", claim.better), ("--claim", claim.worse)]
    for flag, changes in (("--set", options.set), ("--vary", options.vary), *sides):
        for key, value in changes.items():
            rule = f"{key} must be given by {FLAG_OF_KEY.get(key)}, not by {flag}"
            is_compared = flag != "--set" and key == ENCODER_KEY
            require(key not in FLAG_OF_KEY or is_compared, rule, f"{key}={value}")
            rule = f"{flag} must leave the definitions of tasks to {TASK_FILE} in the data folder"
            require(not f"{key}.".startswith("data.tasks."), rule, f"{key}={value}")
    if claim is not None:
        place, searched = "--claim", list(expand_tasks(dict.fromkeys(claim.keys), base.active_tasks))
    elif options.vary or asked is None:
        place, searched = "--vary", list(expand_tasks(options.vary, base.active_tasks))
    else:
        keys = asked.grid if options.search == "grid" else search_domain(asked)
        place, searched = f"space '{asked.name}'", [dotted for key in keys for dotted in changed_keys(asked, key)]
    rule = f"--set must leave alone what {place} searches ({', '.join(searched)})"
    hint = "; 'stages.*.KEY=VALUE' sets a key in all stages of all trials" if "stages" in searched else ""
    for key, value in expand_tasks(options.set, base.active_tasks).items():
        is_hit = any(sets_searched(key, dotted) for dotted in searched)
        require(not is_hit, rule, f"{key}={value}{hint if key.startswith('stages.') else ''}")


def sets_searched(key: str, searched: str) -> bool:
    """Returns whether a key of --set changes a key that is searched; `stages.*.KEY` is set within a whole list of
    stages, but not within a single stage of it."""
    if key.startswith(ALL_STAGES_PREFIX):
        is_single_stage = searched.count(".") == 1 and searched.startswith("stages.")
        return is_single_stage or fnmatchcase(searched, key)
    return key == searched or key.startswith(f"{searched}.")


def check_space(space: SearchSpace, options: SweepOptions) -> None:
    """Raises ValueError if a point of the space that is searched cannot be run, or compared with the others."""
    check_encoder_names(space)
    check_starts(space)
    check_held_out_share(space)
    check_comparable(space, options)
    check_patience(space, options)
    if not options.resume:
        check_keys_matter(space)


def check_patience(space: SearchSpace, options: SweepOptions) -> None:
    """Raises ValueError if a scheduler compares epochs of trials whose stages may end early."""
    ends = [f"stages.{index}.patience" for one in space.configs for index, own in enumerate(one.stages) if own.patience]
    rule = f"--scheduler must be none where a stage has a patience ({', '.join(dict.fromkeys(ends))})"
    require(options.scheduler == "none" or not ends, rule, options.scheduler)


def check_encoder_names(space: SearchSpace) -> None:
    """Raises ValueError if a space searches encoders by paths that are relative, or by folders that are missing."""
    for name in choice_values(space, ENCODER_KEY):
        rule = f"{ENCODER_KEY} must be a hub name or an absolute path where a space searches it"
        require(read_encoder_name(name, ENCODER_KEY) == name, rule, name)


def check_starts(space: SearchSpace) -> None:
    """Raises ValueError if starting weights are missing, or named by a path that is relative."""
    for start in {config.encoder.start_from: None for config in space.configs}:
        path = expanded_path(start or "/")
        require(path.is_absolute(), "encoder.start_from must be an absolute path where a space searches it", start)
        require(path.exists(), "encoder.start_from must be a folder or a file", f"{start}, which is missing")


def check_comparable(space: SearchSpace, options: SweepOptions) -> None:
    """Raises ValueError if the search, the scheduler or a race compares trials that train different tasks.

    A race may do so by the score of a task that all of them train; it must have two configurations to compare.
    """
    found = sorted({config.active_tasks for config in space.configs})
    is_race = options.until_decided is not None and not all(space.metric in tasks for tasks in found)
    is_compared = options.search in LEARNING_SEARCHES or options.scheduler != "none" or is_race
    if options.claim is not None and is_race:
        rule = "--claim must end in 'in TASK' where the two train different tasks, with a task that both train"
        require(len(found) == 1, rule, "; ".join(" ".join(tasks) for tasks in found))
    searches = "--search tpe, --search gp and --scheduler compare"
    compares = searches if options.until_decided is None else "--until-decided compares"
    rule = f"{compares} trials, which in space '{space.name}' train different tasks"
    way = " (a grid with --replicates 3 shows the effects on each task instead)"
    require(not is_compared or len(found) == 1, rule, "; ".join(" ".join(tasks) for tasks in found) + way)
    number = options.num_drawn or len(grid_trials(space))
    rule = "--until-decided must compare configurations (--vary KEY=A,B, a space with a grid, or --search)"
    require(options.until_decided is None or number > 1, rule, f"{number} in space '{space.name}'")


def check_held_out_share(space: SearchSpace) -> None:
    """Raises ValueError unless all trials hold out the same share: a selection is scored on one held-out part."""
    found = sorted({config.data.hold_out for config in space.configs})
    rule = f"data.hold_out must be left to --hold-out, the same for all trials, in space '{space.name}'"
    require(len(found) == 1, rule, ", ".join(f"{share:g}" for share in found))


def check_held_out_files(space: SearchSpace, others: Iterable[TableKey]) -> None:
    """Raises ValueError if some trials would hold out a task's rows from other files than the first one.

    `others` are the sets and splits of which some trials read other files.
    """
    differing = sorted({task for task, split in others if split == HELD})
    rule = f"--hold-out must find a task's train rows in the same place in all trials of space '{space.name}'"
    require(not differing, rule, f"different files of {', '.join(differing)}")
