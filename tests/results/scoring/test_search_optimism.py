"""The sentence about a search or scheduler that used dev scores has the simulated figures, where there are any."""

from typing import get_args

import pytest

from results.scoring.search_optimism import (
    FIRST_AT_RANDOM,
    SCHEDULERS,
    SEARCHES,
    SIMULATED,
    find_search_bias,
    optimism_sentence,
)
from sweeps.options import Scheduler, Search
from sweeps.search.study import sampler_for


def sentence(search: str, scheduler: str, num_trials: int, standard_error: float = 0.01) -> str:
    bias = find_search_bias(search, scheduler, num_trials)
    assert bias is not None
    return optimism_sentence(bias, standard_error)


@pytest.mark.parametrize("search", ["grid", "random"])
@pytest.mark.parametrize("num_trials", [1, 10_000])
def test_without_tpe_and_asha_there_is_no_sentence(search: str, num_trials: int) -> None:
    assert find_search_bias(search, "none", num_trials) is None


def test_tpe_draws_its_first_ten_at_random() -> None:
    assert find_search_bias("tpe", "none", FIRST_AT_RANDOM) is None
    assert "TPE proposed trials by scores" in sentence("tpe", "none", FIRST_AT_RANDOM + 1)
    assert sentence("tpe", "asha", FIRST_AT_RANDOM) == sentence("random", "asha", FIRST_AT_RANDOM)


def test_sampler_of_sweeps_draws_as_many_at_random() -> None:
    assert sampler_for("tpe", 0, 0)._n_startup_trials == FIRST_AT_RANDOM


def test_names_are_those_of_sweeps() -> None:
    assert set(SEARCHES) == set(get_args(Search))
    assert set(SCHEDULERS) == set(get_args(Scheduler))
    assert set(SIMULATED) == {(False, True), (True, False), (True, True)}


def test_figures_are_in_standard_errors_and_scores() -> None:
    assert sentence("tpe", "none", 40, 0.02) == (
        "TPE proposed trials by scores on these dev examples, which cross-fitting cannot undo: in simulated sweeps of "
        "40 trials scores were too high by 0.1 to 0.6 standard errors (here 0.0028 to 0.011). The lower ends of 95 % "
        "intervals are lower by the higher figure."
    )


def test_each_cause_is_named() -> None:
    assert sentence("grid", "asha", 40).startswith("ASHA stopped trials by scores")
    assert sentence("tpe", "asha", 40).startswith("TPE proposed trials and ASHA stopped trials by scores")


@pytest.mark.parametrize(
    ("num_trials", "shown"),
    [
        (1, "of 10 trials"),
        (10, "of 10 trials"),
        (11, "of 40 trials"),
        (160, "of 160 trials"),
        (161, "up to 160 trials"),
    ],
)
def test_figures_are_of_the_next_larger_simulated_sweep(num_trials: int, shown: str) -> None:
    assert shown in sentence("random", "asha", num_trials)
