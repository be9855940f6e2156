"""A pool holds every scored epoch of every trial that has not failed, read from files, on the same examples.

Long, as reading a pool and removing its copies are tested on the same small sweeps.
"""

import json
import re
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mtlib.checkpoints.best_weights import weights_file
from mtlib.config.schema import to_dict
from mtlib.runtime.storage import Location, open_folder
from mtlib.tasks import TASKS, Task
from mtlib.training.epoch_report import EpochReport
from mtlib.training.evaluation import Predictions
from results.ensembles.candidates import Pool, read_pool, read_tasks, without_copies
from results.ensembles.outputs import outputs_of
from results.records.epochs import epoch_path, write_epoch
from results.records.predictions import stack_predictions
from results.records.tables import write_trials
from results.records.trials import TrialRecord, write_sweep
from results.stats.resampling import example_values
from tests.results.conftest import build_report
from tests.results.ensembles.simulated_pools import build_pool, keeping

MakeReport = Callable[..., EpochReport]
MakeRecord = Callable[..., TrialRecord]

KEYS = [(f"{trial:04d}-r0", epoch) for trial in range(3) for epoch in (1, 2)]
"""Candidates of `sweep_folder`."""


def keys_of(pool: Pool) -> list[tuple[str, int]]:
    return [(candidate.trial, candidate.epoch) for candidate in pool.candidates]


def write_best(folder: Path, trial: str, text: str) -> None:
    """Writes a trial's best epochs by task."""
    path = folder / "trials" / trial / "checkpoint" / "best.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)


def write_weights(folder: Path, trial: str, *epochs: int) -> None:
    """Creates files for a trial's stored weights of these epochs."""
    for epoch in epochs:
        path = folder / "trials" / trial / "checkpoint" / weights_file(epoch)
        path.parent.mkdir(exist_ok=True)
        path.touch()


def assert_equal(first: Pool, second: Pool) -> None:
    """Two pools have the same contents, wherever they were read from."""
    assert [replace(one, sweep="") for one in first.candidates] == [replace(one, sweep="") for one in second.candidates]
    assert (first.task, first.ids) == (second.task, second.ids)
    np.testing.assert_array_equal(first.labels, second.labels)
    np.testing.assert_array_equal(first.outputs, second.outputs)


def write_part(folder: Path, trial: str, epoch: int, ids: Sequence[str], labels: npt.ArrayLike) -> None:
    """Writes an epoch again, a trial's last one, with other predictions on SST dev, all logits 0."""
    report, zeros = build_report(epoch), np.zeros((len(ids), 5), np.float32)
    own = Predictions(task="sst", split="dev", ids=list(ids), labels=np.asarray(labels, np.float32), logits=zeros)
    write_epoch(folder, trial, replace(report, predictions=(own, *report.predictions[1:])))


@pytest.fixture
def write_small_sweep(make_report: MakeReport, make_record: MakeRecord) -> Callable[..., Path]:
    """`write_small_sweep(folder, trials)`: a sweep with this many epochs for each trial number."""

    def write(folder: Path, trials: Mapping[int, int], *, seed: int = 0) -> Path:
        write_sweep(folder, {"name": folder.name})
        write_trials(folder, [make_record(number) for number in trials], tuple(TASKS))
        for number, epochs in trials.items():
            for epoch in range(1, epochs + 1):
                write_epoch(folder, f"{number:04d}-r0", make_report(epoch, seed=seed + number))
        return folder

    return write


@pytest.mark.parametrize("task", TASKS.values())
def test_every_epoch_of_every_trial_is_a_candidate_with_its_outputs(sweep_folder: Path, task: Task) -> None:
    pool = read_pool([sweep_folder], TASKS[task.name])
    _, labels, logits = stack_predictions(open_folder(sweep_folder), task.name, "dev", KEYS)
    assert keys_of(pool) == KEYS
    assert [candidate.number for candidate in pool.candidates] == [0, 0, 1, 1, 2, 2]
    assert pool.task is task
    assert pool.ids == tuple(f"{task.name}-dev-{row}" for row in range(len(labels)))
    np.testing.assert_array_equal(pool.labels, labels)
    assert pool.labels.dtype == np.float64
    np.testing.assert_array_equal(pool.outputs, outputs_of(task, logits))
    assert pool.outputs.dtype == pool.values.dtype == np.float32
    np.testing.assert_allclose(pool.values, example_values(task, logits, labels), rtol=1e-6)


def test_copy_behind_a_uri_gives_the_same_pool(sweep_folder: Path, tmp_path: Path) -> None:
    write_best(sweep_folder, "0001-r0", '{"overall": 2}')
    write_weights(sweep_folder, "0001-r0", 2)
    uri = Path(shutil.copytree(sweep_folder, tmp_path / "copy")).as_uri()
    copied = read_pool([uri], TASKS["qqp"])
    assert_equal(copied, read_pool([sweep_folder], TASKS["qqp"]))
    assert {candidate.sweep for candidate in copied.candidates} == {uri}
    assert [candidate.has_weights for candidate in copied.candidates] == [False, False, False, True, False, False]


def test_trial_that_copies_of_a_folder_share_counts_once(
    tmp_path: Path, write_small_sweep: Callable[..., Path]
) -> None:
    first = write_small_sweep(tmp_path / "first", {0: 2, 1: 1, 2: 1})
    copy = Path(shutil.copytree(first, tmp_path / "elsewhere" / "renamed"))
    write_epoch(copy, "0001-r0", build_report(2, seed=7))  # the copy was resumed
    write_best(copy, "0002-r0", '{"overall": 1}')  # and has weights that the first one has lost
    write_weights(copy, "0002-r0", 1)
    other = write_small_sweep(tmp_path / "other", {0: 1}, seed=50)
    alone = read_pool([first], TASKS["sst"])
    pool = read_pool([first, copy.as_uri(), other], TASKS["sst"])
    assert [(Path(one.sweep).name, one.trial, one.epoch, one.has_weights) for one in pool.candidates] == [
        *(("first", "0000-r0", epoch, False) for epoch in (1, 2)),
        *(("renamed", "0001-r0", epoch, False) for epoch in (1, 2)),
        ("renamed", "0002-r0", 1, True),
        ("other", "0000-r0", 1, False),
    ]
    assert pool.trial_numbers.max() == alone.trial_numbers.max() + 1
    why = "the same as in another SWEEP, as one folder is a copy of the other; each counts once"
    assert pool.lost == {f"1 trial of {copy.as_uri()}": why, f"2 trials of {first}": why}


def test_several_sweeps_make_one_pool_in_their_order(tmp_path: Path, write_small_sweep: Callable[..., Path]) -> None:
    first = write_small_sweep(tmp_path / "first", {0: 2, 7: 1})
    second = write_small_sweep(tmp_path / "second", {0: 1, 3: 3}, seed=50)
    sweeps: list[Location] = [second, first.as_uri()]
    pool = read_pool(sweeps, TASKS["sts"])
    assert [(one.sweep, one.trial, one.epoch) for one in pool.candidates] == [
        *((str(second), "0000-r0", 1), (str(second), "0003-r0", 1), (str(second), "0003-r0", 2)),
        *((str(second), "0003-r0", 3), (first.as_uri(), "0000-r0", 1), (first.as_uri(), "0000-r0", 2)),
        (first.as_uri(), "0007-r0", 1),
    ]
    assert pool.trial_numbers.tolist() == [0, 1, 1, 1, 2, 2, 3]
    expected = np.concatenate([read_pool([sweep], TASKS["sts"]).outputs for sweep in sweeps])
    np.testing.assert_array_equal(pool.outputs, expected)
    assert len(np.unique(expected[:, 0])) == 7


def test_failed_trial_is_excluded(sweep_folder: Path, make_record: MakeRecord) -> None:
    statuses = ("failed", "pruned", "reused")
    write_trials(sweep_folder, [make_record(n, status=status) for n, status in enumerate(statuses)], tuple(TASKS))
    assert keys_of(read_pool([sweep_folder], TASKS["sst"])) == KEYS[2:]


def test_trial_without_the_task_is_excluded(
    sweep_folder: Path, make_report: MakeReport, make_record: MakeRecord
) -> None:
    write_trials(sweep_folder, [make_record(number) for number in range(4)], tuple(TASKS))
    write_epoch(sweep_folder, "0003-r0", make_report(1, tasks=("sst",)))
    assert keys_of(read_pool([sweep_folder], TASKS["sts"])) == KEYS
    assert keys_of(read_pool([sweep_folder], TASKS["sst"])) == [*KEYS, ("0003-r0", 1)]


def test_epochs_in_best_json_have_weights(sweep_folder: Path) -> None:
    write_best(sweep_folder, "0000-r0", json.dumps({"sst": 2, "qqp": 2, "overall": 7}))
    write_best(sweep_folder, "0002-r0", json.dumps({"sst": 2, "sts": 1}))
    write_weights(sweep_folder, "0000-r0", 1, 2, 7)
    write_weights(sweep_folder, "0002-r0", 1)
    (sweep_folder / "trials/0001-r0/checkpoint").write_text("no folder")
    found = [candidate.has_weights for candidate in read_pool([sweep_folder], TASKS["sst"]).candidates]
    assert found == [False, True, False, False, True, False], (
        "epoch 1 of the first is not recorded, 2 of the last is gone"
    )


@pytest.mark.parametrize("kept", [[3, 0], np.array([5])])
def test_subset_of_a_pool_keeps_its_order_and_clears_its_caches(
    sweep_folder: Path, kept: list[int] | npt.NDArray[np.intp]
) -> None:
    pool = read_pool([sweep_folder], TASKS["sts"])
    assert len(pool.values) == len(pool.digests) == len(pool.trial_numbers) == 6
    part, numbers = pool.only(kept), [int(number) for number in kept]
    assert part.candidates == tuple(pool.candidates[number] for number in numbers)
    assert (part.task, part.ids, part.labels is pool.labels) == (pool.task, pool.ids, True)
    np.testing.assert_array_equal(part.values, pool.values[numbers])
    assert part.digests == tuple(pool.digests[number] for number in numbers)
    np.testing.assert_array_equal(part.outputs, pool.outputs[numbers])
    assert part.trial_numbers.tolist() == list(range(len(numbers)))


@pytest.mark.parametrize(("trial", "epoch", "is_missing"), [(*KEYS[0], True), (*KEYS[3], True), (*KEYS[3], False)])
def test_a_trial_whose_predictions_are_lost_is_left_out_and_named(
    sweep_folder: Path, trial: str, epoch: int, is_missing: bool
) -> None:
    """Predictions of SST are the first that an epoch's file holds."""
    path = sweep_folder / epoch_path(trial, epoch)
    if is_missing:
        last = path.with_name("0002.parquet").read_bytes()
        report = build_report(epoch)
        write_epoch(sweep_folder, trial, replace(report, predictions=report.predictions[1:]))
        if epoch == 1:
            path.with_name("0002.parquet").write_bytes(last)
    else:
        content = path.read_bytes()
        path.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
    pool = read_pool([sweep_folder], TASKS["sst"])
    assert keys_of(pool) == [key for key in KEYS if key[0] != trial]
    ((name, reason),) = pool.lost.items()
    assert name == f"trial {trial} of {sweep_folder}"
    assert ("missing" if is_missing else f"{path}: truncated or damaged") in reason
    assert reason.endswith("--resume")


@pytest.mark.parametrize("change", ["another id", "another label", "no label", "a row less", "another order"])
def test_predictions_of_other_examples_are_named(sweep_folder: Path, change: str) -> None:
    pool, trial = read_pool([sweep_folder], TASKS["sst"]), "0001-r0"
    ids, labels = np.array(pool.ids), pool.labels.copy()
    rows = {"a row less": list(range(59)), "another order": [1, 0, *range(2, 60)]}.get(change, list(range(60)))
    ids[3] = "another" if change == "another id" else ids[3]
    labels[3] = {"another label": 7.0, "no label": np.nan}.get(change, labels[3])
    write_part(sweep_folder, trial, 2, ids[rows].tolist(), labels[rows])
    line = (
        "all predictions of sst-dev must be of the same examples in the same order, "
        f"got others for trial {trial} of {sweep_folder} at epoch 2 than for trial 0000-r0 of {sweep_folder} at epoch 1"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        read_pool([sweep_folder], TASKS["sst"])


def test_example_without_a_label_is_named(sweep_folder: Path) -> None:
    for trial, epoch in KEYS:
        write_part(sweep_folder, trial, epoch, ["a", "b", "c", "d"], [0, np.nan, 1, np.nan])
    with pytest.raises(ValueError, match=r"^every example of sst-dev must have a label to select by, got none for b$"):
        read_pool([sweep_folder], TASKS["sst"])


def test_sweep_without_candidates_is_named(sweep_folder: Path, make_record: MakeRecord) -> None:
    write_trials(sweep_folder, [make_record(number, status="failed") for number in range(3)], tuple(TASKS))
    line = f"there must be a trial that was scored on sst-dev and has not failed, got none in {sweep_folder}"
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        read_pool([sweep_folder], TASKS["sst"])


def test_tasks_of_sweeps_are_those_that_sweep_json_defines(tmp_path: Path) -> None:
    tone = replace(TASKS["sst"], name="tone", labels=("bad", "fine", "good"), label_range=(0.0, 2.0))
    for name, tasks in (("old", None), ("new", {"tone": tone, "sts": TASKS["sts"]})):
        base = {} if tasks is None else {"base": {"data": {"tasks": to_dict(tasks)}}}
        write_sweep(tmp_path / name, base)
    assert read_tasks([tmp_path / "old"], list(TASKS)) == TASKS
    assert read_tasks([tmp_path / "new"], ["tone", "sts"]) == {"tone": tone, "sts": TASKS["sts"]}


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({"title": "Mood", "weight": 2.0, "scored_train_rows": 5}, True),
        ({"labels": ("bad", "good", "fine")}, False),
        ({"text_columns": ("first", "second")}, False),
    ],
)
def test_sweeps_with_other_labels_or_metric_of_a_task_are_not_combined(
    tmp_path: Path, changes: dict[str, Any], is_same: bool
) -> None:
    tone = replace(TASKS["sst"], name="tone", labels=("bad", "fine", "good"), label_range=(0.0, 2.0))
    for name, task in (("first", tone), ("second", replace(tone, **changes))):
        write_sweep(tmp_path / name, {"base": {"data": {"tasks": to_dict({"tone": task, "sts": TASKS["sts"]})}}})
    sweeps = [tmp_path / "first", tmp_path / "second"]
    if is_same:
        assert read_tasks(sweeps, ["tone"]) == {"tone": tone}
        return
    rule = "all sweeps must have the same task tone, with the same kind, labels and metric, got another one in "
    with pytest.raises(ValueError, match=f"^{re.escape(f'{rule}{sweeps[1]}')}$"):
        read_tasks(sweeps, ["tone"])
    assert read_tasks(sweeps, ["sts"]) == {"sts": TASKS["sts"]}


def test_different_weights_of_a_task_are_refused_only_where_several_tasks_are_selected(tmp_path: Path) -> None:
    sweeps = [tmp_path / "first", tmp_path / "second"]
    for folder, weight in zip(sweeps, (1.0, 2.5), strict=True):
        tasks = {**TASKS, "sst": replace(TASKS["sst"], weight=weight)}
        write_sweep(folder, {"base": {"data": {"tasks": to_dict(tasks)}}})
    assert read_tasks(sweeps, ["sst"])["sst"].weight == 1.0
    assert list(read_tasks(sweeps, ["sts", "qqp"])) == ["sts", "qqp"]
    rule = "all sweeps must have the same weight of task sst where several tasks are selected together"
    with pytest.raises(ValueError, match=f"^{re.escape(f'{rule}, got 1 and, in {sweeps[1]}, 2.5')}$"):
        read_tasks(sweeps, ["sst", "qqp"])


each_task = pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))


def repeated(task: Task, originals: Sequence[int], *, num_epochs: int = 1) -> Pool:
    """A pool in which each candidate has the outputs of an original one, given by index."""
    distinct = build_pool(task, [0.5] * (max(originals) + 1), num_rows=30)
    pool = build_pool(task, [0.5] * (len(originals) // num_epochs), num_rows=30, num_epochs=num_epochs)
    return replace(pool, labels=distinct.labels, outputs=distinct.outputs[list(originals)])


def kept_indices(pool: Pool, kept: Collection[int]) -> list[int]:
    """Indices of a pool that remain when some candidates have weights."""
    marked = keeping(pool, kept)
    return [marked.candidates.index(candidate) for candidate in without_copies(marked).candidates]


@each_task
def test_first_of_copies_across_trials_is_kept(task: Task) -> None:
    pool = repeated(task, [2, 0, 2, 1, 0, 2, 3])
    found = without_copies(pool)
    assert [candidate.number for candidate in found.candidates] == [0, 1, 3, 6]
    np.testing.assert_array_equal(found.outputs, pool.outputs[[0, 1, 3, 6]])
    np.testing.assert_array_equal(found.labels, pool.labels)
    assert (found.task, found.ids) == (pool.task, pool.ids)


@pytest.mark.parametrize(
    ("kept", "left"),
    [
        ((), [0, 1, 3]),
        ((2, 4), [1, 2, 3]),
        ((0, 2), [0, 1, 3]),
    ],
)
def test_first_copy_with_weights_is_kept(kept: Collection[int], left: list[int]) -> None:
    pool = repeated(TASKS["sts"], [0, 1, 0, 2, 0])
    assert kept_indices(pool, kept) == left
