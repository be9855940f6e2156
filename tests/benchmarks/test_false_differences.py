"""The simulated sweeps are what the table says: equally good, with one value better by a known difference."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.false_differences import (
    INSTABILITY,
    KINDS,
    MEAN_LOGIT,
    TRAINING_ERROR,
    TRUE_DIFFERENCE,
    UNSTABLE,
    Design,
    draw_shifts,
    simulate,
    simulate_models,
    spread_of_logits,
)


def design_of(kind: str, num_rows: int) -> Design:
    return Design(kind=kind, num_configurations=4, num_replicates=5, num_rows=num_rows)


@pytest.mark.parametrize("kind", KINDS)
def test_configurations_are_equally_good_but_for_one(kind: str) -> None:
    models = [simulate_models(design_of(kind, 4000), np.random.default_rng(seed)) for seed in range(40)]
    accuracies = np.mean([right.mean(axis=(1, 2)) for right, _ in models], axis=0)
    assert np.ptp(accuracies) < 0.008  # standard errors of about .0015, of an unstable one .005
    rise = np.mean([better.mean() - right[-1].mean() for right, better in models])
    assert rise == pytest.approx(TRUE_DIFFERENCE, abs=0.001)


@pytest.mark.parametrize("kind", UNSTABLE)
def test_unstable_configuration_has_the_accuracy_of_the_others(kind: str) -> None:
    """By the normal distribution of logits over examples and trainings, with the mean of many trainings' shifts."""
    design = Design(kind=kind, num_configurations=2, num_replicates=200_000, num_rows=1)
    shifts = TRAINING_ERROR * draw_shifts(design, np.random.default_rng(0))
    means, spreads = MEAN_LOGIT + shifts.mean(axis=1), [spread_of_logits(float(own.std())) for own in shifts]
    first, second = stats.norm.cdf(means / spreads)
    assert first == pytest.approx(second, abs=5e-4)
    assert abs(stats.norm.cdf(MEAN_LOGIT / max(spreads)) - min(first, second)) > 0.004  # without a correction


def test_near_copies_are_wrong_on_the_same_examples() -> None:
    right, _ = simulate_models(design_of("copies", 4000), np.random.default_rng(0))
    assert (right[0] == right[1]).mean() > 0.95
    assert (right[1] == right[2]).mean() < 0.9


def test_unequal_configurations_have_standard_deviations_that_differ() -> None:
    design = Design(kind="unequal", num_configurations=30, num_replicates=30, num_rows=2000)
    right, _ = simulate_models(design, np.random.default_rng(0))
    spread = right.mean(axis=2).std(axis=1, ddof=1)
    assert 2 < spread.max() / spread.min() < 4.5


@pytest.mark.parametrize(("kind", "number"), UNSTABLE.items())
def test_one_configuration_is_unstable(kind: str, number: int) -> None:
    design = Design(kind=kind, num_configurations=3, num_replicates=100, num_rows=3000)
    accuracies = simulate_models(design, np.random.default_rng(0))[0].mean(axis=2)
    spread = accuracies.std(axis=1, ddof=1)
    assert spread[number] / np.delete(spread, number).mean() == pytest.approx(INSTABILITY, rel=0.25)


def test_a_seed_gives_the_same_sweep() -> None:
    design = design_of("heavy", 300)
    assert simulate(design, 3) == simulate(design, 3)
