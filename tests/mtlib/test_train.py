"""The loop: exact resumption, several workers, divergence, a fourth task."""

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import mtlib.train
import mtlib.training.step
from mtlib.checkpoints.best_weights import weights_file
from mtlib.checkpoints.state import StateFolder, load_state
from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig, default_task_config
from mtlib.data.load import read_data
from mtlib.data.token_cache import Corpus, tokenize
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.runtime.errors import TrainingDiverged
from mtlib.stages.active_weights import part_of_weight
from mtlib.tasks import TASKS, Task
from mtlib.train import origin_of, prepare_run, train
from mtlib.training.epoch_report import TOKENS, EpochReport, StepProgress
from mtlib.training.evaluation import predict
from mtlib.training.step import Interrupted
from tests.killed import Killed
from tests.recorded_details import Trace, record_details


def scores_of(report: EpochReport) -> list[tuple[Any, ...]]:
    return [(point.step, point.task, point.split, point.metric, point.value) for point in report.points]


def assert_same(first: Trace, second: Trace) -> None:
    """Weights, scores and predictions are equal bit for bit."""
    assert first.reports.keys() == second.reports.keys()
    for epoch, report in first.reports.items():
        assert scores_of(report) == scores_of(second.reports[epoch])
        for one, other in zip(report.predictions, second.reports[epoch].predictions, strict=True):
            assert np.array_equal(one.logits, other.logits)
            assert one.ids == other.ids
    for name, tensor in first.weights.items():
        assert torch.equal(tensor, second.weights[name]), name


def run_whole(config: TrialConfig, corpus: Corpus, encoder: PretrainedEncoder, **arguments: Any) -> Trace:
    trace = Trace()
    train(config, corpus, encoder, wrap=trace.watch, on_epoch=trace.note, **arguments)
    return trace


def killer(step: int) -> Callable[[StepProgress], bool]:
    def kill(progress: StepProgress) -> bool:
        if progress.step == step:
            raise Killed
        return True

    return kill


@pytest.fixture(scope="module")
def whole(tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder) -> Trace:
    """The tiny trial trained without interruption."""
    return run_whole(tiny_config, tiny_corpus, tiny_encoder)


NUM_STEPS = 32
"""Optimizer steps of the tiny trial: 4, then two epochs of 14."""
KILLS = (2, 4, 9, 32)
"""Before the first state, after the last step of a stage, within an epoch, after the last step."""


def test_the_tiny_trial_has_the_expected_number_of_steps(whole: Trace) -> None:
    assert max(point.step for point in whole.reports[3].points) == NUM_STEPS


@pytest.mark.parametrize(
    "killed_after",
    [pytest.param(step, marks=[pytest.mark.slow] * (step not in KILLS)) for step in range(1, NUM_STEPS + 1)],
)
def test_a_run_killed_after_any_step_ends_like_the_uninterrupted_one(
    killed_after: int,
    whole: Trace,
    tiny_config: TrialConfig,
    tiny_corpus: Corpus,
    tiny_encoder: PretrainedEncoder,
    tmp_path: Path,
) -> None:
    states, resumed = StateFolder(path=tmp_path, checkpoint_steps=3), Trace()
    arguments = {"wrap": resumed.watch, "on_epoch": resumed.note, "states": states}
    with pytest.raises(Killed):
        train(tiny_config, tiny_corpus, tiny_encoder, on_step=killer(killed_after), **arguments)  # type: ignore[arg-type]
    torch.manual_seed(killed_after)  # another process would have another global stream
    train(tiny_config, tiny_corpus, tiny_encoder, **arguments)  # type: ignore[arg-type]
    assert_same(whole, resumed)


def test_an_epoch_interrupted_in_its_middle_reports_the_same_tokens(
    whole: Trace, tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    states, resumed = StateFolder(path=tmp_path), Trace()
    arguments = {"wrap": resumed.watch, "on_epoch": resumed.note, "states": states}
    with pytest.raises(Interrupted):
        train(tiny_config, tiny_corpus, tiny_encoder, on_step=lambda step: step.step < 9, **arguments)  # type: ignore[arg-type]
    train(tiny_config, tiny_corpus, tiny_encoder, **arguments)  # type: ignore[arg-type]
    for epoch, tasks in {1: {"qqp"}, 2: {"sst", "qqp", "sts"}, 3: {"sst", "qqp", "sts"}}.items():
        counts, expected = (
            {point.task: point.value for point in trace.reports[epoch].points if point.metric == TOKENS}
            for trace in (resumed, whole)
        )
        assert counts == expected
        assert set(counts) == tasks


def test_a_run_killed_during_a_report_reports_the_epoch_again(
    whole: Trace, tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    states, resumed = StateFolder(path=tmp_path), Trace()
    killed: list[list[tuple[Any, ...]]] = []

    def note_once(report: EpochReport) -> bool:
        if report.epoch == 2 and not killed:
            killed.append(scores_of(report))
            raise Killed
        return resumed.note(report)

    for _ in range(2):
        try:
            train(tiny_config, tiny_corpus, tiny_encoder, wrap=resumed.watch, on_epoch=note_once, states=states)
        except Killed:
            continue
    assert killed == [scores_of(resumed.reports[2])]
    assert_same(whole, resumed)


def test_an_interrupted_run_loses_no_step(
    whole: Trace, tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    states = StateFolder(path=tmp_path)
    seen: list[int] = []

    def stop_at_six(progress: StepProgress) -> bool:
        return progress.step < 6

    def note(progress: StepProgress) -> bool:
        seen.append(progress.step)
        return True

    with pytest.raises(Interrupted):
        train(tiny_config, tiny_corpus, tiny_encoder, on_step=stop_at_six, states=states)
    state = load_state(states)
    assert state is not None
    assert (state.numbers["stage"], state.numbers["step"]) == (1, 2)
    resumed = run_whole(tiny_config, tiny_corpus, tiny_encoder, states=states, on_step=note)
    assert seen[0] == 7
    for epoch in resumed.reports:
        assert scores_of(whole.reports[epoch]) == scores_of(resumed.reports[epoch])


def test_a_state_of_another_configuration_is_refused(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    states = StateFolder(path=tmp_path)
    with pytest.raises(Interrupted):
        train(tiny_config, tiny_corpus, tiny_encoder, on_step=lambda _: False, states=states)
    with pytest.raises(ValueError, match="a saved state must be of the same configuration"):
        train(tiny_config.override({"seed": 5}), tiny_corpus, tiny_encoder, states=states)


def test_overall_scores_begin_once_every_task_has_been_active(whole: Trace) -> None:
    reports = whole.reports
    assert [report.scored_epoch for report in reports.values()] == [0, 1, 2]
    assert [report.overall is None for report in reports.values()] == [True, False, False]
    assert [report.is_last for report in reports.values()] == [False, False, True]
    assert {point.task for point in reports[1].points} == {"qqp"}
    last = {(p.task, p.split, p.metric): p.value for p in reports[3].points}
    sst, qqp, sts = (
        last["sst", "dev", "accuracy"],
        last["qqp", "dev", "accuracy"],
        last["sts", "dev", "pearson"],
    )
    assert last["overall", "dev", "overall"] == pytest.approx((sst + qqp + (1 + sts) / 2) / 3)
    assert ("sst", "train", "accuracy") in last
    assert last["sst", "train", "smart_penalty"] > 0
    assert ("sts", "train", "smart_penalty") not in last


SPARSE = {"smart.weight": 0, "stages.0.epochs": 3, "stages.1.epochs": 3, "stages.1.steps_per_epoch": 4}


def test_scoring_some_epochs_only_changes_no_weight_and_no_other_score(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    config = tiny_config.override(SPARSE)
    every = run_whole(config, tiny_corpus, tiny_encoder)
    some = run_whole(config.override({"stages.0.score_every": 2, "stages.1.score_every": 3}), tiny_corpus, tiny_encoder)
    assert {name for name in every.weights if not torch.equal(every.weights[name], some.weights[name])} == set()
    assert [report.scored_epoch for report in some.reports.values()] == [0, 0, 0, 0, 0, 1]
    assert [report.overall is not None for report in some.reports.values()] == [False] * 5 + [True]
    for epoch, report in some.reports.items():
        if epoch in (2, 3, 6):
            assert scores_of(report) == scores_of(every.reports[epoch])
            assert len(report.predictions) == len(every.reports[epoch].predictions) > 0
        else:
            assert report.predictions == ()
            trained = [part for part in scores_of(every.reports[epoch]) if part[2] == "train"]
            losses = [part for part in scores_of(report) if part[3] == "loss"]
            assert losses
            assert set(scores_of(report)) <= set(trained)


def test_only_scored_epochs_can_be_the_best(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    config, states, kept = tiny_config.override({**SPARSE, "stages.1.score_every": 2}), StateFolder(path=tmp_path), {}

    def note(report: EpochReport) -> bool:
        kept[report.epoch] = {path.name for path in (tmp_path / "weights").glob("epoch-*.safetensors")}
        return True

    train(config, tiny_corpus, tiny_encoder, on_epoch=note, states=states)
    assert kept[4] == kept[3], "the fourth epoch, the first of the second stage, is not scored"
    assert {name for names in kept.values() for name in names} <= {
        f"epoch-{n:04d}.safetensors" for n in (1, 2, 3, 5, 6)
    }


@pytest.mark.parametrize("killed_after", [1, 5, 9, 13])
def test_a_stage_that_starts_from_the_best_scored_epoch_resumes_after_an_epoch_without_scores(
    killed_after: int, tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    config = tiny_config.override({**SPARSE, "stages.0.score_every": 2, "stages.1.start_from": "best"})
    whole = run_whole(config, tiny_corpus, tiny_encoder)
    states, resumed = StateFolder(path=tmp_path), Trace()
    arguments = {"wrap": resumed.watch, "on_epoch": resumed.note, "states": states}
    with pytest.raises(Killed):
        train(config, tiny_corpus, tiny_encoder, on_step=killer(killed_after), **arguments)  # type: ignore[arg-type]
    train(config, tiny_corpus, tiny_encoder, **arguments)  # type: ignore[arg-type]
    assert_same(whole, resumed)


def test_on_epoch_can_end_the_trial(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    seen: list[int] = []

    def stop(report: EpochReport) -> bool:
        seen.append(report.epoch)
        return False

    train(tiny_config, tiny_corpus, tiny_encoder, on_epoch=stop)
    assert seen == [1]


def test_best_weights_are_those_of_the_best_epochs(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    states, after = StateFolder(path=tmp_path), {}
    trace = Trace()

    def note(report: EpochReport) -> bool:
        trace.note(report)
        after[report.epoch] = dict(trace.weights)
        return True

    train(tiny_config, tiny_corpus, tiny_encoder, wrap=trace.watch, on_epoch=note, states=states)
    overall = {epoch: report.overall for epoch, report in trace.reports.items() if report.overall is not None}
    best = max(overall, key=lambda epoch: overall[epoch])
    kept = load_file(tmp_path / weights_file(best))
    assert all(torch.equal(kept[name], tensor) for name, tensor in after[best].items())


def test_kept_weights_are_the_average_that_was_scored(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    config = tiny_config.override({"optimizer.average_power": 1})
    states, reports = StateFolder(path=tmp_path), list[EpochReport]()

    def note(report: EpochReport) -> bool:
        reports.append(report)
        return True

    train(config, tiny_corpus, tiny_encoder, on_epoch=note, states=states)
    best = max((report for report in reports if report.overall is not None), key=lambda report: report.overall or 0)
    model = MultiTaskModel(config, tiny_encoder)
    model.load_state_dict(load_file(tmp_path / weights_file(best.epoch)))
    for part in best.predictions:
        if part.split == "dev":
            again = predict(model, config, tiny_corpus, part.task, "dev", torch.device("cpu"))
            assert np.array_equal(again.logits, part.logits), part.task


def position(states: StateFolder) -> tuple[int, int, int] | None:
    """Stage, epoch and step of the newest saved state."""
    state = load_state(states)
    return None if state is None else tuple(state.numbers[name] for name in ("stage", "epoch", "step"))


@pytest.mark.parametrize("keeps_end", [False, True])
def test_on_stage_is_called_once_after_the_state_of_each_stages_end(
    keeps_end: bool, tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    states, trace = StateFolder(path=tmp_path, keeps_end=keeps_end), Trace()
    seen: list[tuple[int, tuple[int, int, int] | None, list[int]]] = []

    def note(stage: int) -> bool:
        seen.append((stage, position(states), list(trace.reports)))
        return True

    train(tiny_config, tiny_corpus, tiny_encoder, wrap=trace.watch, on_epoch=trace.note, on_stage=note, states=states)
    # Without `keeps_end` the newest state is the one before the last epoch.
    assert seen == [(0, (0, 1, 0), [1]), (1, (1, 2, 0) if keeps_end else (1, 1, 0), [1, 2, 3])]


def test_on_stage_is_called_without_states_and_not_after_a_stopped_trial(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    seen: list[int] = []

    def note(stage: int) -> bool:
        seen.append(stage)
        return True

    train(tiny_config, tiny_corpus, tiny_encoder, on_stage=note)
    assert seen == [0, 1]
    train(tiny_config, tiny_corpus, tiny_encoder, on_epoch=lambda _: False, on_stage=note)
    assert seen == [0, 1]


SHORT = {"smart.weight": 0, "stages.1.steps_per_epoch": 4}
STAGE_STARTS: dict[str, dict[str, Any]] = {
    "last": {"smart.weight": 0.5},
    "best": {"stages.0.epochs": 3, "stages.1.start_from": "best"},
    "best, taught": {
        "stages.0.epochs": 2,
        "stages.1.start_from": "best",
        "proximal.weight": 1,
        "proximal.tasks": "sts",
    },
    "taught, with another decay later": {
        "proximal.weight": 1,
        "proximal.tasks": "sts",
        "proximal.decay": 0.5,
        "proximal.late_decay": 0.9,
        "proximal.early_fraction": 0.5,
    },
    "new optimizer": {"stages.1.reset_optimizer": True},
    "new optimizer, learned weights": {"stages.1.reset_optimizer": True, "loss_weighting": "uncertainty"},
}


@pytest.mark.parametrize("start_from", STAGE_STARTS)
def test_a_run_stopped_at_a_stages_end_continues_bit_for_bit(
    start_from: str, tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    config = tiny_config.override(SHORT | STAGE_STARTS[start_from])
    states, trace = StateFolder(path=tmp_path), Trace()
    whole = run_whole(config, tiny_corpus, tiny_encoder)
    arguments = {"wrap": trace.watch, "on_epoch": trace.note, "states": states}
    train(config, tiny_corpus, tiny_encoder, on_stage=lambda _: False, **arguments)  # type: ignore[arg-type]
    first_epochs = config.stages[0].epochs
    assert list(trace.reports) == list(range(1, first_epochs + 1))
    assert position(states) == (0, first_epochs, 0)
    torch.manual_seed(5)  # another process would have another global stream
    stages: list[int] = []
    train(config, tiny_corpus, tiny_encoder, on_stage=lambda s: stages.append(s) or True, **arguments)  # type: ignore
    assert stages == [1]
    assert_same(whole, trace)


def test_a_state_after_the_last_epoch_ends_at_once_and_a_longer_trial_continues_from_it(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    config, states = tiny_config.override(SHORT), StateFolder(path=tmp_path, keeps_end=True)
    run_whole(config, tiny_corpus, tiny_encoder, states=states)
    assert position(states) == (1, 2, 0)
    assert run_whole(config, tiny_corpus, tiny_encoder, states=states).reports == {}
    longer = config.override({"stages.1.epochs": 4})
    found, whole = (run_whole(longer, tiny_corpus, tiny_encoder, states=where) for where in (states, None))
    assert list(found.reports) == [4, 5]
    assert [scores_of(report) for report in found.reports.values()] == [scores_of(whole.reports[e]) for e in (4, 5)]
    assert all(torch.equal(tensor, found.weights[name]) for name, tensor in whole.weights.items())


def test_the_origin_of_a_trial_has_all_its_parts(tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder) -> None:
    origin = origin_of(tiny_corpus, tiny_encoder, {"encoder": "e"}, {"num_workers": 3})
    assert (origin.encoder, origin.started) == (tiny_encoder.fingerprint, {"encoder": "e"})
    assert origin.environment == {"num_workers": 3}
    assert origin.data == {key: table.fingerprint for key, table in tiny_corpus.items()}


def test_best_weights_of_an_epoch_are_those_of_the_tasks_active_so_far(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    states = StateFolder(path=tmp_path)
    train(tiny_config, tiny_corpus, tiny_encoder, on_stage=lambda _: False, states=states)
    assert {part_of_weight(name) for name in load_file(tmp_path / weights_file(1))} == {"encoder", "heads.qqp"}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_fails_with_task_step_and_loss(
    value: float,
    tiny_config: TrialConfig,
    tiny_corpus: Corpus,
    tiny_encoder: PretrainedEncoder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count_details = mtlib.training.step.count_details

    def poisoned(run: Any, batches: Any, places: Any, details: Any, step: int) -> None:
        if run.total_step == 5:
            details = [[value, *details[0][1:]]]
        count_details(run, batches, places, details, step)

    monkeypatch.setattr(mtlib.training.step, "count_details", poisoned)
    trace = Trace()
    with pytest.raises(TrainingDiverged, match=rf"^(sst|qqp|sts): loss is {value} at step 6$"):
        train(tiny_config, tiny_corpus, tiny_encoder, wrap=trace.watch, on_epoch=trace.note)
    assert list(trace.reports) == [1]


def test_divergence_is_reported_at_its_step(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    wild = tiny_config.override({"optimizer.learning_rate": 1e38})
    with pytest.raises(TrainingDiverged, match=r"qqp: (loss|smart_penalty) is (nan|inf) at step [23]"):
        train(wild, tiny_corpus, tiny_encoder)


BI_ENCODED = {"tasks.qqp.encoding": "bi", "tasks.sts.encoding": "bi"}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"stages.1.sum_losses": True, **BI_ENCODED},
        pytest.param(BI_ENCODED, marks=pytest.mark.slow),
        pytest.param({"stages.1.sum_losses": True, "stages.1.epochs": 24}, marks=pytest.mark.slow),
        pytest.param(
            {"optimizer.schedule": "slanted_triangular", "data.bucket_by_length": False, "stages.1.epochs": 20},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_training_lowers_the_loss(
    changes: dict[str, Any], tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    fast = {
        "encoder.dropout": 0,
        "optimizer.learning_rate": 3e-3,
        "smart.tasks": ["sst"],
        "smart.weight": 0.1,
        "stages.1.epochs": 12,
        "stages.1.order": "batch_round_robin",
    }
    reports = run_whole(tiny_config.override({**fast, **changes}), tiny_corpus, tiny_encoder).reports
    losses = [
        {point.task: point.value for point in report.points if (point.split, point.metric) == ("train", "loss")}
        for report in reports.values()
    ]
    falling = {task: last < 0.9 * losses[1][task] for task, last in losses[-1].items()}
    assert falling == {"sst": True, "qqp": True, "sts": True}, losses


def test_bf16_losses_are_close_to_fp32(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> None:
    short = tiny_config.override({**LONG, "stages.1.epochs": 1, "stages.1.steps_per_epoch": 3})
    whole = record_details(short, tiny_corpus, tiny_encoder, lambda objective: objective)
    mixed = record_details(
        short.override({"precision": "bf16"}), tiny_corpus, tiny_encoder, lambda objective: objective
    )
    assert not torch.equal(whole, mixed)
    assert torch.allclose(whole[:, 0], mixed[:, 0], rtol=0.02)


PAPER = {"smart.weight": 1, "smart.tasks": "sst", "smart.mode": "paper"}


@pytest.mark.parametrize(
    ("changes", "has_it", "expected"),
    [
        ({"precision": "auto"}, True, "bf16"),
        ({"precision": "auto"}, False, "fp32"),
        ({"precision": "auto", **PAPER}, True, "fp32"),
        ({"precision": "fp32"}, True, "fp32"),
        ({"precision": "bf16"}, False, "bf16"),
    ],
)
def test_auto_is_bf16_where_the_hardware_has_it_and_no_setting_refuses_it(
    tiny_config: TrialConfig,
    tiny_corpus: Corpus,
    tiny_encoder: PretrainedEncoder,
    changes: dict[str, Any],
    has_it: bool,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mtlib.train, "has_bf16", lambda on_gpu: has_it and not on_gpu)
    config, cpu = tiny_config.override(changes), torch.device("cpu")
    run = prepare_run(config, tiny_corpus, tiny_encoder, cpu, lambda objective: objective, None)
    assert run.config.precision == expected


def test_a_fourth_task_needs_one_entry_and_its_data(
    tiny_folder: Path,
    tiny_encoder: PretrainedEncoder,
    tiny_config: TrialConfig,
    tmp_path: Path,
) -> None:
    review = Task(
        name="review",
        title="Reviews",
        kind="binary",
        label_range=(0, 1),
        text_columns=("sentence",),
        label_column="sentiment",
        file_stem="review",
    )
    for path in tiny_folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for split in ("train", "dev"):
        rows = [f"{row}\tr{row}\ta {('good', 'bad')[row % 2]} film\t{row % 2}" for row in range(20)]
        (tmp_path / f"review-{split}.csv").write_text("\n".join(["\tid\tsentence\tsentiment", *rows]) + "\n")
    stages = (StageConfig(tasks=("sst", "qqp", "sts", "review"), epochs=8),)
    tasks = {**tiny_config.tasks, "review": default_task_config(review)}
    changes = {"encoder.dropout": 0, "smart.weight": 0}
    data = dataclasses.replace(tiny_config.data, tasks={**TASKS, "review": review})
    config = dataclasses.replace(tiny_config, stages=stages, tasks=tasks, data=data).override(changes)
    corpus = tokenize(read_data(config, tmp_path), tiny_encoder.tokenizer, tmp_path / "cache")
    report = run_whole(config, corpus, tiny_encoder).reports[8]
    scores = {(p.task, p.metric): p.value for p in report.points if p.split == "dev"}
    assert scores["review", "accuracy"] == 1
    parts = [scores["sst", "accuracy"], scores["qqp", "accuracy"], (1 + scores["sts", "pearson"]) / 2, 1]
    assert scores["overall", "overall"] == pytest.approx(sum(parts) / 4)


LONG = {"encoder.dropout": 0, "encoder.attention_dropout": 0, "stages.1.epochs": 4, "stages.0.steps_per_epoch": 7}


def test_workers_with_different_states_stop_together(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["mtlib.train"], "gather_from_workers", lambda place: [place, (1, 0, 0)])
    with pytest.raises(RuntimeError, match=r"workers begin at different places, .* \[\(0, 0, 0\), \(1, 0, 0\)\]"):
        train(tiny_config, tiny_corpus, tiny_encoder)
