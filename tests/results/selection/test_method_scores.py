"""Selection methods are scored by cross-fitting and compared with the best single model and the base configuration."""

from dataclasses import replace

import numpy as np
import pytest

from mtlib.tasks import TASKS, Task
from results.ensembles.best_k import choose_best_k, choose_single
from results.ensembles.candidates import Pool
from results.ensembles.methods import BASE
from results.ensembles.selection_method import Settings
from results.selection.base_configuration import NO_BASE, BaseConfiguration
from results.selection.cross_fitting import cross_fit
from results.selection.method_scores import (
    EvaluatedMethod,
    clip_to_metric,
    evaluate_base,
    evaluate_method,
    method_scores,
)
from tests.results.ensembles.simulated_pools import build_pool
from tests.results.selection.plain_selection import all_rows, compare, plain_score

FAST = Settings(max_models=3, num_folds=4)
SKILLS = (0.3, 0.9, 0.7, 0.8)
each_task = pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))


def try_best_k(pool: Pool) -> EvaluatedMethod:
    chosen = choose_best_k(pool, all_rows(pool), FAST)
    return evaluate_method("topk", choose_best_k, pool, FAST, 2, chosen=chosen, kept=pool)


def try_single(pool: Pool) -> EvaluatedMethod:
    chosen = choose_single(pool, all_rows(pool), FAST)
    return evaluate_method("single", choose_single, pool, FAST, 2, chosen=chosen, kept=pool)


@each_task
def test_method_is_scored_by_cross_fitting_and_in_sample(task: Task) -> None:
    pool = build_pool(task, SKILLS)
    found = try_best_k(pool)
    chosen = choose_best_k(pool, all_rows(pool), FAST)
    assert found.fitted.score == cross_fit(pool, choose_best_k, FAST, all_rows(pool), num_repeats=2).score
    assert found.in_sample == pytest.approx(plain_score(pool, chosen))
    assert found.num_models == len(chosen.members)


@each_task
def test_leads_are_paired_differences_of_cross_fitted_scores(task: Task) -> None:
    pool = build_pool(task, SKILLS, num_rows=300)
    found, single = try_best_k(pool), try_single(pool)
    base = evaluate_base(pool, BaseConfiguration(places=frozenset({("sweep", 0)})), FAST, 2)
    assert base is not None
    (score,) = method_scores([found], single, base)
    assert score.base_lead is not None
    assert score.lead == pytest.approx(found.fitted.score - single.fitted.score)
    assert score.base_lead == pytest.approx(found.fitted.score - base.fitted.score)
    for lead, bounds, other in (
        (score.lead, score.lead_interval, single),
        (score.base_lead, score.base_lead_interval, base),
    ):
        error = compare(found.fitted, other.fitted)[1]
        assert np.mean(bounds) == pytest.approx(lead)
        assert 2 * 1.96 * error <= bounds[1] - bounds[0] <= 2 * 2.5 * error  # two comparisons at once


@each_task
def test_base_is_its_best_replicate_and_epoch_selected_without_the_fold(task: Task) -> None:
    pool = build_pool(task, SKILLS, num_epochs=2)
    candidates = tuple(replace(one, number=one.number // 2) for one in pool.candidates)
    pool = replace(pool, candidates=candidates)  # trials 0 and 1 are replicates of configuration 0
    base = evaluate_base(pool, BaseConfiguration(places=frozenset({("sweep", 0)})), FAST, 2)
    assert base is not None
    own = pool.only(range(4))
    assert base.name == BASE
    assert base.num_models == 1
    assert base.fitted.score == cross_fit(own, choose_single, FAST, all_rows(pool), num_repeats=2).score
    assert base.in_sample == pytest.approx(plain_score(own, choose_single(own, all_rows(pool), FAST)))


def test_without_a_base_there_is_no_lead_over_it() -> None:
    pool = build_pool(TASKS["sst"], SKILLS)
    assert evaluate_base(pool, NO_BASE, FAST, 2) is None
    (score,) = method_scores([try_single(pool)], try_single(pool), None)
    assert score.base_lead is None
    assert score.base_lead_interval == ()


@pytest.mark.parametrize(
    ("task", "bounds", "inside"),
    [
        ("sst", (-0.1, 0.3), (0.0, 0.3)),
        ("qqp", (0.9, 1.1), (0.9, 1.0)),
        ("sts", (-0.1, 0.3), (-0.1, 0.3)),
        ("sts", (-1.2, 1.2), (-1.0, 1.0)),
        ("sst", (0.2, 0.3), (0.2, 0.3)),
    ],
)
def test_intervals_end_at_the_metrics_bounds(
    task: str, bounds: tuple[float, float], inside: tuple[float, float]
) -> None:
    assert clip_to_metric(TASKS[task], bounds) == inside


def test_interval_of_a_nearly_perfect_score_does_not_exceed_1() -> None:
    pool = build_pool(TASKS["qqp"], [2.5, 2.5, 2.5], num_rows=60)
    (score,) = method_scores([try_single(pool)], try_single(pool), None)
    assert score.cross_fitted > 0.9
    assert score.interval[1] == 1.0
