"""The loop: exact resumption, what callbacks may end, kept weights, divergence, precision."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import mtlib.train
from mtlib.checkpoints.best_weights import weights_file
from mtlib.checkpoints.state import StateFolder, load_state
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.runtime.errors import TrainingDiverged
from mtlib.stages.active_weights import part_of_weight
from mtlib.train import prepare_run, train
from mtlib.training.epoch_report import EpochReport, StepProgress
from mtlib.training.evaluation import predict
from mtlib.training.step import Interrupted
from tests.killed import Killed
from tests.recorded_details import Trace, record_details, run_whole, values_of

Trial = tuple[TrialConfig, Corpus, PretrainedEncoder]
SHORT = {"smart.weight": 0, "stages.1.steps_per_epoch": 4}
SPARSE = {**SHORT, "stages.0.epochs": 3, "stages.1.epochs": 3}
TAUGHT = {"proximal.weight": 1, "proximal.tasks": "sts"}


@pytest.fixture(scope="module")
def trial(tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder) -> Trial:
    """The tiny trial: 4 steps, then two epochs of 14."""
    return tiny_config, tiny_corpus, tiny_encoder


@pytest.fixture(scope="module")
def whole(trial: Trial) -> Trace:
    """The tiny trial trained without interruption."""
    return run_whole(*trial)


def changed(trial: Trial, changes: dict[str, Any]) -> Trial:
    """The trial with another configuration."""
    return trial[0].override(changes), *trial[1:]


def assert_same(first: Trace, second: Trace) -> None:
    """Weights, scores and predictions are equal bit for bit."""
    assert first.reports.keys() == second.reports.keys()
    for epoch, report in first.reports.items():
        assert values_of(report) == values_of(second.reports[epoch])
        for one, other in zip(report.predictions, second.reports[epoch].predictions, strict=True):
            assert np.array_equal(one.logits, other.logits)
            assert one.ids == other.ids
    for name, tensor in first.weights.items():
        assert torch.equal(tensor, second.weights[name]), name


def resume_after_a_kill(trial: Trial, states: StateFolder, killed_after: int) -> Trace:
    """The reports before a kill and after it."""
    trace = Trace()

    def kill(progress: StepProgress) -> bool:
        if progress.step == killed_after:
            raise Killed
        return True

    with pytest.raises(Killed):
        train(*trial, wrap=trace.watch, on_epoch=trace.note, on_step=kill, states=states)
    torch.manual_seed(killed_after)  # another process would have another global stream
    train(*trial, wrap=trace.watch, on_epoch=trace.note, states=states)
    return trace


def position(states: StateFolder) -> tuple[int, int, int] | None:
    """Stage, epoch and step of the newest saved state."""
    state = load_state(states)
    return None if state is None else tuple(state.numbers[name] for name in ("stage", "epoch", "step"))


@pytest.mark.parametrize("killed_after", [4, 9, 32])
def test_a_run_killed_after_any_step_ends_like_the_uninterrupted_one(
    killed_after: int, whole: Trace, trial: Trial, tmp_path: Path
) -> None:
    """After the last step of a stage, within an epoch, after the last step."""
    assert_same(whole, resume_after_a_kill(trial, StateFolder(path=tmp_path, checkpoint_steps=3), killed_after))


def test_a_run_killed_during_a_report_reports_the_epoch_again(whole: Trace, trial: Trial, tmp_path: Path) -> None:
    states, resumed = StateFolder(path=tmp_path), Trace()
    killed: list[list[tuple[Any, ...]]] = []

    def note_once(report: EpochReport) -> bool:
        if report.epoch == 2 and not killed:
            killed.append(values_of(report))
            raise Killed
        return resumed.note(report)

    with pytest.raises(Killed):
        train(*trial, wrap=resumed.watch, on_epoch=note_once, states=states)
    train(*trial, wrap=resumed.watch, on_epoch=note_once, states=states)
    assert killed == [values_of(resumed.reports[2])]
    assert_same(whole, resumed)


def test_an_interrupted_run_loses_no_step(whole: Trace, trial: Trial, tmp_path: Path) -> None:
    states, seen = StateFolder(path=tmp_path), list[int]()
    with pytest.raises(Interrupted):
        train(*trial, on_step=lambda progress: progress.step < 6, states=states)
    assert position(states) == (1, 0, 2)
    resumed = run_whole(*trial, states=states, on_step=lambda progress: seen.append(progress.step) or True)  # type: ignore[func-returns-value]
    assert seen[0] == 7
    assert all(values_of(whole.reports[epoch]) == values_of(report) for epoch, report in resumed.reports.items())


def test_scoring_some_epochs_only_changes_no_weight_and_no_other_score(trial: Trial) -> None:
    trial = changed(trial, SPARSE)
    every = run_whole(*trial)
    some = run_whole(*changed(trial, {"stages.0.score_every": 2, "stages.1.score_every": 3}))
    assert {name for name in every.weights if not torch.equal(every.weights[name], some.weights[name])} == set()
    assert [report.overall is not None for report in some.reports.values()] == [False] * 5 + [True]
    for epoch, report in some.reports.items():
        if epoch in (2, 3, 6):
            assert values_of(report) == values_of(every.reports[epoch])
            assert len(report.predictions) == len(every.reports[epoch].predictions) > 0
        else:
            assert (report.predictions, report.overall) == ((), None)
            assert {part[3] for part in values_of(report)} >= {"loss", "tokens"}
            assert set(values_of(report)) <= set(values_of(every.reports[epoch]))


@pytest.mark.parametrize("changes", [{}, {"optimizer.average_power": 1}])
def test_kept_weights_are_those_that_were_scored_at_the_best_epoch(
    changes: dict[str, Any], trial: Trial, tmp_path: Path
) -> None:
    trial = changed(trial, {**SHORT, **changes})
    reports = run_whole(*trial, states=StateFolder(path=tmp_path)).reports.values()
    best = max((report for report in reports if report.overall is not None), key=lambda report: report.overall or 0)
    model = MultiTaskModel(trial[0], trial[2])
    model.load_state_dict(load_file(tmp_path / weights_file(best.epoch)))
    for part in best.predictions:
        if part.split == "dev":
            again = predict(model, trial[0], trial[1], part.task, "dev", torch.device("cpu"))
            assert np.array_equal(again.logits, part.logits), part.task


@pytest.mark.parametrize("keeps_end", [False, True])
def test_on_stage_is_called_once_after_the_state_of_each_stages_end(
    keeps_end: bool, trial: Trial, tmp_path: Path
) -> None:
    states, trace = StateFolder(path=tmp_path, keeps_end=keeps_end), Trace()
    seen: list[tuple[int, tuple[int, int, int] | None, list[int]]] = []

    def note(stage: int) -> bool:
        seen.append((stage, position(states), list(trace.reports)))
        return True

    trial = changed(trial, SHORT)
    train(*trial, wrap=trace.watch, on_epoch=trace.note, on_stage=note, states=states)
    # Without `keeps_end` the newest state is the one before the last epoch.
    assert seen == [(0, (0, 1, 0), [1]), (1, (1, 2, 0) if keeps_end else (1, 1, 0), [1, 2, 3])]


@pytest.mark.parametrize(
    "changes",
    [
        {**TAUGHT, "stages.0.epochs": 2, "stages.1.start_from": "best"},
        {"stages.1.reset_optimizer": True, "loss_weighting": "uncertainty"},
    ],
)
def test_a_run_stopped_at_a_stages_end_continues_bit_for_bit(
    changes: dict[str, Any], trial: Trial, tmp_path: Path
) -> None:
    trial = changed(trial, {**SHORT, **changes})
    states, trace = StateFolder(path=tmp_path), Trace()
    train(*trial, wrap=trace.watch, on_epoch=trace.note, on_stage=lambda _: False, states=states)
    first_epochs = trial[0].stages[0].epochs
    assert list(trace.reports) == list(range(1, first_epochs + 1))
    assert position(states) == (0, first_epochs, 0)
    parts = {part_of_weight(name) for name in load_file(tmp_path / weights_file(1))}
    assert parts - {"log_variances.qqp"} == {"encoder", "heads.qqp"}, "of the tasks active so far"
    torch.manual_seed(5)  # another process would have another global stream
    train(*trial, wrap=trace.watch, on_epoch=trace.note, states=states)
    assert_same(run_whole(*trial), trace)


def test_a_state_after_the_last_epoch_ends_at_once_and_a_longer_trial_continues_from_it(
    trial: Trial, tmp_path: Path
) -> None:
    trial, states = changed(trial, SHORT), StateFolder(path=tmp_path, keeps_end=True)
    run_whole(*trial, states=states)
    assert run_whole(*trial, states=states).reports == {}
    longer = changed(trial, {"stages.1.epochs": 4})
    found, whole = (run_whole(*longer, states=where) for where in (states, None))
    assert list(found.reports) == [4, 5]
    whole.reports = {epoch: whole.reports[epoch] for epoch in (4, 5)}
    assert_same(whole, found)


def test_divergence_is_reported_at_its_step(trial: Trial) -> None:
    with pytest.raises(TrainingDiverged, match=r"qqp: (loss|smart_penalty) is (nan|inf) at step [23]"):
        train(*changed(trial, {"optimizer.learning_rate": 1e38}))


def test_bf16_losses_are_close_to_fp32(trial: Trial) -> None:
    short = {"encoder.dropout": 0, "encoder.attention_dropout": 0, "stages.1.epochs": 1, "stages.1.steps_per_epoch": 3}
    exact, mixed = (
        record_details(*changed(trial, {**short, "precision": name}), lambda objective: objective)
        for name in ("fp32", "bf16")
    )
    assert not torch.equal(exact, mixed)
    assert torch.allclose(exact[:, 0], mixed[:, 0], rtol=0.02)


@pytest.mark.parametrize(
    ("changes", "has_it", "expected"),
    [
        ({"precision": "auto"}, True, "bf16"),
        ({"precision": "auto", "smart.weight": 1, "smart.tasks": "sst", "smart.mode": "paper"}, True, "fp32"),
    ],
)
def test_auto_is_bf16_where_the_hardware_has_it_and_no_setting_refuses_it(
    changes: dict[str, Any], has_it: bool, expected: str, trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mtlib.train, "has_bf16", lambda on_gpu: has_it and not on_gpu)
    run = prepare_run(*changed(trial, changes), torch.device("cpu"), lambda objective: objective, None)
    assert run.config.precision == expected


def test_workers_with_different_states_stop_together(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["mtlib.train"], "gather_from_workers", lambda place: [place, (1, 0, 0)])
    with pytest.raises(RuntimeError, match=r"workers begin at different places, .* \[\(0, 0, 0\), \(1, 0, 0\)\]"):
        train(*trial)
