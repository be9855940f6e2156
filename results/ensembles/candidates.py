"""The candidates of one task: every trial at every epoch that was scored, all on the same examples."""

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as fs

from mtlib.errors import require, require_name, require_once
from mtlib.tasks import TASKS, Task
from results.comparison.bootstrap import Floats, Numbers
from results.ensembles.outputs import Outputs, margins_of, outputs_of, values_of
from results.records.epochs import read_curves, reported_epochs
from results.records.files import Location, open_folder, read_json
from results.records.predictions import has_same_examples, iter_predictions, logits_array
from results.records.selection import Member
from results.records.trials import read_sweep, read_trials

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


@dataclass(frozen=True, kw_only=True)
class Pool:
    """All candidates of one task and their outputs for every example."""

    task: Task
    candidates: tuple[Candidate, ...]
    """Grouped by trial, in the order of epochs."""
    ids: tuple[str, ...]
    """(rows,)."""
    labels: Floats
    """(rows,)."""
    outputs: Outputs
    """(candidates, rows, width), from `results.ensembles.outputs.outputs_of`."""

    @cached_property
    def values(self) -> npt.NDArray[np.float32]:
        """Each example's contribution to each candidate's score, (candidates, rows)."""
        found = np.empty(self.outputs.shape[:2], np.float32)
        for own, outputs in zip(found, self.outputs, strict=True):  # one at a time: saves memory
            own[:] = values_of(self.task, outputs, self.labels)
        return found

    @cached_property
    def margins(self) -> Outputs:
        """(candidates, others, rows), from `results.ensembles.outputs.margins_of`."""
        return np.ascontiguousarray(margins_of(self.task, self.outputs, self.labels))

    @cached_property
    def trial_numbers(self) -> Numbers:
        """(candidates,): the number of each candidate's trial, from 0."""
        found: dict[tuple[str, str], int] = {}
        trials = ((candidate.sweep, candidate.trial) for candidate in self.candidates)
        return np.array([found.setdefault(trial, len(found)) for trial in trials], dtype=np.intp)

    def only(self, kept: Sequence[int] | Numbers) -> "Pool":
        """The pool restricted to some candidates, by number; itself if these are all candidates in order."""
        if np.array_equal(kept, np.arange(len(self.candidates))):
            return self  # keeps what is cached
        candidates, numbers = tuple(self.candidates[number] for number in kept), np.asarray(kept, dtype=np.intp)
        return replace(self, candidates=candidates, outputs=self.outputs[numbers])


def read_pool(sweeps: Sequence[Location], task: str) -> Pool:
    """Reads every candidate of a task from its dev predictions, in the order of sweeps, trials and epochs.

    Args:
        sweeps: at least one, each once. Failed trials are left out.

    Raises:
        ValueError: one line: a folder holds no sweep or is named twice, there are no candidates, predictions are
            missing, damaged or of different examples, or an example has no label.
    """
    require_name(task, TASKS, "task")
    require_once([open_folder(sweep).base_path for sweep in sweeps], "each sweep must be named once")
    candidates = [candidate for sweep in sweeps for candidate in list_candidates(sweep, task)]
    rule = f"there must be a trial that was scored on {task}-dev and has not failed"
    require(bool(candidates), rule, f"none in {', '.join(map(str, sweeps))}")
    first, outputs = read_outputs(candidates, TASKS[task])
    labels = first["label"].to_numpy().astype(np.float64)
    ids = tuple(first["id"].to_pylist())
    rule = f"every example of {task}-dev must have a label to select by"
    require(not np.isnan(labels).any(), rule, f"none for {ids[int(np.isnan(labels).argmax())]}")
    return Pool(task=TASKS[task], candidates=tuple(candidates), ids=ids, labels=labels, outputs=outputs)


def without_copies(pool: Pool) -> Pool:
    """The pool without copies: of candidates with equal outputs, the first whose weights were kept, or else the first.

    Copies are epochs of shared stages and trials that were taken over whole.
    """
    first: dict[bytes, int] = {}
    for number, outputs in enumerate(pool.outputs):
        key = hashlib.blake2b(outputs.tobytes(), digest_size=16).digest()
        known = first.setdefault(key, number)
        if pool.candidates[number].has_weights and not pool.candidates[known].has_weights:
            first[key] = number
    return pool.only(sorted(first.values()))


def list_candidates(sweep: Location, task: str) -> list[Candidate]:
    """Every trial of a sweep that has not failed, at every epoch at which the task was scored on dev."""
    root = open_folder(sweep)
    read_sweep(sweep)  # ValueError where there is none
    numbers = {record.trial_id: record.number for record in read_trials(sweep) if record.status != "failed"}
    is_score = (pc.field("task") == task) & (pc.field("split") == "dev") & (pc.field("metric") == TASKS[task].metric)
    pairs = [pair for pair in reported_epochs(read_curves(sweep).filter(is_score)) if pair[0] in numbers]
    kept = {trial: kept_epochs(root, trial) for trial in {trial for trial, _ in pairs}}
    return [
        Candidate(sweep=str(sweep), trial=trial, epoch=epoch, number=numbers[trial], has_weights=epoch in kept[trial])
        for trial, epoch in pairs
    ]


def kept_epochs(root: fs.SubTreeFileSystem, trial: str) -> set[int]:
    """The epochs whose weights a trial has kept and still has."""
    folder = f"trials/{trial}/checkpoint"
    try:
        named = set(read_json(root, f"{folder}/best.json").values())
    except (FileNotFoundError, NotADirectoryError):
        return set()
    files = root.get_file_info(fs.FileSelector(f"{folder}/weights", allow_not_found=True))
    there = {info.base_name for info in files}
    return {epoch for epoch in named if WEIGHTS_FILE.format(epoch) in there}


def read_outputs(candidates: Sequence[Candidate], task: Task) -> tuple[pa.Table, Outputs]:
    """The predictions of the first candidate, and the outputs of all, checked to be for the same examples."""
    first, table = next(iter_tables(candidates[:1], task.name))
    outputs = np.empty((len(candidates), table.num_rows, task.num_classes if task.kind == "classes" else 1), np.float32)
    rule = f"all predictions of {task.name}-dev must be of the same examples in the same order"
    for number, (candidate, other) in enumerate(iter_tables(candidates, task.name)):
        found = f"others for {describe_candidate(candidate)} than for {describe_candidate(first)}"
        require(has_same_examples(other, table), rule, found)
        outputs[number] = outputs_of(task, logits_array(other))
    return table, outputs


def iter_tables(candidates: Sequence[Candidate], task: str) -> Iterator[tuple[Candidate, pa.Table]]:
    """Each candidate's predictions, in order; ValueError for the first one without any."""
    for sweep, group in itertools.groupby(candidates, key=lambda candidate: candidate.sweep):
        own = list(group)
        found = iter_predictions(open_folder(sweep), task, "dev", [(one.trial, one.epoch) for one in own])
        for candidate in own:
            key, table = next(found, (None, None))
            rule = f"predictions of {task}-dev must be there"
            require(key == (candidate.trial, candidate.epoch), rule, f"none of {describe_candidate(candidate)}")
            assert table is not None
            yield candidate, table


def describe_candidate(candidate: Candidate | Member) -> str:
    """A candidate, or the member of an ensemble that it became, for messages."""
    return f"trial {candidate.trial} of {candidate.sweep} at epoch {candidate.epoch}"
