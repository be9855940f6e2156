"""Of candidates that say the same, one stays: the first that can be used on new text; the order stays."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pytest

from mtlib.tasks import TASKS, Task
from results.ensembles.candidates import Pool
from results.ensembles.copies import without_copies
from tests.results.scoring.simulated_pools import build_pool, keeping

each_task = pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))


def repeated(task: Task, originals: Sequence[int], *, num_epochs: int = 1) -> Pool:
    """A pool in which the candidate at each place says what an original one does, by its number."""
    distinct = build_pool(task, [0.5] * (max(originals) + 1), num_rows=30)
    pool = build_pool(task, [0.5] * (len(originals) // num_epochs), num_rows=30, num_epochs=num_epochs)
    return replace(pool, labels=distinct.labels, outputs=distinct.outputs[list(originals)])


def places_left(pool: Pool, kept: Collection[int]) -> list[int]:
    """Which places of a pool are left, where some candidates' weights were kept."""
    marked = keeping(pool, kept)
    return [marked.candidates.index(candidate) for candidate in without_copies(marked).candidates]


@each_task
def test_a_pool_without_copies_stays_as_it_is(task: Task) -> None:
    pool = build_pool(task, [0.5] * 6, num_epochs=2)
    assert without_copies(pool) is pool


@each_task
def test_of_copies_across_trials_the_first_stays_in_its_place(task: Task) -> None:
    pool = repeated(task, [2, 0, 2, 1, 0, 2, 3])
    found = without_copies(pool)
    assert [candidate.number for candidate in found.candidates] == [0, 1, 3, 6]
    np.testing.assert_array_equal(found.outputs, pool.outputs[[0, 1, 3, 6]])
    np.testing.assert_array_equal(found.labels, pool.labels)
    assert (found.task, found.ids) == (pool.task, pool.ids)


def test_the_first_epochs_that_two_trials_share_stay_in_one_of_them() -> None:
    found = without_copies(repeated(TASKS["sst"], [0, 1, 2, 0, 1, 3], num_epochs=3))
    assert [(one.trial, one.epoch) for one in found.candidates] == [
        ("0000-r0", 1),
        ("0000-r0", 2),
        ("0000-r0", 3),
        ("0001-r0", 3),
    ]
    assert found.trial_numbers.tolist() == [0, 0, 0, 1]


def test_a_trial_that_another_sweep_took_over_whole_is_there_once() -> None:
    pool = repeated(TASKS["qqp"], [0, 1, 0, 1], num_epochs=2)
    sweeps = ("first", "first", "second", "second")
    named = tuple(replace(one, sweep=sweep) for one, sweep in zip(pool.candidates, sweeps, strict=True))
    found = without_copies(replace(pool, candidates=named))
    assert found.candidates == named[:2]


@pytest.mark.parametrize(
    ("kept", "left"),
    [
        ((), [0, 1, 3]),
        ((0, 1, 2, 3, 4), [0, 1, 3]),
        ((2,), [1, 2, 3]),
        ((4,), [1, 3, 4]),
        ((2, 4), [1, 2, 3]),
        ((0, 2), [0, 1, 3]),
        ((1,), [0, 1, 3]),
    ],
)
def test_of_copies_the_first_whose_weights_were_kept_stays(kept: Collection[int], left: list[int]) -> None:
    pool = repeated(TASKS["sts"], [0, 1, 0, 2, 0])
    assert places_left(pool, kept) == left


def test_candidates_that_say_nearly_the_same_all_stay() -> None:
    pool = repeated(TASKS["sts"], [0, 0])
    outputs = pool.outputs.copy()
    outputs[1, 7] = np.nextafter(outputs[1, 7], np.float32(5))
    assert without_copies(replace(pool, outputs=outputs)).candidates == pool.candidates


def test_constant_predictions_are_copies_where_the_constant_is_the_same() -> None:
    pool = repeated(TASKS["sts"], [0, 1, 2])
    constant = np.ones_like(pool.outputs) * np.array([2.5, 1, 2.5], np.float32)[:, None, None]
    assert [one.number for one in without_copies(replace(pool, outputs=constant)).candidates] == [0, 1]


def test_the_only_candidate_stays() -> None:
    pool = build_pool(TASKS["sst"], [0.5])
    assert without_copies(pool).candidates == pool.candidates
