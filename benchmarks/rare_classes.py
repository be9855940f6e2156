"""How often do 95 % intervals of F1 hold the truth where a class has few dev rows?

Command:  python benchmarks/rare_classes.py [--dev-sets 2000] [--rows 5 8 12 20 40 80]
Cost:     12 ms for each dev set, number of rows and metric on one core
Prints:   a row for each expected number of dev rows of the rare class and each metric: the true score; the bias of the
          dev score; with standard errors from influences, as in rankings and effects, the share of dev sets whose
          interval holds the truth, and of those where two models that are equally good differ; the share whose
          bootstrap interval, as of a model card and a single model, holds the truth; the mean width of the first
          interval

Simulated: six classes, five with 80 dev rows on average and a rare one. A model is right on 85 % of the rows of a
class, of the rare one on 70 %, and errs towards any other class, so that its true scores are known. Labels are drawn
by the classes' shares. Two models err on the same rows in half of the cases.
"""

import argparse
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from mtlib.tasks import Task
from results.stats.resampling import CONFIDENCE, bootstrap_scores, percentile_interval, score_examples

NUM_CLASSES, RARE = 6, 5
ROWS_OF_OTHERS = 80
RIGHT, RIGHT_OF_RARE = 0.85, 0.70
SHARED = 0.5
"""Share of rows on which the second model predicts what the first one does."""
METRICS = ("macro_f1", f"f1:{RARE}", f"recall:{RARE}", "accuracy")
QUANTILE = float(norm.ppf((1 + CONFIDENCE) / 2))

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class DevSet:
    """Labels, (rows,), and the predictions of two models that are equally good, (2, rows)."""

    labels: Floats
    predictions: Floats


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dev-sets", type=int, default=2000)
    parser.add_argument("--rows", nargs="+", type=int, default=(5, 8, 12, 20, 40, 80), help="of the rare class")
    options = parser.parse_args()
    error = (0.05 * 0.95 / options.dev_sets) ** 0.5
    print(f"{options.dev_sets} dev sets each; shares near 95 % have a standard error of {error:.3f}")
    print("rows  metric       truth    bias  coverage  false differences  bootstrap coverage  width")
    for rows in options.rows:
        sets = [draw_dev_set(rows, np.random.default_rng((rows, seed))) for seed in range(options.dev_sets)]
        for metric in METRICS:
            truth, task = true_score(metric, rows), task_of(metric)
            found = np.array([check(task, own, truth) for own in sets])
            bias, coverage, false, bootstrap, width = found.mean(axis=0)
            print(
                f"{rows:>4}  {metric:10} {truth:7.3f} {bias:+7.4f} {coverage:9.3f} {false:18.3f} "
                f"{bootstrap:19.3f} {width:6.3f}"
            )


def task_of(metric: str) -> Task:
    """Returns a task with these classes that is scored by a metric."""
    return Task(
        name="simulated",
        title="simulated",
        kind="classes",
        label_range=(0, NUM_CLASSES - 1),
        text_columns=("text",),
        label_column="label",
        metric=metric,
    )


def shares_of_classes(rows: int) -> Floats:
    """Returns the share of each class, (classes,), for an expected number of rows of the rare one."""
    sizes = np.full(NUM_CLASSES, float(ROWS_OF_OTHERS))
    sizes[RARE] = rows
    return np.asarray(sizes / sizes.sum())


def confusion() -> Floats:
    """Returns the probability of each prediction given each label, (classes, classes)."""
    right = np.full(NUM_CLASSES, RIGHT)
    right[RARE] = RIGHT_OF_RARE
    found = np.repeat((1 - right)[:, None] / (NUM_CLASSES - 1), NUM_CLASSES, axis=1)
    np.fill_diagonal(found, right)
    return found


def true_score(metric: str, rows: int) -> float:
    """Returns a metric over infinitely many rows."""
    joint = shares_of_classes(rows)[:, None] * confusion()
    recalls, f1 = np.diag(confusion()), 2 * np.diag(joint) / (joint.sum(axis=0) + joint.sum(axis=1))
    known = {"macro_f1": f1.mean(), f"f1:{RARE}": f1[RARE], f"recall:{RARE}": recalls[RARE]}
    return float(known.get(metric, np.trace(joint)))


def draw_dev_set(rows: int, stream: np.random.Generator) -> DevSet:
    """Draws a dev set in which the rare class has so many rows on average."""
    size = rows + ROWS_OF_OTHERS * (NUM_CLASSES - 1)
    labels = stream.choice(NUM_CLASSES, size, p=shares_of_classes(rows))
    steps, places = confusion().cumsum(axis=1)[labels], stream.random((2, size))
    places[1] = np.where(stream.random(size) < SHARED, places[0], places[1])
    predictions = (places[:, :, None] > steps[None, :, :-1]).sum(axis=2)
    return DevSet(labels=labels.astype(np.float64), predictions=predictions.astype(np.float64))


def check(task: Task, found: DevSet, truth: float) -> tuple[float, bool, bool, bool, float]:
    """Returns the error of the first model's score, whether its interval holds the truth, whether the models differ
    significantly, whether the bootstrap interval holds the truth, and the width of the first interval."""
    labels = found.labels
    values = (found.predictions == labels).astype(np.float64) if task.metric == "accuracy" else found.predictions
    score, other = score_examples(task, values, labels)
    influences = task.metric_entry.influences(values, labels)
    error, error_of_difference = (
        float(np.sqrt((own**2).mean() / len(labels))) for own in (influences[0], influences[0] - influences[1])
    )
    low, high = percentile_interval(bootstrap_scores(task, values[:1], labels)[0])
    return (
        score - truth,
        abs(score - truth) <= QUANTILE * error,
        abs(score - other) > QUANTILE * error_of_difference,
        bool(low <= truth <= high),
        2 * QUANTILE * error,
    )


if __name__ == "__main__":
    main()
