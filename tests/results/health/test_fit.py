"""Memorized rows and forgotten tasks are found in the curves of finished trials."""

from collections.abc import Sequence
from typing import Any

import pytest

from results.health.fit import FORGOTTEN, RISEN, forgotten_tasks, memorized_tasks
from tests.results.conftest import build_record
from tests.results.health.given import only, sweep_of


def losses_of(dev: Sequence[float], train: Sequence[float], number: int = 0) -> list[Any]:
    """The losses of SST in a trial's epochs."""
    own = [("dev", value) for value in enumerate(dev, 1)] + [("train", value) for value in enumerate(train, 1)]
    return [(f"{number:04d}-r0", epoch, "sst", split, "loss", value) for split, (epoch, value) in own]


@pytest.mark.parametrize(
    ("dev", "train", "is_found"),
    [
        ((1.2, 1.6, 2.8), (1.2, 0.7, 0.1), True),
        ((1.2, 1.1, 1.1 * 0.99 * RISEN), (1.2, 0.7, 0.1), False),
        ((1.2, 1.1, 1.1 * 1.01 * RISEN), (1.2, 0.7, 0.1), True),
        ((1.2, 1.6, 2.8), (1.2, 1.3, 1.4), False),  # it diverges
        ((2.8, 1.6, 1.2), (1.2, 0.7, 0.1), False),
        ((1.2,), (1.2,), False),
        ((1.0, 9.0), (), False),
    ],
)
def test_dev_loss_that_rises_while_the_train_loss_falls_is_memorizing(
    dev: Sequence[float], train: Sequence[float], *, is_found: bool
) -> None:
    rows = [*losses_of(dev, train), *losses_of((1.2, 1.1), (1.2, 1.1), 1), *losses_of((1.0, 9.0), (2.0, 1.0), 2)]
    records = [build_record(0), build_record(1), build_record(2, status="pruned")]
    found = list(memorized_tasks(sweep_of(records, rows)))
    assert bool(found) is is_found
    if found:
        assert found[0].what.startswith("SST's train rows are memorized in 1 of 2 trials")
        lowest = f"{min(dev):.3g} after epoch {dev.index(min(dev)) + 1} to {dev[-1]:.3g}"
        assert found[0].what.endswith(f"most in 0000-r0, from {lowest}")


def stages(
    scores: Sequence[float], trained: str, number: int = 0, task: str = "sst", metric: str = "accuracy"
) -> list[Any]:
    """The points of a trial in whose epochs the task is trained (`x`) or others are."""
    trial = f"{number:04d}-r0"
    rows: list[Any] = [(trial, epoch, task, "dev", metric, score) for epoch, score in enumerate(scores, 1)]
    return [*rows, *((trial, e, task if x == "x" else "qqp", "train", "loss", 1.0) for e, x in enumerate(trained, 1))]


@pytest.mark.parametrize(
    ("scores", "trained", "is_found"),
    [
        ((0.3, 0.5, 0.4), "xx-", True),
        ((0.3, 0.5, 0.4), "xxx", False),  # trained to the end: not forgotten
        ((0.3, 0.5, 0.4), "x-x", False),
        ((0.3, 0.5, 0.4, 0.49), "xx--", False),  # it comes back
        ((0.3, 0.5, 0.5 - 0.9 * FORGOTTEN), "xx-", False),
        ((0.3, 0.5, 0.5 - 1.1 * FORGOTTEN), "xx-", True),
        ((0.3, 0.4, 0.5), "x--", False),
    ],
)
def test_score_that_falls_while_others_are_trained_is_forgetting(
    scores: Sequence[float], trained: str, *, is_found: bool
) -> None:
    found = list(forgotten_tasks(sweep_of([build_record(0)], stages(scores, trained))))
    assert bool(found) is is_found


def test_forgetting_names_the_worst_trial_and_counts_those_that_end_without_the_task() -> None:
    given = [((0.5, 0.4), "x-"), ((0.6, 0.2), "x-"), ((0.5, 0.5), "x-"), ((0.9, 0.1), "xx")]
    rows = [row for number, (scores, trained) in enumerate(given) for row in stages(scores, trained, number)]
    found = only(forgotten_tasks(sweep_of([*map(build_record, range(4))], rows)))
    assert "in 2 of 3 trials" in found.what
    assert found.what.endswith("most in 0001-r0, from 0.600 to 0.200")


@pytest.mark.parametrize(("fall", "is_found"), [(0.05, False), (0.07, True)])
def test_correlation_that_is_forgotten_falls_by_its_part_of_the_overall_score(fall: float, *, is_found: bool) -> None:
    rows = stages((0.8, 0.8 - fall), "x-", task="sts", metric="pearson")
    assert bool(list(forgotten_tasks(sweep_of([build_record(0)], rows)))) is is_found
