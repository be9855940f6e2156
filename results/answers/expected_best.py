"""The expected best dev score of a search as a function of the number of configurations that are tried.

It is the expected best of n dev scores, not the expected score on new text: a configuration and its epoch are chosen
for the highest dev score, so dev scores are optimistic, and the more so the more configurations were tried.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mtlib.runtime.errors import require, require_name
from mtlib.runtime.storage import Location
from mtlib.tasks import Task, bounds_text, in_order, title_of, value_of
from results.records.tables import read_trials
from results.records.trials import OVERALL, UNFINISHED, TrialRecord, read_sweep, sweep_tasks
from results.stats.ranking import group_by_configuration
from results.stats.resampling import Floats

LEVELS = (0.05, 0.95)
"""Quantiles that bound the band."""

GAIN_SHARE = 0.9
"""Share of the expected gain from one configuration to all of them that a number of configurations must reach."""

ROUNDING_SHARE = 1e-10
"""Relative tolerance of comparing a probability with a level, or a gain with its share."""

SHOWN = (1, 2, 5)
"""Leading digits of the numbers of configurations that are shown."""

OPTIMISM = (
    "Dev scores are optimistic: the epochs and the best configuration are chosen on these very dev examples, so expect "
    "less on new text."
)


@dataclass(frozen=True, kw_only=True)
class ExpectedBest:
    """The highest of n of N dev scores, for every n."""

    n: npt.NDArray[np.int64]
    """Number of configurations, (N,): 1 to N."""
    expected: Floats
    """Mean of the highest score over all choices of n of the N, (N,)."""
    low: Floats
    """Lower quantile of the highest score over these choices, (N,), at the first of `LEVELS`."""
    high: Floats
    """Upper quantile, (N,)."""
    is_random: bool
    """Whether the configurations were drawn independently; if not, the curve only describes them."""
    num_stopped: int = 0
    """Configurations that a scheduler stopped early; they count with their best score so far."""
    num_unfinished: int = 0
    """Configurations that may still train; they count likewise."""
    num_left_out: int = 0
    """Configurations that do not count: without a score, or with an overall score of other tasks."""


def expected_best(scores: npt.ArrayLike, *, is_random: bool = False) -> ExpectedBest:
    """The expected highest score of n configurations, and a band around it, for every n.

    With the scores in order, v_(1) <= ... <= v_(N), the highest of n of them, drawn without replacement, has

        P(max <= v_(i)) = C(i, n) / C(N, n),    E[max] = sum_i v_(i) C(i-1, n-1) / C(N, n).

    For independent draws from a space E[max] is an unbiased estimate of the best of n such draws. The plug-in
    (i/N)^n draws with replacement and is too low. The band is exact for these N scores; towards n = N it closes because
    the choices become alike, not because the best becomes sure. A quantile is the lowest score v with
    P(max <= v) >= level.

    Args:
        scores: (N,), one per configuration, the mean over its replicates; higher is better.
        is_random: whether the configurations were drawn independently.

    Raises:
        ValueError: there is no score, or one is not finite.

    Source: Dodge et al. (2019), "Show Your Work", for the curve; Tang et al. (2020), "Showing Your Work Doesn't Always
    Work", for the unbiased estimator. The band is ours.
    """
    values = np.asarray(scores, dtype=np.float64)
    rule = "scores must be a list of at least one number, all finite, one per configuration"
    require(values.ndim == 1 and len(values) > 0 and bool(np.isfinite(values).all()), rule, scores)
    values = np.sort(values)
    gaps, aims = np.diff(values), np.array(LEVELS) * (1 - ROUNDING_SHARE)
    expected, bounds = [], []
    for shares in iterate_shares(len(values)):
        expected.append(values[-1] - shares[:-1] @ gaps)  # the sum above by parts, of which no term is negative
        bounds.append(values[np.searchsorted(shares, aims)])
    low, high = np.array(bounds).T
    n = np.arange(1, len(values) + 1)
    return ExpectedBest(n=n, expected=np.array(expected), low=low, high=high, is_random=is_random)


def sweep_expected(path: Location, name: str = OVERALL) -> ExpectedBest:
    """The expected best dev score of a sweep, from the highest dev score so far of each configuration.

    A configuration's score is the mean over its replicates that have one and have not failed; configurations without
    are left out, and counted. Overall scores of different tasks are not comparable: only those of the tasks that the
    ranking begins with count. A search is random if it was asked for as `random`, without a scheduler.

    Args:
        path: folder of the sweep, ended or still running, or its URI.
        name: a task, or `overall`.

    Raises:
        ValueError: there is no such sweep or score, or no configuration has it.
    """
    info = read_sweep(path)
    tasks, groups = sweep_tasks(info), group_by_configuration(read_trials(path))
    require_name(name, (*tasks, OVERALL), "score")
    scored = [[r for r in group if r.status != "failed" and name in r.best] for group in groups]
    counted = with_same_tasks([group for group in scored if group], name)
    require(len(counted) > 0, f"a sweep must have a configuration with a dev score of {name}", f"none in {path}")
    scores = [np.mean([record.best[name] for record in group]) for group in counted]
    is_random = info.get("search") == "random" and info.get("scheduler", "none") == "none"
    return replace(
        expected_best(scores, is_random=is_random),
        num_stopped=count_with(counted, ("pruned",)),
        num_unfinished=count_with(counted, UNFINISHED),
        num_left_out=len(groups) - len(counted),
    )


def describe_expected(best: ExpectedBest, tasks: Mapping[str, Task], name: str = OVERALL) -> list[str]:
    """The curve of a task, or of `overall`, in lines: scores, where most of the gain is reached, and caveats."""
    title, total = title_of(name, tasks), len(best.n)
    shown, (low, high) = list(round_numbers(total, SHOWN)), (f"{100 * level:g} %" for level in LEVELS)
    return [
        f"Expected best {title} dev score of n configurations ({low} to {high} of all choices of n of the {total}):",
        *(
            f"{n:>7}  {value_of(name, expected, tasks):.3f}  ({bounds_text(name, bounds, tasks)})"
            for n, expected, *bounds in zip(best.n, best.expected, best.low, best.high, strict=True)
            if n in shown
        ),
        gain_line(best),
        meaning_line(best),
        *count_lines(best),
        OPTIMISM,
    ]


def iterate_shares(num_scores: int) -> Iterator[Floats]:
    """For n = 1 to N the chances C(i, n) / C(N, n) for i = 1 to N, (N,).

    Each is that for n - 1, which begins as 1, times (i - n + 1) / (N - n + 1): products of numbers from 0 to 1, in
    which nothing overflows and nothing cancels.
    """
    ranks, shares = np.arange(1, num_scores + 1), np.ones(num_scores)
    for drawn in range(num_scores):
        shares = shares * np.maximum(ranks - drawn, 0) / (num_scores - drawn)
        yield shares


def with_same_tasks(groups: Sequence[list[TrialRecord]], name: str) -> list[list[TrialRecord]]:
    """Of an overall score the configurations whose tasks the ranking begins with; of a task all."""
    if name != OVERALL or not groups:
        return list(groups)
    tasks = [in_order(set(group[0].best) - {OVERALL}) for group in groups]
    first = min(tasks, key=lambda own: (-len(own), own))
    return [group for group, own in zip(groups, tasks, strict=True) if own == first]


def count_with(groups: Sequence[Sequence[TrialRecord]], statuses: Sequence[str]) -> int:
    """How many configurations have a trial with one of these statuses."""
    return sum(any(record.status in statuses for record in group) for group in groups)


def round_numbers(last: int, digits: Sequence[int]) -> list[int]:
    """These digits times powers of ten below a number, e.g. 1, 2, 5, 10, 20, 50, and the number itself."""
    numbers = (digit * 10**power for power in range(len(str(last))) for digit in digits)
    return [*(number for number in numbers if number < last), last]


def gain_line(best: ExpectedBest) -> str:
    """The number of configurations with which most of the gain is expected, if there is a gain."""
    total = len(best.n)
    if total == 1:
        return "One configuration does not show what a second would gain."
    if best.expected[0] == best.expected[-1]:
        return f"All {total} scores are equal, so the first configuration was as good as all."
    share = f"{100 * GAIN_SHARE:g} % of the expected gain from {total} configurations"
    return f"{share} is reached with {reached_after(best)}."


def reached_after(best: ExpectedBest) -> int:
    """The smallest n that reaches `GAIN_SHARE` of the expected gain of N configurations; 1 if there is no gain."""
    gains = best.expected - best.expected[0]
    return int(best.n[np.argmax(gains >= GAIN_SHARE * gains[-1] * (1 - ROUNDING_SHARE))])


def meaning_line(best: ExpectedBest) -> str:
    """Whether the curve is an estimate or only a description of the sweep."""
    if best.is_random:
        return (
            "An unbiased estimate for a random search of n configurations of the same space. Near "
            f"n = {len(best.n)} it rests on the few best scores, and the range closes because all choices become "
            "alike, not because the best is sure."
        )
    return (
        "Only a description of these configurations, as if tried in random order, and no estimate for another search: "
        "they were not drawn independently (adaptive or fixed choice of configurations, as by grid, tpe or asha)."
    )


def count_lines(best: ExpectedBest) -> list[str]:
    """Which configurations count with a score that might have risen, and which do not count."""
    counts = {
        "Stopped early by the scheduler, so counted with the best score so far": best.num_stopped,
        "Not finished, so counted with the best score so far": best.num_unfinished,
        "Left out, without such a score or with one of other tasks": best.num_left_out,
    }
    return [f"{what}: {count} configuration{'s' * (count > 1)}." for what, count in counts.items() if count]
