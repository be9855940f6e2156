"""Cross-fitted scores where examples share texts: folds, errors, resamples and intervals are of whole groups."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from mtlib.tasks import TASKS, Task
from results.ensembles.best_k import choose_best_k, choose_single
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Ensemble
from results.ensembles.selection_method import Settings, inner_folds
from results.selection.cross_fitting import CrossFitted, bootstrap, cross_fit, widened
from results.selection.method_scores import paired_difference
from results.selection.select_ensemble import select_ensemble
from results.selection.shared_model import cross_fit_shared
from results.stats.resampling import Floats, Numbers, percentile_interval
from tests.results.ensembles.simulated_pools import build_pool
from tests.results.selection.plain_selection import all_rows
from tests.results.selection.test_cross_fitting import BINARY, CLASSES, FAST, REGRESSION, SKILLS, each_task
from tests.results.stats.test_groups import bias_reduced_error

SIZES = [20, 10, *[3] * 18, *[2] * 6, *[1] * 24]
GROUPS: Numbers = np.random.default_rng(0).permutation(np.repeat(np.arange(50), SIZES))


def grouped_pool(task: Task) -> Pool:
    """Examples of which some share texts, in no order."""
    return replace(build_pool(task, SKILLS, num_rows=len(GROUPS)), text_groups=GROUPS)


@each_task
def test_no_fold_splits_a_group(task: Task) -> None:
    pool, seen = grouped_pool(task), []

    def watched(own: Pool, rows: Numbers, settings: Settings) -> Ensemble:
        seen.append(rows)
        for outside, inside in inner_folds(own, rows, settings):
            assert not set(GROUPS[outside]) & set(GROUPS[inside])
            assert sorted([*outside, *inside]) == sorted(rows)
        return choose_best_k(own, rows, settings)

    found = cross_fit(pool, watched, FAST, all_rows(pool), num_repeats=2)
    assert len(seen) == sum(folds.max() + 1 for folds in found.folds)
    for rows in seen:
        assert not set(GROUPS[rows]) & set(GROUPS[np.setdiff1d(all_rows(pool), rows)])


def test_shared_model_is_scored_on_folds_of_whole_groups() -> None:
    fitted = cross_fit_shared({task.name: grouped_pool(task) for task in (CLASSES, REGRESSION)}, FAST, 2)
    for own in fitted.values():
        for folds in own.folds:
            assert all(len(set(folds[group == GROUPS])) == 1 for group in range(50))


@each_task
def test_examples_that_share_nothing_are_scored_as_without_groups(task: Task) -> None:
    plain = build_pool(task, SKILLS, num_rows=90, num_epochs=2)
    alone = replace(plain, text_groups=np.random.default_rng(1).permutation(90))
    first, second = (select_ensemble(pool, FAST, num_repeats=2) for pool in (plain, alone))
    assert (first.num_groups, second.num_groups) == (None, 90)
    assert replace(second, num_groups=None) == first


@pytest.mark.parametrize("task", [BINARY, CLASSES], ids=["qqp", "sst"])
def test_errors_of_accuracies_are_cluster_robust(task: Task) -> None:
    pool = grouped_pool(task)
    first, second = (cross_fit(pool.only([one]), choose_single, FAST, all_rows(pool)) for one in (1, 2))
    assert first.standard_error == pytest.approx(bias_reduced_error(first.values[0], GROUPS), rel=1e-9)
    _, error = paired_difference(first, second)
    assert error == pytest.approx(bias_reduced_error(first.values[0] - second.values[0], GROUPS), rel=1e-9)


def draw_clusters(task: Task, random: np.random.Generator) -> tuple[Floats, Floats, Numbers]:
    """Values, labels and groups of 60 groups of 1 to 12 examples, whose labels and errors are partly common."""
    groups = np.repeat(np.arange(60), random.integers(1, 13, 60))
    common, own = random.normal(size=(2, 60)), random.normal(size=(2, len(groups)))
    noise = np.sqrt(0.6) * common[:, groups] + np.sqrt(0.4) * own
    if task is REGRESSION:
        return noise[0] + noise[1], noise[0], groups
    return (noise[0] > 0).astype(float), np.ones(len(groups)), groups


@pytest.mark.parametrize(("task", "true"), [(BINARY, 0.5), (REGRESSION, np.sqrt(0.5))], ids=["accuracy", "correlation"])
def test_intervals_by_groups_cover_and_those_by_examples_do_not(task: Task, true: float) -> None:
    """Of 300 samples; a share of 95 % has a standard error of 1.3 %."""
    covered = {"groups": 0, "examples": 0}
    for number in range(300):
        values, labels, groups = draw_clusters(task, np.random.default_rng(number))
        for name, own in (("groups", groups), ("examples", np.arange(len(groups)))):
            folds = np.zeros((1, len(groups)), dtype=np.intp)
            found = CrossFitted(task=task, labels=labels, values=values[None], folds=folds, groups=own)
            resampled = bootstrap(found, num_resamples=200, seed=number)
            low, high = percentile_interval(widened(resampled, found.score, found.standard_error))
            covered[name] += low <= true <= high
    assert covered["groups"] / 300 > 0.9
    assert covered["examples"] / 300 < 0.75


@pytest.mark.parametrize("groups", [np.arange(90) // 10, np.maximum(0, np.arange(90) - 73)], ids=["9", "large"])
def test_too_few_groups_show_no_difference_and_folds_are_of_single_examples(groups: Numbers) -> None:
    pool = build_pool(TASKS["sst"], SKILLS, num_rows=90)
    few = replace(pool, text_groups=groups)
    first, second = (select_ensemble(own, FAST) for own in (pool, few))
    assert second.num_groups == len(set(groups.tolist()))
    assert second.method == "single"
    for own, other in zip(second.methods, first.methods, strict=True):
        assert (own.cross_fitted, own.lead) == (other.cross_fitted, other.lead)
        assert own.interval == own.lead_interval == ()
        assert not own.is_significant
    assert select_ensemble(few, FAST, method="topk").method == "topk"  # what was asked for is done


def test_ten_groups_show_differences_with_wide_intervals() -> None:
    pool = build_pool(TASKS["sst"], SKILLS, num_rows=90)
    ten = replace(pool, text_groups=np.arange(90) // 9)
    first, second = (select_ensemble(own, FAST, method="topk").score for own in (pool, ten))
    error = [own.lead_interval[1] - own.lead_interval[0] for own in (first, second)]
    assert error[0] > 0
    fitted = cross_fit(ten, choose_best_k, FAST, all_rows(ten))
    assert fitted.degrees_over() == pytest.approx(9)
    low, high = second.interval
    quantile = stats.t.isf(0.025, 9)
    assert (high - low) / 2 == pytest.approx(quantile * fitted.standard_error, rel=0.25)
    assert (high - low) / 2 > 1.96 * fitted.standard_error
