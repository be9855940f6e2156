"""Losses that are read late are added once and in order; a trial ends as it does otherwise, some steps later."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import mtlib.train
import mtlib.training.evaluation
import mtlib.training.step
from mtlib.config.trial import TrialConfig
from mtlib.data.batches_ahead import GPU_AHEAD
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.runtime.errors import TrainingDiverged
from mtlib.runtime.late_reading import GPU_DELAY, LateReader, late_reader
from mtlib.stages.sampler import StepBatch
from mtlib.training.run import Run
from mtlib.training.step import Interrupted, read_waiting, take_step
from tests.recorded_details import run_whole

NewRun = Callable[..., Run]
SMALL: dict[str, Any] = {"stages.0.steps_per_epoch": 12, "stages.0.tasks": ("sst", "qqp")}
STEPS = [(StepBatch(set=("sst", "qqp")[n % 2], rows=np.arange(4) + n, turn=n // 2),) for n in range(9)]


def test_values_are_used_in_order_after_the_delay_and_the_rest_when_asked() -> None:
    used: list[list[float]] = []
    reader = LateReader(delay=2)
    for number in range(5):
        reader.submit(torch.tensor([float(number), 0.5]), used.append)
        assert used == [[float(early), 0.5] for early in range(max(0, number - 1))]
    for _ in range(2):
        reader.read()
        assert used == [[float(number), 0.5] for number in range(5)]


def test_only_a_gpu_is_read_late() -> None:
    assert late_reader(torch.device("cpu")) is None
    found = late_reader(torch.device("cuda"))
    assert found is not None
    assert found.delay == GPU_DELAY


def test_divergence_names_its_own_step_and_is_raised_after_the_delay_or_when_all_is_read(
    new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run(SMALL)
    run.unread = LateReader(delay=3)
    sum_details = mtlib.training.step.sum_details

    def poisoned(details: torch.Tensor, is_wanted: bool) -> torch.Tensor:
        found = sum_details(details, is_wanted)
        return found * float("nan") if run.total_step == 2 else found

    monkeypatch.setattr(mtlib.training.step, "sum_details", poisoned)
    for step in STEPS[:5]:
        take_step(run, step)
    with pytest.raises(TrainingDiverged, match=r"^sst: loss is nan at step 3$"):
        take_step(run, STEPS[5])
    run = new_run(SMALL)
    run.unread = LateReader(delay=8)
    for step in STEPS[:4]:
        take_step(run, step)
    with pytest.raises(TrainingDiverged, match="at step 3"):
        read_waiting(run)


def test_a_stop_counts_every_step_that_was_taken_and_no_other(new_run: NewRun) -> None:
    at_once, late = new_run(SMALL), new_run(SMALL)
    late.unread = LateReader(delay=3)
    for step in STEPS[:5]:
        take_step(late, step)
        late.is_wanted = late.total_step < 2
    with pytest.raises(Interrupted, match=r"^ended after step 6$"):
        take_step(late, STEPS[5])
    for step in STEPS[:6]:
        take_step(at_once, step)
    read_waiting(late)  # as before the state is saved: a stop that waits to be read is not raised again
    assert (late.total_step, late.sums) == (at_once.total_step, at_once.sums)


def test_a_trial_as_on_a_gpu_gives_what_a_cpu_gives(
    tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches built ahead in training and evaluation, and losses read late, over stages and epochs."""
    plain = run_whole(tiny_config, tiny_corpus, tiny_encoder)
    monkeypatch.setattr(mtlib.train, "late_reader", lambda _device: LateReader(delay=GPU_DELAY))
    for module in (mtlib.train, mtlib.training.evaluation):
        monkeypatch.setattr(module, "num_ahead", lambda _device: GPU_AHEAD)
    late = run_whole(tiny_config, tiny_corpus, tiny_encoder)
    assert set(late.values()) == set(plain.values())
    for one, other in zip(late.reports.values(), plain.reports.values(), strict=True):
        for mine, its in zip(one.predictions, other.predictions, strict=True):
            assert np.array_equal(mine.logits, its.logits)
