"""A selected soup is scored as one model, cross-fitted, and predicts the outputs that it was scored by."""

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.tasks import TASKS, Task
from results.analysis.comparison.bootstrap import Numbers
from results.ensembles.best_k import choose_single
from results.ensembles.candidates import Pool, read_pool
from results.ensembles.ensemble import score_rows
from results.ensembles.folds import assign_folds, iter_folds
from results.ensembles.methods import AUTOMATIC, GREEDY_SOUP, UNIFORM_SOUP
from results.ensembles.outputs import Outputs
from results.ensembles.selection_method import Settings, best_candidates
from results.ensembles.soup import PredictSoup, greedy_soup, predict_once, soup_outputs, uniform_soup
from results.inference.dev_texts import read_dev_texts
from results.inference.models import ModelSource
from results.inference.predictor import load_predictor, predict_texts, tokenize_rows
from results.records.selection import MethodScore, Selection, TaskSelection
from results.records.trials import write_sweep
from results.scoring.base_configuration import BaseConfiguration
from results.scoring.cross_fitting import cross_fit
from results.selection.select_ensemble import automatic_method, one_standard_error_rule, select_ensemble
from results.selection.select_soup import can_be_averaged, choose_soups, model_predictions, select_soup
from tests.results.inference.trained_sweep import selection_of
from tests.results.scoring.plain_selection import all_rows, without_leads
from tests.results.scoring.simulated_pools import build_pool, keeping, peeks
from tests.results.selection.soup_sweep import ALIKE, OTHER, train_soup_sweep

CLASSES, BINARY, REGRESSION = TASKS["sst"], TASKS["qqp"], TASKS["sts"]
SKILLS = (0.5, 0.7, 0.6, 0.65)
FAST = Settings(max_models=3, num_folds=4)
BASE = BaseConfiguration(places=frozenset({("sweep", 0)}))

each_task = pytest.mark.parametrize("task", TASKS.values(), ids=list(TASKS))


def alike(pool: Pool) -> Numbers:
    return np.zeros(len(pool.candidates), dtype=np.intp)


def simulated_soups(pool: Pool) -> PredictSoup:
    """The mean of what its members say, and a little more."""

    def predict(members: tuple[int, ...]) -> Outputs:
        mean = pool.outputs[list(members)].mean(0)
        return np.asarray(mean + np.random.default_rng(members).normal(0, 0.03, mean.shape), dtype=np.float32)

    return predict


@cache
def simulated(task: str) -> Pool:
    """Three epochs of each trial, of which the best one was kept."""
    pool = build_pool(TASKS[task], SKILLS, num_rows=100, num_epochs=3)
    return keeping(pool, set(best_candidates(pool, all_rows(pool)).tolist()))


@cache
def selected(task: str) -> TaskSelection:
    pool = simulated(task)
    kept = can_be_averaged(pool)
    return select_soup(pool, kept, FAST, simulated_soups(kept), alike(kept), num_repeats=2, base=BASE)


def named(found: TaskSelection, name: str) -> MethodScore:
    return next(score for score in found.methods if score.name == name)


@each_task
def test_both_kinds_of_soup_are_compared_with_the_best_single_model(task: Task) -> None:
    found, plain = (
        selected(task.name),
        select_ensemble(simulated(task.name), FAST, method="single", num_repeats=2, base=BASE),
    )
    assert [score.name for score in found.methods] == ["base", "single", UNIFORM_SOUP, GREEDY_SOUP]
    assert without_leads(*found.methods[:2]) == without_leads(*plain.methods)
    assert found.is_soup
    assert found.method in (UNIFORM_SOUP, GREEDY_SOUP)
    assert found.automatic is not None
    assert (found.automatic.name, found.automatic.in_sample) == (AUTOMATIC, named(found, found.method).in_sample)
    assert replace(found, method="single", members=plain.members, methods=plain.methods, automatic=None) == replace(
        plain, is_soup=True, trade_offs=()
    )


@each_task
def test_members_are_those_of_all_rows_with_equal_weights(task: Task) -> None:
    found, kept = selected(task.name), can_be_averaged(simulated(task.name))
    assert all(candidate.has_weights for candidate in kept.candidates)
    for name, method in (
        (UNIFORM_SOUP, uniform_soup(alike(kept))),
        (GREEDY_SOUP, greedy_soup(predict_once(kept, simulated_soups(kept)), alike(kept))),
    ):
        chosen = method(kept, all_rows(kept), FAST)
        score = named(found, name)
        assert score.num_models == len(chosen.members)
        outputs = predict_once(kept, simulated_soups(kept))(tuple(sorted(chosen.members)))
        assert score.in_sample == pytest.approx(score_rows(kept, outputs, all_rows(kept)))
        if found.method == name:
            trials = [(member.trial, member.epoch, member.weight) for member in found.members]
            members = [kept.candidates[number] for number in chosen.members]
            assert trials == [(one.trial, one.epoch, 1 / len(members)) for one in members]


@each_task
def test_score_is_cross_fitted_and_corrected_for_kept_epochs(task: Task) -> None:
    pool, found = simulated(task.name), selected(task.name)
    kept = can_be_averaged(pool)
    rows, once = all_rows(kept), predict_once(kept, simulated_soups(kept))
    generator, scores = np.random.default_rng((FAST.seed, len(rows), 1)), list[float]()
    for _ in range(2):
        folds, outputs = assign_folds(kept.labels, 4, generator), np.empty(kept.outputs.shape[1:])
        for outside, inside in iter_folds(folds):
            soup = greedy_soup(once, alike(kept))(kept, outside, FAST)
            outputs[inside] = once(tuple(sorted(soup.members)))[inside]
        parts = [np.flatnonzero(folds == fold) for fold in range(4)] if task is REGRESSION else [rows]
        own = [score_rows(kept, outputs[part], part) for part in parts]
        scores.append(float(np.average(own, weights=[len(part) for part in parts])))
    single, kept_single = (cross_fit(one, choose_single, FAST, rows, num_repeats=2).score for one in (pool, kept))
    score = named(found, GREEDY_SOUP)
    assert score.cross_fitted == pytest.approx(np.mean(scores) + single - kept_single)
    assert score.lead == pytest.approx(np.mean(scores) - kept_single)
    assert score.base_lead == pytest.approx(score.cross_fitted - named(found, "base").cross_fitted)


@each_task
def test_greedy_soup_is_in_sample_no_worse_than_the_best_single_model(task: Task) -> None:
    found = selected(task.name)
    assert named(found, GREEDY_SOUP).in_sample >= named(found, "single").in_sample - 1e-6


@each_task
def test_choosing_between_the_two_uses_no_other_rows(task: Task) -> None:
    pool, rows = build_pool(task, SKILLS, num_rows=60), np.arange(40)
    once = predict_once(pool, simulated_soups(pool))
    methods = {UNIFORM_SOUP: uniform_soup(alike(pool)), GREEDY_SOUP: greedy_soup(once, alike(pool))}
    choose = automatic_method(methods, soup_outputs(once))
    assert not peeks(choose, pool, rows, FAST)
    fitted = {name: cross_fit(pool, method, FAST, rows, combine=soup_outputs(once)) for name, method in methods.items()}
    assert choose(pool, rows, FAST) == methods[one_standard_error_rule(fitted)](pool, rows, FAST)


def test_uniform_soup_is_selected_within_one_standard_error() -> None:
    """A soup with the bad trial is bad: the uniform one has it, the greedy one leaves it out."""
    pool = build_pool(BINARY, (1.5, 1.5, 0.2), num_rows=200)

    def predict(members: tuple[int, ...]) -> Outputs:
        return np.asarray(pool.outputs[[2]][0] if 2 in members else pool.outputs[list(members)].mean(0))

    assert select_soup(pool, pool, FAST, predict, alike(pool)).method == GREEDY_SOUP
    same = build_pool(BINARY, (1.5, 1.5, 1.5), num_rows=200)
    found = select_soup(same, same, FAST, simulated_soups(same), alike(same))
    assert (found.method, len(found.members)) == (UNIFORM_SOUP, 3)


def test_no_soup_is_computed_twice() -> None:
    pool, calls = build_pool(CLASSES, SKILLS, num_rows=60, num_epochs=2), list[tuple[int, ...]]()

    def predict(members: tuple[int, ...]) -> Outputs:
        calls.append(members)
        return simulated_soups(pool)(members)

    select_soup(pool, pool, FAST, predict, alike(pool), num_repeats=2)
    assert len(calls) == len(set(calls))
    assert 1 < len(calls) <= (1 + 2 * 4 * 5) * 4


def test_copies_count_once_and_candidates_without_weights_not() -> None:
    pool = build_pool(BINARY, SKILLS, num_rows=40)
    twice = replace(pool, outputs=pool.outputs[[0, 1, 1, 3]])
    kept = can_be_averaged(keeping(twice, {0, 2}))
    assert [candidate.number for candidate in kept.candidates] == [0, 2]
    with pytest.raises(ValueError, match=r"^some candidate of qqp must have its weights still, got none$"):
        can_be_averaged(keeping(twice, ()))


@pytest.mark.filterwarnings("error")
def test_one_candidate_is_its_own_soup() -> None:
    def refuse_to_predict(members: tuple[int, ...]) -> Outputs:
        raise AssertionError(f"{members} must not be evaluated")

    pool = build_pool(REGRESSION, [0.7], num_rows=30)
    for own in (pool, replace(pool, outputs=np.full_like(pool.outputs, 2.5))):
        found = select_soup(own, own, FAST, refuse_to_predict, alike(own), num_repeats=2)
        assert (found.method, len(found.members)) == (UNIFORM_SOUP, 1)
        single = named(found, "single")
        assert all(score.cross_fitted == pytest.approx(single.cross_fitted) for score in found.methods)
        assert found.score.lead == 0


def test_too_few_examples_are_one_line() -> None:
    pool = build_pool(CLASSES, SKILLS, num_rows=2)
    line = r"^examples of sst to select by must be at least 3 \(give its dev set more rows\), got 2$"
    with pytest.raises(ValueError, match=line):
        select_soup(pool, pool, FAST, simulated_soups(pool), alike(pool))


@pytest.fixture(scope="module")
def soup_folder(
    tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> Path:
    """A trained sweep, not to be changed."""
    return train_soup_sweep(tmp_path_factory.mktemp("soups") / "mine", tiny_folder, tiny_corpus, tiny_encoder)


def source_of(folder: Path) -> ModelSource:
    return ModelSource(places={str(folder): folder}, device="cpu")


def choose(folder: Path, task: str, data: Path | None = None, lines: list[str] | None = None) -> TaskSelection:
    said = (lambda _line: None) if lines is None else lines.append
    settings = replace(FAST, num_folds=3)
    return choose_soups(
        read_pool([folder], TASKS[task]), settings, source=source_of(folder), data=data, on_progress=said
    )


def selection_with(folder: Path, task: str, found: TaskSelection) -> Selection:
    return replace(selection_of(folder, {}), tasks={task: found})


@pytest.mark.parametrize("task", TASKS)
def test_soup_of_a_sweep_has_its_selected_score(task: str, soup_folder: Path) -> None:
    lines: list[str] = []
    found, pool = choose(soup_folder, task, lines=lines), read_pool([soup_folder], TASKS[task])
    assert {member.trial for member in found.members} <= set(ALIKE) or found.members[0].trial == OTHER
    predictor = load_predictor(selection_with(soup_folder, task, found), task, source_of(soup_folder))
    assert len(predictor.models) == 1
    outputs = predict_texts(predictor, read_dev_texts(soup_folder, task, pool.ids))
    assert score_rows(pool, outputs, all_rows(pool)) == pytest.approx(named(found, found.method).in_sample, abs=1e-4)
    assert len(lines) == len(set(lines)) >= 1
    title = TASKS[task].title
    assert lines[0].startswith(f"{title}: soup 1 of at most ")
    most = int(lines[0].split("at most ")[1].split(":")[0].replace(",", ""))
    assert len(lines) <= most
    assert lines[-1].startswith(f"{title}: soup {len(lines)} of at most {most}: ")
    assert all(" models, " in line and line.endswith(" on dev") for line in lines)


def test_a_soup_of_one_real_model_has_its_recorded_predictions(soup_folder: Path) -> None:
    kept = can_be_averaged(read_pool([soup_folder], TASKS["sst"]))
    predict = model_predictions(kept, read_dev_texts(soup_folder, "sst", kept.ids), source_of(soup_folder))
    for number in range(len(kept.candidates)):
        assert np.abs(predict((number,)) - kept.outputs[number]).max() <= 1e-5
    with pytest.raises(ValueError, match="must have one encoder and one shape"):
        predict(tuple(range(len(kept.candidates))))


def test_texts_are_tokenized_once(soup_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def cut(*arguments: Any) -> Corpus:
        calls.append(arguments)
        return tokenize_rows(*arguments)

    monkeypatch.setattr("results.selection.select_soup.tokenize_rows", cut)
    choose(soup_folder, "qqp")
    assert len(calls) == 1


def test_moved_data_are_read_and_missing_data_are_one_line(
    soup_folder: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(soup_folder, tmp_path / "mine"))
    write_sweep(folder, {"name": "mine", "data": {"folder": str(tmp_path / "gone")}})
    with pytest.raises(ValueError, match=r"^the data folder of .*named with --data, got no folder /.*/gone$"):
        choose(folder, "sts")
    found = choose(folder, "sts", tiny_folder)
    assert found.methods == choose(soup_folder, "sts").methods


def test_damaged_weights_are_one_line(soup_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(soup_folder, tmp_path / "mine"))
    for path in folder.glob("trials/*/checkpoint/weights/*.safetensors"):
        path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ValueError, match=r"^weights must be whole, .*safetensors is truncated or damaged: .*$"):
        choose(folder, "sst")
