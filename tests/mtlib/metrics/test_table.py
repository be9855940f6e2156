"""Every metric against scikit-learn and scipy, on examples as they are, repeated and with changed weights."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as reference

from mtlib.metrics.metric import Floats
from mtlib.metrics.table import METRICS, check_metric, metric_of_class
from tests.mtlib.metrics.simulated import ALL_METRICS, CASES, CLASS_NAMES, draw


def of_class(number: int, labels: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Labels and predictions, each 1 where they are of the class with a number."""
    is_own = labels == number, values == number
    first, second = is_own if labels.ndim == 1 else (labels[:, number], values[:, number])
    return np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)


REFERENCES: dict[str, Callable[[Floats, Floats], Any]] = {
    "accuracy": lambda _labels, values: values.mean(),
    "micro_f1": lambda labels, values: reference.f1_score(labels, values, average="micro"),
    "macro_f1": lambda labels, values: reference.f1_score(labels, values, average="macro"),
    "f1": reference.f1_score,
    "f1:legal": lambda labels, values: reference.f1_score(*of_class(0, labels, values)),
    "precision:other": lambda labels, values: reference.precision_score(*of_class(2, labels, values)),
    "recall:sales": lambda labels, values: reference.recall_score(*of_class(1, labels, values)),
    "matthews": reference.matthews_corrcoef,
    "average_precision": reference.average_precision_score,
    "pearson": lambda labels, values: stats.pearsonr(labels, values).statistic,
    "spearman": lambda labels, values: stats.spearmanr(labels, values).statistic,
    "rmse": lambda labels, values: np.sqrt(reference.mean_squared_error(labels, values)),
}


def test_every_metric_has_a_reference() -> None:
    assert set(REFERENCES) == set(ALL_METRICS)


each_case = pytest.mark.parametrize(("name", "several"), [case for case in CASES if case[0] in REFERENCES])


@each_case
def test_values_are_those_of_scikit_learn_and_scipy(name: str, several: bool) -> None:
    values, labels = draw(name, 200, several=several)
    metric, wanted = ALL_METRICS[name], [REFERENCES[name](labels, own) for own in values]
    np.testing.assert_allclose([metric.evaluate(own, labels) for own in values], wanted, rtol=1e-12)
    np.testing.assert_allclose(metric.value_of(metric.scores(values, labels))[:, 0], wanted, rtol=1e-12)


@each_case
def test_scores_under_counts_are_those_of_repeated_examples(name: str, several: bool) -> None:
    values, labels = draw(name, 80, several=several)
    counts = np.random.default_rng(1).multinomial(80, np.full(80, 1 / 80), size=5)
    metric = ALL_METRICS[name]
    found = metric.value_of(metric.scores(values, labels, counts.astype(np.float64)))
    for resample, own in enumerate(counts):
        rows = np.repeat(np.arange(80), own)
        wanted = [REFERENCES[name](labels[rows], one[rows]) for one in values]
        np.testing.assert_allclose(found[:, resample], wanted, rtol=1e-9)


@each_case
def test_influences_are_derivatives_of_the_score_by_the_weight_of_an_example(name: str, several: bool) -> None:
    values, labels = draw(name, 150, several=several)
    metric = ALL_METRICS[name]
    wanted = metric.score_of(metric.differentiate(values, labels))
    np.testing.assert_allclose(metric.influences(values, labels), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(metric.influences(values, labels).mean(axis=1), 0, atol=1e-12)


@each_case
def test_influences_give_the_standard_error_over_samples(name: str, several: bool) -> None:
    num_samples, num_rows = 600, 200
    scores, errors = [], []
    for seed in range(num_samples):
        values, labels = draw(name, num_rows, several=several, num_models=1, seed=seed)
        scores.append(ALL_METRICS[name].scores(values, labels)[0, 0])
        errors.append(np.sqrt((ALL_METRICS[name].influences(values, labels)[0] ** 2).mean() / num_rows))
    # The standard deviation of 600 scores has a standard error of 3 %.
    assert np.std(scores) == pytest.approx(np.mean(errors), rel=0.09)


@each_case
def test_a_single_example_and_equal_ones_can_be_scored(name: str, several: bool) -> None:
    metric = ALL_METRICS[name]
    for values, labels in (
        (np.ones((2, 1)), np.ones(1)),
        (np.zeros((2, 3)), np.zeros(3)),
        (np.ones((1, 4)), np.eye(4)[0]),
    ):
        if several:
            labels = np.stack([labels, 0 * labels], axis=-1)
            values = values if metric.reads == "right" else np.stack([values, values], axis=-1)
        assert np.isfinite(metric.scores(values, labels)).all()
        assert np.isfinite(metric.influences(values, labels)).all()


def test_the_overall_score_counts_correlations_as_half_and_errors_by_the_range() -> None:
    found = {name: ALL_METRICS[name].overall(ALL_METRICS[name].score_of(0.6), (0, 3)) for name in REFERENCES}
    assert found == {
        **dict.fromkeys(("accuracy", "micro_f1", "macro_f1", "f1", "average_precision"), 0.6),
        **dict.fromkeys(("f1:legal", "precision:other", "recall:sales"), 0.6),
        **dict.fromkeys(("matthews", "pearson", "spearman"), 0.8),
        "rmse": pytest.approx(1 - 0.6 / 3),
    }
    assert METRICS["rmse"].overall(-4.0, (0, 3)) == 0


@pytest.mark.parametrize("name", ["accuracy", "pearson", "rmse"])
def test_the_slope_is_the_derivative_of_what_counts_overall(name: str) -> None:
    metric, labels = ALL_METRICS[name], (1.0, 5.0)
    score = metric.score_of(0.7)
    wanted = (metric.overall(score + 1e-6, labels) - metric.overall(score - 1e-6, labels)) / 2e-6
    assert metric.overall_slope(labels) == pytest.approx(wanted)


def test_of_the_error_lower_is_better() -> None:
    assert [name for name in REFERENCES if ALL_METRICS[name].score_of(1.0) < 0] == ["rmse"]
    assert METRICS["rmse"].value_of(METRICS["rmse"].score_of(0.3)) == 0.3
    assert METRICS["rmse"].bounds((0, 5)) == (-5, 0)


def test_a_metric_that_does_not_suit_names_those_that_do() -> None:
    check_metric("f1", "binary", METRICS)
    with pytest.raises(ValueError, match=r"of a classes task 'f1'; did you mean 'f1:CLASS'\?.* accuracy, .*macro_f1"):
        check_metric("f1", "classes", METRICS)
    with pytest.raises(ValueError, match=r"did you mean 'spearman'\? known: spearman, "):
        check_metric("spearmann", "regression", METRICS)


def test_a_metric_of_one_class_has_the_name_of_the_class() -> None:
    (metric,) = metric_of_class("f1:legal", CLASS_NAMES).values()
    assert metric.title == "F1 of legal"
    assert metric_of_class("macro_f1", CLASS_NAMES) == {}
    assert metric_of_class("f1:a:b", ("a", "a:b"))  # a name with a colon


def test_a_wrong_class_of_a_metric_lists_the_right_ones_nearest_first() -> None:
    with pytest.raises(ValueError, match=r"'leagl'; did you mean 'legal'\? known: legal, other, sales"):
        metric_of_class("recall:leagl", CLASS_NAMES)


def test_a_class_that_never_occurs_scores_0() -> None:
    for name in ("f1:other", "precision:other", "recall:other"):
        (metric,) = metric_of_class(name, CLASS_NAMES).values()
        values, labels = np.array([[0.0, 1, 0]]), np.array([0.0, 1, 1])
        assert metric.evaluate(values[0], labels) == 0
        assert metric.scores(values, labels).tolist() == [[0]]
        assert metric.influences(values, labels).tolist() == [[0, 0, 0]]
