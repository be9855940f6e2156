"""The effect of one key on one score: its mean at each value, and differences from the base value with intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from results.stats.configuration_means import ConfigurationMeans
from results.stats.effects.searched_keys import NO_VALUE, SearchedKey, in_value_order, is_numeric, other_params
from results.stats.error_spending import Look
from results.stats.margins import Margins, margins_control
from results.stats.resampling import Floats, Numbers


@dataclass(frozen=True, kw_only=True)
class ValueEffect:
    """One value of a key."""

    value: Any
    num_trials: int
    mean: float
    """Mean score over replicates and over what else was searched."""
    difference: float | None = None
    """From the base value, over the other keys' values that both were trained with; None if there are none."""
    error: float | None = None
    """Standard error of the difference, over training and examples; None where training was not repeated."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """What half the width of the interval at the present look is made of, by name; empty where there is no `error`."""
    interval: tuple[float, float] | None = None
    """95 % of the difference, for all values of the key and all looks at once; None as `error`."""
    decided_at: int | None = None
    """Replicates, or trainings of a search, after which the interval did not contain 0; None if it does."""
    is_same: bool = False
    """Whether it trained the same as the base value."""

    @property
    def is_significant(self) -> bool:
        """Whether the interval is known and does not contain 0."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]


@dataclass(frozen=True, kw_only=True)
class Trend:
    """A score that rises or falls over a key's numbers, from the base value on."""

    is_upward: bool
    """Whether the base is the lowest value, not the highest."""
    is_better: bool
    """Whether values farther from the base are better."""
    first: float
    """The value nearest to the base at which the trend is significant; it is at all farther ones."""


@dataclass(frozen=True, kw_only=True)
class ValueContrasts:
    """Coefficients of configurations' means, by value of a key."""

    means: dict[Any, Floats]
    """(configurations,) of the mean at each value."""
    key: SearchedKey
    """With the value as its base that others are compared with."""
    differences: dict[Any, Floats]
    """(configurations,) of the difference from the base value, for values that can be compared with it."""
    together: Floats
    """(contrasts, configurations) of all differences whose intervals hold at once: those above, or of a base that was
    picked by its mean those of all pairs."""
    configurations: dict[Any, Numbers]
    """Numbers of the configurations that have each value."""


def value_margins(own: ValueContrasts, means: ConfigurationMeans, look: Look | None = None) -> Margins | None:
    """Returns the margins of a key's differences at a look (None: the only one); None where there are none."""
    if not own.differences:
        return None
    return margins_control(means, np.stack(list(own.differences.values())), together=own.together, look=look)


def key_effects(
    own: ValueContrasts, means: ConfigurationMeans, look: Look | None = None, margins: Margins | None = None
) -> list[ValueEffect]:
    """Returns the effects of a key's values at a look (None: the only one), in their order, with the margins of
    `value_margins`, which are computed unless they are given."""
    margins = margins or value_margins(own, means, look)
    effects = {
        value: ValueEffect(
            value=value,
            num_trials=int(means.num_models[own.configurations[value]].sum()),
            mean=float(coefficients @ means.means),
        )
        for value, coefficients in own.means.items()
    }
    if margins is not None:
        found, widths = margins.compared, margins.widths
        coefficients = np.stack(list(own.differences.values()))
        is_same = np.asarray(~means.of_distinct(coefficients).any(axis=1))
        for row, value in enumerate(own.differences):
            difference, margin = float(found.estimates[row]), float(widths[row])
            is_known = not np.isnan(margin)
            parts = {
                "training_error": float(found.training_errors[row]),
                "example_error": float(found.example_errors[row]),
                "fixed_error": float(found.fixed_errors[row]),
                "degrees": float(margins.found.degrees[row]),
                "training_factor": float(margins.factors[row]),
                "example_factor": float(margins.factors[row]),
            }
            effects[value] = replace(
                effects[value],
                difference=difference,
                error=float(found.errors[row]) if is_known else None,
                parts=parts if is_known else {},
                interval=(difference - margin, difference + margin) if is_known else None,
                decided_at=look.num_rounds if look is not None and abs(difference) > margin else None,
                is_same=bool(is_same[row]),
            )
    return list(effects.values())


def with_earlier(present: Sequence[ValueEffect], earlier: Sequence[ValueEffect]) -> list[ValueEffect]:
    """Returns the effects at a look with what an earlier one has shown: the intervals of all looks hold at once.

    An interval is what both looks allow, and a difference outside it is moved to its nearer end. Where two intervals
    have nothing in common, one of the looks is wrong, and the present one counts.
    """
    found = []
    before = {effect.value: effect for effect in earlier}
    for effect in present:
        other = before.get(effect.value)
        if effect.interval is not None and effect.difference is not None and other is not None and other.interval:
            low, high = max(effect.interval[0], other.interval[0]), min(effect.interval[1], other.interval[1])
            if low <= high:
                decided = effect.decided_at if other.decided_at is None else other.decided_at
                within = min(max(effect.difference, low), high)
                effect = replace(effect, difference=within, interval=(low, high), decided_at=decided)
        found.append(effect)
    return found


def find_trend(
    key: SearchedKey, params: Sequence[Mapping[str, Any]], means: ConfigurationMeans, look: Look | None = None
) -> Trend | None:
    """Returns whether a score rises or falls over the numbers of a grid's key,
    and from which one on that is significant.

    The linear contrast over all values in their order is tested, then that without the value farthest from the base,
    and so on while it is significant (95 %). If the true means rise or fall throughout, none of equal means is called
    different more often than in one sweep of twenty.

    Args:
        key: with listed values.
        params: of each configuration; of several keys those count that all values were trained with.
        means: of the configurations.
        look: at the sweep; None: the only one.

    Returns:
        None if no contrast is significant or the means do not rise or fall at every value; if the values are not three
        or more numbers with the base as the lowest or the highest; if the base was picked by its mean; if no others of
            the keys were trained with all.

    Source: Tamhane, Hochberg and Dunnett (1996), "Multiple test procedures for dose finding": step-down tests of
    trend for the minimum effective dose.
    """
    numbers = {cell: number for number, cell in enumerate(cells_of(key, params))}
    tried = {value for value, _ in numbers}
    if len(tried) < 3 or not all(map(is_numeric, tried)) or key.base not in (min(tried), max(tried)) or key.is_picked:
        return None
    values = sorted(tried, key=lambda value: abs(value - key.base))
    shared = [other for other in {other for _, other in numbers} if all((value, other) in numbers for value in tried)]
    rows = np.zeros((len(values), len(numbers)))
    for row, value in zip(rows, values, strict=True):
        row[[numbers[value, other] for other in shared]] = 1 / max(len(shared), 1)
    steps = means.estimate(np.diff(rows, axis=0))
    if not ((steps > 0).all() or (steps < 0).all()):
        return None
    first = None
    for count in range(len(values), 1, -1):
        coefficients = (np.arange(count) - (count - 1) / 2) @ rows[:count]
        (margin,) = margins_control(means, coefficients[None], look=look).widths  # nan without replicates
        if not np.abs(means.estimate(coefficients[None])[0]) > margin:
            break
        first = values[count - 1]
    return None if first is None else Trend(is_upward=first > key.base, is_better=bool(steps[0] > 0), first=first)


def grid_contrasts(key: SearchedKey, params: Sequence[Mapping[str, Any]], means: ConfigurationMeans) -> ValueContrasts:
    """Returns the contrasts of a grid: each value of a configuration against the base, where all else is equal.

    Args:
        key: with at least one value.
        params: of each configuration.
        means: of the configurations, by which a base is picked where the key has none.
    """
    cells = cells_of(key, params)
    tried = [value for value in key.values if any(own == value for own, _ in cells)]  # others have other tasks
    numbers = {value: np.flatnonzero([own == value for own, _ in cells]) for value in tried}
    bases = tried if key.is_picked or key.base is NO_VALUE else [key.base]  # of many values all pairs take long
    pairs = {(value, base): matched_difference(cells, value, base) for base in bases for value in tried}
    return value_contrasts(
        key,
        {value: np.bincount(found, minlength=len(cells)) / len(found) for value, found in numbers.items()},
        {pair: found for pair, found in pairs.items() if found is not None},
        numbers,
        means,
    )


def value_contrasts(
    key: SearchedKey,
    levels: dict[Any, Floats],
    pairs: Mapping[tuple[Any, Any], Floats],
    configurations: dict[Any, Numbers],
    means: ConfigurationMeans,
) -> ValueContrasts:
    """Returns the contrasts with the key's base, or with the value that is picked by its mean.

    Args:
        key: with at least one value.
        levels: the coefficients of the mean at each value.
        pairs: those of the difference of the first value from the second, for each two that can be compared.
        configurations: as in `ValueContrasts`.
        means: of the configurations.
    """
    ordered = in_value_order(levels)
    if key.base is NO_VALUE:
        comparable = [value for value in ordered if any(value in pair for pair in pairs)] or ordered
        best = comparable[int(np.argmax([levels[value] @ means.means for value in comparable]))]
        key = replace(key, base=best, is_picked=True)
    differences = {value: pairs[value, key.base] for value in levels if (value, key.base) in pairs}
    every = [pairs[pair] for pair in combinations(ordered, 2) if pair in pairs]
    together = every if key.is_picked else list(differences.values())
    return ValueContrasts(
        means=levels,
        key=key,
        differences=differences,
        together=np.stack(together) if together else np.zeros((0, len(means.means))),
        configurations=configurations,
    )


def cells_of(key: SearchedKey, params: Sequence[Mapping[str, Any]]) -> list[tuple[Any, Any]]:
    """Returns each configuration's value of the key, and what else it was trained with."""
    return [(key.value_of(own), other_params(own, key)) for own in params]


def matched_difference(cells: Sequence[tuple[Any, Any]], value: Any, base: Any) -> Floats | None:
    """(configurations,) coefficients of the mean difference between two values over what both were trained with."""
    numbers = {cell: number for number, cell in enumerate(cells)}
    pairs = [
        (numbers[own, other], numbers[base, other]) for own, other in cells if own == value and (base, other) in numbers
    ]
    if not pairs or value == base:
        return None
    coefficients = np.zeros(len(cells))
    for one, other in pairs:
        coefficients[one] += 1 / len(pairs)
        coefficients[other] -= 1 / len(pairs)
    return coefficients
