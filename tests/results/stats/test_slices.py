"""Scores on slices against scikit-learn and scores by hand."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score

from mtlib.tasks import TASKS
from results.stats.slices import BLANK, MOST_VALUES, slice_models, slice_rows

ONE = np.arange(1)


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
    cells = [f"v{number:02d}" for number in range(MOST_VALUES + 3) for _ in range(MOST_VALUES + 4 - number)]
    found = slice_rows({"source": cells})
    assert [value for _, value, _ in found] == [*(f"v{number:02d}" for number in range(MOST_VALUES)), "3 other values"]
    assert sorted(row for _, _, rows in found for row in rows) == list(range(len(cells)))
    assert len(found[-1][2]) == 4 + 3 + 2
    assert len(slice_rows({"source": cells[: -4 - 3 - 2]})) == MOST_VALUES  # exactly as many: none is pooled


def test_scores_are_those_of_the_rows_alone_with_students_interval() -> None:
    stream = np.random.default_rng(0)
    right = (stream.random((2, 300)) < 0.7).astype(float)
    cells = np.where(np.arange(300) % 3 == 0, "a", "b")
    found = slice_models(TASKS["qqp"], right, np.ones(300), np.arange(300), {"source": cells.tolist()})
    for sliced in found:
        own = right[:, cells == sliced.value]
        assert sliced.scores == pytest.approx([accuracy_score(np.ones(own.shape[1]), row) for row in own])
        score = sliced.score(TASKS["qqp"], ONE)
        assert (score.num_examples, score.num_groups) == (own.shape[1], own.shape[1])
        half = stats.t.isf(0.025, own.shape[1] - 1) * own[0].std(ddof=1) / np.sqrt(own.shape[1])
        assert score.interval == pytest.approx((own[0].mean() - half, own[0].mean() + half))
        both = sliced.score(TASKS["qqp"], np.arange(2))
        assert both.score == pytest.approx(own.mean())
        assert both.interval[1] - both.interval[0] < score.interval[1] - score.interval[0]


def test_rows_of_a_group_count_together_and_few_groups_have_no_interval() -> None:
    right = np.repeat((np.random.default_rng(1).random((1, 30)) < 0.6).astype(float), 5, axis=1)
    groups, cells = np.arange(150) // 5, ["a"] * 105 + ["b"] * 45
    first, second = slice_models(TASKS["qqp"], right, np.ones(150), groups, {"source": cells})
    alone, _ = slice_models(TASKS["qqp"], right, np.ones(150), np.arange(150), {"source": cells})
    widths = [np.ptp(own.score(TASKS["qqp"], ONE).interval) for own in (first, alone)]
    assert widths[0] > 1.9 * widths[1]
    assert second.score(TASKS["qqp"], ONE).num_groups == 9
    assert second.score(TASKS["qqp"], ONE).interval == ()
    assert second.score(TASKS["qqp"], ONE).score == pytest.approx(right[0, 105:].mean())


def test_a_slice_without_any_error_has_an_interval_all_the_same() -> None:
    (found,) = slice_models(TASKS["qqp"], np.ones((1, 20)), np.ones(20), np.arange(20), {"source": ["a"] * 20})
    low, high = found.score(TASKS["qqp"], ONE).interval
    assert high == 1
    assert 0.7 < low < 0.9


def test_correlation_of_a_constant_or_single_row_is_not_defined() -> None:
    values, labels = np.array([[1.0, 2.0, 4.0, 3.0]]), np.array([2.0, 2.0, 2.0, 5.0])
    found = slice_models(TASKS["sts"], values, labels, np.arange(4), {"source": ["a", "a", "a", "b"]})
    for sliced in found:
        score = sliced.score(TASKS["sts"], ONE)
        assert (score.score, score.interval) == (None, ())


def test_no_columns_have_no_slices() -> None:
    assert slice_models(TASKS["qqp"], np.ones((1, 4)), np.ones(4), np.arange(4), {}) == []
