"""A stage that loses its patience: it ends where it would have been planned to end, and survives kills."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

import mtlib.train
import mtlib.training.epoch_report
from mtlib.checkpoints.state import StateFolder, newest_numbers
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.train import train
from mtlib.training.epoch_report import EpochReport
from mtlib.training.run import Run
from tests.mtlib.test_train import resume_after_a_kill
from tests.recorded_details import Trace, run_whole, values_of

Trial = tuple[TrialConfig, Corpus, PretrainedEncoder]
LONG = {"stages.0.epochs": 6, "stages.0.steps_per_epoch": 2, "stages.1.steps_per_epoch": 3, "stages.1.epochs": 3}
OVERALL_SCORES = {2: 0.5, 4: 0.6, 6: 0.6, 8: 0.55, 10: 0.7, 12: 0.7}
"""By the number of optimizer steps; later scores fall."""


@pytest.fixture
def trial(tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder) -> Trial:
    return tiny_config.override({"smart.weight": 0, **LONG}), tiny_corpus, tiny_encoder


@pytest.fixture(autouse=True)
def _scored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The overall score of an epoch follows from its number of optimizer steps."""
    real = mtlib.training.epoch_report.report_epoch

    def report(run: Run) -> EpochReport:
        score = OVERALL_SCORES.get(run.total_step, 1 / run.total_step)
        monkeypatch.setattr(mtlib.training.epoch_report, "overall_score", lambda *_scores: score)
        return real(run)

    monkeypatch.setattr(mtlib.train, "report_epoch", report)


def patient(trial: Trial, first: int | None, second: int | None = None) -> Trial:
    changes = {"stages.0.patience": first, "stages.1.patience": second}
    return trial[0].override({name: value for name, value in changes.items() if value}), *trial[1:]


def trained(reports: Sequence[EpochReport]) -> list[EpochReport]:
    """The epochs that took steps."""
    return [one for one in reports if any(own.metric == "steps" and own.value for own in one.points)]


def test_a_stage_that_has_not_risen_ends_as_if_that_had_been_planned(trial: Trial) -> None:
    early = run_whole(*patient(trial, 2, 1))
    planned = run_whole(trial[0].override({"stages.0.epochs": 4, "stages.1.epochs": 2}), *trial[1:])
    assert list(early.reports) == list(range(1, 10))
    found, expected = trained(list(early.reports.values())), list(planned.reports.values())
    assert [report.epoch for report in found] == [1, 2, 3, 4, 7, 8]
    assert [report.step for report in found] == [report.step for report in expected] == [2, 4, 6, 8, 11, 14]
    assert [values_of(report) for report in found] == [values_of(report) for report in expected]
    assert all(torch.equal(tensor, planned.weights[name]) for name, tensor in early.weights.items())

    skipped = [early.reports[epoch] for epoch in (5, 6, 9)]
    assert [(report.step, report.overall) for report in skipped] == [(8, None), (8, None), (14, None)]
    assert all(not report.predictions for report in skipped)
    assert {part[3]: part[4] for report in skipped for part in values_of(report)} == {"tokens": 0, "steps": 0}
    assert [report.is_last for report in early.reports.values()] == [False] * 8 + [True]


@pytest.mark.parametrize(("patience", "steps"), [(1, 6), (2, 8), (3, 12), (9, 12)])
def test_patience_counts_evaluations_since_the_highest_score(trial: Trial, patience: int, steps: int) -> None:
    """A score that is equal has not risen. With 3, the fifth epoch rises in time."""
    assert run_whole(*patient(trial, patience)).reports[6].step == steps


def test_epochs_that_are_not_scored_do_not_count(trial: Trial) -> None:
    every_second = trial[0].override({"stages.0.score_every": 2}), *trial[1:]
    assert run_whole(*patient(every_second, 1)).reports[6].step == 8


@pytest.mark.parametrize("killed_after", [7, 8, 9, 14])
def test_a_killed_run_has_the_same_patience(trial: Trial, killed_after: int, tmp_path: Path) -> None:
    trial = patient(trial, 2, 1)
    whole = run_whole(*trial)
    resumed = resume_after_a_kill(trial, StateFolder(path=tmp_path, checkpoint_steps=1), killed_after)
    assert resumed.values() == whole.values()
    assert all(torch.equal(tensor, whole.weights[name]) for name, tensor in resumed.weights.items())


def test_a_state_after_skipped_epochs_knows_the_steps_that_were_taken(trial: Trial, tmp_path: Path) -> None:
    states = StateFolder(path=tmp_path)
    train(*patient(trial, 2), states=states, on_stage=lambda _stage: False)
    numbers = newest_numbers(states)
    assert numbers is not None
    assert (numbers["epoch"], numbers["skipped_steps"]) == (6, 4)
    trace = Trace()
    train(*patient(trial, 2), wrap=trace.watch, on_epoch=trace.note, states=states)
    assert list(trace.reports) == [7, 8, 9]
    assert [report.step for report in trace.reports.values()] == [11, 14, 17]
