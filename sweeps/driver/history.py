"""What a sweep knows when it is resumed: its trials by their folders, and what the scheduler had decided on."""

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc
import pyarrow.fs as fs

from mtlib.checkpoints.best_weights import check_best
from mtlib.checkpoints.state import newest_numbers
from mtlib.config.trial import TrialConfig
from mtlib.runtime.errors import first_line
from mtlib.runtime.storage import local_path, open_folder
from mtlib.stages.plan import overall_epochs
from mtlib.tasks import Task
from results.records.epochs import check_epoch, epoch_path
from results.records.tables import read_sweep_tables
from results.records.trial_folder import read_start, scores_in
from results.records.trials import UNFINISHED, TrialRecord
from sweeps.options import SweepOptions
from sweeps.reuse.finished_trials import trial_folder
from sweeps.reuse.starting_point import epochs_of

Reports = Mapping[str, list[tuple[int, float]]]
"""By trial: its scored epochs, and its best score so far at each."""


@dataclass(frozen=True, kw_only=True)
class KnownTrials:
    """The trials of a stopped sweep."""

    records: tuple[TrialRecord, ...]
    """A trial that has not ended is `queued`."""
    reports: Reports
    """The reports of first trainings that the scheduler has decided on."""
    notes: tuple[str, ...]
    """Lines to print, such as one for each damaged file and what is done about it."""


def read_known(options: SweepOptions, metric: str, tasks: Mapping[str, Task]) -> KnownTrials:
    """Returns the trials of the sweep with these options, as far as they have a folder of their own.

    A trial that has ended, but with damaged epochs or best weights, is run again.
    """
    root, tables = open_folder(options.folder), read_sweep_tables(options.folder)
    notes, records, reports = list(tables.notes), [], {}
    points: dict[str, list[Mapping[str, Any]]] = {}
    for point in tables.curves.filter(pc.field("split") == "dev").to_pylist():
        points.setdefault(point["trial"], []).append(point)
    for record in tables.records:
        if not has_begun(root, record.trial_id):
            continue  # or it is not known any more: its searched values are given out again
        damage = [] if record.status in UNFINISHED else list(damaged_files(root, options, record))
        if damage or (record.trial_id in tables.damaged and record.status not in UNFINISHED):
            notes += [*damage, f"trial {record.trial_id} is trained again from its last whole state, or the start"]
            record = replace(record, status="interrupted")
        if record.replicate == 0:
            own = points.get(record.trial_id, ())
            reports[record.trial_id] = decided_reports(options, record, own, metric, tasks)
        records.append(replace(record, status="queued", error=None) if record.status in UNFINISHED else record)
    return KnownTrials(records=tuple(records), reports=reports, notes=tuple(dict.fromkeys(notes)))


def has_begun(root: fs.SubTreeFileSystem, trial: str) -> bool:
    """Returns whether a trial has a whole `trial.json`."""
    try:
        return read_start(root, trial) is not None
    except ValueError:
        return False


def damaged_files(root: fs.SubTreeFileSystem, options: SweepOptions, record: TrialRecord) -> Iterator[str]:
    """Yields a line for the first damaged epoch or best weights of a trial; a lane finds those of an unfinished trial.

    A bucket checks what it holds itself, and reading all of it would take long.
    """
    if local_path(root) is None:
        return
    states = trial_folder(options, record.trial_id).states
    try:
        for epoch in range(1, record.epochs + 1):
            check_epoch(root, epoch_path(record.trial_id, epoch))
        with contextlib.suppress(FileNotFoundError):  # it keeps none
            check_best(states)
    except (ValueError, FileNotFoundError) as error:
        yield first_line(error)


def decided_reports(
    options: SweepOptions,
    record: TrialRecord,
    points: Iterable[Mapping[str, Any]],
    metric: str,
    tasks: Mapping[str, Task],
) -> list[tuple[int, float]]:
    """Scored epochs of a trial after which it went on, or ended, and its best score so far at each.

    A newer epoch is reported again, and decided on then. `points` are the trial's dev rows of the curves.
    """
    config = TrialConfig.from_json(record.config)
    last = record.epochs if record.status not in UNFINISHED else num_decided(options, record, config)
    counted = [epoch for epoch in overall_epochs(config) if epoch <= last]
    by_epoch: dict[int, list[Mapping[str, Any]]] = {}
    for point in points:
        by_epoch.setdefault(point["epoch"], []).append(point)
    scores = {epoch: scores_in(by_epoch[epoch], tasks)[metric] for epoch in counted if epoch in by_epoch}
    bests = itertools.accumulate((scores[epoch] for epoch in sorted(scores)), max)
    return [(counted.index(epoch) + 1, best) for epoch, best in zip(sorted(scores), bests, strict=True)]


def num_decided(options: SweepOptions, record: TrialRecord, config: TrialConfig) -> int:
    """Epochs of an unfinished trial after which it has continued: those before its newest state.

    Reused epochs are reported before the trial continues. Until it has trained on, the scheduler may not have decided
    on them, so none count.
    """
    numbers = newest_numbers(trial_folder(options, record.trial_id).states)
    if numbers is None or record.steps <= record.shared_steps:
        return 0
    return epochs_of(config, numbers)
