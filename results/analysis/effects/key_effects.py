"""The effect of one key on one score: its mean at each value, and differences from the base value with intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from results.analysis.comparison.bootstrap import Floats, Numbers
from results.analysis.comparison.configuration_means import ConfigurationMeans, contrasts
from results.analysis.comparison.critical_values import margins_control
from results.analysis.effects.searched_keys import SearchedKey, other_params


@dataclass(frozen=True, kw_only=True)
class ValueEffect:
    """One value of a key."""

    value: Any
    num_trials: int
    mean: float
    """Mean score over replicates and over what else was searched."""
    difference: float | None
    """From the base value, over the other keys' values that both were trained with; None if there are none."""
    error: float | None
    """Standard error of the difference, over training and examples; None where training was not repeated."""
    interval: tuple[float, float] | None
    """95 % of the difference, for all values of the key at once; None as `error`."""

    @property
    def margin(self) -> float:
        """Half the interval's width; nan where it is unknown."""
        return np.nan if self.interval is None else (self.interval[1] - self.interval[0]) / 2

    @property
    def is_significant(self) -> bool:
        """Whether the interval is known and does not contain 0."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]


@dataclass(frozen=True, kw_only=True)
class Trend:
    """A score that rises or falls with a key's number."""

    is_rising: bool
    num_values: int


@dataclass(frozen=True, kw_only=True)
class ValueContrasts:
    """Coefficients of configurations' means, by value of a key."""

    means: dict[Any, Floats]
    """(configurations,) of the mean at each value."""
    differences: dict[Any, Floats]
    """(configurations,) of the difference from the base value, for values that can be compared with it."""
    configurations: dict[Any, Numbers]
    """Numbers of the configurations that have each value."""


def key_effects(contrasts_of_key: ValueContrasts, means: ConfigurationMeans) -> list[ValueEffect]:
    """The effects of a key's values, in their order."""
    own = contrasts_of_key
    compared: dict[Any, tuple[float, float, float]] = {}
    if own.differences:
        coefficients = np.stack(list(own.differences.values()))
        found, margins = contrasts(means, coefficients), margins_control(means, coefficients)
        numbers = zip(found.estimates.tolist(), found.errors.tolist(), margins.tolist(), strict=True)
        compared = dict(zip(own.differences, numbers, strict=True))
    trials = np.bincount(means.scores.configurations)
    return [
        value_effect(
            value,
            num_trials=int(trials[own.configurations[value]].sum()),
            mean=float(coefficients @ means.means),
            compared=compared.get(value),
        )
        for value, coefficients in own.means.items()
    ]


def find_trend(key: SearchedKey, contrasts_of_key: ValueContrasts, means: ConfigurationMeans) -> Trend | None:
    """Whether a score rises or falls with each higher value of a key, more clearly than by chance.

    It can be certain where no single difference from the base value is: all values show it together. The test is of
    the linear contrast over the values in their order, so that distances between them do not matter.

    Returns:
        None if there is no significant trend, a value interrupts it, or there are not three values, all of them numbers
        that can be compared with the base value.
    """
    own, tried = contrasts_of_key, list(contrasts_of_key.means)
    are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in tried)
    if len(tried) < 3 or not are_numbers or set(tried) != {key.base, *own.differences}:
        return None
    base = np.zeros(len(means.means))
    rows = np.stack([own.differences.get(value, base) for value in sorted(tried)])  # (values, configurations)
    steps = np.diff(rows @ means.means)
    if not ((steps > 0).all() or (steps < 0).all()):
        return None
    coefficients = (np.arange(len(rows)) - (len(rows) - 1) / 2) @ rows
    (margin,) = margins_control(means, coefficients[None])
    is_significant = bool(np.abs(coefficients @ means.means) > margin)  # the margin is nan without replicates
    return Trend(is_rising=bool(steps[0] > 0), num_values=len(rows)) if is_significant else None


def value_effect(value: Any, num_trials: int, mean: float, compared: tuple[float, float, float] | None) -> ValueEffect:
    """One value, from its difference from the base value, the difference's standard error and its margin."""
    found = ValueEffect(value=value, num_trials=num_trials, mean=mean, difference=None, error=None, interval=None)
    if compared is None:
        return found
    difference, error, margin = compared
    if np.isnan(margin):
        return replace(found, difference=difference)
    return replace(found, difference=difference, error=error, interval=(difference - margin, difference + margin))


def grid_contrasts(key: SearchedKey, params: Sequence[Mapping[str, Any]]) -> ValueContrasts:
    """Of a grid: each value that some configuration has is compared with the base where all else is equal.

    Args:
        key: with at least one value.
        params: of each configuration.
    """
    cells = cells_of(key, params)
    tried = [value for value in key.values if any(own == value for own, _ in cells)]  # others have other tasks
    numbers = {value: np.flatnonzero([own == value for own, _ in cells]) for value in tried}
    differences = {value: matched_difference(cells, value, key.base) for value in tried if value != key.base}
    return ValueContrasts(
        means={value: np.bincount(found, minlength=len(cells)) / len(found) for value, found in numbers.items()},
        differences={value: found for value, found in differences.items() if found is not None},
        configurations=numbers,
    )


def cells_of(key: SearchedKey, params: Sequence[Mapping[str, Any]]) -> list[tuple[Any, Any]]:
    """Each configuration's value of the key, and what else it was trained with."""
    return [(key.value_of(own), other_params(own, key)) for own in params]


def matched_difference(cells: Sequence[tuple[Any, Any]], value: Any, base: Any) -> Floats | None:
    """(configurations,) coefficients of the mean difference between two values over what both were trained with."""
    numbers = {cell: number for number, cell in enumerate(cells)}
    pairs = [
        (numbers[own, other], numbers[base, other]) for own, other in cells if own == value and (base, other) in numbers
    ]
    if not pairs:
        return None
    coefficients = np.zeros(len(cells))
    for one, other in pairs:
        coefficients[one] += 1 / len(pairs)
        coefficients[other] -= 1 / len(pairs)
    return coefficients
