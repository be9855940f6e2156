"""The candidates of one task: every trial at every epoch that was scored, all on the same examples."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.fs as fs

from mtlib.runtime.command_line import counted
from mtlib.runtime.errors import require, require_once
from mtlib.runtime.storage import Location, open_folder
from mtlib.tasks import Task
from results.ensembles.outputs import Outputs, margins_of, outputs_of, values_of
from results.records.epochs import read_part
from results.records.examples import read_groups, read_slices
from results.records.files import read_json
from results.records.predictions import find_lost, has_same_examples, labels_array, logits_array
from results.records.selection import Member
from results.records.tables import read_trials, read_with_warnings
from results.records.trials import read_sweep, sweep_tasks
from results.stats.groups import fold_groups, independent_groups
from results.stats.resampling import Floats, Numbers

WEIGHTS_FILE = "epoch-{:04d}.safetensors"
"""The name that `mtlib.checkpoints.best_weights`, which needs torch, gives an epoch's weights."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One trial at one epoch."""

    sweep: str
    """Folder or URI of its sweep."""
    trial: str
    epoch: int
    """From 1."""
    number: int
    """Its configuration's number in the sweep."""
    has_weights: bool = True
    """Whether the weights of this epoch were kept, so that it can predict new text."""
    origin: tuple[str, ...] = ()
    """Identifies its trial across copies of the sweep's folder: name and creation of the sweep, trial, start."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    """All candidates of one task and their outputs for every example."""

    task: Task
    candidates: tuple[Candidate, ...]
    """Grouped by trial, in the order of epochs."""
    ids: tuple[str, ...]
    """(rows,)."""
    labels: Floats
    """(rows,), or (rows, num_classes) of several labels."""
    outputs: Outputs
    """(candidates, rows, width), from `results.ensembles.outputs.outputs_of`."""
    text_groups: Numbers | None = None
    """(rows,) group of connected texts of each example; None if no sweep has recorded it."""
    slices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The cells of each column of slices, one per row; none if no sweep has recorded them."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """Why trials are no candidates, by `trial 0003-r0 of FOLDER`, or by their number in a copy of another folder."""

    @cached_property
    def groups(self) -> Numbers:
        """(rows,) from `results.stats.groups.independent_groups`."""
        return independent_groups(self.text_groups, len(self.labels))

    @cached_property
    def fold_groups(self) -> Numbers:
        """(rows,) from `results.stats.groups.fold_groups`."""
        return fold_groups(self.groups)

    @cached_property
    def values(self) -> npt.NDArray[np.float32]:
        """What the metric reads of each prediction, as `values_of`: for accuracy 1 where it is right, else 0."""
        values = (values_of(self.task, outputs, self.labels) for outputs in self.outputs)
        return np.stack([own.astype(np.float32) for own in values])

    @cached_property
    def digests(self) -> tuple[bytes, ...]:
        """A digest of each candidate's outputs: equal where these are equal."""
        return tuple(map(array_digest, self.outputs))

    @cached_property
    def rankings(self) -> dict[bytes, Numbers]:
        """What `results.ensembles.selection_method.best_candidates` has found, by a digest of the rows.

        All methods ask for the same rows: without it candidates would be ranked four times as often.
        """
        return {}

    @cached_property
    def trial_numbers(self) -> Numbers:
        """(candidates,): the number of each candidate's trial, from 0."""
        found: dict[tuple[str, str], int] = {}
        trials = ((candidate.sweep, candidate.trial) for candidate in self.candidates)
        return np.array([found.setdefault(trial, len(found)) for trial in trials], dtype=np.intp)

    def margins(self, numbers: Numbers, rows: Numbers) -> Outputs:
        """(numbers, others, rows) of some candidates on some rows, from `results.ensembles.outputs.margins_of`."""
        return np.ascontiguousarray(margins_of(self.task, self.outputs[numbers][:, rows], self.labels[rows]))

    def only(self, kept: Sequence[int] | Numbers) -> "Pool":
        """Returns the pool restricted to some candidates, by number; itself if these are all candidates in order."""
        numbers = np.asarray(kept, dtype=np.intp)
        if np.array_equal(numbers, np.arange(len(self.candidates))):
            return self  # keeps what is cached
        candidates = tuple(self.candidates[number] for number in numbers)
        return replace(self, candidates=candidates, outputs=self.outputs[numbers])


def array_digest(array: npt.NDArray[Any]) -> bytes:
    """Equal where arrays of one shape and type are equal."""
    return hashlib.blake2b(np.ascontiguousarray(array).data, digest_size=16).digest()


def read_tasks(sweeps: Sequence[Location], names: Sequence[str]) -> dict[str, Task]:
    """Returns the definitions of some tasks that some sweep has, each of the first sweep that has it.

    Raises:
        ValueError: one line: there is no sweep, or two sweeps have one of the tasks with other labels, for example, or,
            if there are several tasks, with another weight in the overall score, by which a model for all is chosen.
    """
    found: dict[str, Task] = {}
    for sweep in sweeps:
        for name, task in sweep_tasks(read_sweep(sweep)).items():
            first = found.setdefault(name, task)
            if name in names:
                rule = f"all sweeps must have the same task {name}, with the same kind, labels and metric"
                require(predicted_by(first) == predicted_by(task), rule, f"another one in {sweep}")
                rule = f"all sweeps must have the same weight of task {name} where several tasks are selected together"
                is_same = len(names) == 1 or first.weight == task.weight
                require(is_same, rule, f"{first.weight:g} and, in {sweep}, {task.weight:g}")
    return {name: found[name] for name in names}


def predicted_by(task: Task) -> tuple[Any, ...]:
    """Returns what must be the same for predictions of a task to be comparable."""
    code = None if task.metric_file is None else task.metric_file.digest
    return task.kind, task.label_range, task.labels, task.metric, code, len(task.text_columns)


def read_pool(sweeps: Sequence[Location], task: Task) -> Pool:
    """Reads every candidate of a task from its dev predictions, in the order of sweeps, trials and epochs.

    Args:
        sweeps: at least one, each once. Failed trials are left out.
        task: from `read_tasks`.

    Trials of which some predictions are missing or damaged are left out, and those that another sweep has too.

    Raises:
        ValueError: one line: a folder holds no sweep or is named twice, there are no candidates, predictions are of
            different examples, or an example has no label.
    """
    require_once([open_folder(sweep).base_path for sweep in sweeps], "each sweep must be named once")
    listed = [candidate for sweep in sweeps for candidate in list_candidates(sweep, task)]
    rule = f"there must be a trial that was scored on {task.name}-dev and has not failed"
    require(bool(listed), rule, f"none in {', '.join(map(str, sweeps))}")
    lost = find_lost_candidates(listed, task)
    candidates, copied = without_copied_trials([one for one in listed if describe_trial(one) not in lost])
    rule = f"the predictions of some trial for {task.name}-dev must be readable"
    require(bool(candidates), rule, "; ".join(f"{trial}: {reason}" for trial, reason in list(lost.items())[:1]))
    ids, labels, outputs = read_outputs(candidates, task)
    rule = f"every example of {task.name}-dev must have a label to select by"
    lacks_label = np.isnan(labels).reshape(len(ids), -1).any(axis=1)
    require(not lacks_label.any(), rule, f"none for {ids[int(lacks_label.argmax())]}")
    recorded = [groups for sweep in sweeps if (groups := read_groups(sweep, task, ids)) is not None]
    sliced = (read_slices(sweep, task.name, ids) for sweep in sweeps)
    return Pool(
        task=task,
        candidates=tuple(candidates),
        ids=tuple(ids),
        labels=labels,
        outputs=outputs,
        text_groups=max(recorded, key=lambda groups: len(np.unique(groups)), default=None),
        slices=next(filter(None, sliced), {}),
        lost={**lost, **copied},
    )


def find_lost_candidates(candidates: Sequence[Candidate], task: Task) -> dict[str, str]:
    """Returns why predictions of some trials cannot be read, and what to do, by `describe_trial`."""
    lost: dict[str, str] = {}
    for sweep in dict.fromkeys(candidate.sweep for candidate in candidates):
        own = [one for one in candidates if one.sweep == sweep]
        reasons = find_lost(sweep, [(task.name, "dev", one.trial, one.epoch) for one in own])
        lost |= {describe_trial(one): reasons[one.trial] for one in own if one.trial in reasons}
    return lost


def without_copied_trials(candidates: Sequence[Candidate]) -> tuple[list[Candidate], dict[str, str]]:
    """Returns the candidates with each trial once, of the sweep that has most of its epochs and weights, and how many
    trials of other sweeps are left out as copies."""
    sizes: dict[tuple[str, ...], Counter[str]] = {}
    for one in candidates:
        sizes.setdefault(one.origin, Counter())[one.sweep] += 1 + one.has_weights
    kept = {origin: max(own, key=own.__getitem__) for origin, own in sizes.items()}  # of equal ones the first
    counts = Counter(sweep for origin, own in sizes.items() for sweep in own if sweep != kept[origin])
    why = "the same as in another SWEEP, as one folder is a copy of the other; each counts once"
    left_out = {f"{counted(number, 'trial')} of {sweep}": why for sweep, number in counts.items()}
    return [one for one in candidates if kept[one.origin] == one.sweep], left_out


def without_copies(pool: Pool) -> Pool:
    """Returns the pool without copies: of candidates with equal outputs, the first whose weights were kept,
    or else the first.

    Copies are epochs of shared stages and trials that were taken over whole.
    """
    first: dict[bytes, int] = {}
    for number, key in enumerate(pool.digests):
        known = first.setdefault(key, number)
        if pool.candidates[number].has_weights and not pool.candidates[known].has_weights:
            first[key] = number
    return pool.only(sorted(first.values()))


def list_candidates(sweep: Location, task: Task) -> list[Candidate]:
    """Returns every trial of a sweep that has not failed, at every epoch at which the task was scored on dev."""
    root, info = open_folder(sweep), read_sweep(sweep)
    trials = {record.trial_id: record for record in read_trials(sweep) if record.status != "failed"}
    is_dev = (pc.field("task") == task.name) & (pc.field("split") == "dev")
    points = read_with_warnings(sweep).curves.filter(is_dev & (pc.field("metric") == task.metric))
    scored = zip(points["trial"].to_pylist(), points["epoch"].to_pylist(), strict=True)
    pairs = sorted({(trial, epoch) for trial, epoch in scored if trial in trials})
    kept = {trial: kept_epochs(root, trial) for trial in {trial for trial, _ in pairs}}
    return [
        Candidate(
            sweep=str(sweep),
            trial=trial,
            epoch=epoch,
            number=trials[trial].number,
            has_weights=epoch in kept[trial],
            origin=(str(info.get("name")), str(info.get("created")), trial, str(trials[trial].started)),
        )
        for trial, epoch in pairs
    ]


def kept_epochs(root: fs.SubTreeFileSystem, trial: str) -> set[int]:
    """Returns the epochs whose weights a trial has kept and still has."""
    folder = f"trials/{trial}/checkpoint"
    try:
        named = set(read_json(root, f"{folder}/best.json").values())
    except (FileNotFoundError, NotADirectoryError):
        return set()
    files = root.get_file_info(fs.FileSelector(f"{folder}/weights", allow_not_found=True))
    there = {info.base_name for info in files}
    return {epoch for epoch in named if WEIGHTS_FILE.format(epoch) in there}


def read_outputs(candidates: Sequence[Candidate], task: Task) -> tuple[list[str], Floats, Outputs]:
    """Ids, (rows,), labels, and the outputs of candidates, whose predictions are there, (candidates, rows, width).

    ValueError where the examples of a candidate are not those of the first one.
    """
    roots = {candidate.sweep: open_folder(candidate.sweep) for candidate in candidates}
    first = None
    for number, one in enumerate(candidates):
        table = read_part(roots[one.sweep], one.trial, one.epoch, task.name, "dev")
        rule = f"predictions of {task.name}-dev must stay while they are read"
        require(table is not None, rule, f"none of {describe_candidate(one)}")
        outputs = outputs_of(task, logits_array(table))
        if first is None:
            first, found = table, np.empty((len(candidates), *outputs.shape), np.float32)
        rule = f"all predictions of {task.name}-dev must be of the same examples in the same order"
        got = f"others for {describe_candidate(one)} than for {describe_candidate(candidates[0])}"
        require(has_same_examples(table, first), rule, got)
        found[number] = outputs
    assert first is not None
    return first["id"].to_pylist(), labels_array(first).astype(np.float64), found


def describe_candidate(candidate: Candidate | Member) -> str:
    """Returns a candidate, or the member of an ensemble that it became, for messages."""
    return f"{describe_trial(candidate)} at epoch {candidate.epoch}"


def describe_trial(candidate: Candidate | Member) -> str:
    """Returns the trial of a candidate, or of a member of an ensemble, for messages."""
    return f"trial {candidate.trial} of {candidate.sweep}"
