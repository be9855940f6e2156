"""The expected best of n dev scores against all subsets, scipy and closed forms, and which trials count."""

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from mtlib.tasks import TASKS
from results.answers.expected_best import (
    SHOWN,
    describe_expected,
    expected_best,
    reached_after,
    round_numbers,
    sweep_expected,
)
from results.records.tables import write_trials
from results.records.trials import TrialRecord, write_sweep

MakeRecord = Callable[..., TrialRecord]


def best_of_all_subsets(scores: Sequence[float], n: int) -> list[float]:
    """The highest score of each subset of size n, sorted."""
    return sorted(max(chosen) for chosen in itertools.combinations(scores, n))


def quantile_by_counting(values: Sequence[float], level: Fraction) -> float:
    """The lowest v with P(max <= v) >= level, in integer arithmetic; `values` are sorted."""
    return next(value for rank, value in enumerate(values, 1) if Fraction(rank, len(values)) >= level)


@pytest.mark.parametrize(
    "scores",
    [[0.3], [0.2, -0.1], [0.5, 0.7, 0.7, 0.7, 0.9, 0.9, 0.2], np.random.default_rng(1).normal(size=12).tolist()],
)
def test_expectation_and_band_are_those_of_all_subsets(scores: list[float]) -> None:
    found = expected_best(scores)
    for n in range(1, len(scores) + 1):
        choices = best_of_all_subsets(scores, n)
        assert found.expected[n - 1] == pytest.approx(np.mean(choices), rel=1e-13)
        assert found.low[n - 1] == quantile_by_counting(choices, Fraction(1, 20))
        assert found.high[n - 1] == quantile_by_counting(choices, Fraction(19, 20))


def test_rounding_does_not_decide_where_a_probability_equals_a_level() -> None:
    scores = np.random.default_rng(1).normal(size=20).tolist()
    found = expected_best(scores)
    for n in (1, 2, 3):
        assert found.low[n - 1] == quantile_by_counting(best_of_all_subsets(scores, n), Fraction(1, 20))


def test_ten_thousand_scores_match_the_closed_form() -> None:
    """Of 1..N without replacement, the highest of n is expected at n (N + 1) / (n + 1)."""
    num_scores = 10_000
    found, n = expected_best(np.random.default_rng(0).permutation(num_scores) + 1.0), np.arange(1, num_scores + 1)
    np.testing.assert_allclose(found.expected, n * (num_scores + 1) / (n + 1), rtol=1e-11)
    # All n draws are among the i lowest with the hypergeometric probability of n hits in n draws.
    for one in (2, 50):
        for bound, level in ((found.low, 0.05), (found.high, 0.95)):
            below = scipy.stats.hypergeom.pmf(one, num_scores, bound[one - 1] - np.arange(2), one)
            assert below[0] >= level > below[1]


def test_estimate_is_unbiased_for_further_draws() -> None:
    """The highest of n uniform draws is expected at n / (n + 1); here from searches of 10 each."""
    searches = np.random.default_rng(4).uniform(size=(4000, 10))
    found = np.array([expected_best(scores).expected for scores in searches])
    n = np.arange(1, 11)
    assert (np.abs(found.mean(axis=0) - n / (n + 1)) < 4 * found.std(axis=0) / np.sqrt(len(searches))).all()


def test_most_of_the_gain_is_reached_where_the_formula_gives() -> None:
    """Of 10 k + 1 scores, of which one is 1 and the others 0, 9 k + 1 are enough exactly."""
    assert [reached_after(expected_best([0] * 10 * k + [1])) for k in range(1, 30)] == list(range(10, 271, 9))
    assert reached_after(expected_best([0] * 9 + [1])) == 10  # 9 of 10 are 8/9 of the way
    assert reached_after(expected_best([0.1 + 0.2] * 7)) == 1


def test_some_numbers_and_the_last_are_shown() -> None:
    assert round_numbers(1, SHOWN) == [1]
    assert round_numbers(20, SHOWN) == [1, 2, 5, 10, 20]
    assert round_numbers(51, (1, 2, 3, 5)) == [1, 2, 3, 5, 10, 20, 30, 50, 51]


def test_lines_have_the_curve_and_say_whether_it_is_an_estimate() -> None:
    lines = describe_expected(expected_best([0] * 10 + [1], is_random=True), TASKS)
    assert [line.split()[:2] for line in lines[1:6]] == [
        ["1", "0.091"],
        ["2", "0.182"],
        ["5", "0.455"],
        ["10", "0.909"],
        ["11", "1.000"],
    ]
    assert "reached with 10" in lines[6]
    assert "unbiased" in lines[7]
    assert "unbiased" not in " ".join(describe_expected(expected_best([0.4, 0.6]), TASKS, "sst"))
    assert "One score does not show what more would gain." in describe_expected(expected_best([0.4]), TASKS)
    assert "All 3 scores are equal." in describe_expected(expected_best([0.4] * 3), TASKS)


def test_configurations_count_with_the_mean_of_replicates_that_have_not_failed(
    make_record: MakeRecord, tmp_path: Path
) -> None:
    scores = {
        (0, 0, "complete"): 0.5,
        (0, 1, "complete"): 0.7,
        (0, 2, "failed"): 0.9,
        (1, 0, "pruned"): 0.4,
        (2, 0, "running"): 0.9,
        (3, 0, "failed"): 1.0,
    }
    records = [make_record(*key, best={"sst": own, "overall": own / 2}) for key, own in scores.items()]
    write_sweep(tmp_path, {"search": "random", "scheduler": "none"})
    write_trials(tmp_path, [*records, make_record(4, status="queued", best={})], tuple(TASKS))
    found = sweep_expected(tmp_path, "sst")
    assert found.is_random
    np.testing.assert_allclose(found.expected, expected_best([0.6, 0.4, 0.9]).expected)
    np.testing.assert_allclose(sweep_expected(tmp_path).expected, found.expected / 2)
    with pytest.raises(ValueError, match=r"^unknown score 'overal'; did you mean 'overall'\?"):
        sweep_expected(tmp_path, "overal")
    with pytest.raises(ValueError, match=r"^a sweep must have a configuration with a dev score of sts, got none in "):
        sweep_expected(tmp_path, "sts")


def test_only_overall_scores_of_the_same_tasks_count_together(make_record: MakeRecord, tmp_path: Path) -> None:
    scored = [{"sst": 0.99}, {"sst": 0.5, "qqp": 0.7}, {"sst": 0.4, "qqp": 0.6}]
    records = [make_record(n, best={**own, "overall": np.mean(list(own.values()))}) for n, own in enumerate(scored)]
    write_sweep(tmp_path, {"search": "random", "scheduler": "asha"})
    write_trials(tmp_path, records, tuple(TASKS))
    total = sweep_expected(tmp_path)
    assert (len(total.expected), total.expected[-1], total.is_random) == (2, pytest.approx(0.6), False)
    assert total.num_left_out == 1
    assert "Left out, without such a score: 1 configuration." in describe_expected(total, TASKS)
    assert len(sweep_expected(tmp_path, "sst").expected) == 3
