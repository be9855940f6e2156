"""The expected best of n scores against enumeration, closed forms and simulated searches."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.stats
from scipy.special import gammaln

from mtlib.tasks import TASKS
from results.answers.expected_best import (
    OPTIMISM,
    SHOWN,
    describe_expected,
    expected_best,
    iterate_shares,
    reached_after,
    round_numbers,
    sweep_expected,
)
from results.records.tables import write_trials
from results.records.trials import TrialRecord, write_sweep

Floats = npt.NDArray[np.float64]
MakeRecord = Callable[..., TrialRecord]

RANDOM = {"search": "random", "scheduler": "none"}


def draw_scores(num_scores: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(0.7, 0.1, num_scores)


def best_of_all_subsets(scores: Sequence[float], n: int) -> list[float]:
    """The highest score of each subset of size n, sorted."""
    return sorted(max(chosen) for chosen in itertools.combinations(scores, n))


def quantile_by_counting(values: Sequence[float], level: Fraction) -> float:
    """The lowest v with P(max <= v) >= level, in integer arithmetic; `values` are sorted."""
    return next(value for rank, value in enumerate(values, 1) if Fraction(rank, len(values)) >= level)


def chance_below(ranks: Floats, n: npt.NDArray[np.int64], num_scores: int) -> Floats:
    """C(i, n) / C(N, n) from logarithms of the gamma function, 0 for i < n."""
    kept = np.maximum(ranks, n)
    log_chance = gammaln(kept + 1) - gammaln(kept - n + 1) - gammaln(num_scores + 1) + gammaln(num_scores - n + 1)
    return np.where(ranks < n, 0.0, np.exp(log_chance))


@pytest.fixture
def make_sweep(tmp_path: Path) -> Callable[..., Path]:
    """Builds a sweep on disk from its records and info."""

    def make(records: Sequence[TrialRecord], info: Mapping[str, Any] = RANDOM) -> Path:
        write_sweep(tmp_path, info)
        write_trials(tmp_path, records, tuple(TASKS))
        return tmp_path

    return make


@pytest.mark.parametrize("num_scores", [1, 2, 3, 6, 11])
def test_expectation_is_the_mean_over_all_subsets(num_scores: int) -> None:
    scores = draw_scores(num_scores)
    found = expected_best(scores)
    assert found.n.tolist() == list(range(1, num_scores + 1))
    expected = [np.mean(best_of_all_subsets(scores.tolist(), n)) for n in found.n]
    np.testing.assert_allclose(found.expected, expected, rtol=1e-13)


def test_ties_count_once_per_configuration() -> None:
    scores = [0.5, 0.7, 0.7, 0.7, 0.9, 0.9, 0.2]
    found = expected_best(scores)
    for n in found.n:
        choices = best_of_all_subsets(scores, n)
        assert found.expected[n - 1] == pytest.approx(np.mean(choices), rel=1e-13)
        assert found.low[n - 1] == quantile_by_counting(choices, Fraction(1, 20))
        assert found.high[n - 1] == quantile_by_counting(choices, Fraction(19, 20))


@pytest.mark.parametrize("num_scores", [1, 2, 5, 10, 12, 20])
def test_band_matches_all_subsets(num_scores: int) -> None:
    """With 20 scores a level equals a probability exactly, so that rounding must not decide."""
    scores = draw_scores(num_scores, seed=1).tolist()
    found = expected_best(scores)
    for n in found.n if num_scores < 20 else (1, 2, 3):
        choices = best_of_all_subsets(scores, n)
        assert found.low[n - 1] == quantile_by_counting(choices, Fraction(1, 20))
        assert found.high[n - 1] == quantile_by_counting(choices, Fraction(19, 20))


@pytest.mark.parametrize("num_scores", [40, 61])
def test_each_share_is_a_hypergeometric_probability(num_scores: int) -> None:
    """All n draws are among the i lowest: scipy's probability of n hits in n draws from N with i marked."""
    ranks = np.arange(1, num_scores + 1)
    for n, shares in enumerate(iterate_shares(num_scores), 1):
        np.testing.assert_allclose(shares, scipy.stats.hypergeom.pmf(n, num_scores, ranks, n), rtol=1e-9, atol=1e-300)


def test_ten_thousand_scores_match_the_closed_form() -> None:
    """Of 1..N without replacement, the highest of n is expected at n (N + 1) / (n + 1)."""
    num_scores = 10_000
    found = expected_best(np.random.default_rng(0).permutation(num_scores) + 1.0)
    np.testing.assert_allclose(found.expected, found.n * (num_scores + 1) / (found.n + 1), rtol=1e-11)
    assert np.isfinite(found.expected).all()
    for bound, level in ((found.low, 0.05), (found.high, 0.95)):
        assert (chance_below(bound, found.n, num_scores) >= level - 1e-9).all()
        assert (chance_below(bound - 1, found.n, num_scores) < level + 1e-9).all()


def test_simulated_subsets_match_expectation_and_band() -> None:
    num_scores, num_orders = 60, 20_000
    scores = draw_scores(num_scores, seed=2)
    orders = np.random.default_rng(3).permuted(np.tile(scores, (num_orders, 1)), axis=1)
    highest = np.maximum.accumulate(orders, axis=1)  # (orders, n)
    found = expected_best(scores)
    error = highest.std(axis=0) / np.sqrt(num_orders)
    assert (np.abs(highest.mean(axis=0) - found.expected) <= 5 * error + 1e-12).all()
    for bound, level in ((found.low, 0.05), (found.high, 0.95)):
        tolerance = 5 * np.sqrt(level * (1 - level) / num_orders)
        assert ((highest <= bound).mean(axis=0) >= level - tolerance).all()
        assert ((highest < bound).mean(axis=0) <= level + tolerance).all()


def test_estimate_is_unbiased_for_further_draws_and_the_plug_in_is_too_low() -> None:
    """The highest of n uniform draws is expected at n / (n + 1); here from searches of 10 each."""
    searches = np.random.default_rng(4).uniform(size=(4000, 10))
    found = np.array([expected_best(scores).expected for scores in searches])
    n = np.arange(1, 11)
    error = found.std(axis=0) / np.sqrt(len(searches))
    assert (np.abs(found.mean(axis=0) - n / (n + 1)) < 4 * error).all()
    shares = (np.arange(11)[None, :] / 10) ** n[:, None]
    plug_in = np.sort(searches, axis=1) @ np.diff(shares, axis=1).T
    assert (plug_in.mean(axis=0) < n / (n + 1) - 10 * error)[1:].all()


@pytest.mark.parametrize("num_scores", [1, 2, 7, 300])
def test_one_is_the_mean_all_are_the_maximum_and_the_curve_never_falls(num_scores: int) -> None:
    scores = draw_scores(num_scores, seed=5)
    found = expected_best(scores)
    assert found.expected[0] == pytest.approx(scores.mean(), rel=1e-13)
    assert found.expected[-1] == found.low[-1] == found.high[-1] == scores.max()
    for curve in (found.expected, found.low, found.high):
        assert (np.diff(curve) >= 0).all()
    assert set(found.low) | set(found.high) <= set(scores)


def test_order_of_the_scores_does_not_matter() -> None:
    scores = draw_scores(30)
    one, other = expected_best(scores), expected_best(np.random.default_rng(0).permutation(scores))
    np.testing.assert_array_equal(one.expected, other.expected)
    np.testing.assert_array_equal(one.low, other.low)


def test_equal_scores_give_an_exactly_flat_curve() -> None:
    found = expected_best([0.1 + 0.2] * 7)
    assert set(found.expected) == set(found.low) == set(found.high) == {0.1 + 0.2}
    assert reached_after(found) == 1


def test_negative_scores_are_allowed() -> None:
    found = expected_best([-0.5, 0.0, 0.5])
    assert found.expected.tolist() == pytest.approx([0, (0.0 + 0.5 + 0.5) / 3, 0.5])


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_infinite_or_nan_score_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match=rf"^scores must be .* all finite, .*, got \[0\.5, {wrong}, 0\.7\]$"):
        expected_best([0.5, wrong, 0.7])


@pytest.mark.parametrize("scores", [[], [[0.5, 0.6]], 0.5])
def test_empty_scores_are_refused(scores: Any) -> None:
    with pytest.raises(ValueError, match=r"^scores must be a list of at least one number, .*, got"):
        expected_best(scores)


def test_most_of_the_gain_is_reached_where_the_formula_gives() -> None:
    """One score of 1 among zeros: n of N are expected to reach n / N, so 9/10 of the way from 1 to 11 is at 10."""
    found = expected_best([0] * 10 + [1])
    np.testing.assert_allclose(found.expected, np.arange(1, 12) / 11, rtol=1e-13)
    assert reached_after(found) == 10
    assert reached_after(expected_best([0] * 9 + [1])) == 10  # 9 of 10 are 8/9 of the way


def test_rounding_does_not_decide_where_most_of_the_gain_is_reached() -> None:
    """Of 10 k + 1 such scores, 9 k + 1 are enough exactly."""
    assert [reached_after(expected_best([0] * 10 * k + [1])) for k in range(1, 30)] == list(range(10, 271, 9))


@pytest.mark.parametrize(
    ("total", "shown"),
    [
        (1, [1]),
        (2, [1, 2]),
        (4, [1, 2, 4]),
        (20, [1, 2, 5, 10, 20]),
        (51, [1, 2, 5, 10, 20, 50, 51]),
        (1000, [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]),
    ],
)
def test_some_numbers_and_the_last_are_shown(total: int, shown: list[int]) -> None:
    assert round_numbers(total, SHOWN) == shown


def test_round_numbers_depend_on_the_given_digits() -> None:
    assert round_numbers(24, (1, 2, 3, 5)) == [1, 2, 3, 5, 10, 20, 24]
    assert round_numbers(50, (1, 2, 3, 5)) == [1, 2, 3, 5, 10, 20, 30, 50]


def test_text_of_a_random_search_is_an_estimate() -> None:
    lines = describe_expected(expected_best([0] * 10 + [1], is_random=True), TASKS)
    assert lines[:5] == [
        "Expected best overall dev score of n configurations (5 % to 95 % of all choices of n of the 11):",
        "      1  0.091  (0.000 to 1.000)",
        "      2  0.182  (0.000 to 1.000)",
        "      5  0.455  (0.000 to 1.000)",
        "     10  0.909  (0.000 to 1.000)",
    ]
    assert lines[5] == "     11  1.000  (1.000 to 1.000)"
    assert lines[6] == "90 % of the expected gain from 11 configurations is reached with 10."
    assert lines[7].startswith("An unbiased estimate for a random search of n configurations of the same space.")
    assert lines[8:] == [OPTIMISM]


def test_text_of_other_searches_is_descriptive() -> None:
    text = "\n".join(describe_expected(expected_best([0.4, 0.6]), TASKS, "sst"))
    assert text.startswith("Expected best SST dev score of n configurations")
    assert "Only a description of these configurations" in text
    assert "adaptive or fixed choice of configurations" in text
    assert "unbiased" not in text
    assert OPTIMISM in text


def test_text_counts_included_and_excluded_configurations() -> None:
    best = expected_best([0.4, 0.6, 0.7])
    lines = describe_expected(replace(best, num_stopped=2, num_unfinished=1, num_left_out=3), TASKS)
    assert lines[-4:-1] == [
        "Stopped early by the scheduler, so counted with the best score so far: 2 configurations.",
        "Not finished, so counted with the best score so far: 1 configuration.",
        "Left out, without such a score or with one of other tasks: 3 configurations.",
    ]
    assert len(describe_expected(best, TASKS)) == len(lines) - 3


@pytest.mark.parametrize(
    ("scores", "line"),
    [
        ([0.5], "One configuration does not show what a second would gain."),
        ([0.5] * 3, "All 3 scores are equal, so the first configuration was as good as all."),
    ],
)
def test_text_claims_no_gain_where_there_is_none(scores: list[float], line: str) -> None:
    lines = describe_expected(expected_best(scores, is_random=True), TASKS)
    assert line in lines
    assert not any("% of the expected gain" in other for other in lines)


def test_unknown_score_gets_the_known_ones(make_sweep: Callable[..., Path], make_record: MakeRecord) -> None:
    sweep = make_sweep([make_record(0)])
    with pytest.raises(ValueError, match=r"^unknown score 'overal'; did you mean 'overall'\? known: "):
        sweep_expected(sweep, "overal")


@pytest.mark.parametrize("name", ["overall", "sst"])
def test_each_configuration_counts_with_the_mean_of_its_replicates(
    name: str, make_sweep: Callable[..., Path], make_record: MakeRecord
) -> None:
    scores = {(0, 0): 0.5, (0, 1): 0.7, (1, 0): 0.4, (2, 0): 0.9}
    others = {"overall": 0.1, "sst": 0.2, "qqp": 0.3}
    records = [make_record(*key, best={**others, name: score}) for key, score in scores.items()]
    found, expected = sweep_expected(make_sweep(records), name), expected_best([0.6, 0.4, 0.9])
    np.testing.assert_allclose(found.expected, expected.expected, rtol=1e-13)
    np.testing.assert_allclose(found.low, expected.low, rtol=1e-13)
    assert (found.num_stopped, found.num_unfinished, found.num_left_out) == (0, 0, 0)


def test_failed_trials_do_not_count_and_stopped_or_running_ones_do(
    make_sweep: Callable[..., Path], make_record: MakeRecord
) -> None:
    def record(number: int, status: str, score: float | None, replicate: int = 0) -> TrialRecord:
        best = {} if score is None else {"sst": score, "overall": score}
        return make_record(number, replicate, status, best=best)

    records = [
        record(0, "complete", 0.5),
        record(0, "failed", 0.9, replicate=1),
        record(1, "failed", 0.9),
        record(2, "pruned", 0.2),
        record(3, "running", 0.3),
        record(4, "interrupted", 0.4),
        record(5, "queued", None),
        record(6, "reused", 0.6),
    ]
    found = sweep_expected(make_sweep(records))
    np.testing.assert_allclose(found.expected, expected_best([0.5, 0.2, 0.3, 0.4, 0.6]).expected, rtol=1e-13)
    assert (found.num_stopped, found.num_unfinished, found.num_left_out) == (1, 2, 2)


def test_only_overall_scores_of_the_same_tasks_count_together(
    make_sweep: Callable[..., Path], make_record: MakeRecord
) -> None:
    records = [
        make_record(0, best={"sst": 0.99, "overall": 0.99}),
        make_record(1, best={"sst": 0.5, "qqp": 0.7, "overall": 0.6}),
        make_record(2, best={"sst": 0.4, "qqp": 0.6, "overall": 0.5}),
    ]
    sweep = make_sweep(records)
    total, task = sweep_expected(sweep), sweep_expected(sweep, "sst")
    assert (len(total.n), total.expected[-1], total.num_left_out) == (2, 0.6, 1)
    assert (len(task.n), task.expected[-1], task.num_left_out) == (3, 0.99, 0)


@pytest.mark.parametrize(
    ("info", "is_random"),
    [
        (RANDOM, True),
        ({"search": "random"}, True),
        ({"search": "random", "scheduler": "asha"}, False),
        ({"search": "grid", "scheduler": "none"}, False),
        ({"search": "tpe", "scheduler": "none"}, False),
        ({}, False),
    ],
)
def test_only_a_random_search_without_a_scheduler_is_random(
    info: dict[str, str], is_random: bool, make_sweep: Callable[..., Path], make_record: MakeRecord
) -> None:
    assert sweep_expected(make_sweep([make_record(0)], info)).is_random is is_random


@pytest.mark.parametrize("name", ["overall", "sts"])
def test_sweep_without_such_a_score_is_one_line(
    name: str, make_sweep: Callable[..., Path], make_record: MakeRecord, tmp_path: Path
) -> None:
    records = [make_record(0, status="failed"), make_record(1, status="queued", best={})]
    with pytest.raises(ValueError) as caught:
        sweep_expected(make_sweep(records), name)
    rule = f"a sweep must have a configuration with a dev score of {name}"
    assert str(caught.value) == f"{rule}, got none in {tmp_path}"
