"""A study has the finished configurations; importances of known functions of the searched keys."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import optuna
import pytest

from mtlib.tasks import TASKS
from results.figures.search_study import FEWEST_CONFIGURATIONS, key_importances, search_study
from results.records.trials import TrialRecord
from results.stats.effects.searched_keys import KeyRange, SearchedKey
from tests.results.conftest import build_record

RATE = SearchedKey(name="rate", values=(), range=KeyRange(low=1e-5, high=1e-3, is_log=True))
SIZE = SearchedKey(name="size", values=(8, 16, (1, 2)), base=8)
KEYS = [SIZE, RATE]


def grid(score: Callable[[int, int], float], count: int = 4) -> list[TrialRecord]:
    """A grid of the places of both keys' values, a trial each."""
    rates = [10 ** (-5 + 2 * place / (count - 1)) for place in range(count)]
    places = itertools.product(range(count), range(3))
    return [
        build_record(
            number,
            params={"rate": rates[rate], "size": [8, 16, [1, 2]][size]},
            best={"overall": score(rate, size), "sst": -score(rate, size)},
        )
        for number, (rate, size) in enumerate(places)
    ]


def importances_of(records: Sequence[TrialRecord], metric: str = "overall") -> dict[str, float]:
    return key_importances(search_study(records, KEYS, metric, TASKS))


@pytest.mark.parametrize("metric", ["overall", "sst"])
def test_key_that_explains_almost_everything_comes_first(metric: str) -> None:
    found = importances_of(grid(lambda rate, size: rate + 0.01 * size, 6), metric)
    assert list(found) == ["rate", "size"]
    assert found["rate"] > 0.95
    assert sum(found.values()) == pytest.approx(1)
    found = importances_of(grid(lambda rate, size: 0.01 * rate + (size == 2)), metric)
    assert list(found) == ["size", "rate"]
    assert found["size"] > 0.95


def test_replicates_are_averaged() -> None:
    """Their differences cancel: without the mean, the size would explain nearly nothing."""
    records: list[TrialRecord] = []
    for record in grid(lambda _, size: size):
        for replicate, error in enumerate((-50.0, 50.0)):
            changes: Any = {"params": record.params, "best": {"overall": record.best["overall"] + error}}
            records.append(build_record(record.number, replicate, **changes))
    assert importances_of(records) == importances_of(grid(lambda _, size: size))


@pytest.mark.parametrize(("count", "is_known"), [(FEWEST_CONFIGURATIONS - 1, False), (FEWEST_CONFIGURATIONS, True)])
def test_few_finished_configurations_tell_nothing(count: int, is_known: bool) -> None:
    records = grid(lambda rate, size: rate + size)
    finished = [replace(record, status="reused") for record in records[:count]]
    others = [replace(record, status="pruned") for record in records[count:]]
    assert bool(importances_of([*finished, *others, build_record(99, best={})])) == is_known


@pytest.mark.parametrize("rate_effect", [0.0, 1e-16])
def test_equal_scores_tell_nothing(rate_effect: float) -> None:
    assert importances_of(grid(lambda rate, _: 0.5 + rate_effect * rate)) == {}


def test_importances_do_not_depend_on_the_scale_of_scores() -> None:
    def importances(scale: float) -> dict[str, float]:
        return importances_of(grid(lambda rate, size: scale * (rate + size)))

    assert importances(1e-6) == pytest.approx(importances(1.0), rel=0.02)  # rounding moves the forest's splits


def test_keys_that_some_configuration_lacks_are_left_out() -> None:
    records = grid(lambda rate, size: rate + size)
    records[0] = build_record(0, params={"rate": 1e-5}, best={"overall": 0.0})
    assert list(importances_of(records)) == ["rate"]
    records[1] = build_record(1, params={"size": 16}, best={"overall": 1.0})
    assert importances_of(records) == {}


def test_logging_stays_as_it_was() -> None:
    before = optuna.logging.get_verbosity()
    importances_of(grid(lambda rate, size: rate + size))
    assert optuna.logging.get_verbosity() == before


def test_study_has_the_mean_scores_of_finished_configurations_as_they_are_shown() -> None:
    rmse = {"sts": replace(TASKS["sts"], metric="rmse")}
    records = [
        build_record(1, params={"rate": 1e-4, "size": 16}, best={"sts": -0.5}, started="2024-05-01T10:00"),
        build_record(0, params={"rate": 1e-3, "size": [1, 2]}, best={"sts": -0.25}, started="2024-05-01T11:00"),
        build_record(0, 1, params={"rate": 1e-3, "size": [1, 2]}, best={"sts": -0.75}, started="2024-05-01T12:00"),
        build_record(2, status="pruned", params={"rate": 1e-5, "size": 8}, best={"sts": -0.1}),
    ]
    study = search_study(records, KEYS, "sts", rmse)
    assert [trial.value for trial in study.trials] == [0.5, 0.5]
    assert [trial.params for trial in study.trials] == [{"size": 16, "rate": 1e-4}, {"size": "1-2", "rate": 1e-3}]
    assert study.direction == optuna.study.StudyDirection.MINIMIZE
