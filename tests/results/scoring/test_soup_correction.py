"""What is taken off a soup's score is what epochs kept by all of dev are worth, and what is left is right."""

from dataclasses import replace

import numpy as np
import pytest

from mtlib.tasks import TASKS, Task
from results.ensembles.best_k import choose_single
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import ensemble_outputs, score_rows
from results.ensembles.selection_method import Choose, Settings, best_candidates
from results.ensembles.soup import uniform_soup
from results.records.selection import MethodScore
from results.scoring.base_configuration import BaseConfiguration
from results.scoring.cross_fitting import cross_fit
from results.scoring.method_scores import (
    Baselines,
    EvaluatedMethod,
    adjusted_scores,
    compare_with_baselines,
    evaluate_base,
    evaluate_fitted,
)
from results.scoring.soup_correction import correct_soup
from tests.results.scoring.plain_selection import all_rows, compare
from tests.results.scoring.simulated_pools import build_pool

BINARY = TASKS["qqp"]
FAST = Settings(max_models=3, num_folds=4)
SKILLS = (0.3, 0.9, 0.7, 0.8)
NUM_POOLS = 80
BASE = BaseConfiguration(places=frozenset({("sweep", 0)}))

each_task = pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))


def attempt(name: str, method: Choose, pool: Pool) -> EvaluatedMethod:
    """A way that is cross-fitted twice; means of outputs stand for soups."""
    fitted = cross_fit(pool, method, FAST, all_rows(pool), num_repeats=2)
    return evaluate_fitted(name, fitted, FAST, in_sample=0.75, num_models=2)


def soup_of(pool: Pool) -> EvaluatedMethod:
    return attempt("soup_uniform", uniform_soup(np.zeros(len(pool.candidates), dtype=np.intp)), pool)


def corrected(soup: EvaluatedMethod, baselines: Baselines, kept_single: EvaluatedMethod) -> MethodScore:
    return adjusted_scores([correct_soup(soup, baselines, kept_single)])[0]


def best_of(pool: Pool) -> Pool:
    """The best epoch of each trial by all rows, as a sweep keeps it."""
    return pool.only(np.sort(best_candidates(pool, all_rows(pool))))


@each_task
def test_correction_is_zero_where_all_weights_are_kept(task: Task) -> None:
    pool = build_pool(task, SKILLS, num_epochs=2)
    soup, single, base = soup_of(pool), attempt("single", choose_single, pool), evaluate_base(pool, BASE, FAST, 2)
    found = corrected(soup, Baselines(single=single, base=base), single)
    (plain,) = adjusted_scores([compare_with_baselines(soup, Baselines(single=single, base=base))])
    assert (found.name, found.in_sample, found.num_models) == ("soup_uniform", 0.75, 2)
    for name in ("cross_fitted", "standard_error", "lead", "base_lead"):
        assert getattr(found, name) == pytest.approx(getattr(plain, name), abs=1e-12)
    for name in ("interval", "lead_interval", "base_lead_interval"):
        assert getattr(found, name) == pytest.approx(getattr(plain, name), abs=1e-12)


@each_task
def test_correction_is_the_single_models_bias_of_kept_epochs(task: Task) -> None:
    pool = build_pool(task, [0.6] * 4, num_rows=200, num_epochs=6)
    kept = best_of(pool)
    soup, single, kept_single = soup_of(kept), *(attempt("single", choose_single, own) for own in (pool, kept))
    base = evaluate_base(pool, BASE, FAST, 2)
    assert base is not None
    found = corrected(soup, Baselines(single=single, base=base), kept_single)
    owed = kept_single.fitted.score - single.fitted.score
    assert owed != 0
    assert found.cross_fitted == pytest.approx(soup.fitted.score - owed)
    assert found.lead == pytest.approx(compare(soup.fitted, kept_single.fitted)[0])
    assert found.lead == pytest.approx(found.cross_fitted - single.fitted.score)
    assert found.base_lead == pytest.approx(found.cross_fitted - base.fitted.score)
    error = compare(soup.fitted, kept_single.fitted)[1]
    assert found.lead_interval[1] - found.lead_interval[0] == pytest.approx(2 * 1.96 * error, rel=0.2)
    assert found.interval[0] < found.cross_fitted < found.interval[1]
    without = corrected(soup, Baselines(single=single), kept_single)
    wider = without.lead_interval[1] - without.lead_interval[0] <= found.lead_interval[1] - found.lead_interval[0]
    assert wider  # fewer comparisons
    assert replace(without, lead_interval=found.lead_interval) == replace(found, base_lead=None, base_lead_interval=())


def test_sums_and_differences_apply_to_every_part() -> None:
    first, second = (attempt("any", choose_single, build_pool(BINARY, SKILLS, seed=s)).estimate for s in (0, 1))
    assert (first + second - second).score == pytest.approx(first.score)
    zero = first - first
    assert (zero.score, zero.standard_error, zero.interval) == (0, 0, (0, 0))
    assert (first + second).score == pytest.approx(first.score + second.score)
    np.testing.assert_array_equal((first - second).influences, first.influences - second.influences)
    np.testing.assert_array_equal((first - second).resampled, first.resampled - second.resampled)


def test_score_stays_within_the_metrics_range() -> None:
    """All is right with the soup, and kept epochs of the single model seem to be worth less than nothing."""
    pool = build_pool(BINARY, [50.0, 50.0], num_rows=40)
    worse = build_pool(BINARY, [0.5, 0.5], num_rows=40)
    soup, single, kept = soup_of(pool), attempt("single", choose_single, pool), attempt("single", choose_single, worse)
    found = corrected(soup, Baselines(single=single), kept)
    assert found.cross_fitted == 1
    assert found.interval[1] <= 1
    low = corrected(replace(kept, name="soup_uniform"), Baselines(single=kept), soup)
    assert 0 <= low.interval[0] <= low.cross_fitted


def test_corrected_score_is_unbiased_and_plain_score_is_too_high() -> None:
    """Half of the noise is common to all trials; where none is, about a third of what was too high stays."""
    plain, owed_less = [], []
    for seed in range(NUM_POOLS):
        whole = build_pool(BINARY, [0.4] * 6, num_rows=1150, num_epochs=8, correlation=0.5, seed=seed)
        rows, new = np.arange(150), np.arange(150, 1150)
        pool = replace(whole, ids=whole.ids[:150], labels=whole.labels[:150], outputs=whole.outputs[:, :150])
        kept_numbers = np.sort(best_candidates(pool, rows))
        kept, kept_whole = pool.only(kept_numbers), whole.only(kept_numbers)
        method = uniform_soup(np.zeros(len(kept_numbers), dtype=np.intp))
        soup = attempt("soup_uniform", method, kept)
        single, kept_single = (attempt("single", choose_single, own) for own in (pool, kept))
        truth = score_rows(kept_whole, ensemble_outputs(kept_whole, method(kept, rows, FAST), new), new)
        plain.append(soup.fitted.score - truth)
        found = corrected(soup, Baselines(single=single), kept_single)
        owed_less.append(found.cross_fitted - truth)
    errors = [np.std(own, ddof=1) / np.sqrt(NUM_POOLS) for own in (plain, owed_less)]
    assert np.mean(plain) > 3 * errors[0]
    assert abs(np.mean(owed_less)) < 3 * errors[1] < 0.05
