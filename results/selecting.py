"""Chooses a task's ensemble from its pool: every way is scored by cross-fitting, the simplest of the best is taken."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from mtlib.schema import require, require_name
from mtlib.tasks import Task
from results.copies import without_copies
from results.cross_fitting import CrossFitted, bootstrap, compare, cross_fit, example_error, interval, widened
from results.ensemble import Ensemble, ensemble_outputs, score_rows
from results.greedy import choose_greedy
from results.methods import Method, Settings, choose_best_k, choose_single
from results.one_model import OneModel
from results.pool import Pool
from results.rank_means import choose_best_k_ranks
from results.selection import Member, MethodScore, TaskSelection
from results.stats import Floats, Numbers
from results.weighting import choose_weights

SINGLE = "single"
AUTOMATIC = "auto"
ONE_MODEL = "one_model"
METHODS: dict[str, Method] = {
    SINGLE: choose_single,
    "topk": choose_best_k,
    "topk_ranks": choose_best_k_ranks,
    "weights": choose_weights,
    "greedy": choose_greedy,
}
"""Ways to choose, the simplest first."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One way to choose, scored."""

    name: str
    fitted: CrossFitted
    resampled: Floats
    """(resamples,)."""


def methods_for(task: Task, names: Sequence[str] | None = None) -> dict[str, Method]:
    """The ways that suit a task, the simplest first: ranks are averaged for regression alone.

    Args:
        task: which task.
        names: those that are asked for; None for all. The best single candidate is always among them.
    """
    suited = {name: method for name, method in METHODS.items() if name != "topk_ranks" or task.kind == "regression"}
    for name in names or ():
        require_name(name, suited, f"method for {task.name}")
    return {name: method for name, method in suited.items() if names is None or name in (SINGLE, *names)}


def choose_automatically(methods: Mapping[str, Method]) -> Method:
    """The way to choose that tries several ways by cross-fitting and takes the simplest of the best.

    Args:
        methods: by name, the simplest first.
    """

    def choose(pool: Pool, rows: Numbers, settings: Settings) -> Ensemble:
        fitted = {name: cross_fit(pool, method, settings, rows) for name, method in methods.items()}
        return methods[simplest_of_best(fitted)](pool, rows, settings)

    return choose


def simplest_of_best(fitted: Mapping[str, CrossFitted]) -> str:
    """The first whose score is no more than one standard error, of the difference, below the best one's.

    Source: Breiman et al. (1984), section 3.4.3, the one-standard-error rule; all are scored on the same examples, so
    that the standard error is that of the paired difference over examples. How what is chosen varies is not in it: that
    would speak for whatever the best way does better than.
    """
    best = max(fitted.values(), key=lambda found: found.score)
    for name, found in fitted.items():
        if best.score - found.score <= example_error(best.influences - found.influences):
            return name
    raise AssertionError("the best one is no worse than itself")


def select(
    pool: Pool,
    settings: Settings,
    *,
    names: Sequence[str] | None = None,
    num_repeats: int = 1,
    one: OneModel | None = None,
) -> TaskSelection:
    """Chooses a task's ensemble.

    Scores come from all candidates, each once however many say the same; the ensemble itself is limited to those whose
    weights were kept.

    Args:
        pool: the task's candidates.
        settings: for the ways to choose.
        names: ways to choose among, and the best single candidate is one of them; None for all that suit the task. A
            single name is taken as it is; `ONE_MODEL` is that of `one`.
        num_repeats: of cross-fitting, with other folds each time.
        one: the best model for all tasks together, whose scores stand beside the others'.

    Raises:
        ValueError: no candidate has its weights, there are too few examples, or a name is unknown.
    """
    rows = np.arange(len(pool.labels))
    least = 3 if settings.num_folds > 2 else 4  # outside each fold there must be two at least, to be folds again
    require(len(rows) >= least, f"examples of {pool.task.name} to select by must be at least {least}", len(rows))
    takes_one = names is not None and list(names) == [ONE_MODEL]
    methods = methods_for(pool.task, [] if takes_one else names)
    distinct = without_copies(pool)
    kept = distinct.only([number for number, found in enumerate(distinct.candidates) if found.has_weights])
    require(bool(kept.candidates), f"some candidate of {pool.task.name} must have its weights still", "none")
    tried = {name: try_method(distinct, name, method, settings, num_repeats) for name, method in methods.items()}
    chosen = {name: method(kept, rows, settings) for name, method in methods.items()}
    score_of = partial(method_score, single=tried[SINGLE])
    sizes = {name: (score_in_sample(kept, own), len(own.members)) for name, own in chosen.items()}
    scores = [score_of(found, *sizes[name]) for name, found in tried.items()]
    if one is not None:
        beside = try_fitted(ONE_MODEL, one.fitted[pool.task.name], settings)
        scores.insert(0, score_of(beside, one.in_sample[pool.task.name], 1))
    name, automatic = (list(names) if names else [SINGLE])[0], None
    if names is None or len(set(names)) > 1:
        name = simplest_of_best({name: found.fitted for name, found in tried.items()})
        found = try_method(distinct, AUTOMATIC, choose_automatically(methods), settings, num_repeats)
        automatic = score_of(found, *sizes[name])
    return TaskSelection(
        method=name,
        members=member_alone(one) if takes_one else members_of(kept, chosen[name]),
        methods=tuple(scores),
        automatic=automatic,
        num_examples=len(rows),
        examples=hashlib.sha256("\0".join(pool.ids).encode()).hexdigest(),
        num_candidates=len(pool.candidates),
        num_trials=int(pool.trial_numbers.max()) + 1,
    )


def score_in_sample(pool: Pool, chosen: Ensemble) -> float:
    """An ensemble's score on all examples, by which it was chosen."""
    rows = np.arange(len(pool.labels))
    return score_rows(pool, ensemble_outputs(pool, chosen, rows), rows)


def try_method(pool: Pool, name: str, method: Method, settings: Settings, num_repeats: int) -> Tried:
    """Scores one way to choose."""
    fitted = cross_fit(pool, method, settings, np.arange(len(pool.labels)), num_repeats=num_repeats)
    return try_fitted(name, fitted, settings)


def try_fitted(name: str, fitted: CrossFitted, settings: Settings) -> Tried:
    """Resamples what has been cross-fitted: for all ways to choose alike."""
    return Tried(name=name, fitted=fitted, resampled=bootstrap(fitted, seed=settings.seed))


def method_score(tried: Tried, in_sample: float, num_models: int, *, single: Tried) -> MethodScore:
    """The scores of one way to choose, beside those of the best single candidate."""
    score, error = tried.fitted.score, tried.fitted.standard_error
    lead, lead_error = compare(tried.fitted, single.fitted)
    return MethodScore(
        name=tried.name,
        in_sample=in_sample,
        cross_fitted=score,
        standard_error=error,
        interval=interval(widened(tried.resampled, score, error)),
        num_models=num_models,
        lead=lead,
        lead_interval=interval(widened(tried.resampled - single.resampled, lead, lead_error)),
    )


def member_alone(one: OneModel | None) -> tuple[Member, ...]:
    """The best model for all tasks together as the only member."""
    require(one is not None, f"method {ONE_MODEL} must be given the best model for all tasks", "none")
    assert one is not None
    found = one.candidate
    return (Member(sweep=found.sweep, trial=found.trial, epoch=found.epoch, weight=1.0),)


def members_of(pool: Pool, ensemble: Ensemble) -> tuple[Member, ...]:
    """An ensemble's members by name, the largest weight first."""
    knots = ensemble.knots or ((),) * len(ensemble.members)
    found = [
        Member(
            sweep=pool.candidates[number].sweep,
            trial=pool.candidates[number].trial,
            epoch=pool.candidates[number].epoch,
            weight=weight,
            knots=own,
        )
        for number, weight, own in zip(ensemble.members, ensemble.weights, knots, strict=True)
    ]
    return tuple(sorted(found, key=lambda member: -member.weight))
