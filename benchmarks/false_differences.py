"""How often are equally good configurations called different, and how often is a real difference found?

Command:  python benchmarks/false_differences.py [--sweeps 200] [--kinds normal ...] [--configurations 2 7 ...]
          [--replicates 2 3 ...] [--rows 300 2000 ... | --groups 20 50 ... [--group-rows LOW HIGH] [--within 0 .2 ...]]
          [--metric accuracy | f1 | pearson]
Cost:     of a sweep on one core 0.1 s with 7 configurations, 1 s with 100; 3 s with 100 x 10 trials and 40,000 rows
Prints:   a row for each kind of training error, number of configurations, replicates and dev rows, with shares of
          sweeps: `ranking`, the first configuration, as if it were the best by next to nothing, is left unmarked;
          `effects`, some value is called different from the base; `coverage`, the interval of a value that is better by
          .03 holds this difference; `power`, a value is found that is better by the difference that the answer states
          for a power of 80 % (nan: it states none for two configurations with two replicates); `ignoring` groups:
          `effects` and `coverage` if each row is taken as independent

Sweeps are simulated, unlike the method's assumptions: whether a model is right on an example depends on the example's
difficulty, on what its configuration makes of the example (shared by its replicates) and on chance; training errors
shift all examples of a model. `normal`: normal training errors. `heavy`: from Student's t with 3 degrees of freedom.
`copies`: heavy, and every second configuration is nearly a copy of the one before. `paired`: normal, and all models of
one replicate, which begin with the same weights, err on much the same examples. `unequal`: normal, with standard
deviations that differ by a factor of up to 3 between configurations. `unstable_base` and `unstable_other`: normal, with
a standard deviation that is 5 times as large for the base, or for one other configuration. The covariance over examples
is that of the first 4,000 rows, scaled to all, so it is less exact than that of a sweep with more rows.

With --groups, rows come in so many groups of LOW to HIGH rows, evenly; what makes a row difficult, for all models, for
one configuration or for one model, and its label are correlated by --within between the rows of a group, and all rows
count. With F1 a third of the rows are of the class that counts, and with Pearson's correlation labels are normal; the
better value is then as much better as the same change of the model makes it on very many rows.
"""

import argparse
import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import stats

from mtlib.metrics.metric import read_logits
from mtlib.tasks import TASKS
from results.stats.configuration_means import (
    ConfigurationMeans,
    ModelScores,
    configuration_means,
    contrasts,
)
from results.stats.covariance import covariance_over_examples
from results.stats.groups import drawn_groups
from results.stats.margins import best_set, margins_control
from results.stats.power import precision_of
from results.stats.resampling import Floats, Numbers

KINDS = ("normal", "heavy", "copies", "paired", "unequal", "unstable_base", "unstable_other")
UNSTABLE = {"unstable_base": 0, "unstable_other": 1}
"""By kind, the number of the configuration whose training errors are larger; 0 is the base."""
INSTABILITY = 5.0
"""How many times as large they are."""
COLUMNS = ("ranking", "effects", "coverage", "power")
IGNORING = ("effects", "coverage")
"""Columns that are shown, with groups, also for rows that are taken as independent."""
MEASURED = {"accuracy": TASKS["qqp"], "f1": replace(TASKS["qqp"], metric="f1"), "pearson": TASKS["sts"]}
POSITIVE = stats.norm.isf(1 / 3)
"""What the normal value behind the label of a row of the class that counts is above."""
SIGNAL, MORE_SIGNAL = 2.0, 1.25
"""How much a regression's prediction changes with the label's normal value, and how many times as much if better."""
TRUE_ROWS, TRUE_MODELS = 200_000, 20
"""Rows and models by which a true difference is measured."""
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


@dataclass(frozen=True, kw_only=True)
class Design:
    """What is simulated."""

    kind: str
    num_configurations: int
    num_replicates: int
    num_rows: int
    """Of a design without groups."""
    num_groups: int = 0
    """0: each row is alone."""
    group_rows: tuple[int, int] = (1, 1)
    """Fewest and most rows of a group."""
    within: float = 0.0
    """Correlation of the rows of a group."""
    metric: str = "accuracy"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=200)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--configurations", nargs="+", type=int, default=(2, 7, 24))
    parser.add_argument("--replicates", nargs="+", type=int, default=(2, 3, 10))
    parser.add_argument("--rows", nargs="+", type=int, default=(300, 2000))
    parser.add_argument("--groups", nargs="+", type=int, default=())
    parser.add_argument("--group-rows", nargs=2, type=int, default=(1, 50), metavar=("LOW", "HIGH"))
    parser.add_argument("--within", nargs="+", type=float, default=(0.0, 0.2, 0.5))
    parser.add_argument("--metric", default="accuracy", choices=MEASURED)
    options = parser.parse_args()
    error = (0.05 * 0.95 / options.sweeps) ** 0.5
    print(f"{options.sweeps} sweeps each; shares near 5 % have a standard error of {error:.3f}")
    ignoring = [f"ignoring: {name}" for name in IGNORING] if options.groups else []
    columns, size = (*COLUMNS, *ignoring), "groups" if options.groups else "rows"
    names = (f"{name:>8}" for name in columns)
    print(f"{'errors':14} {'configurations':>14} {'replicates':>10} {size:>6} {'within':>6}", *names)
    for design in designs(options):
        shares = np.mean([simulate(design, seed) for seed in range(options.sweeps)], axis=0)
        print(
            f"{design.kind:14} {design.num_configurations:14} {design.num_replicates:10}",
            f"{design.num_groups or design.num_rows:6} {design.within:6g}",
            *(f"{share:{max(8, len(name))}.3f}" for share, name in zip(shares, columns, strict=True)),
            flush=True,
        )


def designs(options: argparse.Namespace) -> Iterator[Design]:
    """Yields what the options ask for, a row of the table each."""
    sizes = itertools.product(options.groups, options.within) if options.groups else ((0, 0.0),)
    rows = (0,) if options.groups else options.rows
    for kind, num_configurations, num_replicates, num_rows, (num_groups, within) in itertools.product(
        options.kinds, options.configurations, options.replicates, rows, sizes
    ):
        yield Design(
            kind=kind,
            num_configurations=num_configurations,
            num_replicates=num_replicates,
            num_rows=num_rows,
            num_groups=num_groups,
            group_rows=tuple(options.group_rows),
            within=within,
            metric=options.metric,
        )


def simulate(design: Design, seed: int) -> tuple[float, ...]:
    """Whether ranking and effects claim a difference, an interval holds a real one, and the effects find one; with
    groups, whether effects claim one, and an interval holds it, if each row is taken as independent."""
    key = [seed, design.num_configurations, design.num_replicates, design.num_rows or design.num_groups]
    stream = np.random.default_rng(key)
    models = simulate_models(design, stream)
    found = claims(design, models, models.groups)
    alone = claims(design, models, np.arange(len(models.labels))) if design.num_groups else ()
    return (*found, *alone[1:3])


@dataclass(frozen=True, kw_only=True)
class SimulatedModels:
    """What models predict."""

    predictions: Floats
    """(configurations, replicates, rows) logits, or numbers of a regression; all are equally good."""
    better: Floats
    """(replicates, rows) of the last configuration if it were better."""
    labels: Floats
    """(rows,)."""
    groups: Numbers
    """(rows,)."""


def claims(design: Design, models: SimulatedModels, groups: Numbers) -> tuple[float, ...]:
    """Returns the columns of the table for a simulated sweep whose rows are drawn in groups."""
    means = means_of(models.predictions, models.labels, groups, design.metric)
    one = np.eye(design.num_configurations)
    to_base = one[1:] - one[0]
    found = margins_control(means, to_base)
    margins, estimates = found.widths, found.compared.estimates
    precision = precision_of(means, found, range(1, len(to_base) + 1))
    with_better = np.concatenate([models.predictions[:-1], models.better[None]])
    raised = means_of(with_better, models.labels, groups, design.metric)
    missed = contrasts(raised, to_base).estimates[-1] - true_difference(design)
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


def true_difference(design: Design) -> float:
    """Returns by how much the score of the last configuration is higher if it is better."""
    if design.metric == "accuracy":
        return TRUE_DIFFERENCE
    is_unstable = UNSTABLE.get(design.kind) == design.num_configurations - 1
    return measured_difference(design.metric, INSTABILITY if is_unstable else 1.0)


@functools.cache
def measured_difference(metric: str, instability: float) -> float:
    """Returns the same of one configuration on very many rows, with normal training errors so many times as large."""
    design = Design(kind="normal", num_configurations=1, num_replicates=1, num_rows=TRUE_ROWS, metric=metric)
    stream, differences = np.random.default_rng(0), []
    for _ in range(TRUE_MODELS):
        models = simulate_models(design, stream, instability)
        values = np.stack([models.predictions[0, 0], models.better[0]])
        base, better = score_and_influence(values, models.labels, metric)[0]
        differences.append(better - base)
    return float(np.mean(differences))


def simulate_models(design: Design, stream: np.random.Generator, instability: float = 1.0) -> SimulatedModels:
    """Draws the models of a sweep; `instability` is the factor of all training errors."""
    groups = draw_groups(design, stream)
    design = replace(design, num_rows=len(groups))
    is_unstable = UNSTABLE.get(design.kind) == design.num_configurations - 1
    rise = logit_rise(TRUE_DIFFERENCE, TRAINING_ERROR * (INSTABILITY if is_unstable else instability))
    logits = np.stack(list(draw_logits(design, stream, groups, instability))).astype(np.float64)
    if design.metric == "accuracy":
        return SimulatedModels(predictions=logits, better=logits[-1] + rise, labels=np.ones(len(groups)), groups=groups)
    behind = draw_rows((), design, stream, groups)
    if design.metric == "f1":
        labels = (behind > POSITIVE).astype(np.float64)
        predictions, better = logits * (2 * labels - 1), (logits[-1] + rise) * (2 * labels - 1)
    else:
        labels, noise = behind.astype(np.float64), logits - MEAN_LOGIT
        predictions, better = SIGNAL * labels + noise, MORE_SIGNAL * SIGNAL * labels + noise[-1]
    return SimulatedModels(predictions=predictions, better=better, labels=labels, groups=groups)


def draw_groups(design: Design, stream: np.random.Generator) -> Numbers:
    """(rows,) number of the group of each row."""
    if not design.num_groups:
        return np.arange(design.num_rows)
    low, high = design.group_rows
    return np.repeat(np.arange(design.num_groups), stream.integers(low, high + 1, design.num_groups))


def draw_rows(
    shape: tuple[int, ...], design: Design, stream: np.random.Generator, groups: Numbers
) -> npt.NDArray[np.float32]:
    """(*shape, rows) normal values, which are correlated between the rows of a group."""
    own = stream.standard_normal((*shape, len(groups)), dtype=np.float32)
    if not design.within:
        return own
    shared = stream.standard_normal((*shape, design.num_groups), dtype=np.float32)[..., groups]
    return np.asarray(np.sqrt(1 - design.within) * own + np.sqrt(design.within) * shared, dtype=np.float32)


def draw_logits(
    design: Design, stream: np.random.Generator, groups: Numbers | None = None, instability: float = 1.0
) -> Iterator[npt.NDArray[np.float32]]:
    """The logits of each configuration's models, (replicates, rows), in turn; all are equally good."""
    shape, groups = (design.num_replicates,), np.arange(design.num_rows) if groups is None else groups
    items = MEAN_LOGIT + DIFFICULTY * draw_rows((), design, stream, groups)
    by_row, by_model = items, items
    by_replicate = MODEL * draw_rows(shape, design, stream, groups) if design.kind == "paired" else 0.0
    for number, shift in enumerate(instability * draw_shifts(design, stream)):
        is_copy = design.kind == "copies" and number % 2 == 1
        own = MODEL * draw_rows(shape, design, stream, groups)
        if design.kind == "paired":
            own = np.sqrt(1 - PAIRED) * own + np.sqrt(PAIRED) * by_replicate
        by_row = by_row if is_copy else CONFIGURATION * draw_rows((), design, stream, groups)
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


def means_of(predictions: Floats, labels: Floats, groups: Numbers, metric: str) -> ConfigurationMeans:
    """Means of scores, with their variances."""
    return configuration_means(scores_of(predictions, labels, groups, metric))


def scores_of(predictions: Floats, labels: Floats, groups: Numbers, metric: str = "accuracy") -> ModelScores:
    """Scores of models, (configurations, replicates, rows), with their covariance over examples in groups, (rows,)."""
    num_replicates, num_rows = predictions.shape[1:]
    models = predictions.reshape(-1, num_rows)
    scores, influence = score_and_influence(models, labels, metric)
    is_alone = len(np.unique(groups)) == num_rows
    some = slice(COVARIANCE_ROWS if is_alone else None)
    influence, groups = influence[:, some] - influence[:, some].mean(axis=1, keepdims=True), groups[some]
    numbers = np.arange(len(models))
    return ModelScores(
        configurations=numbers // num_replicates,
        replicates=numbers % num_replicates,
        scores=scores,
        covariance=covariance_over_examples(influence, groups) * (len(groups) / num_rows),
        trainings=numbers,
        degrees=drawn_groups(influence, groups).degrees_of_differences(numbers),
    )


def score_and_influence(predictions: Floats, labels: Floats, metric: str) -> tuple[Floats, Floats]:
    """Returns the score of each model, (models,), and the influence of each row on it, (models, rows)."""
    entry, values = MEASURED[metric].metric_entry, predictions
    if metric != "pearson":
        values = read_logits(entry, "binary", (0, 1), predictions[..., None], labels)
    return entry.scores(values, labels)[:, 0], entry.influences(values, labels)


if __name__ == "__main__":
    main()
