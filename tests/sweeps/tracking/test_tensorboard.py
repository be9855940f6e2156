"""TensorBoard's own reader finds scalars, text and HParams in what was written."""

import math
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from sweeps.tracking import tensorboard
from sweeps.tracking.tensorboard import FOLDER_VARIABLE, TensorBoard, runs_folder
from tests.sweeps.tracking.tracked import BEST, NAME, VALUES, tracked_sweep, tracked_trial


def read(folder: Path) -> EventAccumulator:
    found = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    found.Reload()
    return found


def steps(folder: Path, tag: str) -> list[int]:
    return [event.step for event in read(folder).Scalars(tag)]


def test_run_that_is_continued_by_another_process_is_one_curve(tmp_path: Path) -> None:
    trial, notes, folder = tracked_trial(), list[str](), tmp_path / "tensorboard" / NAME
    first = TensorBoard(tracked_sweep(tmp_path), notes.append)
    first.begin(trial)
    first.log(trial, 10, VALUES)
    first.end(trial, "interrupted", {})
    second = TensorBoard(tracked_sweep(tmp_path), notes.append)
    second.begin(trial)
    second.log(trial, 20, VALUES)
    second.end(trial, "complete", BEST)
    assert steps(folder, "dev/sst/accuracy") == [10, 20]
    assert [event.value for event in read(folder).Scalars("best/overall")] == pytest.approx([0.6])
    assert notes[0] == f"TensorBoard: tensorboard --logdir {tmp_path}/tensorboard"


def test_steps_of_a_run_that_was_taken_back_are_gone_for_every_reader(tmp_path: Path) -> None:
    tracker, trial, folder = TensorBoard(tracked_sweep(tmp_path), print), tracked_trial(), tmp_path / "tensorboard"
    tracker.begin(trial)
    for step in (10, 20, 30):
        tracker.log(trial, step, VALUES)
    for _ in range(2):  # as after an attempt that failed
        tracker.discard(trial)
    tracker.begin(trial)
    tracker.log(trial, 15, VALUES)
    tracker.end(trial, "complete", BEST)
    assert steps(folder / NAME, "dev/sst/accuracy") == [15]
    assert len(list((folder / NAME).glob("events*"))) == 1
    assert read(folder / NAME).Tags()["tensors"] == ["configuration/text_summary"]


def test_names_of_scalars_are_those_of_hparams_and_differ(tmp_path: Path) -> None:
    tracker, trial = TensorBoard(tracked_sweep(tmp_path), print), tracked_trial()
    odd = {"a b": 1.0, "a[b": 2.0, "/a": 3.0, "m" * 300: math.inf}
    tracker.begin(trial)
    tracker.end(trial, "complete", odd)
    found = read(tmp_path / "tensorboard" / NAME)
    assert len(found.Tags()["scalars"]) == len(odd)
    metadata = found.SummaryMetadata("_hparams_/experiment")
    content = plugin_data_pb2.HParamsPluginData.FromString(metadata.plugin_data.content)
    assert {info.name.tag for info in content.experiment.metric_infos} == set(found.Tags()["scalars"])


def test_hparams_show_searched_values_and_the_status(tmp_path: Path) -> None:
    tracker, trial = TensorBoard(tracked_sweep(tmp_path), print), tracked_trial()
    tracker.begin(trial)
    tracker.end(trial, "pruned", BEST)
    metadata = read(tmp_path / "tensorboard" / NAME).SummaryMetadata("_hparams_/session_start_info")
    content = plugin_data_pb2.HParamsPluginData.FromString(metadata.plugin_data.content)
    values = content.session_start_info.hparams
    assert values["smart.weight"].number_value == 0.3
    assert values["stages.0.order"].string_value == "['sst', 'qqp']"
    assert (values["replicate"].number_value, values["status"].string_value) == (0, "pruned")


def test_runs_of_a_sweep_in_a_bucket_are_on_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(tensorboard, "local_path", lambda _folder: None)
    sweep = tracked_sweep(Path("bucket"))
    assert runs_folder(sweep) == tmp_path / "multitask-sweeps/mine/tensorboard"
    monkeypatch.setenv(FOLDER_VARIABLE, "~/runs")
    assert runs_folder(sweep) == tmp_path / "runs/mine"
