"""The expected best dev score of a search as a function of the number of configurations that are tried.

It is the expected best of n dev scores, not the expected score on new text: a configuration and its epoch are chosen
for the highest dev score, so dev scores are optimistic, and the more so the more configurations were tried.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mtlib.runtime.command_line import counted
from mtlib.runtime.errors import require, require_name
from mtlib.runtime.storage import Location
from mtlib.tasks import Task, bounds_text, in_order, title_of, value_of
from results.records.tables import read_trials
from results.records.trials import OVERALL, read_sweep, sweep_tasks
from results.stats.resampling import Floats
from results.stats.trial_scores import group_by_configuration

LEVELS = (0.05, 0.95)
"""Quantiles that bound the band."""

GAIN_SHARE = 0.9
"""Share of the expected gain from one configuration to all of them that a number of configurations must reach."""

ROUNDING_SHARE = 1e-10
"""Relative tolerance of comparing a probability with a level, or a gain with its share."""

SHOWN = (1, 2, 5)
"""Leading digits of the numbers of configurations that are shown."""


@dataclass(frozen=True, kw_only=True)
class ExpectedBest:
    """The highest of n of N dev scores, for n from 1 to N."""

    expected: Floats
    """Mean of the highest score over all choices of n of the N, (N,)."""
    low: Floats
    """Lower quantile of the highest score over these choices, (N,), at the first of `LEVELS`."""
    high: Floats
    """Upper quantile, (N,)."""
    is_random: bool
    """Whether the configurations were drawn independently; if not, the curve only describes them."""
    num_left_out: int = 0
    """Configurations that do not count: without a score, or with an overall score of other tasks."""


def expected_best(scores: npt.ArrayLike, *, is_random: bool = False) -> ExpectedBest:
    """Returns the expected highest score of n configurations, and a band around it, for every n.

    With the scores in order, v_(1) <= ... <= v_(N), the highest of n of them, drawn without replacement, has

        P(max <= v_(i)) = C(i, n) / C(N, n),    E[max] = sum_i v_(i) C(i-1, n-1) / C(N, n).

    For independent draws from a space E[max] is an unbiased estimate of the best of n such draws. The plug-in
    (i/N)^n draws with replacement and is too low. The band is exact for these N scores; towards n = N it closes because
    the choices become alike, not because the best becomes sure. A quantile is the lowest score v with
    P(max <= v) >= level.

    Args:
        scores: (N,), one per configuration, the mean over its replicates; higher is better.
        is_random: whether the configurations were drawn independently.

    Source: Dodge et al. (2019), "Show Your Work", for the curve; Tang et al. (2020), "Showing Your Work Doesn't Always
    Work", for the unbiased estimator. The band is ours.
    """
    values = np.sort(np.asarray(scores, dtype=np.float64))
    aims = np.array(LEVELS) * (1 - ROUNDING_SHARE)
    ranks, shares, rows = np.arange(1, len(values) + 1), np.ones(len(values)), []
    for drawn in range(len(values)):
        # C(i, n) / C(N, n) from its value for n - 1: products of numbers up to 1, which neither overflow nor cancel.
        shares = shares * np.maximum(ranks - drawn, 0) / (len(values) - drawn)
        expected = values[-1] - shares[:-1] @ np.diff(values)  # the sum above by parts, of which no term is negative
        rows.append((expected, *values[np.searchsorted(shares, aims)]))
    expected, low, high = np.array(rows).T
    return ExpectedBest(expected=expected, low=low, high=high, is_random=is_random)


def sweep_expected(path: Location, name: str = OVERALL) -> ExpectedBest:
    """Returns the expected best dev score of a sweep, from the highest dev score so far of each configuration.

    A configuration's score is the mean over its replicates that have one and have not failed. Overall scores of
    different tasks are not comparable: only the configurations count that have the most tasks. A search is random if it
    was asked for as `random`, without a scheduler.

    Args:
        path: folder of the sweep, ended or still running, or its URI.
        name: a task, or `overall`.

    Raises:
        ValueError: there is no such sweep or score, or no configuration has it.
    """
    info = read_sweep(path)
    require_name(name, (*sweep_tasks(info), OVERALL), "score")
    records = read_trials(path)
    scored = [record for record in records if record.status != "failed" and name in record.best]
    require(len(scored) > 0, f"a sweep must have a configuration with a dev score of {name}", f"none in {path}")
    if name == OVERALL:
        most = min((in_order(set(record.best) - {OVERALL}) for record in scored), key=lambda own: (-len(own), own))
        scored = [record for record in scored if set(record.best) == {*most, OVERALL}]
    scores = [np.mean([record.best[name] for record in group]) for group in group_by_configuration(scored)]
    is_random = info.get("search") == "random" and info.get("scheduler", "none") == "none"
    num_left_out = len({record.number for record in records}) - len(scores)
    return replace(expected_best(scores, is_random=is_random), num_left_out=num_left_out)


def describe_expected(best: ExpectedBest, tasks: Mapping[str, Task], name: str = OVERALL) -> list[str]:
    """Returns the curve of a task, or of `overall`, in lines: scores, where most of the gain is reached, and
    caveats."""
    total, (low, high) = len(best.expected), (f"{100 * level:g} %" for level in LEVELS)
    bounds = np.stack([best.low, best.high], axis=1)
    meaning = (
        f"An unbiased estimate for a random search of the same space; near n = {total} it rests on few scores."
        if best.is_random
        else "Only a description of these configurations, which were not drawn independently, as if tried in any order."
    )
    gain = f"{100 * GAIN_SHARE:g} % of the expected gain from all {total} is reached with {reached_after(best)}."
    if best.expected[0] == best.expected[-1]:
        gain = "One score does not show what more would gain." if total == 1 else f"All {total} scores are equal."
    return [
        f"Expected best {title_of(name, tasks)} dev score of n configurations ({low} to {high} of all choices):",
        *(
            f"{n:>7}  {value_of(name, best.expected[n - 1], tasks):.3f}  ({bounds_text(name, bounds[n - 1], tasks)})"
            for n in round_numbers(total, SHOWN)
        ),
        gain,
        meaning,
        *(
            [f"Left out, without such a score: {counted(best.num_left_out, 'configuration')}."]
            * (best.num_left_out > 0)
        ),
        "Dev scores are optimistic, as epochs and the best configuration are chosen on these very examples; one that "
        "has not ended, or was stopped, counts with its best score so far.",
    ]


def round_numbers(last: int, digits: Sequence[int]) -> list[int]:
    """These digits times powers of ten below a number, e.g. 1, 2, 5, 10, 20, 50, and the number itself."""
    numbers = (digit * 10**power for power in range(len(str(last))) for digit in digits)
    return [*(number for number in numbers if number < last), last]


def reached_after(best: ExpectedBest) -> int:
    """Returns the smallest n that reaches `GAIN_SHARE` of the expected gain of N configurations; 1 if there is no
    gain."""
    gains = best.expected - best.expected[0]
    return 1 + int(np.argmax(gains >= GAIN_SHARE * gains[-1] * (1 - ROUNDING_SHARE)))
