"""What is told of dev's having been seen says what was simulated, for as many trials, and nothing where nothing was."""

from collections.abc import Mapping
from typing import get_args

import pytest

from results.scoring import search_optimism as seen_by_search
from results.scoring.search_optimism import (
    FIRST_AT_RANDOM,
    SCHEDULERS,
    SEARCHES,
    SIMULATED,
    Seen,
    Simulated,
    amount,
    seen_sentence,
)
from sweeps.options import Scheduler, Search
from sweeps.search.study import sampler_for

CLEAR = Simulated(apart=Seen(size=0.2, error=0.05), alike=Seen(size=0.5, error=0.05))
LARGER = Simulated(apart=Seen(size=0.3, error=0.05), alike=Seen(size=0.8, error=0.05))


@pytest.fixture(autouse=True)
def simulated(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[bool, bool], Mapping[int, Simulated]]:
    """A table of round figures."""
    table: dict[tuple[bool, bool], Mapping[int, Simulated]] = {
        (False, True): {10: CLEAR, 40: LARGER},
        (True, False): {40: CLEAR, 160: LARGER},
        (True, True): {40: CLEAR, 160: LARGER},
    }
    monkeypatch.setattr(seen_by_search, "SIMULATED", table)
    return table


def tell(search: str, scheduler: str, num_trials: int, standard_error: float = 0.01) -> str:
    """The sentence, which must be there."""
    found = seen_sentence(search, scheduler, num_trials, standard_error)
    assert found is not None
    return found


@pytest.mark.parametrize("search", ["grid", "random"])
@pytest.mark.parametrize("num_trials", [1, 40, 10_000])
def test_nothing_is_told_of_trials_that_no_score_had_a_part_in(search: str, num_trials: int) -> None:
    assert seen_sentence(search, "none", num_trials, 0.01) is None


def test_the_first_ten_of_tpe_are_drawn_at_random_and_the_eleventh_is_not() -> None:
    assert seen_sentence("tpe", "none", FIRST_AT_RANDOM, 0.01) is None
    assert "TPE proposed trials by scores" in tell("tpe", "none", FIRST_AT_RANDOM + 1)


def test_as_many_trials_are_drawn_at_random_as_by_the_sampler_of_sweeps() -> None:
    assert sampler_for("tpe", 0, 0)._n_startup_trials == FIRST_AT_RANDOM


def test_names_are_those_of_sweeps() -> None:
    assert set(SEARCHES) == set(get_args(Search))
    assert set(SCHEDULERS) == set(get_args(Scheduler))


def test_sizes_are_told_in_standard_errors_and_as_scores() -> None:
    assert tell("tpe", "none", 40, 0.02) == (
        "TPE proposed trials by scores on these dev examples, which cross-fitting cannot undo. In simulated sweeps of "
        "40 trials scores came out too high by 0.2 standard errors (here 0.004), and by 0.5 standard errors (here "
        "0.010) where trials with like hyper-parameters err much alike."
    )


@pytest.mark.parametrize("search", ["grid", "random"])
def test_a_scheduler_alone_is_named_alone_over_a_grid_as_over_random_search(search: str) -> None:
    found = tell(search, "asha", 40)
    assert found.startswith("ASHA stopped trials by scores")
    assert "TPE" not in found
    assert found == tell("random", "asha", 40)


def test_both_are_named_where_both_have_seen_dev() -> None:
    assert tell("tpe", "asha", 40).startswith("TPE proposed trials and ASHA stopped trials by scores")


def test_of_ten_trials_of_tpe_with_a_scheduler_the_scheduler_alone_has_seen_dev() -> None:
    assert tell("tpe", "asha", FIRST_AT_RANDOM) == tell("random", "asha", FIRST_AT_RANDOM)


@pytest.mark.parametrize(
    ("num_trials", "told", "size"),
    [
        (1, "of 10 trials", 0.5),
        (10, "of 10 trials", 0.5),
        (11, "of 40 trials", 0.8),
        (40, "of 40 trials", 0.8),
        (41, "of up to 40 trials", 0.8),
        (10_000, "of up to 40 trials", 0.8),
    ],
)
def test_the_smallest_simulated_sweeps_with_as_many_trials_are_told_or_the_largest(
    num_trials: int, told: str, size: float
) -> None:
    found = tell("random", "asha", num_trials)
    assert f"In simulated sweeps {told} scores came out" in found
    assert (
        f"and by {size} standard errors (here {size / 100:.3f}) where trials with like hyper-parameters err much alike"
        in found
    )


@pytest.mark.parametrize(("size", "is_told"), [(0.0, False), (0.0979, False), (0.0981, True), (-0.3, False)])
def test_a_size_is_told_from_0_beyond_its_confidence(size: float, is_told: bool) -> None:
    assert Seen(size=size, error=0.05).is_told is is_told


def test_a_size_without_error_is_told_from_0_unless_it_is_0() -> None:
    assert Seen(size=0.01, error=0.0).is_told
    assert not Seen(size=0.0, error=0.0).is_told


def test_what_cannot_be_told_from_0_is_told_with_its_bound() -> None:
    found = amount(Seen(size=0.102, error=0.1), 0.01)
    assert found == "by an amount that cannot be told from 0 (at most 0.3 standard errors, here 0.003)"


def test_a_size_below_0_has_no_smaller_bound_than_its_error_allows() -> None:
    assert Seen(size=-0.5, error=0.1).bound == pytest.approx(0.196)


def test_where_neither_can_be_told_from_0_the_larger_bound_stands_alone(
    simulated: dict[tuple[bool, bool], Mapping[int, Simulated]],
) -> None:
    faint = Simulated(apart=Seen(size=0.0, error=0.1), alike=Seen(size=0.0, error=0.2))
    simulated[False, True] = {40: faint}
    assert tell("random", "asha", 40).endswith(
        "In simulated sweeps of 40 trials scores came out too high by an amount that cannot be "
        "told from 0 (at most 0.4 standard errors, here 0.004)."
    )


def test_where_one_can_be_told_from_0_both_stand_there(
    simulated: dict[tuple[bool, bool], Mapping[int, Simulated]],
) -> None:
    simulated[False, True] = {40: Simulated(apart=Seen(size=0.0, error=0.1), alike=CLEAR.alike)}
    found = tell("random", "asha", 40)
    assert "by an amount that cannot be told from 0 (at most 0.2 standard errors, here 0.002), and" in found
    assert "and by 0.5 standard errors (here 0.005) where trials with like hyper-parameters err much alike." in found


@pytest.mark.parametrize(("error", "told"), [(0.0, "here less than 0.001"), (0.00099, "less"), (0.001, "here 0.001")])
def test_small_differences_of_scores_are_not_shown_as_0(error: float, told: str) -> None:
    assert told in amount(CLEAR.alike, error)


def test_every_kind_of_search_that_sees_dev_was_simulated() -> None:
    assert set(SIMULATED) == {(False, True), (True, False), (True, True)}


def test_no_simulated_size_that_is_told_is_shown_as_0() -> None:
    for sizes in SIMULATED.values():
        for found in sizes.values():
            told = [seen for seen in (found.alike, found.apart) if seen.is_told]
            assert all(seen.size >= 0.05 for seen in told)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("bayes", "none", 40, 0.01), "unknown search 'bayes'; known: grid"),
        (("tpe", "halving", 40, 0.01), "unknown scheduler 'halving'; known: asha"),
        (("tpe", "none", 0, 0.01), "trials must be at least 1, got 0"),
        (("tpe", "none", 40, -0.01), "at least 0, got -0.01"),
        (("tpe", "none", 40, float("nan")), "at least 0, got nan"),
        (("random", "none", 0, 0.01), "trials must be at least 1, got 0"),
    ],
)
def test_unknown_names_and_numbers_out_of_range_are_refused(
    arguments: tuple[str, str, int, float], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        seen_sentence(*arguments)
