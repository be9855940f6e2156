"""The configurations that may be the best for a task: replicates show how much training again moves a score."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from mtlib.tasks import TASKS, Task
from results.ensembles.candidates import Pool
from results.records.selection import Contender
from results.selection.contenders import find_contenders
from tests.results.ensembles.simulated_pools import build_pool

BINARY = TASKS["qqp"]
each_task = pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))


def replicated(task: Task, skills: Sequence[float], num_replicates: int = 3, num_epochs: int = 1) -> Pool:
    """A configuration for each skill."""
    all_skills = np.repeat(skills, num_replicates).tolist()
    pool = build_pool(task, all_skills, num_rows=300, num_epochs=num_epochs)
    pairs = ((one, *divmod(one.number, num_replicates)) for one in pool.candidates)
    candidates = (
        replace(one, trial=f"{number:04d}-r{replicate}", number=number, replicate=replicate, params={"x": number})
        for one, number, replicate in pairs
    )
    return replace(pool, candidates=tuple(candidates))


def numbers_in(found: Sequence[Contender]) -> list[int]:
    return [one.number for one in found]


@each_task
def test_far_worse_configurations_are_excluded_and_similar_ones_included(task: Task) -> None:
    found = find_contenders(replicated(task, [1.0, 0.0, 1.02, 0.1, 0.98]))
    assert sorted(numbers_in(found)) == [0, 2, 4]
    assert [one.params for one in found] == [{"x": f"{one.number}"} for one in found]


@each_task
def test_best_is_first_by_the_mean_of_its_replicates_best_epochs(task: Task) -> None:
    pool = replicated(task, [0.85, 0.9, 0.8], num_epochs=3)
    if task.kind == "regression":
        scores = np.array([np.corrcoef(values, pool.labels)[0, 1] for values in pool.values])
    else:
        scores = pool.values.mean(axis=1)
    best = scores.reshape(3, 3, 3).max(axis=2).mean(axis=1)  # configurations, replicates, epochs
    found = numbers_in(find_contenders(pool))
    assert found == [number for number in np.argsort(-best) if number in found]


def test_none_is_known_where_no_configuration_was_trained_twice() -> None:
    assert find_contenders(replicated(BINARY, [2.0, -2.0], num_replicates=1)) == ()


def test_a_good_replicate_with_a_poor_one_is_not_certain() -> None:
    """The training variance is large, so a third configuration that is far lower may be as good."""
    pool = build_pool(BINARY, [2.0, -2.0, 0.5, 0.5], num_rows=400, correlation=0.0)
    pairs = [(one, *divmod(number, 2)) for number, one in enumerate(pool.candidates)]
    candidates = tuple(replace(one, number=number, replicate=replicate) for one, number, replicate in pairs)
    assert numbers_in(find_contenders(replace(pool, candidates=candidates))) == [1, 0]


@pytest.mark.parametrize("num_copies", [2, 6])
def test_configurations_with_equal_outputs_stay_together(num_copies: int) -> None:
    pool = replicated(BINARY, [0.8, -1.0])
    copies = [replace(one, number=n) for n in range(num_copies) for one in pool.candidates[:3]]
    numbers = [0, 1, 2] * num_copies + [3, 4, 5]
    worst = [replace(one, number=num_copies) for one in pool.candidates[3:]]
    named = (replace(one, trial=f"{one.number:04d}-r{one.replicate}") for one in [*copies, *worst])
    many = replace(pool, candidates=tuple(named), outputs=pool.outputs[numbers])
    assert sorted(numbers_in(find_contenders(many))) == list(range(num_copies))


def test_dropped_configurations_are_left_out() -> None:
    pool = replicated(BINARY, [1.0, 0.9, 0.2])
    dropped = tuple(replace(one, was_dropped=one.number == 0) for one in pool.candidates)
    assert 0 not in numbers_in(find_contenders(replace(pool, candidates=dropped)))


def test_configurations_of_two_sweeps_are_different() -> None:
    pool = replicated(BINARY, [1.0, 1.0])
    names = tuple(replace(one, sweep="ab"[one.number], number=0) for one in pool.candidates)
    assert {(one.sweep, one.number) for one in find_contenders(replace(pool, candidates=names))} == {("a", 0), ("b", 0)}


def test_copies_of_a_configuration_count_once() -> None:
    """Three with the outputs of another in all epochs change nothing but that they are contenders with it."""
    pool = replicated(BINARY, [1.0, 0.755, 0.705], num_epochs=2)
    own = [place for place, one in enumerate(pool.candidates) if one.number == 0]
    copies = [
        replace(pool.candidates[place], number=number, trial=f"{number:04d}-r{pool.candidates[place].replicate}")
        for number in (3, 4, 5)
        for place in own
    ]
    more = replace(
        pool, candidates=(*pool.candidates, *copies), outputs=np.concatenate([pool.outputs, *[pool.outputs[own]] * 3])
    )
    alone, found = numbers_in(find_contenders(pool)), numbers_in(find_contenders(more))
    assert alone == [0, 1, 2]  # 2 would be left out if copies counted several times
    assert [number for number in found if number < 3] == alone
    assert {3, 4, 5} <= set(found)
