"""The simplest method near the best is selected, its score is cross-fitted, and its members work on new text."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from mtlib.tasks import TASKS, Task
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import ensemble_outputs, score_rows
from results.ensembles.methods import ONE_MODEL, SELECTION_METHODS, methods_for
from results.ensembles.selection_method import Settings
from results.records.selection import MethodScore, TaskSelection
from results.selection.cross_fitting import CrossFitted, cross_fit
from results.selection.method_scores import paired_difference
from results.selection.select_ensemble import (
    automatic_method,
    is_above,
    members_of,
    one_standard_error_rule,
    select_ensemble,
)
from results.selection.shared_model import choose_shared_model
from tests.results.ensembles.simulated_pools import build_pool, keeping, peeks, pool_of
from tests.results.selection.plain_selection import all_rows, plain_score, without_leads

CLASSES, BINARY, REGRESSION = TASKS["sst"], TASKS["qqp"], TASKS["sts"]
SKILLS = (0.3, 0.7, 0.5, 0.6, 0.65)
FAST = Settings(bags=1, num_steps=5, max_models=3, num_folds=4)

each_task = pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))


@cache
def simulated(task: str) -> Pool:
    return build_pool(TASKS[task], SKILLS, num_rows=120, num_epochs=2)


@cache
def selected(task: str) -> TaskSelection:
    """Selected automatically, in two repeats."""
    return select_ensemble(simulated(task), FAST, num_repeats=2)


def fitted_of(values: npt.ArrayLike, labels: npt.ArrayLike | None = None) -> CrossFitted:
    """Cross-fitted values of one repeat of one fold; correctness where there are no labels."""
    own = np.asarray(values, dtype=np.float64)[None]
    task = BINARY if labels is None else REGRESSION
    found = np.ones(own.shape[1]) if labels is None else np.asarray(labels, dtype=np.float64)
    folds, groups = np.zeros(own.shape, dtype=np.intp), np.arange(own.shape[1])
    return CrossFitted(task=task, labels=found, values=own, folds=folds, groups=groups)


def right_on(*spans: tuple[int, int]) -> CrossFitted:
    """Correct on these of 100 examples."""
    values = np.zeros(100)
    for start, end in spans:
        values[start:end] = 1
    return fitted_of(values)


def numbers_of(pool: Pool, found: TaskSelection) -> list[int]:
    """Indices of the members in a pool."""
    keys = [(one.sweep, one.trial, one.epoch) for one in pool.candidates]
    return [keys.index((member.sweep, member.trial, member.epoch)) for member in found.members]


def score_named(found: TaskSelection, name: str) -> MethodScore:
    return next(score for score in found.methods if score.name == name)


def test_lead_of_more_than_one_paired_standard_error_is_taken() -> None:
    """.60 against .55, correct on 5 more: sqrt(.05 .95 / 99) = .022 < .05, though each score has an error of .05."""
    single, best = right_on((0, 55)), right_on((0, 60))
    assert paired_difference(best, single) == pytest.approx((0.05, np.sqrt(0.05 * 0.95 / 99)))
    assert min(single.standard_error, best.standard_error) > 0.0489
    assert one_standard_error_rule({"single": single, "topk": best}) == "topk"


def test_lead_of_less_than_one_paired_standard_error_is_not_taken() -> None:
    """.60 against .55, but each is correct where the other is wrong: sqrt((.55 - .05^2) / 99) = .074."""
    single, best = right_on((0, 30), (60, 85)), right_on((0, 60))
    assert paired_difference(best, single) == pytest.approx((0.05, np.sqrt((0.55 - 0.05**2) / 99)))
    assert one_standard_error_rule({"single": single, "topk": best}) == "single"


def test_correlations_are_compared_with_paired_errors() -> None:
    """Both others are equally worse; one is wrong where the best is wrong, the other elsewhere."""
    labels, noise, other = np.random.default_rng(0).normal(size=(3, 200))
    best, like, unlike = (fitted_of(labels + own, labels) for own in (noise, 1.15 * noise, 1.3 * other))
    leads = [paired_difference(best, one)[0] for one in (like, unlike)]
    assert leads == pytest.approx([0.04, 0.04], abs=0.02)
    assert one_standard_error_rule({"single": like, "topk": best}) == "topk"
    assert one_standard_error_rule({"single": unlike, "topk": best}) == "single"


@each_task
def test_automatic_selection_does_not_depend_on_labels_of_other_rows(task: Task) -> None:
    pool = build_pool(task, SKILLS[:3], num_rows=48)
    automatic = automatic_method(methods_for())
    assert not peeks(automatic, pool, np.arange(0, 48, 2), FAST)


@each_task
def test_members_are_selected_from_all_examples(task: Task) -> None:
    pool, found = simulated(task.name), selected(task.name)
    chosen = SELECTION_METHODS[found.method].choose(pool, all_rows(pool), FAST)
    assert numbers_of(pool, found) == list(chosen.members)
    assert [member.weight for member in found.members] == list(chosen.weights)
    assert found.members == members_of(pool, chosen)
    assert sum(member.weight for member in found.members) == pytest.approx(1)


@each_task
def test_every_method_is_scored_in_sample_and_by_cross_fitting(task: Task) -> None:
    pool, found = simulated(task.name), selected(task.name)
    assert [score.name for score in found.methods] == list(methods_for())
    for score in found.methods:
        method = SELECTION_METHODS[score.name].choose
        chosen = method(pool, all_rows(pool), FAST)
        fitted = cross_fit(pool, method, FAST, all_rows(pool), num_repeats=2)
        assert score.cross_fitted == pytest.approx(fitted.score)
        assert score.standard_error == fitted.standard_error
        assert score.num_models == len(chosen.members) <= FAST.max_models
        assert score.in_sample == score_rows(pool, ensemble_outputs(pool, chosen, all_rows(pool)), all_rows(pool))
        assert score.in_sample == pytest.approx(plain_score(pool, chosen))


@each_task
def test_automatic_method_is_the_simplest_near_the_best_and_cross_fitted(task: Task) -> None:
    pool, found, methods = simulated(task.name), selected(task.name), methods_for()
    rows = all_rows(pool)
    fitted = {name: cross_fit(pool, method, FAST, rows, num_repeats=2) for name, method in methods.items()}
    assert found.automatic is not None
    expected = cross_fit(pool, automatic_method(methods), FAST, rows, num_repeats=2)
    simplest = one_standard_error_rule(fitted)
    assert found.method == (simplest if is_above(expected, fitted["single"]) else "single")
    assert found.automatic.cross_fitted == pytest.approx(expected.score, rel=1e-12)
    assert found.automatic.in_sample == score_named(found, found.method).in_sample
    assert found.score == found.automatic


def test_choosing_is_above_the_single_model_only_in_digits_that_are_shown() -> None:
    single = fitted_of([1, 0] * 500)
    more, as_much = (fitted_of([*[1] * more, *[1, 0] * 500][:1000]) for more in (4, 0))
    assert is_above(more, single)
    assert not is_above(as_much, single)
    assert not is_above(single, more)


@pytest.mark.parametrize("seed", range(8))
def test_an_ensemble_is_taken_only_where_choosing_is_shown_to_be_above_the_single_model(seed: int) -> None:
    """Of nearly equal trials whose errors are alike none is, or one by chance."""
    pool = build_pool(CLASSES, (0.5, 0.5, 0.5, 0.5), num_rows=60, correlation=0.9, seed=seed)
    found = select_ensemble(pool, FAST)
    assert found.automatic is not None
    shown = f"{found.automatic.lead:+.3f}"
    assert (found.method == "single") or float(shown) > 0
    assert (len(found.members) == 1) or float(shown) > 0


@each_task
@pytest.mark.parametrize("name", ["single", "greedy"])
def test_named_method_is_used(task: Task, name: str) -> None:
    pool = simulated(task.name)
    found = select_ensemble(pool, FAST, method=name, num_repeats=2)
    assert (found.method, found.automatic) == (name, None)
    assert [score.name for score in found.methods] == list(dict.fromkeys(["single", name]))
    among_all = score_named(selected(task.name), name)
    assert found.score == score_named(found, name)
    assert without_leads(found.score) == without_leads(among_all)
    (low, high), (lowest, highest) = found.score.lead_interval, among_all.lead_interval
    assert lowest <= low <= high <= highest  # fewer methods are compared
    assert numbers_of(pool, found) == list(SELECTION_METHODS[name].choose(pool, all_rows(pool), FAST).members)


@each_task
@pytest.mark.parametrize("method", ["greedy", "auto"])
def test_members_have_weights_and_scores_cover_all_candidates(task: Task, method: str) -> None:
    pool = simulated(task.name)
    kept = {0, 1, 4, 9}
    whole, limited = (select_ensemble(one, FAST, method=method) for one in (pool, keeping(pool, kept)))
    assert set(numbers_of(pool, limited)) <= kept
    assert not set(numbers_of(pool, whole)) <= kept
    assert [score.cross_fitted for score in limited.methods] == [score.cross_fitted for score in whole.methods]
    assert (limited.method, limited.score.cross_fitted) == (whole.method, whole.score.cross_fitted)
    assert limited.score.in_sample < whole.score.in_sample
    assert (limited.num_trials, limited.num_candidates) == (5, 10)


@each_task
def test_copies_count_as_candidates_only(task: Task) -> None:
    pool = simulated(task.name)
    copies = tuple(replace(one, sweep="later") for one in pool.candidates)
    twice = replace(pool, candidates=pool.candidates + copies, outputs=np.concatenate([pool.outputs] * 2))
    found, plain = select_ensemble(twice, FAST, num_repeats=2), selected(task.name)
    assert found == replace(plain, num_candidates=20, num_trials=10)


@each_task
@pytest.mark.parametrize("num_folds", [5, 2])
def test_too_few_examples_are_one_line_and_one_more_is_enough(task: Task, num_folds: int) -> None:
    settings, least = replace(FAST, num_folds=num_folds), 4 if num_folds == 2 or task is REGRESSION else 3
    for num_rows in range(least):
        pool = pool_of(task, np.zeros((1, num_rows, task.num_logits)), np.zeros(num_rows))
        rule = f"examples of {task.name} to select by must be at least {least} (give its dev set more rows)"
        with pytest.raises(ValueError, match=f"^{re.escape(rule)}, got {num_rows}$"):
            select_ensemble(pool, settings)
    found = select_ensemble(build_pool(task, SKILLS, num_rows=least), settings)
    assert np.isfinite([score.cross_fitted for score in found.methods]).all()


def test_best_shared_model_is_listed_and_can_be_requested() -> None:
    pools = {task.name: build_pool(task, (0.5, 0.4, 0.2), num_rows=60) for task in (CLASSES, REGRESSION)}
    one = choose_shared_model(pools, FAST)
    pool = pools[CLASSES.name]
    plain, found = select_ensemble(pool, FAST), select_ensemble(pool, FAST, shared_model=one)
    assert without_leads(*found.methods[1:]) == without_leads(*plain.methods)
    assert found.automatic is not None
    assert plain.automatic is not None
    assert found.method == plain.method, "automatic selection does not include it"
    assert without_leads(found.automatic) == without_leads(plain.automatic)
    beside = found.methods[0]
    assert (beside.name, beside.num_models) == (ONE_MODEL, 1)
    assert beside.in_sample == one.in_sample["sst"]
    assert beside.cross_fitted == pytest.approx(one.fitted["sst"].score)
    asked = select_ensemble(pool, FAST, method=ONE_MODEL, shared_model=one)
    (member,) = asked.members
    assert (asked.method, asked.automatic) == (ONE_MODEL, None)
    assert without_leads(asked.score) == without_leads(beside)
    assert (member.trial, member.epoch, member.weight) == (one.candidate.trial, one.candidate.epoch, 1)
