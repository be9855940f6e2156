"""Temperatures against scipy and closed forms; calibrated selection uses no other labels."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit, softmax
from sklearn.metrics import log_loss

from mtlib.tasks import TASKS, Task
from results.ensembles.best_k import choose_best_k, choose_single
from results.ensembles.candidates import Pool
from results.ensembles.ensemble import Ensemble, ensemble_outputs, equal_ensemble, score_rows
from results.ensembles.greedy import choose_greedy
from results.ensembles.outputs import Outputs, logits_behind, outputs_of, probabilities_of
from results.ensembles.selection_method import Choose, Settings, best_candidates
from results.ensembles.stacking import choose_weights
from results.ensembles.temperature import HIGHEST, LOWEST, calibrated, find_temperatures, temper_pool
from results.stats.resampling import Numbers
from tests.results.ensembles.simulated_pools import SEVERAL, build_pool, labels_by, peeks

Floats = npt.NDArray[np.float64]

CLASSES, BINARY, REGRESSION = TASKS["sst"], TASKS["qqp"], TASKS["sts"]
SKILLS = (0.4, 1.2, 0.9, 1.1, 0.7, 1.0)
FAST = Settings(bags=3, num_steps=8, max_models=4)

each_task = pytest.mark.parametrize("task", [CLASSES, BINARY], ids=lambda task: task.name)
each_method = pytest.mark.parametrize("method", [choose_single, choose_best_k, choose_weights, choose_greedy])
few_seeds = pytest.mark.parametrize("seed", range(2))


def select_all(pool: Pool, _rows: Numbers, _settings: Settings) -> Ensemble:
    """The plain mean of all candidates."""
    return equal_ensemble(np.arange(len(pool.candidates)))


def scale_logits(pool: Pool, *factors: float) -> Pool:
    """The pool with each candidate's logits multiplied by its factor."""
    logits = logits_behind(pool.task, pool.outputs) * np.array(factors)[:, None, None]
    return replace(pool, outputs=outputs_of(pool.task, logits))


def temperatures_of(pool: Pool) -> Floats:
    return find_temperatures(pool.task, pool.outputs, pool.labels)


def plain_probs(task: Task, outputs: Outputs, temperature: float = 1.0) -> Floats:
    """Probabilities of one model's classes, by scipy, (rows, classes)."""
    values = outputs.astype(np.float64)
    if task.kind == "classes":
        return np.asarray(softmax(np.log(values) / temperature, axis=-1))
    own = expit(logit((1 + values) / 2) / temperature)
    return np.concatenate([1 - own, own], axis=-1)


def plain_loss(pool: Pool, candidate: int, temperature: float) -> float:
    """The mean negative log-likelihood, by scikit-learn."""
    probs = plain_probs(pool.task, pool.outputs[candidate], temperature)
    return float(log_loss(pool.labels, probs, labels=np.arange(pool.task.num_classes)))


def plain_temperature(pool: Pool, candidate: int) -> float:
    """The best temperature, by scipy."""
    bounds = (np.log(LOWEST), np.log(HIGHEST))
    found = minimize_scalar(
        lambda log: plain_loss(pool, candidate, float(np.exp(log))),
        bounds=bounds,
        method="bounded",
        options={"xatol": 1e-7},
    )
    return float(np.exp(found.x))


@each_task
@few_seeds
def test_temperatures_match_scipy(task: Task, seed: int) -> None:
    pool = scale_logits(build_pool(task, SKILLS, num_rows=150, seed=seed), 0.1, 0.3, 0.6, 1, 2, 3)
    expected = [plain_temperature(pool, candidate) for candidate in range(len(SKILLS))]
    assert len(set(np.round(expected, 2))) == len(SKILLS)
    np.testing.assert_allclose(temperatures_of(pool), expected, rtol=1e-3)  # the minimum is this flat


@each_task
@pytest.mark.parametrize("skill", [0.5, 2.0])
def test_signal_in_normal_noise_has_the_temperature_of_its_density(task: Task, skill: float) -> None:
    """Skill times the label's signal plus noise x of variance 1: the log-ratio of densities is skill times x, or twice
    that between signals of -1 and 1.
    """
    pool = build_pool(task, [skill], num_rows=40_000)
    expected = 1 / skill if task is CLASSES else 1 / (2 * skill)
    assert temperatures_of(pool)[0] == pytest.approx(expected, rel=0.05)


def test_constant_probability_becomes_the_share_of_the_label() -> None:
    labels = np.array([1] * 7 + [0] * 3)
    outputs = np.full((1, 10, 1), 2 * 0.9 - 1, dtype=np.float32)
    assert find_temperatures(BINARY, outputs, labels)[0] == pytest.approx(logit(0.9) / logit(0.7), rel=1e-5)
    probs = np.array([[[0.6, 0.1, 0.1, 0.1, 0.1]] * 10], dtype=np.float32)
    labels = np.array([0] * 4 + [1, 2, 2, 3, 4, 4])
    expected = np.log(6) / np.log(4 * 0.4 / 0.6)  # exp(z/T) / (exp(z/T) + 4) = 0.4, z = log(0.6 / 0.1)
    assert find_temperatures(CLASSES, probs, labels)[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("share", [0.6, 0.5, 0.4])
def test_constant_no_better_than_chance_gets_the_highest_temperature(share: float) -> None:
    labels = (np.arange(10) < 10 * share).astype(np.float64)
    outputs = np.full((1, 10, 1), -0.8 if share > 0.5 else 0.8, dtype=np.float32)
    assert find_temperatures(BINARY, outputs, labels)[0] == HIGHEST


@each_task
@pytest.mark.filterwarnings("error")
def test_equal_probabilities_have_a_temperature_of_1(task: Task) -> None:
    equal = np.full((2, 4, task.num_logits), 1 / task.num_classes if task is CLASSES else 0, dtype=np.float32)
    assert find_temperatures(task, equal, np.array([0.0, 1, 1, 0])).tolist() == [1, 1]


@each_task
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("num_rows", [1, 30])
@pytest.mark.parametrize("factor", [0.01, 1e4])
def test_always_right_and_never_right_reach_the_bounds(task: Task, num_rows: int, factor: float) -> None:
    pool = scale_logits(build_pool(task, [0.5], num_rows=num_rows), factor)
    right = labels_by(pool, 0)
    wrong = (right + 1) % task.num_classes
    assert find_temperatures(task, pool.outputs, right).tolist() == [LOWEST]
    sided = (
        pool.outputs if task is BINARY else np.sort(pool.outputs, axis=-1)
    )  # the least likely class is the right one
    labels = wrong if task is BINARY else np.zeros(num_rows)
    assert find_temperatures(task, sided, labels).tolist() == [HIGHEST]


@each_task
@pytest.mark.parametrize(("factor", "expected"), [(18.0, 18.0), (25.0, HIGHEST), (0.06, 0.06), (0.04, LOWEST)])
def test_temperatures_are_found_up_to_the_bounds(task: Task, factor: float, expected: float) -> None:
    pool = build_pool(task, [0.1], num_rows=20_000)  # certainty, which has no finite logit, is far away
    right = temper_pool(pool, temperatures_of(pool))
    assert temperatures_of(scale_logits(right, factor))[0] == pytest.approx(expected, rel=1e-3)


@each_task
def test_no_rows_give_a_temperature_of_1_and_no_candidates_none(task: Task) -> None:
    outputs = build_pool(task, SKILLS).outputs
    assert find_temperatures(task, outputs[:2, :0], np.zeros(0)).tolist() == [1, 1]
    assert find_temperatures(task, outputs[:0], np.zeros(120)).tolist() == []


@each_task
@each_method
def test_members_and_weights_are_those_found_among_tempered_candidates(task: Task, method: Choose) -> None:
    pool, rows = build_pool(task, SKILLS, num_rows=60, num_epochs=2, correlation=0.2), np.arange(5, 50)
    pool = scale_logits(pool, *np.geomspace(0.2, 5, 12))
    best = best_candidates(pool, rows)
    fitted = find_temperatures(task, pool.outputs[best][:, rows], pool.labels[rows])
    expected = method(temper_pool(pool.only(best), fitted), rows, FAST)
    found = calibrated(method)(pool, rows, FAST)
    assert found.members == tuple(best[list(expected.members)])
    assert found.weights == expected.weights
    assert found.temperatures == tuple(fitted[list(expected.members)])


@each_task
@each_method
def test_selection_does_not_depend_on_labels_of_other_rows(task: Task, method: Choose) -> None:
    pool = build_pool(task, SKILLS[:4], num_rows=50, num_epochs=2)
    assert not peeks(calibrated(method), pool, np.arange(0, 50, 2), FAST)


@each_task
def test_overconfident_weak_model_no_longer_dominates(task: Task) -> None:
    pool = build_pool(task, [0.9, 0.9, 0.9, 0.9, 0.1], num_rows=3000, correlation=0)
    pool = scale_logits(pool, 0.3, 0.3, 0.3, 0.3, 10)
    rows, new = np.arange(400), np.arange(400, 3000)
    plain, warned = (method(pool, rows, FAST) for method in (select_all, calibrated(select_all)))
    before, after = (score_rows(pool, ensemble_outputs(pool, one, new), new) for one in (plain, warned))
    alone = score_rows(pool, pool.outputs[4, new], new)
    assert before < alone + 0.1
    assert after > before + 0.2
    assert warned.temperatures is not None
    assert warned.members[-1] == 4
    assert max(warned.temperatures[:-1]) < 1 < 15 < warned.temperatures[-1]


@each_task
def test_calibrated_probabilities_of_new_rows_have_lower_loss(task: Task) -> None:
    pool, rows, new = build_pool(task, [1.0], num_rows=1500), np.arange(500), np.arange(500, 1500)
    pool = scale_logits(pool, 6.0)
    chosen = calibrated(choose_single)(pool, rows, FAST)
    found = probabilities_of(task, ensemble_outputs(pool, chosen, new))
    found /= found.sum(axis=1, keepdims=True)  # 1 up to the last digit
    labels = np.arange(task.num_classes)
    plain = log_loss(pool.labels[new], plain_probs(task, pool.outputs[0, new]), labels=labels)
    assert log_loss(pool.labels[new], found, labels=labels) < 0.7 * plain


@pytest.mark.parametrize("method", [choose_single, choose_best_k, choose_weights, choose_greedy])
def test_regression_selection_is_unchanged(method: Choose) -> None:
    pool = build_pool(REGRESSION, SKILLS, num_rows=60, num_epochs=2)
    found = calibrated(method)(pool, np.arange(40), FAST)
    assert found == method(pool, np.arange(40), FAST)
    assert found.temperatures is None


@each_task
@pytest.mark.parametrize(("num_considered", "max_models", "expected"), [(1, 1, 2), (3, 1, 3), (1, 2, 4), (50, 10, 6)])
def test_only_best_epochs_of_the_best_trials_are_considered(
    task: Task, num_considered: int, max_models: int, expected: int
) -> None:
    pool, rows, seen = build_pool(task, SKILLS, num_rows=60, num_epochs=3), np.arange(40), []

    def record_pool(shown: Pool, shown_rows: Numbers, settings: Settings) -> Ensemble:
        seen.append((shown.candidates, shown_rows, settings))
        return equal_ensemble(np.array([len(shown.candidates) - 1]))

    before, settings = pool.outputs.copy(), replace(FAST, num_considered=num_considered, max_models=max_models)
    chosen = calibrated(record_pool)(pool, rows, settings)
    ((candidates, shown_rows, given),) = seen
    best = best_candidates(pool, rows)[:expected]
    assert candidates == tuple(pool.candidates[number] for number in best)
    assert chosen.members == (best[-1],)
    assert given is settings
    np.testing.assert_array_equal(shown_rows, rows)
    np.testing.assert_array_equal(pool.outputs, before)


def test_temperature_of_several_labels_matches_scipy() -> None:
    pool = build_pool(SEVERAL, [2.0], num_rows=400)
    logits = logits_behind(SEVERAL, pool.outputs[0])

    def loss(log_temperature: float) -> float:
        return float(log_loss(pool.labels.ravel(), expit(logits.ravel() / np.exp(log_temperature))))

    expected = np.exp(minimize_scalar(loss, bounds=(-2, 2), method="bounded", options={"xatol": 1e-7}).x)
    np.testing.assert_allclose(temperatures_of(pool), [expected], rtol=1e-3)
