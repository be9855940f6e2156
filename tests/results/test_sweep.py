"""A sweep is read into pandas, from a folder or a URI, in any state of the sweep."""

import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy import stats
from sklearn import metrics as reference

from mtlib.metrics.table import METRICS
from mtlib.runtime.storage import open_folder
from mtlib.tasks import TASKS
from mtlib.training.epoch_report import EpochReport
from results.ensembles.candidates import read_pool
from results.ensembles.ensemble import ensemble_outputs, equal_ensemble, score_rows
from results.ensembles.greedy import addition_scorer
from results.ensembles.methods import methods_for
from results.ensembles.outputs import values_of
from results.ensembles.selection_method import Settings, best_candidates, candidate_scores, sum_scores
from results.records.epochs import epoch_path, open_epoch, write_epoch
from results.records.predictions import stack_predictions
from results.records.tables import write_trials
from results.records.trials import TrialRecord, write_sweep
from results.selection.cross_fitting import cross_fit
from results.selection.report import render_selection
from results.selection.select_all import SelectionRequest, select_from
from results.stats.resampling import Floats, bootstrap_scores
from results.sweep import Sweep, load_sweep
from results.table import main as table_main
from tests.driver_files import write_driver
from tests.one_line_error import one_line_error
from tests.results.conftest import build_record, build_report
from tests.results.ensembles.test_ensemble import build_pool
from tests.results.selection.scored_sweep import build_sweep
from tests.results.selection.test_report import record_groups

RANKING_NUMBERS = ("best_epoch", "below_best", "margin")


def test_sweep_is_read_into_data_frames(sweep_folder: Path) -> None:
    sweep = load_sweep(sweep_folder)
    assert sweep.info["space"] == {"name": "smart_lambda"}
    assert sweep.trials["trial"].tolist() == ["0000-r0", "0001-r0", "0002-r0"]
    assert sweep.trials["smart.weight"].tolist() == [0.0, 0.5, 1.0]
    assert sweep.trials["best_overall"].tolist() == pytest.approx([2 / 3] * 3)
    assert "params" not in sweep.trials
    assert list(sweep.curves) == ["trial", "step", "epoch", "task", "split", "metric", "value", "seconds"]
    joined = sweep.curves.merge(sweep.trials, on="trial")
    assert len(joined) == len(sweep.curves)
    predictions = sweep.predictions("sst", "dev", trial="0001-r0", epoch=2)
    assert list(predictions) == ["id", "trial", "epoch", "label", "labels", "logits"]
    assert np.stack(predictions["logits"].tolist()).shape == (60, 5)


def test_epochs_of_an_unknown_trial_are_left_out_with_a_warning(sweep_folder: Path) -> None:
    write_epoch(sweep_folder, "0003-r0", build_report(1))
    with pytest.warns(UserWarning, match="0003-r0/trial.json"):
        sweep = load_sweep(sweep_folder)
    assert set(sweep.curves["trial"]) == set(sweep.trials["trial"]) == {"0000-r0", "0001-r0", "0002-r0"}


def test_name_is_that_of_a_sweep_in_the_default_storage(sweep_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("results.records.files.DEFAULT_STORAGE", str(sweep_folder.parent))
    assert len(load_sweep(sweep_folder.name).trials) == 3


def test_sweep_has_the_name_that_is_recorded_or_that_of_its_folder(recorded_sweep: Sweep) -> None:
    assert replace(recorded_sweep, info={"name": "given"}).name == "given"
    assert replace(recorded_sweep, info={}).name == Path(recorded_sweep.path).name


def test_finished_or_running_sweep_has_not_stopped(sweep_folder: Path) -> None:
    stop_last_trial(sweep_folder, "complete")
    assert load_sweep(sweep_folder).stopped_at is None
    stop_last_trial(sweep_folder, "running")
    write_driver(sweep_folder, {"0002-r0": {"since": 0.0}})
    sweep = load_sweep(sweep_folder)
    assert sweep.stopped_at is None
    assert sweep.records[-1].status == "running"


def test_searched_keys_have_a_column_each_in_search_order(
    tmp_path: Path, make_record: Callable[..., TrialRecord]
) -> None:
    write_sweep(tmp_path, {})
    params = [{"b.x": 1, "a.y": [1, 2]}, {"b.x": 2, "seed": 3}]
    write_trials(tmp_path, [make_record(number, params=values) for number, values in enumerate(params)], tuple(TASKS))
    trials = load_sweep(tmp_path).trials
    at = list(trials).index("status")
    assert list(trials)[at + 1 : at + 4] == ["b.x", "a.y", "config"]
    assert list(trials).count("seed") == 1
    assert trials["a.y"].tolist() == [[1, 2], None]


def test_uri_is_read_like_a_path(sweep_folder: Path) -> None:
    by_path, by_uri = load_sweep(sweep_folder), load_sweep(sweep_folder.as_uri())
    pd.testing.assert_frame_equal(by_uri.trials, by_path.trials)
    pd.testing.assert_frame_equal(by_uri.curves, by_path.curves)
    pd.testing.assert_frame_equal(by_uri.predictions("qqp", "dev"), by_path.predictions("qqp", "dev"))
    pd.testing.assert_frame_equal(by_uri.ranking(), by_path.ranking())


def test_predictions_of_unknown_tasks_splits_and_trials_are_refused(sweep_folder: Path) -> None:
    read = load_sweep(sweep_folder).predictions
    assert one_line_error(read, "sts2", "dev").startswith("unknown task 'sts2'; did you mean 'sts'?")
    assert one_line_error(read, "sts", "test").startswith("unknown split 'test'")
    assert one_line_error(read, "sst", "dev", trial="001-r0").startswith("unknown trial '001-r0'; did you mean '0001")
    assert "got int" in one_line_error(read, "sst", "dev", trial=1)  # type: ignore[arg-type]


def test_scores_of_classes_are_those_of_scikit_learn_at_the_best_epoch(sweep_folder: Path) -> None:
    sweep = load_sweep(sweep_folder)
    frame = sweep.class_scores("sst")
    types = {name: str(kind) for name, kind in frame.dtypes.items()}
    assert types == {
        **{"trial": "string", "epoch": "int64", "class": "string"},
        **{"precision": "float64", "recall": "float64", "f1": "float64", "support": "int64"},
    }
    assert len(frame) == 3 * 5
    own = frame[frame["trial"] == "0001-r0"]
    predictions = sweep.predictions("sst", "dev", trial="0001-r0", epoch=int(own["epoch"].iloc[0]))
    predicted = np.stack(predictions["logits"].tolist()).argmax(axis=1)
    wanted = reference.precision_recall_fscore_support(predictions["label"], predicted, labels=range(5))
    np.testing.assert_allclose(own[["precision", "recall", "f1", "support"]].to_numpy().T, np.stack(wanted))
    with pytest.raises(ValueError, match=r"must be of a task with classes.* got sts, a regression"):
        sweep.class_scores("sts")
    with pytest.raises(ValueError, match="unknown task"):
        sweep.class_scores("ssst")


def test_ranking_has_typed_columns(sweep_folder: Path) -> None:
    ranking = load_sweep(sweep_folder).ranking()
    scores = [name for name in ranking if str(name).split("_")[0] in (*TASKS, "overall")]
    assert {str(ranking[name].dtype) for name in (*scores, *RANKING_NUMBERS)} == {"float64"}
    others = {name: str(ranking[name].dtype) for name in ranking if name not in (*scores, *RANKING_NUMBERS)}
    assert others.pop("smart.weight") == "float64"
    texts = dict.fromkeys(("status", "trials", "collapsed", "failures"), "string")
    assert others == {"number": "int64", "may_be_best": "bool", "decided_at": "Int64", "was_dropped": "bool", **texts}
    assert ranking["overall_replicate_error"].isna().all()
    assert ranking["margin"].isna().all()


def test_columns_of_an_empty_ranking_have_the_same_types(tmp_path: Path, sweep_folder: Path) -> None:
    write_sweep(tmp_path / "new", {"name": "new"})
    empty, full = (load_sweep(folder).ranking() for folder in (tmp_path / "new", sweep_folder))
    assert len(empty) == 0
    expected = [(name, kind) for name, kind in full.dtypes.items() if name in empty]
    assert list(empty.dtypes.items()) == expected


def test_effects_have_typed_columns_and_agree_with_the_ranking(sweep_folder: Path) -> None:
    record_search(sweep_folder)
    stop_last_trial(sweep_folder, "complete")
    sweep = load_sweep(sweep_folder)
    effects, ranking = sweep.effects(), sweep.ranking().set_index("smart.weight")
    names = ["key", "value", "task", "is_base", "num_trials", "mean", "difference", "standard_error"]
    names += ["training_error", "example_error", "fixed_error", "degrees", "training_factor", "example_factor"]
    names += ["low", "high", "decided_at"]
    types = ("string", "object", "string", "boolean", "Int64", *["float64"] * 11, "Int64")
    assert {name: str(kind) for name, kind in effects.dtypes.items()} == dict(zip(names, types, strict=True))
    assert list(effects) == names
    overall = effects[effects["task"] == "overall"].set_index("value")
    assert overall["mean"].to_dict() == pytest.approx(ranking["overall"].to_dict())
    assert overall["difference"][1.0] == pytest.approx(ranking["overall"][1.0] - ranking["overall"][0.5])


@pytest.mark.parametrize("values", [(None, 0.1, 0.3), (2, None, 4), (True, False, None), ("a", None, "b")])
def test_searched_none_is_a_value_that_groups_and_pivot_tables_keep(
    values: tuple[Any, ...], sweep_folder: Path
) -> None:
    stop_last_trial(sweep_folder, "complete")
    set_searched(sweep_folder, values)
    sweep, wanted = load_sweep(sweep_folder), {"none" if value is None else value for value in values}
    assert set(sweep.trials.groupby("k").size().index) == wanted
    ranking, effects = sweep.ranking(), sweep.effects()
    assert set(ranking.pivot_table(index="k", values=["sst_dev", "overall"]).index) == wanted
    by_value = effects[effects["key"] == "k"].pivot(index="value", columns="task", values=["mean", "difference"])
    assert set(by_value.index) == wanted
    shown = pd.read_csv(io.StringIO(ranking.to_csv(index=False)))
    assert set(shown["k"]) == set(map(str, wanted)), "a file of the table keeps it, too"
    assert sweep.effects({"k": "none"})["is_base"].sum() == len(set(effects["task"]))


def test_searched_none_differs_from_a_key_that_was_not_sampled(sweep_folder: Path) -> None:
    stop_last_trial(sweep_folder, "complete")
    set_searched(sweep_folder, ([1, 2], None), not_sampled=1)
    sweep = load_sweep(sweep_folder)
    assert sweep.trials["k"].tolist()[:2] == [[1, 2], "none"]
    assert sweep.trials["k"].isna().tolist() == [False, False, True]
    ranking = sweep.ranking().set_index("number")["k"]
    assert (ranking[0], ranking[1], ranking.isna()[2]) == ([1, 2], "none", True)


def test_answer_of_a_search_compares_finished_configurations_with_the_base(sweep_folder: Path) -> None:
    record_search(sweep_folder)
    info = json.loads((sweep_folder / "sweep.json").read_text())
    space = {**info["space"], "grid": [], "ranges": [["smart.weight", {"Float": {"low": 0, "high": 1, "log": False}}]]}
    write_sweep(sweep_folder, {**info, "space": space, "search": "tpe", "base": {"smart": {"weight": 0.0}}})
    sweep = load_sweep(sweep_folder)
    ranking = sweep.ranking()
    assert ranking["number"].tolist() == [1, 0, 2], "the best one has not finished"
    (line,) = [line for line in sweep.answer() if "best configuration" in line]
    difference = ranking["overall"][0] - ranking["overall"][1]
    assert line.startswith(
        f"The best configuration so far, 0001 (weight=0.5), is {difference:+.3f} overall above the base configuration, "
        "0000."
    )


def test_predictions_are_read_once_for_ranking_and_effects(sweep_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record_search(sweep_folder)
    read = []

    def stack(root: Any, task: str, split: str, wanted: Any) -> Any:
        read.append((task, split))
        return stack_predictions(root, task, split, wanted)

    monkeypatch.setattr("results.sweep.stack_predictions", stack)
    sweep = load_sweep(sweep_folder)
    assert len(sweep.ranking()) == 3
    assert len(sweep.effects()) > 0
    assert sorted(read) == sorted(set(read))


def test_standard_errors_are_of_groups_of_connected_texts(sweep_folder: Path) -> None:
    before = load_sweep(sweep_folder).ranking().set_index("number")
    record_groups(sweep_folder, "sst", 30)  # rows r and r + 30 share a text
    record_groups(sweep_folder, "qqp", 80)  # no row shares one
    sweep = load_sweep(sweep_folder)
    after = sweep.ranking().set_index("number")
    unchanged = [
        name for name in map(str, before) if name.startswith(("qqp", "sts")) or name == "sst_train_standard_error"
    ]
    pd.testing.assert_frame_equal(after[unchanged], before[unchanged], check_exact=True)
    for number, epoch in enumerate(after["best_epoch"].sort_index()):
        frame = sweep.predictions("sst", "dev", trial=f"{number:04d}-r0", epoch=int(epoch))
        right = np.stack(frame["logits"].tolist()).argmax(axis=1) == frame["label"]
        pairs = right.to_numpy().reshape(2, 30).mean(axis=0)  # their mean has the standard error of 30 numbers
        assert after["sst_dev_standard_error"][number] == pytest.approx(pairs.std(ddof=1) / np.sqrt(30))


@pytest.mark.parametrize("num_texts", [9, 10])
def test_no_difference_is_claimed_over_fewer_than_ten_groups(recorded_sweep: Sweep, num_texts: int) -> None:
    """Replicates show the variance of training, so that groups alone decide."""
    for task in TASKS:
        record_groups(Path(str(recorded_sweep.path)), task, num_texts)
    sweep = load_sweep(recorded_sweep.path)
    is_known = num_texts == 10
    assert sweep.ranking()["margin"].notna().all() == is_known
    assert sweep.effects()["low"].notna().any() == is_known
    answer, words = " ".join(sweep.answer()), f"dev rows of SST in {num_texts} groups (at least 10 are needed)"
    assert (words in answer) == (not is_known)
    assert ("More replicates do not change that" in answer) == (not is_known)
    assert sweep.ranking()["may_be_best"].all() or is_known
    assert sweep.answer_data()["effects"][1]["low"] is None or is_known


def test_task_with_few_groups_leaves_the_others_their_differences(recorded_sweep: Sweep) -> None:
    record_groups(Path(str(recorded_sweep.path)), "sst", 4)
    effects = load_sweep(recorded_sweep.path).effects()
    known = effects[effects["difference"].notna() & ~effects["is_base"].fillna(False)].groupby("task")["low"]
    assert known.count().to_dict() == {"overall": 0, "qqp": 2, "sst": 0, "sts": 2}
    assert any("dev rows of SST in 4 groups" in line for line in load_sweep(recorded_sweep.path).answer())


def test_slices_of_dev_are_scored_and_shown(recorded_sweep: Sweep, capsys: pytest.CaptureFixture[str]) -> None:
    cells = ["news"] * 25 + ["blog"] * 35
    assert recorded_sweep.slices().empty
    record_groups(Path(str(recorded_sweep.path)), "sst", 60, cells)
    sweep = load_sweep(recorded_sweep.path)
    frame = sweep.slices()
    assert frame[["task", "column", "value", "num_examples"]].drop_duplicates().values.tolist() == [
        ["sst", "source", "blog", 35],
        ["sst", "source", "news", 25],
    ]
    own, ranking = frame[frame["value"] == "news"].set_index("number"), sweep.ranking().set_index("number")
    both = (25 * own["score"] + 35 * frame[frame["value"] == "blog"].set_index("number")["score"]) / 60
    pd.testing.assert_series_equal(both, ranking["sst_dev"], check_names=False)
    assert table_main([str(recorded_sweep.path)]) == 0
    text = capsys.readouterr().out
    assert "on slices of dev" in text
    assert len([line for line in text.splitlines() if " source " in line and " to " in line]) == 2


def record_search(folder: Path) -> None:
    """Adds to `sweep.json` what was searched."""
    space = {"question": "How strongly?", "metric": "overall", "grid": [["smart.weight", [0.0, 0.5, 1.0]]]}
    info = {"name": "mine", "space": {**space, "ranges": []}, "base": {"smart": {"weight": 0.5}}, "search": "grid"}
    write_sweep(folder, info)


def set_searched(folder: Path, values: Sequence[Any], not_sampled: int = 0) -> None:
    """Records these values of one key `k`, one for each trial but the last `not_sampled`."""
    params = [*({"k": value} for value in values), *[{}] * not_sampled]
    records = [replace(record, params=own) for record, own in zip(load_sweep(folder).records, params, strict=True)]
    write_trials(folder, records, tuple(TASKS))
    space = {"question": "Which?", "metric": "overall", "grid": [["k", values]], "ranges": []}
    write_sweep(folder, {"name": "mine", "space": space, "base": {"k": values[0]}, "search": "grid"})


def stop_last_trial(folder: Path, status: str) -> float:
    """Gives a sweep's last trial this status and a driver that died a year ago, the time of which it returns."""
    records, since = list(load_sweep(folder).records), datetime(2025, 3, 4, 4, 12).timestamp()
    write_trials(folder, [*records[:-1], replace(records[-1], status=status)], tuple(TASKS))
    write_driver(folder, time=since, processes="")
    return since


@pytest.mark.parametrize("split", ["dev", "train"])
@pytest.mark.parametrize("is_missing", [True, False], ids=["missing", "damaged"])
def test_a_trial_whose_predictions_are_lost_has_failed_and_all_others_are_ranked(
    sweep_folder: Path, is_missing: bool, split: str
) -> None:
    before = load_sweep(sweep_folder)
    assert [row.number for row in before.ranked if row.scores] == [1, 0, 2]
    epoch = before.scores.epochs["0001-r0"]
    if is_missing:
        report = build_report(epoch, skill=0.4 + 0.2 * epoch, seed=1)
        kept = tuple(part for part in report.predictions if (part.task, part.split) != ("sst", split))
        write_epoch(sweep_folder, "0001-r0", replace(report, predictions=kept))
    else:
        damage_logits(sweep_folder, "0001-r0", epoch, "sst", split)
    sweep = load_sweep(sweep_folder)
    assert [row.number for row in sweep.ranked if row.scores] == [0, 2]
    (failure,) = (failure for row in sweep.ranked for failure in row.failures)
    assert failure.startswith("0001-r0: ")
    assert failure.endswith("--resume")
    own = sweep.trials.set_index("trial").loc["0001-r0"]
    assert (own["status"], own["error"]) == ("failed", failure.removeprefix("0001-r0: "))
    first, second = (one.ranking().set_index("number").loc[[0, 2], "overall"] for one in (before, sweep))
    assert first.equals(second)


def test_where_the_predictions_of_all_trials_are_lost_none_has_failed(recorded_sweep: Sweep) -> None:
    for trial, epoch in recorded_sweep.scores.epochs.items():
        damage_logits(Path(recorded_sweep.path), trial, epoch, "sst", "dev")
    sweep = load_sweep(recorded_sweep.path)
    assert sweep.records == recorded_sweep.records
    with pytest.raises(ValueError, match=r"epochs/\d+\.parquet"):
        sweep.ranking()


def damage_logits(folder: Path, trial: str, epoch: int, task: str, split: str) -> None:
    """Flips a bit of an epoch's predictions of one task and split; all else of the file can be read."""
    path = folder / epoch_path(trial, epoch)
    with open_epoch(open_folder(folder), epoch_path(trial, epoch)) as (file, known):
        column = file.metadata.row_group(known.parts.index((task, split))).column(2)
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    path.write_bytes(content)


def test_notebook_shows_the_answer_above_the_ranking(recorded_sweep: Sweep) -> None:
    info = {**recorded_sweep.info, "space": {**recorded_sweep.info["space"], "question": "Is a < b?\n$x$"}}
    shown = replace(recorded_sweep, info=info)._repr_html_()
    answer, table = shown.split("<table")
    assert "Is a &lt; b?" in answer
    ranking = recorded_sweep.ranking()
    assert re.findall(r"<td>(0\.\d{3})</td>\s*<td>[\d.]+</td>\s*<td>(?:True|False)", table) == [
        f"{score:.3f}" for score in ranking["overall"]
    ]
    assert "_error" not in table
    assert repr(recorded_sweep) == f"<sweep {recorded_sweep.name}: 6 complete>"


def test_notebook_shows_why_there_is_no_ranking(recorded_sweep: Sweep) -> None:
    lost = replace(recorded_sweep, path=Path("/none"))
    assert "No ranking: " in lost._repr_html_()


Write = Callable[..., Path]


@pytest.fixture
def write(
    tmp_path: Path, make_record: Callable[..., TrialRecord], make_report: Callable[..., EpochReport]
) -> Callable[..., Path]:
    """Writes a sweep with one scored trial of some tasks, which searched one key."""

    def build(folder: str, name: str, key: str, tasks: tuple[str, ...] = tuple(TASKS)) -> Path:
        path = tmp_path / folder
        scores, epochs = dict.fromkeys((*tasks, "overall"), 0.5), dict.fromkeys((*tasks, "overall"), 1)
        record = make_record(0, params={key: 1}, best=scores, last=scores, best_epoch=epochs)
        write_sweep(path, {"name": name})
        write_trials(path, [record], tasks)
        write_epoch(path, "0000-r0", make_report(1, tasks=tasks))
        return path

    return build


def pruned_search(folder: Path) -> None:
    """Six configurations with scores that rise with the weight; those below .6 are pruned after the second of three
    epochs, and the best has a replicate. The base has weight 0."""
    weights = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    pruned = [weight < 0.6 for weight in weights]
    record_search(folder)
    info = json.loads((folder / "sweep.json").read_text())
    domain = {"Float": {"low": 0.0, "high": 1.0, "log": False}}
    space = {**info["space"], "grid": [], "ranges": [["smart.weight", domain]]}
    write_sweep(folder, {**info, "space": space, "search": "tpe", "base": {"smart": {"weight": 0.0}}})
    trials = [(number, 0, "pruned" if is_pruned else "complete") for number, is_pruned in enumerate(pruned)]
    trials.append((5, 1, "complete"))
    records = [build_record(n, again, how, params={"smart.weight": weights[n]}) for n, again, how in trials]
    write_trials(folder, records, tuple(TASKS))
    for record in records:
        for epoch in range(1, 3 if record.status == "pruned" else 4):
            skill = 0.2 + weights[record.number] + 0.1 * epoch
            write_epoch(folder, record.trial_id, build_report(epoch, skill=skill, seed=record.number))


def test_search_with_too_few_finished_trials_names_the_best_one_first(tmp_path: Path) -> None:
    pruned_search(tmp_path)
    _, found, unknown, *_ = load_sweep(tmp_path).answer()
    assert found.startswith("The best configuration, 0005 (weight=1)")
    assert "0000, of which no trial has finished" in found
    assert unknown.startswith("Not known: 3 finished configurations are too few")


FIRST = {"sst": "macro_f1", "qqp": "average_precision", "sts": "rmse"}
SECOND = {"sst": "matthews", "qqp": "f1", "sts": "spearman"}
THIRD = {"sst": "f1:2"}
KIND_TASKS = {"classes": "sst", "binary": "qqp", "regression": "sts"}
REFERENCES = ("accuracy", "macro_f1", "f1", "matthews", "average_precision", "pearson", "spearman", "rmse")
PAIRS = [(KIND_TASKS[kind], name) for name in REFERENCES for kind in METRICS[name].kinds if kind in KIND_TASKS]
PAIRS += [("sst", "f1:3"), ("qqp", "precision:0"), ("sst", "recall:1")]
"""Metrics of several labels are tested in `tests/mtlib/metrics`; no built-in task has several labels."""

each_metric = pytest.mark.parametrize(("task", "metric"), PAIRS)


@pytest.fixture(params=[FIRST, SECOND, THIRD], ids=["first", "second", "of one class"])
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
        "f1:2": lambda: reference.f1_score(labels == 2, predictions == 2),
        "f1:3": lambda: reference.f1_score(labels == 3, predictions == 3),
        "precision:0": lambda: reference.precision_score(labels == 0, predictions == 0),
        "recall:1": lambda: reference.recall_score(labels == 1, predictions == 1),
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
    wanted = value_by_reference(metric, pool.labels[rows], mean, pool.task.kind_entry.predict(mean))
    wanted = pool.task.metric_entry.score_of(wanted)
    assert score_rows(pool, mean, rows) == pytest.approx(wanted)
    assert sum_scores(pool, margins[[0]] + margins[[2]], rows, 2)[0] == pytest.approx(wanted, abs=1e-6)
    assert addition_scorer(pool, margins, rows)(margins[0], 2)[2] == pytest.approx(wanted, abs=1e-6)
    assert candidate_scores(pool, rows)[2] == pytest.approx(score_rows(pool, pool.outputs[2][rows], rows), abs=1e-6)


@each_metric
def test_cross_fitted_scores_are_those_of_folds_or_of_all_examples_together(task: str, metric: str) -> None:
    pool = build_pool(replace(TASKS[task], metric=metric), rows=120)
    settings = Settings(num_folds=4)
    found = cross_fit(pool, methods_for()["single"], settings, np.arange(120))
    outputs, is_whole = np.empty((120, pool.outputs[0].shape[1])), not pool.task.metric_entry.is_scored_by_fold
    parts = [np.flatnonzero(found.folds[0] == fold) for fold in range(4)]
    for inside in parts:
        best = best_candidates(pool, np.setdiff1d(np.arange(120), inside))[0]
        outputs[inside] = pool.outputs[int(best)][inside]
    predictions = pool.task.kind_entry.predict(outputs)
    scored = [np.arange(120)] if is_whole else parts
    values = [value_by_reference(metric, pool.labels[own], outputs[own], predictions[own]) for own in scored]
    wanted = pool.task.metric_entry.score_of(float(np.average(values, weights=[len(own) for own in scored])))
    assert found.score == pytest.approx(wanted, abs=1e-6)


def test_the_ranking_shows_values_and_ranks_by_what_they_contribute(sweep: Path) -> None:
    frame = load_sweep(sweep).ranking()
    assert frame["number"].tolist()[0] == 2
    best, parts = frame.iloc[0], []
    for name, task in TASKS.items():
        pool = read_pool([sweep], TASKS[name])
        place = next(n for n, one in enumerate(pool.candidates) if (one.number, one.epoch) == (2, best["best_epoch"]))
        outputs = pool.outputs[place]
        value = value_by_reference(task.metric, pool.labels, outputs, task.kind_entry.predict(outputs))
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
