"""Ranking, folds, ensembles and selection of sweeps whose tasks have other metrics than the papers'."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy import stats
from sklearn import metrics as reference

from mtlib.metrics.table import METRICS
from mtlib.tasks import TASKS
from results.analysis.comparison.bootstrap import Floats, bootstrap_scores
from results.analysis.sweep import load_sweep
from results.ensembles.candidates import read_pool
from results.ensembles.ensemble import ensemble_outputs, equal_ensemble, score_rows
from results.ensembles.greedy import addition_scorer
from results.ensembles.methods import methods_for
from results.ensembles.outputs import predictions_of, values_of
from results.ensembles.selection_method import Settings, best_candidates, candidate_scores, sum_scores
from results.scoring.cross_fitting import cross_fit
from results.selection.report import render_selection
from results.selection.select_all import SelectionRequest, select_from
from tests.results.ensembles.test_ensemble import build_pool
from tests.results.selection.scored_sweep import build_sweep

FIRST = {"sst": "macro_f1", "qqp": "average_precision", "sts": "rmse"}
SECOND = {"sst": "matthews", "qqp": "f1", "sts": "spearman"}
KIND_TASKS = {"classes": "sst", "binary": "qqp", "regression": "sts"}
PAIRS = [(KIND_TASKS[kind], name) for name, metric in METRICS.items() for kind in metric.kinds]

each_metric = pytest.mark.parametrize(("task", "metric"), PAIRS)


@pytest.fixture(params=[FIRST, SECOND], ids=["first", "second"])
def sweep(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three trials, the last one the best, of tasks with these metrics."""
    for task, metric in request.param.items():
        monkeypatch.setitem(TASKS, task, replace(TASKS[task], metric=metric))
    return build_sweep(tmp_path / "mine", 0.4, 0.7, 1.0)


def value_by_reference(metric: str, labels: Floats, outputs: Floats, predictions: Floats) -> float:
    """The metric by scikit-learn or scipy."""
    found: dict[str, Callable[[], float]] = {
        "accuracy": lambda: (predictions == labels).mean(),
        "macro_f1": lambda: reference.f1_score(labels, predictions, average="macro"),
        "f1": lambda: reference.f1_score(labels, predictions),
        "matthews": lambda: reference.matthews_corrcoef(labels, predictions),
        "average_precision": lambda: reference.average_precision_score(labels, outputs[:, 0]),
        "pearson": lambda: stats.pearsonr(labels, outputs[:, 0]).statistic,
        "spearman": lambda: float(np.asarray(stats.spearmanr(labels, outputs[:, 0]).statistic)),
        "rmse": lambda: np.sqrt(((outputs[:, 0] - labels) ** 2).mean()),
    }
    return float(found[metric]())


@each_metric
def test_sums_and_additions_are_scored_as_the_mean_of_outputs(task: str, metric: str) -> None:
    pool = build_pool(replace(TASKS[task], metric=metric), rows=80)
    rows = np.arange(5, 80)
    margins, pair = pool.margins(np.arange(4), rows), equal_ensemble(np.array([0, 2]))
    mean = ensemble_outputs(pool, pair, rows)
    wanted = value_by_reference(metric, pool.labels[rows], mean, predictions_of(pool.task, mean))
    wanted = METRICS[metric].score_of(wanted)
    assert score_rows(pool, mean, rows) == pytest.approx(wanted)
    assert sum_scores(pool, margins[[0]] + margins[[2]], rows, 2)[0] == pytest.approx(wanted, abs=1e-6)
    assert addition_scorer(pool, margins, rows)(margins[0], 2)[2] == pytest.approx(wanted, abs=1e-6)
    assert candidate_scores(pool, rows)[2] == pytest.approx(score_rows(pool, pool.outputs[2][rows], rows), abs=1e-6)


@each_metric
def test_cross_fitted_scores_are_those_of_folds_or_of_all_examples_together(task: str, metric: str) -> None:
    pool = build_pool(replace(TASKS[task], metric=metric), rows=120)
    settings = Settings(num_folds=4)
    found = cross_fit(pool, methods_for()["single"], settings, np.arange(120))
    outputs, is_whole = np.empty((120, pool.outputs[0].shape[1])), not METRICS[metric].is_scored_by_fold
    parts = [np.flatnonzero(found.folds[0] == fold) for fold in range(4)]
    for inside in parts:
        best = best_candidates(pool, np.setdiff1d(np.arange(120), inside))[0]
        outputs[inside] = pool.outputs[int(best)][inside]
    predictions = predictions_of(pool.task, outputs)
    scored = [np.arange(120)] if is_whole else parts
    values = [value_by_reference(metric, pool.labels[own], outputs[own], predictions[own]) for own in scored]
    wanted = METRICS[metric].score_of(float(np.average(values, weights=[len(own) for own in scored])))
    assert found.score == pytest.approx(wanted, abs=1e-6)


def test_the_ranking_shows_values_and_ranks_by_what_they_contribute(sweep: Path) -> None:
    frame = load_sweep(sweep).ranking()
    assert frame["number"].tolist()[0] == 2
    best, parts = frame.iloc[0], []
    for name, task in TASKS.items():
        pool = read_pool([sweep], TASKS[name])
        place = next(n for n, one in enumerate(pool.candidates) if (one.number, one.epoch) == (2, best["best_epoch"]))
        outputs = pool.outputs[place]
        value = value_by_reference(task.metric, pool.labels, outputs, predictions_of(task, outputs))
        assert best[f"{name}_dev"] == pytest.approx(value, abs=1e-6)
        parts.append(
            1 - value / 5 if task.metric == "rmse" else (value + 1) / 2 if task.metric_entry.range[0] else value
        )
        resampled = bootstrap_scores(task, values_of(task, outputs, pool.labels)[None], pool.labels)
        assert best[f"{name}_dev_standard_error"] == pytest.approx(resampled.std(), rel=0.3)
    assert best["overall"] == pytest.approx(np.mean(parts), abs=1e-6)


def test_selection_expects_values_within_their_intervals_and_prints_them(sweep: Path) -> None:
    found = select_from(SelectionRequest(sweeps=[sweep], settings=Settings(bags=0), repeats=2))
    for name, chosen in found.tasks.items():
        low, high = chosen.score.interval
        assert low < chosen.score.cross_fitted < high
        assert chosen.score.standard_error > 0
        lowest, highest = TASKS[name].metric_entry.bounds(TASKS[name].label_range)
        assert lowest <= low < high <= highest
    console = Console(file=io.StringIO(), width=100, highlight=False)
    console.print(render_selection(found))
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    score = found.tasks["sts"].score
    shown = sorted(abs(bound) for bound in score.interval)
    assert f"Expect {abs(score.cross_fitted):.3f} ({shown[0]:.3f} to {shown[1]:.3f})" in " ".join(printed.split())
