"""Scores on slices against scikit-learn and scores by hand."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score

from mtlib.tasks import TASKS, Task
from results.stats.groups import independent_groups
from results.stats.resampling import Floats, Numbers
from results.stats.slices import BLANK, MOST_SLICES, SlicedModels, SlicedRows, slice_rows

ONE = np.arange(1)


def sliced_rows(
    task: Task, values: Floats, labels: Floats, groups: Numbers, cells: Sequence[str], models: Numbers = ONE
) -> list[SlicedModels]:
    """The scores of some models on slices of a column `source`."""
    rows = SlicedRows(task=task, values=values, labels=labels, groups=groups, columns={"source": list(cells)})
    return rows.scores_of(models)


def test_values_are_ordered_by_their_rows_and_blank_cells_are_a_value() -> None:
    found = slice_rows({"language": ["en", "de", "", "en", "", "en"], "source": ["b", "a"] * 3})
    assert [(column, value, rows.tolist()) for column, value, rows in found] == [
        ("language", "en", [0, 3, 5]),
        ("language", BLANK, [2, 4]),
        ("language", "de", [1]),
        ("source", "a", [1, 3, 5]),
        ("source", "b", [0, 2, 4]),
    ]


def test_values_beyond_the_most_are_one_slice_that_says_how_many_they_are() -> None:
    cells = [f"v{number:02d}" for number in range(MOST_SLICES + 3) for _ in range(MOST_SLICES + 4 - number)]
    found = slice_rows({"source": cells})
    assert [value for _, value, _ in found] == [*(f"v{number:02d}" for number in range(MOST_SLICES)), "3 other values"]
    assert sorted(row for _, _, rows in found for row in rows) == list(range(len(cells)))
    assert len(found[-1][2]) == 4 + 3 + 2
    assert len(slice_rows({"source": cells[: -4 - 3 - 2]})) == MOST_SLICES  # exactly as many: none is pooled


def test_scores_are_those_of_the_rows_alone_with_students_interval() -> None:
    stream = np.random.default_rng(0)
    right = (stream.random((2, 300)) < 0.7).astype(float)
    cells = np.where(np.arange(300) % 3 == 0, "a", "b")
    both = sliced_rows(TASKS["qqp"], right, np.ones(300), np.arange(300), cells.tolist(), np.arange(2))
    for sliced, of_both in zip(
        sliced_rows(TASKS["qqp"], right, np.ones(300), np.arange(300), cells.tolist()), both, strict=True
    ):
        own = right[:, cells == sliced.value]
        assert of_both.scores == pytest.approx([accuracy_score(np.ones(own.shape[1]), row) for row in own])
        score = sliced.score
        assert (score.num_examples, score.num_groups) == (own.shape[1], own.shape[1])
        half = stats.t.isf(0.025, own.shape[1] - 1) * own[0].std(ddof=1) / np.sqrt(own.shape[1])
        assert score.interval == pytest.approx((own[0].mean() - half, own[0].mean() + half))
        assert of_both.score.score == pytest.approx(own.mean())
        assert np.ptp(of_both.score.interval) < np.ptp(score.interval)


def test_rows_of_a_group_count_together_and_few_groups_have_no_interval() -> None:
    right = np.repeat((np.random.default_rng(1).random((1, 30)) < 0.6).astype(float), 5, axis=1)
    groups, cells = np.arange(150) // 5, ["a"] * 105 + ["b"] * 45
    first, second = sliced_rows(TASKS["qqp"], right, np.ones(150), groups, cells)
    alone, _ = sliced_rows(TASKS["qqp"], right, np.ones(150), np.arange(150), cells)
    assert np.ptp(first.score.interval) > 1.9 * np.ptp(alone.score.interval)
    assert second.score.num_groups == 9
    assert second.score.interval == ()
    assert second.score.score == pytest.approx(right[0, 105:].mean())


def test_nine_single_rows_have_no_interval() -> None:
    """Also where each is alone in the slice: their documents may have further rows elsewhere."""
    values, groups = np.array([[1.0, 0.0] * 10]), np.arange(20) % 10
    first, second = sliced_rows(TASKS["qqp"], values, np.ones(20), groups, ["a"] * 11 + ["b"] * 9)
    assert first.score.interval != ()
    assert (second.score.num_groups, second.score.interval) == (9, ())


def test_a_slice_without_any_error_has_an_interval_all_the_same() -> None:
    (found,) = sliced_rows(TASKS["qqp"], np.ones((1, 20)), np.ones(20), np.arange(20), ["a"] * 20)
    low, high = found.score.interval
    assert high == 1
    assert 0.7 < low < 0.9


def test_correlation_of_a_constant_or_single_row_is_not_defined() -> None:
    values, labels = np.array([[1.0, 2.0, 4.0, 3.0]]), np.array([2.0, 2.0, 2.0, 5.0])
    for sliced in sliced_rows(TASKS["sts"], values, labels, np.arange(4), ["a", "a", "a", "b"]):
        assert (sliced.score.score, sliced.score.interval) == (None, ())


@pytest.mark.parametrize("metric", ["f1", "matthews"])
def test_score_of_0_is_shown_where_perfect_predictions_would_score_more(metric: str) -> None:
    task = replace(TASKS["qqp"], metric=metric)
    labels, cells = np.array([1.0, 0.0] * 10 + [0.0] * 15), ["both"] * 20 + ["none"] * 15
    both, none = sliced_rows(task, np.zeros((1, 35)), labels, np.arange(35), cells)
    assert both.score.score == 0
    assert none.score.score is None


def test_perfect_errors_of_0_are_a_score() -> None:
    labels = np.asarray(np.arange(12) % 5, dtype=np.float64)
    (found,) = sliced_rows(replace(TASKS["sts"], metric="rmse"), labels[None], labels, np.arange(12), ["a"] * 12)
    assert found.score.score == 0


def test_degrees_of_a_score_are_those_of_its_own_correlation_within_groups() -> None:
    """Rows of a group are right together in both models, whose differences are of single rows."""
    stream, groups = np.random.default_rng(2), np.repeat(np.arange(20), [200, *[10] * 19])
    shared = stream.random(20) < 0.5
    values = np.array([np.where(stream.random(len(groups)) < 0.1, ~shared[groups], shared[groups]) for _ in range(2)])
    both, cells = np.arange(2), ["a"] * len(groups)
    (found,) = sliced_rows(TASKS["qqp"], values.astype(float), np.ones(len(groups)), groups, cells, both)
    of_mean, of_differences = found.drawn.degrees_of_mean(both), found.drawn.degrees_of_differences(both)
    assert of_mean < 0.6 * of_differences


def test_no_columns_have_no_slices() -> None:
    rows = SlicedRows(
        task=TASKS["qqp"],
        values=np.ones((1, 4)),
        labels=np.ones(4),
        groups=independent_groups(None, 4),
        columns={},
    )
    assert rows.scores_of(ONE) == []
