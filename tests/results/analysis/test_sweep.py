"""A sweep is read into pandas, from a folder or a URI, in any state of the sweep."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mtlib.runtime.storage import open_folder
from mtlib.tasks import TASKS
from results.analysis.sweep import Sweep, load_sweep
from results.records.epochs import epoch_path, open_epoch, write_epoch
from results.records.predictions import stack_predictions
from results.records.tables import write_trials
from results.records.trials import TrialRecord, write_sweep
from tests.driver_files import write_driver
from tests.one_line_error import one_line_error
from tests.results.conftest import build_report
from tests.results.selection.test_shared_texts import record_groups

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
    assert list(predictions) == ["id", "trial", "epoch", "label", "logits"]
    assert np.stack(predictions["logits"].tolist()).shape == (60, 5)


def test_epochs_of_an_unknown_trial_are_left_out_with_a_warning(sweep_folder: Path) -> None:
    write_epoch(sweep_folder, "0003-r0", build_report(1))
    with pytest.warns(UserWarning, match="0003-r0/trial.json"):
        sweep = load_sweep(sweep_folder)
    assert set(sweep.curves["trial"]) == set(sweep.trials["trial"]) == {"0000-r0", "0001-r0", "0002-r0"}


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


@pytest.mark.parametrize(
    ("task", "split", "line"),
    [
        ("sts2", "dev", r"^unknown task 'sts2'; did you mean 'sts'\?"),
        ("sts", "test", r"^unknown split 'test'; .*dev, train$"),
    ],
)
def test_predictions_of_unknown_tasks_and_splits_are_refused(
    task: str, split: str, line: str, sweep_folder: Path
) -> None:
    with pytest.raises(ValueError, match=line):
        load_sweep(sweep_folder).predictions(task, split)


@pytest.mark.parametrize(
    ("trial", "line"),
    [
        ("001-r0", "unknown trial '001-r0'; did you mean '0001-r0'? known: "),
        ("x", "unknown trial 'x'; known: 0000-r0, 0001-r0, 0002-r0"),
        (1, "a trial must be named by a text such as '0003-r0', got int"),
    ],
)
def test_predictions_of_unknown_trials_are_refused(trial: Any, line: str, sweep_folder: Path) -> None:
    assert one_line_error(load_sweep(sweep_folder).predictions, "sst", "dev", trial=trial).startswith(line)


def test_ranking_has_typed_columns(sweep_folder: Path) -> None:
    ranking = load_sweep(sweep_folder).ranking()
    scores = [name for name in ranking if str(name).split("_")[0] in (*TASKS, "overall")]
    assert {str(ranking[name].dtype) for name in (*scores, *RANKING_NUMBERS)} == {"float64"}
    others = {name: str(ranking[name].dtype) for name in ranking if name not in (*scores, *RANKING_NUMBERS)}
    assert others.pop("smart.weight") == "float64"
    texts = dict.fromkeys(("status", "trials", "failures"), "string")
    assert others == {"number": "int64", "may_be_best": "bool", "was_dropped": "bool", **texts}
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
    names = ("key", "value", "task", "is_base", "num_trials", "mean", "difference", "standard_error", "low", "high")
    types = ("string", "object", "string", "boolean", "Int64", *["float64"] * 5)
    assert {name: str(kind) for name, kind in effects.dtypes.items()} == dict(zip(names, types, strict=True))
    assert list(effects) == list(names)
    overall = effects[effects["task"] == "overall"].set_index("value")
    assert overall["mean"].to_dict() == pytest.approx(ranking["overall"].to_dict())
    assert overall["difference"][1.0] == pytest.approx(ranking["overall"][1.0] - ranking["overall"][0.5])


def test_answer_of_a_search_compares_finished_configurations_with_the_base(sweep_folder: Path) -> None:
    record_search(sweep_folder)
    info = json.loads((sweep_folder / "sweep.json").read_text())
    space = {**info["space"], "grid": [], "ranges": [["smart.weight", {"Float": {"low": 0, "high": 1, "log": False}}]]}
    write_sweep(sweep_folder, {**info, "space": space, "search": "tpe", "base": {"smart": {"weight": 0.0}}})
    sweep = load_sweep(sweep_folder)
    ranking = sweep.ranking()
    assert ranking["number"].tolist() == [2, 1, 0], "the best one has not finished"
    (line,) = [line for line in sweep.answer() if "best configuration" in line]
    difference = ranking["overall"][1] - ranking["overall"][2]
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

    monkeypatch.setattr("results.analysis.sweep.stack_predictions", stack)
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


def record_search(folder: Path) -> None:
    """Adds to `sweep.json` what was searched."""
    space = {"question": "How strongly?", "metric": "overall", "grid": [["smart.weight", [0.0, 0.5, 1.0]]]}
    info = {"name": "mine", "space": {**space, "ranges": []}, "base": {"smart": {"weight": 0.5}}, "search": "grid"}
    write_sweep(folder, info)


def stop_last_trial(folder: Path, status: str) -> float:
    """Gives a sweep's last trial this status and a driver that died a year ago, the time of which it returns."""
    records, since = list(load_sweep(folder).records), datetime(2025, 3, 4, 4, 12).timestamp()
    write_trials(folder, [*records[:-1], replace(records[-1], status=status)], tuple(TASKS))
    write_driver(folder, time=since)
    return since


@pytest.mark.parametrize("split", ["dev", "train"])
@pytest.mark.parametrize("is_missing", [True, False], ids=["missing", "damaged"])
def test_a_trial_whose_predictions_are_lost_has_failed_and_all_others_are_ranked(
    sweep_folder: Path, is_missing: bool, split: str
) -> None:
    before = load_sweep(sweep_folder)
    assert [row.number for row in before.ranked if row.scores] == [2, 1, 0]
    epoch = before.scores.epochs["0001-r0"]
    if is_missing:
        report = build_report(epoch, skill=0.4 + 0.2 * epoch, seed=1)
        kept = tuple(part for part in report.predictions if (part.task, part.split) != ("sst", split))
        write_epoch(sweep_folder, "0001-r0", replace(report, predictions=kept))
    else:
        damage_logits(sweep_folder, "0001-r0", epoch, "sst", split)
    sweep = load_sweep(sweep_folder)
    assert [row.number for row in sweep.ranked if row.scores] == [2, 0]
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
    file, known = open_epoch(open_folder(folder), epoch_path(trial, epoch))
    with file:
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
