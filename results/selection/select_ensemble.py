"""Chooses a task's ensemble from its pool: cross-fits every selection method, takes the simplest of the best.

The best single model is taken where choosing among the methods, cross-fitted, is not above it.
"""

from collections.abc import Mapping

import numpy as np

from mtlib.runtime.errors import require
from results.ensembles.best_k import choose_single
from results.ensembles.candidates import Pool, without_copies
from results.ensembles.ensemble import Ensemble, ensemble_outputs, equal_ensemble, score_rows
from results.ensembles.methods import AUTOMATIC, BASE, ONE_MODEL, SELECTION_METHODS, SINGLE, methods_for
from results.ensembles.selection_method import Choose, SelectionMethod, Settings
from results.records.selection import Member, SliceScore, TaskSelection
from results.selection.base_configuration import ConfigurationKey
from results.selection.cross_fitting import CrossFitted, cross_fit, example_error
from results.selection.method_scores import method_scores
from results.selection.shared_model import SharedModel
from results.stats.resampling import Numbers
from results.stats.slices import SlicedRows


def automatic_method(methods: Mapping[str, Choose]) -> Choose:
    """The selection method that cross-fits several ones, the simplest first, and takes the simplest of the best."""

    def choose(pool: Pool, rows: Numbers, settings: Settings) -> Ensemble:
        fitted = {name: cross_fit(pool, method, settings, rows) for name, method in methods.items()}
        return methods[one_standard_error_rule(fitted)](pool, rows, settings)

    return choose


def one_standard_error_rule(fitted: Mapping[str, CrossFitted]) -> str:
    """Returns the first method whose score is at most one standard error of the difference below the best one.

    Source: Breiman et al. (1984), section 3.4.3. All methods are scored on the same examples, so that the standard
    error is that of the paired difference over examples. It leaves out how the chosen ensemble varies, which would
    favour simple methods further.
    """
    best = max(fitted.values(), key=lambda found: found.score)
    for name, found in fitted.items():
        if best.score - found.score <= example_error(best.influences - found.influences):
            return name
    raise AssertionError("the best one is no worse than itself")


def is_above(choosing: CrossFitted, single: CrossFitted) -> bool:
    """Returns whether choosing among methods scores above picking the single model, to the three digits shown.

    The score of choosing stays the expected one where it does not, though the single model is taken: the larger of the
    two would be too high by .001 to .002, and this is too low by less than .001 (docs/measurements/statistics.md).
    """
    return round(choosing.score - single.score, 3) > 0


def select_ensemble(
    pool: Pool,
    settings: Settings,
    *,
    method: str = AUTOMATIC,
    table: Mapping[str, SelectionMethod] = SELECTION_METHODS,
    num_repeats: int = 1,
    shared_model: SharedModel | None = None,
    base: frozenset[ConfigurationKey] = frozenset(),
) -> TaskSelection:
    """Chooses a task's ensemble.

    Scores come from all candidates, without copies; members of the ensemble are those whose weights were kept.

    Args:
        method: `AUTOMATIC`, one of `table`, or `ONE_MODEL`, which takes `shared_model`.
        table: the selection methods, the simplest first.
        num_repeats: of cross-fitting, with other folds each time.
        shared_model: the best model for all tasks together, whose scores are listed too.
        base: where the base configuration was trained; its scores are listed too.

    Raises:
        ValueError: no candidate has its weights, there are too few examples, or the method does not suit the task.
    """
    rows = check_rows(pool, settings)
    methods = methods_for(method, table)
    distinct = without_copies(pool)
    kept = distinct.only([number for number, found in enumerate(distinct.candidates) if found.has_weights])
    require(bool(kept.candidates), f"some candidate of {pool.task.name} must have its weights still", "none")
    fitted, chosen = dict[str, CrossFitted](), dict[str, tuple[Pool, Ensemble]]()
    of_base = pool.only([place for place, one in enumerate(pool.candidates) if (one.sweep, one.number) in base])
    if of_base.candidates:
        fitted[BASE] = cross_fit(of_base, choose_single, settings, rows, num_repeats=num_repeats)
        chosen[BASE] = of_base, choose_single(of_base, rows, settings)
    if shared_model is not None:
        fitted[ONE_MODEL] = shared_model.fitted[pool.task.name]
        chosen[ONE_MODEL] = pool, equal_ensemble(np.array([pool.candidates.index(shared_model.candidate)]))
    for name, choose in methods.items():
        fitted[name] = cross_fit(distinct, choose, settings, rows, num_repeats=num_repeats)
        chosen[name] = kept, choose(kept, rows, settings)
    if method == AUTOMATIC and not fitted[SINGLE].degrees_over():
        method = SINGLE  # no difference can be claimed from so few groups of examples
    elif method == AUTOMATIC:
        method = one_standard_error_rule({name: fitted[name] for name in methods})
        fitted[AUTOMATIC] = cross_fit(distinct, automatic_method(methods), settings, rows, num_repeats=num_repeats)
        if not is_above(fitted[AUTOMATIC], fitted[SINGLE]):
            method = SINGLE
        chosen[AUTOMATIC] = chosen[method]
    in_sample = {
        name: score_rows(own, ensemble_outputs(own, found, rows), rows) for name, (own, found) in chosen.items()
    }
    if shared_model is not None:
        in_sample[ONE_MODEL] = shared_model.in_sample[pool.task.name]  # by which it was chosen, to the last digit
    num_models = {name: len(found.members) for name, (_, found) in chosen.items()}
    base_name = BASE if of_base.candidates else None
    scores = method_scores(fitted, in_sample, num_models, base=base_name, seed=settings.seed)
    automatic = scores.pop(AUTOMATIC, None)
    sizes = None if pool.text_groups is None else np.unique(pool.text_groups, return_counts=True)[1]
    return TaskSelection(
        method=method,
        titles={name: entry.title for name, entry in table.items() if name not in SELECTION_METHODS},
        members=members_of(*chosen[method]),
        methods=tuple(scores.values()),
        automatic=automatic,
        num_examples=len(pool.labels),
        num_groups=None if sizes is None else len(sizes),
        largest_group=1 if sizes is None else int(sizes.max()),
        num_candidates=len(pool.candidates),
        num_trials=int(pool.trial_numbers.max()) + 1,
        lost=pool.lost,
        slices=slice_scores(fitted.get(AUTOMATIC, fitted[method]), pool),
    )


def slice_scores(fitted: CrossFitted, pool: Pool) -> tuple[SliceScore, ...]:
    """Returns the cross-fitted scores on slices of a pool's examples, means over the repeats."""
    sliced = SlicedRows(
        task=pool.task, values=fitted.values, labels=pool.labels, groups=pool.groups, columns=pool.slices
    )
    return tuple(own.score for own in sliced.scores_of(np.arange(len(fitted.values))))


def check_rows(pool: Pool, settings: Settings) -> Numbers:
    """Numbers of all examples; ValueError if they are too few to choose by."""
    has_two_folds = settings.num_folds == 2 or pool.task.metric_entry.is_scored_by_fold  # of so few examples
    least = 4 if has_two_folds else 3  # at least two outside each fold, for the inner folds
    rule = f"examples of {pool.task.name} to select by must be at least {least} (give its dev set more rows)"
    require(len(pool.labels) >= least, rule, len(pool.labels))
    return np.arange(len(pool.labels))


def members_of(pool: Pool, ensemble: Ensemble) -> tuple[Member, ...]:
    """Returns an ensemble's members for the record, the largest weight first."""
    candidates = [pool.candidates[number] for number in ensemble.members]
    found = [
        Member(sweep=one.sweep, trial=one.trial, epoch=one.epoch, weight=weight)
        for one, weight in zip(candidates, ensemble.weights, strict=True)
    ]
    return tuple(sorted(found, key=lambda member: -member.weight))
