"""The table of metrics: a metric is one function and one entry of `METRICS`.

Metrics of classes are cross-fitted over all examples together. Correlations and average precision are computed in each
fold and averaged, as outputs of the ensembles of different folds differ in scale.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mtlib.kinds import KINDS, Kind
from mtlib.metrics.average_precision import average_precision_influence, counted_average_precision
from mtlib.metrics.class_counts import (
    CLASS_SCORES,
    class_score_influence,
    counted_class_score,
    counted_macro_f1,
    counted_matthews,
    counted_micro_f1,
    macro_f1_influence,
    matthews_influence,
    micro_f1_influence,
)
from mtlib.metrics.correlation import counted_pearson, counted_spearman, pearson_influence, spearman_influence
from mtlib.metrics.means import counted_means, counted_root_errors, mean_influence, root_error_influence
from mtlib.metrics.metric import Metric
from mtlib.runtime.errors import require_name


def class_metric(title: str, kinds: tuple[Kind, ...], score: str, number: int) -> Metric:
    """Returns the metric that is a score (`CLASS_SCORES`) of the class with a number."""
    of_class: dict[str, Any] = {"score": score, "number": number}
    return Metric(
        title=title,
        kinds=kinds,
        reads="class",
        counted=partial(counted_class_score, **of_class),
        influence=partial(class_score_influence, **of_class),
    )


METRICS: dict[str, Metric] = {
    "accuracy": Metric(
        title="accuracy",
        kinds=("classes", "binary", "multilabel"),
        reads="right",
        counted=counted_means,
        influence=mean_influence,
        is_mean=True,
        is_always_reported=True,
    ),
    "micro_f1": Metric(
        title="micro F1",
        kinds=("multilabel",),
        reads="class",
        counted=counted_micro_f1,
        influence=micro_f1_influence,
    ),
    "macro_f1": Metric(
        title="macro F1",
        kinds=("classes", "binary", "multilabel"),
        reads="class",
        counted=counted_macro_f1,
        influence=macro_f1_influence,
    ),
    "f1": class_metric("F1", ("binary",), "f1", 1),
    "matthews": Metric(
        title="Matthews' correlation",
        kinds=("classes", "binary"),
        reads="class",
        function="sklearn.metrics:matthews_corrcoef",
        counted=counted_matthews,
        influence=matthews_influence,
        range=(-1.0, 1.0),
        is_zero_of_constants=True,
    ),
    "average_precision": Metric(
        title="average precision",
        kinds=("binary", "multilabel"),
        reads="output",
        function="sklearn.metrics:average_precision_score",
        counted=counted_average_precision,
        influence=average_precision_influence,
        is_scored_by_fold=True,
    ),
    "pearson": Metric(
        title="Pearson's correlation",
        kinds=("regression",),
        reads="output",
        function="mtlib.metrics.correlation:pearson",
        counted=counted_pearson,
        influence=pearson_influence,
        range=(-1.0, 1.0),
        is_zero_of_constants=True,
        is_scored_by_fold=True,
        num_fitted=4,  # two means and two variances
        is_always_reported=True,
    ),
    "spearman": Metric(
        title="Spearman's correlation",
        kinds=("regression",),
        reads="output",
        function="mtlib.metrics.correlation:spearman",
        counted=counted_spearman,
        influence=spearman_influence,
        range=(-1.0, 1.0),
        is_zero_of_constants=True,
        is_scored_by_fold=True,
        num_fitted=4,
        is_always_reported=True,
    ),
    "rmse": Metric(
        title="RMSE",
        kinds=("regression",),
        reads="output",
        function="sklearn.metrics:root_mean_squared_error",
        counted=counted_root_errors,
        influence=root_error_influence,
        range=(0.0, None),
        lower_is_better=True,
        has_scale=True,
    ),
}
"""By name in tasks and in curves."""


def metric_of_class(name: str, class_names: Sequence[str]) -> dict[str, Metric]:
    """Returns the entry of a metric of one class, such as `f1:legal`, by its name; none for the name of another one.

    Raises:
        ValueError: there is no such class; the message has the right ones, nearest first.
    """
    score, colon, wanted = name.partition(":")
    if not colon or score not in CLASS_SCORES:
        return {}
    require_name(wanted, class_names, f"class of the metric {score}")
    title, kinds = f"{score.replace('f1', 'F1')} of {wanted}", METRICS["macro_f1"].kinds
    return {name: class_metric(title, kinds, score, class_names.index(wanted))}


def check_metric(name: str, kind: Kind, metrics: Mapping[str, Metric]) -> None:
    """Raises ValueError with the right names, nearest first, unless the metric suits the kind of task."""
    known = [own for own, metric in metrics.items() if kind in metric.kinds]
    of_class = [] if KINDS[kind].is_regression else [f"{score}:CLASS" for score in CLASS_SCORES]
    require_name(name, [*known, *of_class], f"metric of a {kind} task")
