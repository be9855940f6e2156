"""A simulated race costs what its decisions say, and equal replicates that are looked at often are wrong more often."""

import numpy as np
import pytest

from benchmarks.racing import World, draw_scores, equal, run_race, trainings
from results.records.race import DECIDED, UNDECIDABLE
from results.stats.configuration_means import configuration_means


def world(spread: float, num_configurations: int = 3) -> World:
    return World(title="normal", kind="normal", num_configurations=num_configurations, num_rows=500, spread=spread)


def test_accuracies_are_spread_evenly_below_the_first() -> None:
    means = [configuration_means(draw_scores(world(0.2), 20, seed)).means for seed in range(30)]
    assert np.mean(means, axis=0) - np.mean(means) == pytest.approx([0.1, 0.0, -0.1], abs=0.015)


def test_far_configurations_leave_after_few_rounds_and_cost_no_more() -> None:
    race = run_race(draw_scores(world(0.5), 20, 0), 20, 0.0)
    assert race.end == DECIDED
    assert race.decisions[-1].open == (0,)
    left = race.left_at
    assert set(left) == {1, 2}
    assert trainings(race, 3) == race.num_rounds + left[1] + left[2] < 15


def test_resumed_race_of_equal_ones_goes_on_to_its_last_round() -> None:
    models = draw_scores(world(0.0), 12, 1)
    assert (run_race(models, 12, 0.0).end, run_race(models, 12, 0.0).num_rounds < 12) == (UNDECIDABLE, True)
    assert run_race(models, 12, 0.0, is_resumed=True).num_rounds == 12


def test_equal_replicates_distinguish_more_with_more_rounds() -> None:
    tables = [draw_scores(world(0.1), 20, seed) for seed in range(10)]
    few, many = equal(tables, 2, 0), equal(tables, 20, 0)
    assert 0 <= few < many <= 1
