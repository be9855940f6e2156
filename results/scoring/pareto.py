"""What is had for which cost at inference: every way to choose at several limits, and which of them nothing beats."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from results.ensembles.best_k import Method, Settings, within_latency
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Ensemble
from results.ranking.bootstrap import Floats, Numbers
from results.records.selection import TradeOff
from results.scoring.cross_fitting import cross_fit

STEPS = (1, 2, 3, 5)
"""Numbers of models that are tried, times powers of ten."""
FASTER = 0.5
"""Models that take at most this part of what slower ones take are worth limits of their own."""
TOLERANCE = 0.05
"""Latencies are told apart in steps of this share: so much they move when they are measured again."""


def find_trade_offs(
    pool: Pool, kept: Pool, settings: Settings, methods: Mapping[str, Method], *, num_repeats: int = 1
) -> tuple[TradeOff, ...]:
    """Scores every way to choose by what it may cost, and marks those that nothing beats: the Pareto set.

    Each is cross-fitted at 1, 2, 3, 5, 10, 20, ... models. Where some models are at least twice as fast as others, each
    is tried also with as much latency as so many of the faster ones take. The cost of a score is that of the dearest
    ensemble that it was taken from: what is chosen without a fold may be dearer than what is chosen in the end. The
    best of many scores is a little optimistic, and so are those of the Pareto set.

    Args:
        pool: all candidates, each within the limits by itself.
        kept: those of them that can be chosen in the end.
        settings: `max_models` and `max_latency_ms` are not exceeded.
        methods: ways to choose by name, the simplest first, which always chooses 1: at 1 model it stands for all.
        num_repeats: of cross-fitting, with other folds each time.

    Returns:
        The cheapest first, and the simplest of equals. Those that something beats are among them.

    Raises:
        ValueError: as `cross_fit`.
    """
    found = [
        one for limited in iter_limits(kept, settings) for one in score_ways(pool, kept, limited, methods, num_repeats)
    ]
    order = list(methods)
    found.sort(key=lambda one: (cost_of(one), order.index(one.name), one.latency_ms or 0.0))
    return tuple(replace(one, is_best=is_best) for one, is_best in zip(found, pareto_set(found), strict=True))


def iter_limits(kept: Pool, settings: Settings) -> Iterator[Settings]:
    """The settings at every number of models and, where models differ in speed, at every latency."""
    most = min(settings.max_models, int(kept.trial_numbers.max()) + 1)
    _slowest, *faster = find_speeds(kept.latencies_of(range(len(kept.candidates))))
    for size in list_sizes(most):
        limited = replace(settings, max_models=size)
        yield limited
        for speed in faster:
            if size * speed < settings.max_latency_ms:
                yield replace(limited, max_latency_ms=size * speed)


def list_sizes(most: int) -> list[int]:
    """Numbers of models to try, up to this one, which is the last."""
    steps = (step * 10**power for power in itertools.count() for step in STEPS)
    return [*itertools.takewhile(lambda size: size < most, steps), most]


def find_speeds(latencies: Floats) -> list[float]:
    """The longest latency, then the longest that is at most `FASTER` times that, and so on: (models,) to at least 1."""
    speeds = [float(latencies.max())]
    while speeds[-1] > 0 and (is_faster := latencies <= FASTER * speeds[-1]).any():
        speeds.append(float(latencies[is_faster].max()))
    return speeds


def score_ways(
    pool: Pool, kept: Pool, limited: Settings, methods: Mapping[str, Method], num_repeats: int
) -> Iterator[TradeOff]:
    """What each way to choose comes to under some limits, none marked yet."""
    pool, kept, rows = within_latency(pool, limited), within_latency(kept, limited), np.arange(len(pool.labels))
    single, *others = methods
    for name in [single] if limited.max_models == 1 else others:
        method, found = remembered(methods[name])
        fitted = cross_fit(pool, method, limited, rows, num_repeats=num_repeats)
        method(kept, rows, limited)
        yield TradeOff(
            name=name,
            max_models=limited.max_models,
            max_latency_ms=None if math.isinf(limited.max_latency_ms) else limited.max_latency_ms,
            num_models=max(len(own.members) for _, own in found),
            latency_ms=None if kept.latencies is None else max(latency_of(*own) for own in found),
            cross_fitted=fitted.score,
            standard_error=fitted.standard_error,
            is_best=False,
        )


def remembered(method: Method) -> tuple[Method, list[tuple[Pool, Ensemble]]]:
    """A way to choose, and a list that gets whatever it chooses, each with its pool."""
    found: list[tuple[Pool, Ensemble]] = []

    def choose(pool: Pool, rows: Numbers, settings: Settings) -> Ensemble:
        found.append((pool, method(pool, rows, settings)))
        return found[-1][1]

    return choose, found


def latency_of(pool: Pool, ensemble: Ensemble) -> float:
    """Milliseconds that all members take, one after the other."""
    return math.fsum(pool.latencies_of(ensemble.members))


def cost_of(found: TradeOff) -> float:
    """Latency in steps of `TOLERANCE`, on a logarithmic scale, where it was measured; else the number of models."""
    if found.latency_ms is None:
        return float(found.num_models)
    return float(round(math.log(found.latency_ms) / math.log1p(TOLERANCE))) if found.latency_ms > 0 else -math.inf


def pareto_set(found: Sequence[TradeOff]) -> list[bool]:
    """Which of some nothing beats; they come in the order of their cost, the one to prefer first among equals.

    One is beaten by another that scores higher and costs as little or less, and by one before it that scores the same.
    """
    costs, scores = np.array([cost_of(one) for one in found]), np.array([one.cross_fitted for one in found])
    is_higher = (scores > scores[:, None]) & (costs <= costs[:, None])
    is_before = np.tri(len(found), k=-1, dtype=bool) & (scores == scores[:, None])
    return [bool(one) for one in ~(is_higher | is_before).any(axis=1)]
