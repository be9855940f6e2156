"""How often are equally good configurations called different, and how often is a real difference found?

Command:  python benchmarks/false_differences.py [--sweeps 200] [--rows 300 1000 ...] [--replicates 2 3 ...]
Cost:     eight designs of up to 7 configurations, 100 sweeps each: a minute and a half on 2 cores
Prints:   a row for each kind of training error, number of configurations, replicates and dev rows: the share of sweeps
          in which the ranking leaves some equally good configuration unmarked; in which the effects call some value
          different from the base; and in which the effects find one value that is better by the difference that they
          state as detectable with a power of 80 %

Sweeps are simulated, unlike the method's assumptions: whether a model is right on an example depends on the example's
difficulty, on what its configuration makes of the example (shared by its replicates) and on chance; training errors
shift all examples of a model. `normal`: normal training errors. `heavy`: from Student's t with 3 degrees of freedom.
`copies`: heavy, and every second configuration is nearly a copy of the one before. `unequal`: normal, with standard
deviations that differ by a factor of 3 between configurations.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from mtlib.tasks import TASKS
from results.comparison.bootstrap import Floats
from results.comparison.configuration_means import ConfigurationMeans, ModelScores, configuration_means, contrasts
from results.comparison.critical_values import margins_best, margins_control
from results.comparison.influence import covariance_over_examples, influence_values
from results.effects.detectable import precision_of

KINDS = ("normal", "heavy", "copies", "unequal")
TASK = TASKS["qqp"]
TRAINING_ERROR = 0.06
"""Standard deviation of the shift of a model's logits; about .015 of accuracy."""
ITEM_ERRORS = {"difficulty": 1.0, "configuration": 0.5, "model": 0.8}
"""Standard deviations of an example's logit by their source."""
MEAN_LOGIT = 1.0


@dataclass(frozen=True, kw_only=True)
class Design:
    """What is simulated."""

    kind: str
    num_configurations: int
    num_replicates: int
    num_rows: int


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=200)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--configurations", nargs="+", type=int, default=(2, 7, 24))
    parser.add_argument("--replicates", nargs="+", type=int, default=(2, 3, 5))
    parser.add_argument("--rows", nargs="+", type=int, default=(300, 2000))
    options = parser.parse_args()
    error = (0.05 * 0.95 / options.sweeps) ** 0.5
    print(f"{options.sweeps} sweeps each; shares near 5 % have a standard error of {error:.3f}")
    print(
        f"{'errors':8} {'configurations':>14} {'replicates':>10} {'rows':>6} {'ranking':>8} {'effects':>8} {'power':>6}"
    )
    for kind in options.kinds:
        for num_configurations in options.configurations:
            for num_replicates in options.replicates:
                for num_rows in options.rows:
                    print_design(
                        Design(
                            kind=kind,
                            num_configurations=num_configurations,
                            num_replicates=num_replicates,
                            num_rows=num_rows,
                        ),
                        options.sweeps,
                    )


def print_design(design: Design, num_sweeps: int) -> None:
    """Simulates a design and prints its row."""
    results = np.array([simulate(design, seed) for seed in range(num_sweeps)])
    ranking, effects, power = results.mean(axis=0)
    print(
        f"{design.kind:8} {design.num_configurations:14} {design.num_replicates:10} {design.num_rows:6} "
        f"{ranking:8.3f} {effects:8.3f} {power:6.2f}",
        flush=True,
    )


def simulate(design: Design, seed: int) -> tuple[bool, bool, bool]:
    """Whether the ranking and the effects claim a difference, and whether the effects find a real one."""
    stream = np.random.default_rng([seed, design.num_configurations, design.num_replicates, design.num_rows])
    logits = simulate_logits(design, stream)
    means = means_of(logits, design)
    best = int(means.means.argmax())
    one = np.eye(design.num_configurations)
    to_best = contrasts(means, np.delete(one[best] - one, best, axis=0))
    to_base = np.delete(one - one[0], 0, axis=0)
    is_ranked_below = bool((to_best.estimates > margins_best(means, to_best)).any())
    is_different = bool((np.abs(contrasts(means, to_base).estimates) > margins_control(means, to_base)).any())
    precision = precision_of(means, to_base, margins_control(means, to_base))
    assert precision is not None
    better = raise_last(logits, design, precision.detectable(design.num_replicates))
    means = means_of(better, design)
    is_found = contrasts(means, to_base).estimates[-1] > margins_control(means, to_base)[-1]
    return is_ranked_below, is_different, bool(is_found)


def simulate_logits(design: Design, stream: np.random.Generator) -> Floats:
    """(configurations, replicates, rows): above 0 where a model is right."""
    models = (design.num_configurations, design.num_replicates)
    shifts = (
        stream.normal(size=models)
        if design.kind in ("normal", "unequal")
        else stream.standard_t(3, size=models) / 3**0.5
    )
    if design.kind == "unequal":
        shifts = shifts * 3.0 ** stream.uniform(-0.5, 0.5, size=(models[0], 1))
    by_configuration = stream.normal(size=(models[0], 1, design.num_rows))
    by_model = stream.normal(size=(*models, design.num_rows))
    if design.kind == "copies":
        copied = np.arange(1, models[0], 2)
        shifts[copied] = shifts[copied - 1] + 0.1 * shifts[copied]
        by_configuration[copied] = by_configuration[copied - 1]
        by_model[copied] = by_model[copied - 1] + 0.1 * by_model[copied]
    items = ITEM_ERRORS["difficulty"] * stream.normal(size=design.num_rows)
    items = items + ITEM_ERRORS["configuration"] * by_configuration + ITEM_ERRORS["model"] * by_model
    return np.asarray(MEAN_LOGIT + items + TRAINING_ERROR * shifts[:, :, None])


def raise_last(logits: Floats, design: Design, difference: float) -> Floats:
    """The logits with the last configuration better by a difference in accuracy, on average over all text."""
    spread = float(np.sqrt(sum(error**2 for error in ITEM_ERRORS.values()) + TRAINING_ERROR**2))
    accuracy = min(0.999, stats.norm.cdf(MEAN_LOGIT / spread) + difference)
    better = logits.copy()
    better[design.num_configurations - 1] += spread * stats.norm.ppf(accuracy) - MEAN_LOGIT
    return better


def means_of(logits: Floats, design: Design) -> ConfigurationMeans:
    """Means of accuracies, with their variances."""
    right = (logits > 0).reshape(-1, design.num_rows).astype(np.float64)
    labels: Sequence[int] = [1] * design.num_rows
    numbers = np.arange(len(right))
    return configuration_means(
        ModelScores(
            configurations=numbers // design.num_replicates,
            replicates=numbers % design.num_replicates,
            scores=right.mean(axis=1),
            covariance=covariance_over_examples(influence_values(TASK, right, labels)),
        )
    )


if __name__ == "__main__":
    main()
