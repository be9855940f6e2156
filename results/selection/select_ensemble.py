"""Chooses a task's ensemble from its pool: cross-fits every selection method, takes the simplest of the best."""

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from mtlib.runtime.errors import require
from mtlib.tasks import Task
from results.ensembles.candidates import Pool, without_copies
from results.ensembles.ensemble import Ensemble, equal_ensemble
from results.ensembles.methods import AUTOMATIC, ONE_MODEL, SINGLE, methods_for
from results.ensembles.selection_method import Choose, Settings
from results.ensembles.temperature import calibrated
from results.records.selection import Member, TaskSelection
from results.selection.base_configuration import NO_BASE, BaseConfiguration
from results.selection.contenders import find_contenders
from results.selection.cross_fitting import CrossFitted, cross_fit, example_error
from results.selection.method_scores import (
    EvaluatedMethod,
    evaluate_base,
    evaluate_fitted,
    evaluate_method,
    method_scores,
)
from results.selection.pareto import find_trade_offs
from results.selection.shared_model import SharedModel
from results.stats.resampling import Numbers


def automatic_method(methods: Mapping[str, Choose]) -> Choose:
    """The selection method that cross-fits several ones, the simplest first, and takes the simplest of the best."""

    def choose(pool: Pool, rows: Numbers, settings: Settings) -> Ensemble:
        fitted = {name: cross_fit(pool, method, settings, rows) for name, method in methods.items()}
        return methods[one_standard_error_rule(fitted)](pool, rows, settings)

    return choose


def one_standard_error_rule(fitted: Mapping[str, CrossFitted]) -> str:
    """The first method whose score is at most one standard error of the difference below the best one.

    Source: Breiman et al. (1984), section 3.4.3. All methods are scored on the same examples, so that the standard
    error is that of the paired difference over examples. It leaves out how the chosen ensemble varies, which would
    favour simple methods further.
    """
    best = max(fitted.values(), key=lambda found: found.score)
    for name, found in fitted.items():
        if best.score - found.score <= example_error(best.influences - found.influences):
            return name
    raise AssertionError("the best one is no worse than itself")


def select_ensemble(
    pool: Pool,
    settings: Settings,
    *,
    method: str = AUTOMATIC,
    num_repeats: int = 1,
    shared_model: SharedModel | None = None,
    base: BaseConfiguration = NO_BASE,
    calibrate: bool = False,
) -> TaskSelection:
    """Chooses a task's ensemble.

    Scores come from all candidates, without copies; members of the ensemble are those whose weights were kept.

    Args:
        method: `AUTOMATIC`, one of `SELECTION_METHODS`, or `ONE_MODEL`, which takes `shared_model`.
        num_repeats: of cross-fitting, with other folds each time.
        shared_model: the best model for all tasks together, whose scores are listed too.
        base: the base configuration; its scores are listed too.
        calibrate: whether logits are divided by a temperature before they are averaged as probabilities.

    Raises:
        ValueError: no candidate has its weights, there are too few examples, or the method does not suit the task.
    """
    rows = check_rows(pool, settings)
    methods = methods_for(method)
    if calibrate:
        methods = {name: calibrated(choose) for name, choose in methods.items()}
    distinct = without_copies(pool)
    kept = with_weights(distinct)
    chosen = {name: choose(kept, rows, settings) for name, choose in methods.items()}
    evaluate = partial(evaluate_method, pool=distinct, settings=settings, num_repeats=num_repeats, kept=kept)
    evaluated = {name: evaluate(name, choose, chosen=chosen[name]) for name, choose in methods.items()}
    of_base = evaluate_base(pool, base, settings, num_repeats)
    listed = [] if of_base is None else [of_base]
    if shared_model is not None:
        listed.append(evaluate_shared_model(shared_model, pool.task, settings))
    listed += evaluated.values()
    automatic = None
    if method == AUTOMATIC:
        method = one_standard_error_rule({name: found.fitted for name, found in evaluated.items()})
        automatic = evaluate(AUTOMATIC, automatic_method(methods), chosen=chosen[method])
    everything = [*listed, *([] if automatic is None else [automatic])]
    scores = method_scores(everything, evaluated[SINGLE], of_base)
    if method == ONE_MODEL:
        assert shared_model is not None
        members = members_of(pool, equal_ensemble(np.array([pool.candidates.index(shared_model.candidate)])))
    else:
        members = members_of(kept, chosen[method])
    return build_task_selection(
        pool,
        method=method,
        members=members,
        methods=scores[: len(listed)],
        automatic=None if automatic is None else scores[-1],
        trade_offs=find_trade_offs(distinct, kept, settings, methods, num_repeats=num_repeats),
    )


def evaluate_shared_model(shared_model: SharedModel, task: Task, settings: Settings) -> EvaluatedMethod:
    """The scores of the best model for all tasks together in one of its tasks."""
    fitted, in_sample = shared_model.fitted[task.name], shared_model.in_sample[task.name]
    return evaluate_fitted(ONE_MODEL, fitted, settings, in_sample=in_sample, num_models=1)


def build_task_selection(pool: Pool, **chosen: Any) -> TaskSelection:
    """The record of a choice: the other fields of `TaskSelection`, and the facts about the pool of all candidates."""
    sizes = None if pool.text_groups is None else np.unique(pool.text_groups, return_counts=True)[1]
    return TaskSelection(
        **chosen,
        num_examples=len(pool.labels),
        num_groups=None if sizes is None else len(sizes),
        largest_group=1 if sizes is None else int(sizes.max()),
        examples=hashlib.sha256("\0".join(pool.ids).encode()).hexdigest(),
        num_candidates=len(pool.candidates),
        num_trials=int(pool.trial_numbers.max()) + 1,
        contenders=find_contenders(pool),
        num_configurations=len({(one.sweep, one.number) for one in pool.candidates if not one.was_dropped}),
        lost=pool.lost,
    )


def check_rows(pool: Pool, settings: Settings) -> Numbers:
    """Numbers of all examples; ValueError if they are too few to choose by."""
    has_two_folds = settings.num_folds == 2 or pool.task.metric_entry.is_scored_by_fold  # of so few examples
    least = 4 if has_two_folds else 3  # at least two outside each fold, for the inner folds
    rule = f"examples of {pool.task.name} to select by must be at least {least} (give its dev set more rows)"
    require(len(pool.labels) >= least, rule, len(pool.labels))
    return np.arange(len(pool.labels))


def with_weights(pool: Pool) -> Pool:
    """The candidates whose weights were kept; ValueError if there is none."""
    kept = pool.only([number for number, found in enumerate(pool.candidates) if found.has_weights])
    require(bool(kept.candidates), f"some candidate of {pool.task.name} must have its weights still", "none")
    return kept


def members_of(pool: Pool, ensemble: Ensemble) -> tuple[Member, ...]:
    """An ensemble's members for the record, the largest weight first."""
    found = []
    for place, number in enumerate(ensemble.members):
        candidate = pool.candidates[number]
        member = Member(
            sweep=candidate.sweep,
            trial=candidate.trial,
            epoch=candidate.epoch,
            weight=ensemble.weights[place],
            temperature=ensemble.temperatures[place] if ensemble.temperatures else 1.0,
        )
        found.append(member)
    return tuple(sorted(found, key=lambda member: -member.weight))
