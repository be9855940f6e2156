"""Several sweeps are read into frames with a column that names the sweep, and stable types."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from mtlib.tasks import TASKS
from mtlib.training.epoch_report import EpochReport
from results.analysis.sweep import load_sweep
from results.analysis.sweeps import Sweeps, distinct_ends, load_sweeps, stack_frames
from results.records.epochs import write_epoch
from results.records.tables import write_trials
from results.records.trials import TrialRecord, write_sweep
from results.table import load_sweeps as load_from_table
from tests.results.analysis.test_sweep import record_search, stop_last_trial

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


def frames_of(sweeps: Sweeps) -> dict[str, pd.DataFrame]:
    return {"trials": sweeps.trials, "curves": sweeps.curves, "ranking": sweeps.ranking()}


def test_frames_are_those_of_the_sweeps_with_their_names_in_front(sweep_folder: Path) -> None:
    record_search(sweep_folder)
    stop_last_trial(sweep_folder, "complete")
    one = load_sweep(sweep_folder)
    both = Sweeps(sweeps=(one, replace(one, info={**one.info, "name": "again"})))
    single = {"trials": one.trials, "curves": one.curves, "ranking": one.ranking(), "effects": one.effects()}
    for title, frame in {**frames_of(both), "effects": both.effects()}.items():
        assert str(frame["sweep"].dtype) == "string"
        assert list(frame["sweep"]) == ["mine"] * len(single[title]) + ["again"] * len(single[title])
        assert list(frame) == ["sweep", *single[title]]
        assert list(frame.index) == list(range(len(frame)))
        for name in ("mine", "again"):
            own = frame[frame["sweep"] == name].drop(columns="sweep").reset_index(drop=True)
            pd.testing.assert_frame_equal(own, single[title])


def test_effects_of_all_sweeps_are_from_the_base_values_given(sweep_folder: Path) -> None:
    record_search(sweep_folder)
    stop_last_trial(sweep_folder, "complete")
    one = load_sweep(sweep_folder)
    other = one.effects().query("is_base == False and key == 'smart.weight'").iloc[0]
    found = load_sweeps([sweep_folder]).effects({"smart.weight": other["value"]})
    assert set(found.query("is_base == True and key == 'smart.weight'")["value"]) == {other["value"]}


def test_base_value_of_a_key_counts_for_the_sweeps_that_searched_it(sweep_folder: Path) -> None:
    record_search(sweep_folder)
    stop_last_trial(sweep_folder, "complete")
    one = load_sweep(sweep_folder)
    text = json.dumps(one.info).replace("smart", "simcse")
    records = tuple(replace(record, params={"simcse.weight": record.params["smart.weight"]}) for record in one.records)
    both = Sweeps(sweeps=(one, replace(one, info={**json.loads(text), "name": "again"}, records=records)))
    found = both.effects({"smart.weight": 1.0}).query("is_base == True and task == 'overall'")
    assert dict(zip(found["key"], found["value"], strict=True)) == {"smart.weight": 1.0, "simcse.weight": 0.5}
    with pytest.raises(ValueError, match=r"searched key.*pals\.size"):
        both.effects({"pals.size": 0})


def test_one_sweep_is_enough_and_the_command_exports_the_function(sweep_folder: Path) -> None:
    assert load_from_table is load_sweeps
    assert list(load_sweeps([sweep_folder]).trials["sweep"]) == ["example"] * 3


def test_columns_that_some_sweeps_lack_are_missing_there_and_keep_their_place_and_type(write: Write) -> None:
    sweeps = load_sweeps([write("a", "a", "x.one"), write("b", "b", "x.two", ("sst",))])
    trials, ranking = sweeps.trials, sweeps.ranking()
    at = list(trials).index("status")
    assert list(trials)[at + 1 : at + 4] == ["x.one", "x.two", "config"]
    assert list(ranking)[:4] == ["sweep", "number", "x.one", "x.two"]
    assert trials["x.one"].tolist()[0] == 1
    assert trials["x.one"].isna().tolist() == [False, True]
    assert trials["best_sts"].isna().tolist() == [False, True]
    for title, frame in frames_of(sweeps).items():
        single = frames_of(Sweeps(sweeps=sweeps.sweeps[:1]))[title]
        for name, kind in single.dtypes.items():
            assert frame[name].dtype == ("float64" if name == "x.one" else kind), f"{title}: {name}"


def test_sweep_without_trials_changes_no_type(sweep_folder: Path, tmp_path: Path) -> None:
    write_sweep(tmp_path / "new", {"name": "new"})
    for folders in ([sweep_folder, tmp_path / "new"], [tmp_path / "new", sweep_folder]):
        found = frames_of(load_sweeps(folders))
        for title, frame in frames_of(load_sweeps([sweep_folder])).items():
            pd.testing.assert_frame_equal(found[title], frame)


def test_sweeps_of_one_name_have_the_ends_of_their_paths_in_the_column(write: Write) -> None:
    same, other = [write(folder, "same", "x.one") for folder in ("a", "b")], write("c", "c", "x.one")
    sweeps = load_sweeps([same[0], other, str(same[1])])
    assert sweeps.names == ("a", "c", "b")
    assert sweeps.trials["sweep"].tolist() == ["a", "c", "b"]


def test_ends_of_paths_are_as_long_as_needed_to_differ() -> None:
    assert distinct_ends(["/x/a/one", "/x/b/one", "/x/b/two"]) == ["a/one", "b/one", "b/two"]
    assert distinct_ends(["/x/one", "/x/two/"]) == ["one", "two"]
    assert distinct_ends(["one"]) == ["one"]
    assert distinct_ends(["/one", "/x/one", "s3://b/y/one"]) == ["/one", "x/one", "y/one"]


def test_sweep_without_a_name_has_that_of_its_folder(write: Write) -> None:
    assert load_sweeps([write("folder", "", "x.one")]).names == ("folder",)


def test_wrong_sweeps_are_refused_with_one_line(sweep_folder: Path, tmp_path: Path) -> None:
    for paths, line in {
        (): "load_sweeps needs at least one sweep, got none",
        (sweep_folder, f"{sweep_folder}/"): f"each sweep must be given once, got {sweep_folder} 2 times",
        (sweep_folder, tmp_path / "none"): f"{tmp_path / 'none'} is no sweep folder: it does not exist",
    }.items():
        with pytest.raises(ValueError) as caught:
            load_sweeps(paths)
        assert str(caught.value) == line
    for path in (sweep_folder, str(sweep_folder)):
        with pytest.raises(ValueError, match=r"^load_sweeps takes a list of sweeps \(load_sweep reads a single one\)"):
            load_sweeps(path)  # type: ignore[arg-type]


def test_an_error_of_one_sweep_names_it(sweep_folder: Path) -> None:
    with pytest.raises(ValueError, match=r"^sweep example: .*sweep\.json") as caught:
        load_sweeps([sweep_folder]).effects()
    assert "\n" not in str(caught.value)


def test_columns_of_a_later_frame_precede_those_that_they_precede_there() -> None:
    frames = [pd.DataFrame(columns=list(names)) for names in ("adg", "abxdh", "yzh")]
    assert "".join(map(str, stack_frames(frames))) == "abxdgyzh"
