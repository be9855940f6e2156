"""Which configurations alone were trained again, and how often equally good ones of them are called different."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from results.records.race import RaceRecord, RoundDecision
from results.records.replicated_best import choose_replicated, replicated_best
from results.records.trials import TrialRecord
from results.stats.configuration_means import configuration_means
from results.stats.margins import best_set
from tests.results.stats.test_configuration_means import model_scores

MakeRecord = Callable[..., TrialRecord]
CHOSEN = {"options": {"replicate_best": 2, "chosen_by": 1}}


def test_best_have_further_replicates(make_record: MakeRecord) -> None:
    records = [make_record(*key) for key in ((0, 0), (1, 0), (1, 1), (2, 0), (3, 0), (3, 1), (3, 2))]
    assert replicated_best(CHOSEN, records) == {1, 3}
    assert replicated_best({"options": {"replicate_best": 2, "chosen_by": 2}}, records) == {3}


@pytest.mark.slow
def test_choosing_by_the_first_training_makes_no_false_differences() -> None:
    """8 of 40 equally good configurations, with all three of their trainings, of which one is taken for the best; 300
    sweeps, 5 % would be 15."""
    stream, num_wrong = np.random.default_rng(0), 0
    for _ in range(300):
        scores = stream.normal(size=(40, 3)) + stream.normal(size=3)
        means = configuration_means(model_scores(scores[np.argsort(-scores[:, 0])[:8]]))
        num_wrong += not best_set(means).is_left[stream.integers(8)]
    assert num_wrong <= 15


def test_best_are_chosen_by_common_trainings_once_all_have_ended(make_record: MakeRecord) -> None:
    options = {"chosen_by": 2, "replicate_best": 1}
    info: dict[str, Any] = {"num_configurations": 3, "options": options}
    scores = {(0, 0): 0.5, (0, 1): 0.9, (1, 0): 0.8, (1, 1): 0.5, (2, 0): 0.1, (2, 1): 0.1, (1, 2): 5.0}
    records = [make_record(number, again, best={"overall": score}) for (number, again), score in scores.items()]
    assert choose_replicated(info, records, None) == [0]
    for left in (records[:5], [replace(records[0], status="running"), *records[1:]]):
        assert choose_replicated(info, left, None) == []
    assert choose_replicated({**info, "num_configurations": 4}, records, None) == []
    assert choose_replicated({**info, "options": {"replicates": 2}}, records, None) == [0, 1, 2]


def test_configuration_that_is_raced_stays_so_where_a_better_one_is_added(make_record: MakeRecord) -> None:
    info: dict[str, Any] = {"num_configurations": 3, "options": {"chosen_by": 1, "replicate_best": 1}}
    scores = {(0, 0): 0.5, (0, 1): 0.9, (1, 0): 0.1, (2, 0): 0.9}
    records = [make_record(number, again, best={"overall": score}) for (number, again), score in scores.items()]
    assert choose_replicated(info, records, None) == [2]
    assert choose_replicated(info, records, RaceRecord()) == [2, 0], "its race has begun, nothing is decided yet"
    left = RaceRecord(decisions=(RoundDecision(num_rounds=2, open=(0,), worse=(1,)),))
    assert choose_replicated(info, records, left) == [2, 0, 1]
    added = [replace(own, status="queued") if own.number == 2 else own for own in records]
    assert choose_replicated(info, added, left) == [0, 1]
