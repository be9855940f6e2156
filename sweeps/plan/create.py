"""Creates a new sweep: its folder and `sweep.json`."""

import contextlib
import platform
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from mtlib.data.repeats import contradicting_rows, repeated_rows, repeats_row
from mtlib.model.encoder import PretrainedEncoder
from mtlib.runtime.environment import versions_of
from mtlib.runtime.program_names import PROJECT_FOLDER
from mtlib.runtime.storage import (
    delete_folder,
    list_files,
    local_path,
    make_folder,
    open_folder,
    split_location,
    write_bytes,
)
from results.records.examples import HoldOutRecord, held_out_rows, write_groups, write_hold_out
from results.records.race import RACE_KEY, RaceRecord, race_to_json
from results.records.trials import (
    CUT_ROWS_KEY,
    DROPPED_ROWS_KEY,
    ENCODERS_KEY,
    FIRST_LOOK,
    SPACE_FILE,
    TOKENIZERS_KEY,
    write_sweep,
)
from search_spaces.space import SearchSpace, describe_space
from search_spaces.space_json import SPACE_JSON
from sweeps.options import SweepPlan, saved_options
from sweeps.plan.inputs import SweepInputs
from sweeps.plan.prepare import PreparedSweep, check_name_is_free
from sweeps.plan.provenance import PACKAGES, describe_code, describe_git, describe_machine
from sweeps.plan.space_changes import writing_to


def create_sweep(prepared: PreparedSweep, command: str) -> SweepPlan:
    """Makes the sweep's folder with `sweep.json` and the groups of dev rows.

    Where rows are held out `hold_out.json` names them; of a space that is not built in the folder has a copy.

    `command` is what started it, so that it can be typed again.

    Raises:
        ValueError: the storage cannot be written, or the name is taken.
    """
    options, inputs = prepared.options, prepared.inputs
    race = None if options.until_decided is None else RaceRecord()
    plan = replace(prepared.plan, race=race)
    with writing_to(options.storage):
        if not make_folder(options.folder):
            check_name_is_free(options)  # raises: another command has taken it since
        try:
            if inputs.held_out:
                rows = held_out_rows(inputs.held_out)
                write_hold_out(options.folder, HoldOutRecord(share=options.hold_out, tasks=rows))
            write_groups(options.folder, inputs.rows("dev"))
            if inputs.kept_space is not None:
                name = SPACE_JSON if isinstance(options.space, SearchSpace) else SPACE_FILE
                write_bytes(open_folder(options.folder), name, inputs.kept_space)
            write_sweep(options.folder, sweep_info(plan, inputs, prepared.encoders, command))
        except OSError:
            if local_path(options.folder) is not None:  # in a bucket another command may have taken the name
                with contextlib.suppress(OSError):
                    discard_unstarted(options.folder)
            raise
    return plan


def discard_unstarted(folder: str) -> None:
    """Removes a sweep's folder if none of its trials has started, so that its name is free again."""
    if not list_files(open_folder(folder), "trials"):
        storage, name = split_location(folder)
        delete_folder(open_folder(storage), name)


def first_look(plan: SweepPlan) -> dict[str, int | None]:
    """Returns what the first look at a sweep sees: the trainings that its command declares before it starts.

    A race declares none: it looks after every round.
    """
    is_race = plan.options.until_decided is not None
    return {"configurations": plan.num_configurations, "replicates": None if is_race else plan.options.replicates}


def sweep_info(
    plan: SweepPlan, inputs: SweepInputs, encoders: Mapping[str, PretrainedEncoder], command: str
) -> dict[str, Any]:
    """Returns the content of `sweep.json`, without its schema version: everything that the results depend on."""
    options, space = plan.options, plan.space
    fingerprints = {name: encoder.fingerprint for name, encoder in encoders.items()}
    several = {ENCODERS_KEY: fingerprints} if len(encoders) > 1 else {}
    race = {} if plan.race is None else {RACE_KEY: race_to_json(plan.race.decisions)}
    return {
        **race,
        "name": options.name,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "options": saved_options(options),
        "space": {**describe_space(space), "hash": space.content_hash},
        "base": space.base.to_tree(),
        "precision_reason": inputs.precision_reason,
        "seed": options.seed,
        "search": options.search,
        "num_trials": options.num_drawn,
        "num_configurations": plan.num_configurations,
        "replicates": options.replicates,
        FIRST_LOOK: first_look(plan),
        "scheduler": options.scheduler,
        "num_workers": options.workers,
        "cpus_per_worker": options.cpus_per_worker,
        "gpus_per_worker": options.gpus_per_worker,
        "data": {
            "folder": str(inputs.data_folder),
            "fingerprint": inputs.fingerprint,
            "tables": dict(inputs.fingerprints),
            "rows": {f"{task}-{split}": rows for (task, split), rows in inputs.num_rows.items()},
            "skipped": [*inputs.skipped, *inputs.left_out],
            "repeats": count_repeats(inputs),
            CUT_ROWS_KEY: [vars(rows) for rows in inputs.cut_rows],
            DROPPED_ROWS_KEY: {name: vars(one.dropped) for name, one in inputs.rows("train").items() if one.dropped},
        },
        "encoder": {"name": space.base.encoder.name, "fingerprint": next(iter(fingerprints.values()))},
        **several,
        TOKENIZERS_KEY: {name: vars(record) for name, record in inputs.tokenizers.items()},
        "code": describe_code(),
        "git": describe_git(PROJECT_FOLDER),
        "python": platform.python_version(),
        "packages": versions_of(PACKAGES),
        "hardware": describe_machine(),
    }


def count_repeats(inputs: SweepInputs) -> dict[str, dict[str, int]]:
    """By task, the dev rows whose texts a train row has, and the texts of train with contradicting labels.

    Both are those of the first configuration that has the task.
    """
    counts, dev = {}, inputs.rows("dev")
    for name, table in inputs.rows("train").items():
        task, groups = inputs.space.base.task(name), repeated_rows(table.texts)
        counts[name] = {
            "dev_rows_in_train": int(repeats_row(dev[name].texts, table.texts).sum()),
            "contradictions": len(contradicting_rows(task, table.labels, groups)),
        }
    return counts
