"""Importances of known functions of the searched keys; Optuna's logging stays as it was."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import optuna
import pytest

from results.analysis.effects.searched_keys import KeyRange, SearchedKey
from results.analysis.importance import FEWEST_CONFIGURATIONS, key_importances
from results.records.trials import TrialRecord
from tests.results.conftest import build_record

RATE = SearchedKey(name="rate", values=(), range=KeyRange(low=1e-5, high=1e-3, is_log=True))
SIZE = SearchedKey(name="size", values=(8, 16, (1, 2)), base=8)
KEYS = [SIZE, RATE]


def search(score: Callable[[int, int], float], count: int = 4) -> list[TrialRecord]:
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


@pytest.fixture(params=[optuna.logging.INFO, optuna.logging.DEBUG])
def verbosity(request: pytest.FixtureRequest) -> Iterator[int]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(request.param)
    yield request.param
    optuna.logging.set_verbosity(before)


@pytest.mark.parametrize("metric", ["overall", "sst"])
def test_key_that_explains_almost_everything_comes_first(metric: str) -> None:
    found = key_importances(search(lambda rate, size: rate + 0.01 * size, 6), KEYS, metric)
    assert list(found) == ["rate", "size"]
    assert found["rate"] > 0.95
    assert sum(found.values()) == pytest.approx(1)
    found = key_importances(search(lambda rate, size: 0.01 * rate + (size == 2)), KEYS, metric)
    assert list(found) == ["size", "rate"]
    assert found["size"] > 0.95


def test_importances_are_the_same_each_time() -> None:
    records = search(lambda rate, size: rate * size)
    assert key_importances(records, KEYS, "overall") == key_importances(records, KEYS, "overall")


def test_replicates_are_averaged() -> None:
    """Their differences cancel: without the mean, the size would explain nearly nothing."""
    records: list[TrialRecord] = []
    for record in search(lambda _, size: size):
        for replicate, error in enumerate((-50.0, 50.0)):
            changes: Any = {"params": record.params, "best": {"overall": record.best["overall"] + error}}
            records.append(build_record(record.number, replicate, **changes))
    assert key_importances(records, KEYS, "overall") == key_importances(search(lambda _, size: size), KEYS, "overall")


def of_status(records: Sequence[TrialRecord], status: str) -> list[TrialRecord]:
    return [build_record(r.number, status=status, params=r.params, best=r.best) for r in records]


@pytest.mark.parametrize(("count", "is_known"), [(FEWEST_CONFIGURATIONS - 1, False), (FEWEST_CONFIGURATIONS, True)])
def test_few_configurations_tell_nothing(count: int, is_known: bool) -> None:
    records = search(lambda rate, size: rate + size)
    others = of_status(records[count:], "pruned")
    assert bool(key_importances([*records[:count], *others], KEYS, "overall")) == is_known


def test_reused_trials_count_and_unscored_ones_do_not() -> None:
    records = search(lambda rate, size: rate + size)
    expected = key_importances(records, KEYS, "overall")
    assert key_importances([*of_status(records, "reused"), build_record(99, best={})], KEYS, "overall") == expected


def test_equal_scores_tell_nothing() -> None:
    assert key_importances(search(lambda *_: 0.5), KEYS, "overall") == {}
    assert key_importances([], KEYS, "overall") == {}


def test_scores_that_differ_by_rounding_alone_are_equal() -> None:
    assert key_importances(search(lambda rate, _: 0.5 + 1e-16 * rate), KEYS, "overall") == {}


def test_importances_do_not_depend_on_the_scale_of_scores() -> None:
    def importances(scale: float) -> dict[str, float]:
        return key_importances(search(lambda rate, size: scale * (rate + size)), KEYS, "overall")

    assert importances(1e-6) == pytest.approx(importances(1.0), rel=0.02)  # rounding moves the forest's splits


def test_keys_that_some_configuration_lacks_are_left_out() -> None:
    records = search(lambda rate, size: rate + size)
    records[0] = build_record(0, params={"rate": 1e-5}, best={"overall": 0.0})
    assert list(key_importances(records, KEYS, "overall")) == ["rate"]
    records[1] = build_record(1, params={"size": 16}, best={"overall": 1.0})
    assert key_importances(records, KEYS, "overall") == {}


def test_logging_stays_as_it_was(verbosity: int, monkeypatch: pytest.MonkeyPatch) -> None:
    records = search(lambda rate, size: rate + size)
    key_importances(records, KEYS, "overall")
    assert optuna.logging.get_verbosity() == verbosity

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no study")

    monkeypatch.setattr(optuna, "create_study", fail)
    with pytest.raises(OSError, match="no study"):
        key_importances(records, KEYS, "overall")
    assert optuna.logging.get_verbosity() == verbosity
