"""Resumes a sweep: reads its options, checks that its inputs are unchanged, and finds what is left to run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from mtlib.config.schema import to_dict
from mtlib.config.trial import TrialConfig
from mtlib.runtime.environment import versions_of
from mtlib.runtime.storage import open_folder
from results.answers.race_words import decision_lines
from results.records.expected_trials import expected_trials
from results.records.race import RACE_KEY, UNDECIDABLE, RaceRecord, race_of, race_to_json
from results.records.trial_folder import read_start, write_start
from results.records.trials import (
    FIRST_LOOK,
    STOPPED_BY,
    UNFINISHED,
    TrialRecord,
    damage_of_sweep_file,
    read_sweep,
    write_sweep,
)
from search_spaces.domain import LEARNING_SEARCHES
from search_spaces.space import SearchSpace, describe_space, trial_config
from sweeps.driver.compatibility import check_unchanged
from sweeps.driver.history import KnownTrials, read_known
from sweeps.driver.race_watch import decide
from sweeps.driver.trials.trial import num_left_to_run
from sweeps.options import SweepOptions, SweepPlan, saved_options
from sweeps.plan.create import first_look
from sweeps.plan.prepare import PreparedSweep
from sweeps.plan.provenance import describe_code


def resume_sweep(prepared: PreparedSweep, command: str) -> tuple[SweepPlan, KnownTrials]:
    """Makes a sweep ready to continue, and notes the resume by `command` in its `sweep.json`.

    Returns:
        What is run, and the trials so far, of which those that are queued will be run, with lines to print.

    Raises:
        ValueError: the space, the data or the encoder has changed; the difference is named.
    """
    options, inputs, encoders = prepared.options, prepared.inputs, prepared.encoders
    info, damage = read_sweep(options.folder), damage_of_sweep_file(options.folder)
    check_unchanged(info, inputs, {name: encoder.fingerprint for name, encoder in encoders.items()})
    found = read_known(options, inputs.space.metric, inputs.space.base.data.tasks)
    known = as_present(found, options, inputs.space)
    write_moved(options.folder, found.records, known.records)
    resumed = {"command": command, "time": datetime.now(UTC).isoformat(timespec="seconds")}
    race = continued_race(info, options)
    info |= {"options": saved_options(options), "num_trials": options.num_drawn, "replicates": options.replicates}
    space = inputs.space
    info["space"] |= {"grid": describe_space(space)["grid"], "hash": space.content_hash}  # --vary may have added values
    plan = replace(prepared.plan, race=race)
    if race is not None:
        info[RACE_KEY] = race_to_json(race.decisions)
    info["num_configurations"] = plan.num_configurations
    if options.search == "grid" and info[FIRST_LOOK]["replicates"] == 1:  # earlier commands could tell nothing apart
        info[FIRST_LOOK] = first_look(plan)
    base = inputs.space.base  # files and encoder may have other names
    info["base"]["data"]["tasks"], info["base"]["encoder"]["name"] = to_dict(base.data.tasks), base.encoder.name
    info["data"]["folder"], info["encoder"]["name"] = str(inputs.data_folder), base.encoder.name
    info["resumed"] = [*info.get("resumed", []), resumed]
    info.pop(STOPPED_BY, None)
    write_sweep(options.folder, info)
    lines = []
    if race is not None:  # a kill, or the sweep before it became a race, may have left complete rounds undecided
        decided = decide(options.folder, [own.trial_id for own in known.records if own.status in UNFINISHED])
        plan = replace(plan, race=decided)
        lines = decision_lines(decided, len(race.decisions))
    progress = describe_progress(plan, known.records)
    mending = [] if damage is None else [f"{damage}; it is written again from its copy"]
    changed = [*changed_code(info), *changed_optuna(info, plan, known.records)]
    return plan, replace(known, notes=(*mending, *known.notes, *lines, progress, *changed))


def continued_race(info: Mapping[str, Any], options: SweepOptions) -> RaceRecord | None:
    """Returns the decisions of a race so far.

    One that had no more rounds, or no hope, goes on where it may have more rounds now; one without hope also where the
    margin has changed.
    """
    if options.until_decided is None:
        return None
    race = race_of(info) or RaceRecord()
    has_other_margin = race.end == UNDECIDABLE and info["options"].get("until_decided") != options.until_decided
    may_go_on = options.replicates > info["replicates"] or has_other_margin
    is_retried = options.retry_failed and race.estimated is None
    if not race.end or race.is_final or not (may_go_on or is_retried):
        return race
    last = race.decisions[-1]
    if last.claimed is not None and last.claimed.limits is None:  # trainings that failed are repeated
        return RaceRecord(decisions=race.decisions[:-1])
    going = replace(last, end="", expected_rounds=(options.replicates,) * len(last.open))
    return RaceRecord(decisions=(*race.decisions[:-1], going))


def as_present(found: KnownTrials, options: SweepOptions, space: SearchSpace) -> KnownTrials:
    """Returns a sweep's trials, failed ones queued again with --retry-failed,
    with present names of encoder and files."""
    records = [relocate(record, space) for record in found.records]
    if options.retry_failed:
        records = [replace(own, status="queued", error=None) if own.status == "failed" else own for own in records]
    return replace(found, records=tuple(records))


def write_moved(folder: str, before: Sequence[TrialRecord], now: Sequence[TrialRecord]) -> None:
    """Writes present names of encoder and files into `trial.json` of each trial that has others."""
    root = open_folder(folder)
    for record in (new for old, new in zip(before, now, strict=True) if old.config != new.config):
        start = read_start(root, record.trial_id)
        if start is not None:
            write_start(root, replace(start, config=record.config, config_hash=record.config_hash))


def relocate(record: TrialRecord, space: SearchSpace) -> TrialRecord:
    """Returns a trial whose configuration has the present names of its encoder and of its tasks' files,
    and their titles.

    The demonstration's encoder moves with the storage.
    """
    name, tasks = trial_config(space, record.params).encoder.name, space.base.data.tasks
    config = TrialConfig.from_json(record.config)
    if (config.encoder.name, config.data.tasks) == (name, tasks):
        return record
    config = config.override({"encoder.name": name, "data.tasks": tasks})
    return replace(record, config=config.to_json(), config_hash=config.content_hash)


def describe_progress(plan: SweepPlan, known: Sequence[TrialRecord]) -> str:
    """Returns the numbers of trials that have ended and that have begun, in a line."""
    if num_left_to_run(plan, known, plan.race) == 0:
        return f"All {len(known)} trials have ended: nothing is left to do."
    num_ended = sum(record.status not in UNFINISHED for record in known)
    num_begun = sum(record.status in UNFINISHED and record.epochs > 0 for record in known)
    expected = expected_trials(plan.facts, known, plan.race)
    return f"{num_ended} of {expected} trials have ended; {num_begun} of the others had begun and will continue."


def changed_optuna(info: Mapping[str, Any], plan: SweepPlan, known: Sequence[TrialRecord]) -> list[str]:
    """Returns a note if a search that learns is to draw further configurations with another version of Optuna than it
    began with."""
    began, present = info.get("packages", {}).get("optuna", "of another version"), versions_of(["optuna"]).get("optuna")
    is_over = plan.num_configurations <= len({own.number for own in known})
    if plan.options.search not in LEARNING_SEARCHES or is_over or began == present:
        return []
    return [
        f"Note: the search began with Optuna {began}, this is {present}: configurations that are drawn from now on may "
        "not be those that an undisturbed sweep would have drawn."
    ]


def changed_code(info: Mapping[str, Any]) -> list[str]:
    """Returns a note if code or libraries are not those that the sweep began with."""
    if info.get("code") == describe_code():
        return []
    return [
        "Note: mtlib or a library has changed since the sweep began. Finished trials were trained with the old code, "
        "the others go on, from their last states, with the new code; trial.json says which. Their scores may not be "
        "comparable."
    ]
