"""The simulated sweeps are what the table says: equally good, with one value better by a known difference."""

from dataclasses import replace

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
    score_and_influence,
    simulate,
    simulate_models,
    spread_of_logits,
    true_difference,
)


def design_of(kind: str, num_rows: int) -> Design:
    return Design(kind=kind, num_configurations=4, num_replicates=5, num_rows=num_rows)


def are_right(design: Design, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """On which rows models are right: (configurations, replicates, rows), and the last one if it were better."""
    models = simulate_models(design, np.random.default_rng(seed))
    return models.predictions > 0, models.better > 0


@pytest.mark.parametrize("kind", KINDS)
def test_configurations_are_equally_good_but_for_one(kind: str) -> None:
    models = [are_right(design_of(kind, 4000), seed) for seed in range(40)]
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
    right, _ = are_right(design_of("copies", 4000))
    assert (right[0] == right[1]).mean() > 0.95
    assert (right[1] == right[2]).mean() < 0.9


def test_unequal_configurations_have_standard_deviations_that_differ() -> None:
    design = Design(kind="unequal", num_configurations=30, num_replicates=30, num_rows=2000)
    right, _ = are_right(design)
    spread = right.mean(axis=2).std(axis=1, ddof=1)
    assert 2 < spread.max() / spread.min() < 4.5


@pytest.mark.parametrize(("kind", "number"), UNSTABLE.items())
def test_one_configuration_is_unstable(kind: str, number: int) -> None:
    design = Design(kind=kind, num_configurations=3, num_replicates=100, num_rows=3000)
    accuracies = are_right(design)[0].mean(axis=2)
    spread = accuracies.std(axis=1, ddof=1)
    assert spread[number] / np.delete(spread, number).mean() == pytest.approx(INSTABILITY, rel=0.25)


def test_a_seed_gives_the_same_sweep() -> None:
    design = design_of("heavy", 300)
    assert simulate(design, 3) == simulate(design, 3)


def test_rows_of_a_group_are_alike_and_score_as_rows_alone() -> None:
    design = replace(design_of("normal", 0), num_groups=400, group_rows=(2, 2), within=0.5)
    models = [simulate_models(design, np.random.default_rng(seed)) for seed in range(40)]
    logits = np.concatenate([own.predictions for own in models], axis=2)
    first, second = logits[..., ::2].ravel(), logits[..., 1::2].ravel()
    assert np.corrcoef(first, second)[0, 1] == pytest.approx(0.5, abs=0.02)
    alone = np.mean([are_right(design_of("normal", 800), seed)[0].mean() for seed in range(40)])
    assert (logits > 0).mean() == pytest.approx(float(alone), abs=0.01)
    assert all(np.unique(own.groups, return_counts=True)[1].tolist() == [2] * 400 for own in models)


@pytest.mark.parametrize("metric", ["f1", "pearson"])
def test_better_value_is_better_by_the_difference_that_intervals_must_hold(metric: str) -> None:
    design = replace(design_of("normal", 50_000), metric=metric)
    models = [simulate_models(design, np.random.default_rng(seed)) for seed in range(4)]
    both = [np.stack([own.predictions[-1], own.better]) for own in models]
    scores = [
        score_and_influence(values.reshape(-1, 50_000), own.labels, metric)[0].reshape(2, -1).mean(axis=1)
        for values, own in zip(both, models, strict=True)
    ]
    before, after = np.mean(scores, axis=0)
    assert after - before == pytest.approx(true_difference(design), rel=0.05)
    assert true_difference(design) > 0.01
