"""How often are equally good configurations called different, and how often is a real difference found?

Command:  python benchmarks/false_differences.py [--sweeps 200] [--kinds normal ...] [--configurations 2 7 ...]
          [--replicates 2 3 ...] [--rows 300 2000 ...]
Cost:     of a sweep on one core 0.1 s with 7 configurations, 1 s with 100; 3 s with 100 x 10 trials and 40,000 rows
Prints:   a row for each kind of training error, number of configurations, replicates and dev rows, with shares of
          sweeps: `ranking`, the first configuration, as if it were the best by next to nothing, is left unmarked;
          `effects`, some value is called different from the base; `coverage`, the interval of a value that is better by
          .03 holds this difference; `power`, a value is found that is better by the difference that the answer states
          for a power of 80 % (nan: it states none for two configurations with two replicates)

Sweeps are simulated, unlike the method's assumptions: whether a model is right on an example depends on the example's
difficulty, on what its configuration makes of the example (shared by its replicates) and on chance; training errors
shift all examples of a model. `normal`: normal training errors. `heavy`: from Student's t with 3 degrees of freedom.
`copies`: heavy, and every second configuration is nearly a copy of the one before. `paired`: normal, and all models of
one replicate, which begin with the same weights, err on much the same examples. `unequal`: normal, with standard
deviations that differ by a factor of up to 3 between configurations. `unstable_base` and `unstable_other`: normal, with
a standard deviation that is 5 times as large for the base, or for one other configuration. The covariance over examples
is that of the first 4,000 rows, scaled to all, so it is less exact than that of a sweep with more rows.
"""

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from mtlib.tasks import TASKS
from results.stats.configuration_means import (
    ConfigurationMeans,
    ModelScores,
    configuration_means,
    contrasts,
)
from results.stats.covariance import covariance_over_examples
from results.stats.margins import best_set, margins_control
from results.stats.power import precision_of

KINDS = ("normal", "heavy", "copies", "paired", "unequal", "unstable_base", "unstable_other")
UNSTABLE = {"unstable_base": 0, "unstable_other": 1}
"""By kind, the number of the configuration whose training errors are larger; 0 is the base."""
INSTABILITY = 5.0
"""How many times as large they are."""
COLUMNS = ("ranking", "effects", "coverage", "power")
TASK = TASKS["qqp"]
TRAINING_ERROR = 0.06
"""Standard deviation of the shift of a model's logits; about .015 of accuracy."""
DIFFICULTY, CONFIGURATION, MODEL = 1.0, 0.5, 0.8
"""Standard deviations of an example's logit by their source."""
PAIRED = 0.8
"""Share of a model's own variance, `MODEL` squared, that all models of a replicate have in common, where paired."""
MEAN_LOGIT = 1.0
TRUE_DIFFERENCE = 0.03
"""In accuracy, of the value whose interval is checked."""
COVARIANCE_ROWS = 4000

Right = npt.NDArray[np.bool_]


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
    parser.add_argument("--replicates", nargs="+", type=int, default=(2, 3, 10))
    parser.add_argument("--rows", nargs="+", type=int, default=(300, 2000))
    options = parser.parse_args()
    error = (0.05 * 0.95 / options.sweeps) ** 0.5
    print(f"{options.sweeps} sweeps each; shares near 5 % have a standard error of {error:.3f}")
    print(f"{'errors':14} {'configurations':>14} {'replicates':>10} {'rows':>6}", *(f"{name:>8}" for name in COLUMNS))
    cells = itertools.product(options.kinds, options.configurations, options.replicates, options.rows)
    for kind, num_configurations, num_replicates, num_rows in cells:
        design = Design(
            kind=kind, num_configurations=num_configurations, num_replicates=num_replicates, num_rows=num_rows
        )
        shares = np.mean([simulate(design, seed) for seed in range(options.sweeps)], axis=0)
        print(
            f"{kind:14} {num_configurations:14} {num_replicates:10} {num_rows:6}",
            *(f"{share:8.3f}" for share in shares),
            flush=True,
        )


def simulate(design: Design, seed: int) -> tuple[bool, bool, bool, float]:
    """Whether ranking and effects claim a difference, an interval holds a real one, and the effects find one."""
    stream = np.random.default_rng([seed, design.num_configurations, design.num_replicates, design.num_rows])
    right, better = simulate_models(design, stream)
    means, one = means_of(right), np.eye(design.num_configurations)
    to_base = one[1:] - one[0]
    found = margins_control(means, to_base)
    margins, estimates = found.widths, found.compared.estimates
    precision = precision_of(means, found, range(1, len(to_base) + 1))
    raised = means_of(np.concatenate([right[:-1], better[None]]))
    missed = contrasts(raised, to_base).estimates[-1] - TRUE_DIFFERENCE
    power = np.nan
    if precision is not None:
        size = precision.of_value(len(to_base)).detectable(design.num_replicates)
        power = float(estimates[-1] + size > margins[-1])
    return (
        not best_set(means).is_left[0],
        bool((np.abs(estimates) > margins).any()),
        bool(abs(missed) <= margins_control(raised, to_base).widths[-1]),
        power,
    )


def simulate_models(design: Design, stream: np.random.Generator) -> tuple[Right, Right]:
    """On which examples models are right: (configurations, replicates, rows), and the last one if it were better."""
    right = np.empty((design.num_configurations, design.num_replicates, design.num_rows), bool)
    for number, logits in enumerate(draw_logits(design, stream)):
        right[number] = logits > 0
    is_unstable = UNSTABLE.get(design.kind) == design.num_configurations - 1
    return right, logits + logit_rise(TRUE_DIFFERENCE, TRAINING_ERROR * (INSTABILITY if is_unstable else 1)) > 0


def draw_logits(design: Design, stream: np.random.Generator) -> Iterator[npt.NDArray[np.float32]]:
    """The logits of each configuration's models, (replicates, rows), in turn; all are equally good."""
    shape = (design.num_replicates, design.num_rows)
    items = MEAN_LOGIT + DIFFICULTY * stream.standard_normal(shape[1], dtype=np.float32)
    by_row, by_model = items, items
    by_replicate = MODEL * stream.standard_normal(shape, dtype=np.float32) if design.kind == "paired" else 0.0
    for number, shift in enumerate(draw_shifts(design, stream)):
        is_copy = design.kind == "copies" and number % 2 == 1
        own = MODEL * stream.standard_normal(shape, dtype=np.float32)
        if design.kind == "paired":
            own = np.sqrt(1 - PAIRED) * own + np.sqrt(PAIRED) * by_replicate
        by_row = by_row if is_copy else CONFIGURATION * stream.standard_normal(shape[1], dtype=np.float32)
        by_model = by_model + 0.1 * own if is_copy else own
        yield items + by_row + by_model + TRAINING_ERROR * shift[:, None]


def logit_rise(difference: float, training_error: float) -> float:
    """What raises the accuracy of a configuration with this training error by a difference."""
    spread, mean = spread_of_logits(training_error), mean_logit(training_error)
    return float(spread * stats.norm.ppf(stats.norm.cdf(mean / spread) + difference) - mean)


def spread_of_logits(training_error: float) -> float:
    """Standard deviation of the logits over examples and trainings."""
    return float(np.sqrt(DIFFICULTY**2 + CONFIGURATION**2 + MODEL**2 + training_error**2))


def mean_logit(training_error: float) -> float:
    """The mean that gives the same accuracy with a larger training error."""
    return MEAN_LOGIT * spread_of_logits(training_error) / spread_of_logits(TRAINING_ERROR)


def draw_shifts(design: Design, stream: np.random.Generator) -> npt.NDArray[np.float32]:
    """(configurations, replicates) training errors, most with a standard deviation near 1."""
    size = (design.num_configurations, design.num_replicates)
    is_heavy = design.kind in ("heavy", "copies")
    shifts = stream.standard_t(3, size=size) / 3**0.5 if is_heavy else stream.normal(size=size)
    if design.kind == "unequal":
        shifts *= 3.0 ** stream.uniform(-0.5, 0.5, size=(size[0], 1))
    if design.kind in UNSTABLE:
        level = (mean_logit(INSTABILITY * TRAINING_ERROR) - MEAN_LOGIT) / TRAINING_ERROR
        shifts[UNSTABLE[design.kind]] = INSTABILITY * shifts[UNSTABLE[design.kind]] + level
    if design.kind == "copies":
        copied = np.arange(1, size[0], 2)
        shifts[copied] = shifts[copied - 1] + 0.1 * shifts[copied]
    return shifts.astype(np.float32)


def means_of(right: Right) -> ConfigurationMeans:
    """Means of accuracies, with their variances."""
    return configuration_means(scores_of(right))


def scores_of(right: Right) -> ModelScores:
    """Accuracies of models, (configurations, replicates, rows), with their covariance over examples."""
    num_replicates, num_rows = right.shape[1:]
    models = right.reshape(-1, num_rows)
    some = models[:, :COVARIANCE_ROWS].astype(np.float64)
    influence = TASK.metric_entry.influences(some, np.ones(some.shape[1]))
    numbers = np.arange(len(models))
    return ModelScores(
        configurations=numbers // num_replicates,
        replicates=numbers % num_replicates,
        scores=models.mean(axis=1),
        covariance=covariance_over_examples(influence) * (some.shape[1] / num_rows),
        trainings=numbers,
    )


if __name__ == "__main__":
    main()
