"""Score against the number of models: every selection method at several limits, and their Pareto front."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from results.ensembles.candidates import Pool
from results.ensembles.selection_method import Choose, Settings
from results.records.selection import TradeOff
from results.selection.cross_fitting import cross_fit

STEPS = (1, 2, 3, 5)
"""Leading digits of the limits of the number of models."""


def find_trade_offs(
    pool: Pool, kept: Pool, settings: Settings, methods: Mapping[str, Choose], *, num_repeats: int = 1
) -> tuple[TradeOff, ...]:
    """Cross-fits every selection method at 1, 2, 3, 5, 10, 20, ... models, and marks the Pareto front.

    The cost of a score is the size of the largest ensemble behind it: an ensemble chosen without a fold may be larger
    than the final one. The best of many scores is slightly optimistic, and so are those of the Pareto front.

    Args:
        kept: those candidates of the pool that can be members of the final ensemble.
        settings: `max_models` is not exceeded.
        methods: by name, the simplest first; that one always chooses a single model and stands for all at 1 model.

    Returns:
        The fewest models first, and the simplest of equals; dominated ones are among them.

    Raises:
        ValueError: as `cross_fit`.
    """
    max_size = min(settings.max_models, int(kept.trial_numbers.max()) + 1)
    found = [
        trade_off
        for size in round_numbers(max_size, STEPS)
        for trade_off in score_methods(pool, kept, replace(settings, max_models=size), methods, num_repeats)
    ]
    order = list(methods)
    found.sort(key=lambda one: (one.num_models, order.index(one.name)))
    return tuple(replace(one, is_best=is_best) for one, is_best in zip(found, undominated(found), strict=True))


def round_numbers(last: int, digits: Sequence[int]) -> list[int]:
    """Returns these digits times powers of ten below a number, e.g. 1, 2, 5, 10, 20, 50, and the number itself."""
    numbers = (digit * 10**power for power in range(len(str(last))) for digit in digits)
    return [*(number for number in numbers if number < last), last]


def score_methods(
    pool: Pool, kept: Pool, limited: Settings, methods: Mapping[str, Choose], num_repeats: int
) -> Iterator[TradeOff]:
    """Yields the cross-fitted score of each selection method at one limit, none marked yet."""
    rows, (single, *others) = np.arange(len(pool.labels)), methods
    for name in [single] if limited.max_models == 1 else others:
        fitted = cross_fit(pool, methods[name], limited, rows, num_repeats=num_repeats)
        chosen = methods[name](kept, rows, limited)
        yield TradeOff(
            name=name,
            max_models=limited.max_models,
            num_models=max(fitted.max_members, len(chosen.members)),
            cross_fitted=fitted.score,
            standard_error=fitted.standard_error,
            is_best=False,
        )


def undominated(found: Sequence[TradeOff]) -> list[bool]:
    """Returns which trade-offs no other one dominates; they are ordered by cost, the preferred one first among equals.

    A trade-off is dominated by another one that scores higher with as few models or fewer, and by an earlier one with
    the same score.
    """
    costs, scores = np.array([one.num_models for one in found]), np.array([one.cross_fitted for one in found])
    is_higher = (scores > scores[:, None]) & (costs <= costs[:, None])
    is_earlier = np.tri(len(found), k=-1, dtype=bool) & (scores == scores[:, None])
    return [bool(one) for one in ~(is_higher | is_earlier).any(axis=1)]
