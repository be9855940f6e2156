"""A run's position by hand, what the next stage starts from, and states restored from a folder."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mtlib.checkpoints.state import StateFolder, load_state, save_state
from mtlib.stages.sampler import epoch_steps
from mtlib.training.optimizer import MOMENTS, optimizer_tensors, trained_parameters
from mtlib.training.run import Run, begin_next_stage, count_step, end_epoch, note_stage_best, restore, state_of
from mtlib.training.step import take_step

NewRun = Callable[..., Run]
SECOND = 8  # steps of an epoch of the second stage: 4 of SST and 4 of QQP
TWO_TASKS = {"stages.1.tasks": "sst,qqp"}
TEACHING = {"proximal.weight": 1, "proximal.tasks": "qqp", "proximal.decay": 0.8}
FROM_BEST = {**TWO_TASKS, **TEACHING, "stages.0.epochs": 3, "stages.1.start_from": "best"}
LEARNING = {**FROM_BEST, "loss_weighting": "uncertainty", "optimizer.average_power": 2}
FAMO = {"stages.0.tasks": "sst,qqp", "stages.0.sum_losses": True, "loss_weighting": "famo", "smart.weight": 0}


@pytest.fixture
def run(new_run: NewRun) -> Run:
    """4 steps of QQP, then two epochs of 8 steps of SST and QQP; dropout and SMART on."""
    return new_run(TWO_TASKS)


def train_epoch(run: Run, steps: int | None = None) -> None:
    """Takes some steps within an epoch, or all that are left."""
    planned = epoch_steps(run.config, run.stage, run.epoch, run.lengths, run.own_rows)[run.step :]
    for step in planned[:steps]:
        take_step(run, step)


def advance(run: Run, steps: int) -> None:
    """Takes steps through the ends of epochs; the second epoch of the first stage is its best."""
    for _ in range(steps):
        train_epoch(run, 1)
        if run.step == run.plan[run.stage].steps[run.epoch]:
            next_epoch(run, (1 / 3, 2 / 3, 1 / 2)[run.epoch])


def next_epoch(run: Run, score: float) -> None:
    """Notes the epoch's score and ends it, and begins the next stage at a stage's end."""
    note_stage_best(run, score)
    end_epoch(run)
    if run.is_stage_over and not run.is_over:
        begin_next_stage(run)


def tensors_of(run: Run) -> dict[str, Tensor]:
    """Copies of the tensors that decide how a run continues."""
    tensors = {**run.model.state_dict(), **optimizer_tensors(run.optimizer, run.model), **run.method_state}
    for kind, average in run.averages.items():
        tensors |= {f"{kind}.{name}": tensor for name, tensor in average.state_dict().items()}
    if run.stage_best is not None:
        tensors |= {f"best.{name}": tensor for name, tensor in run.stage_best[1].items()}
    return {name: tensor.clone() for name, tensor in tensors.items()}


def assert_equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    assert {name for name, tensor in one.items() if not torch.equal(tensor, other[name])} == set()


def optimizer_names(run: Run) -> set[str]:
    """Names of the optimizer's parameters."""
    held = {id(parameter) for group in run.optimizer.param_groups for parameter in group["params"]}
    return {name for name, parameter in run.model.named_parameters() if id(parameter) in held}


def changed(numbers: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Numbers of a state with another origin."""
    return {**numbers, "origin": {**numbers["origin"], **changes}}


@pytest.mark.parametrize(
    ("position", "stage_step", "total_step", "epoch"),
    [((0, 0, 3), 3, 3, 1), ((1, 0, 5), 5, 9, 2), ((1, 1, 7), SECOND + 7, 11 + SECOND, 3)],
)
def test_the_position_by_hand(
    position: tuple[int, int, int], stage_step: int, total_step: int, epoch: int, run: Run
) -> None:
    run.stage, run.epoch, run.step = position
    assert (run.stage_step, run.total_step, run.total_epoch) == (stage_step, total_step, epoch)
    assert run.is_last_epoch == (epoch == 3)
    assert run.num_steps == 4 + 2 * SECOND


def test_rows_and_tokens_of_steps_are_counted(run: Run) -> None:
    rows, tokens = 0, 0
    for step in epoch_steps(run.config, 0, 0, run.lengths, run.own_rows)[:2]:
        count_step(run, step)
        rows, tokens = rows + 8, tokens + int(run.lengths["qqp"][step[0].rows].sum())
    assert (run.num_rows, run.num_tokens) == (rows, tokens)


@pytest.mark.parametrize("is_reset", [False, True])
def test_the_optimizer_is_carried_over_a_stages_end_or_begins_again(is_reset: bool, new_run: NewRun) -> None:
    run = new_run({**TWO_TASKS, **TEACHING, "stages.1.reset_optimizer": is_reset})
    train_epoch(run)
    assert optimizer_names(run) == set(trained_parameters(run.config, run.model, ("qqp",)))
    before = tensors_of(run)
    next_epoch(run, 0.5)
    assert_equal(
        tensors_of(run), {name: one for name, one in before.items() if not (is_reset and name.endswith(MOMENTS))}
    )
    assert optimizer_names(run) == set(trained_parameters(run.config, run.model, ("sst", "qqp")))
    advance(run, 2)  # one of SST, one of QQP
    steps = [tensors_of(run)[f"heads.{task}.weight.step"] for task in ("sst", "qqp")]
    assert steps == ([1, 1] if is_reset else [1, 5])


@pytest.mark.parametrize("is_reset", [False, True])
def test_the_state_of_a_loss_weighting_is_carried_over_a_stages_end_or_begins_again(
    is_reset: bool, new_run: NewRun
) -> None:
    run = new_run({**FAMO, "stages.1.reset_optimizer": is_reset})
    train_epoch(run, 1)
    kept = dict(run.method_state)
    assert kept
    end_epoch(run)
    begin_next_stage(run)
    assert_equal(run.method_state, {} if is_reset else kept)


@pytest.mark.parametrize(("scores", "best"), [((0.5, 0.7, 0.6), 1), ((0.4, 0.4, 0.3), 0)])
def test_a_stage_that_starts_from_the_best_epoch_has_its_weights_and_a_new_optimizer_and_teacher(
    scores: tuple[float, ...], best: int, new_run: NewRun
) -> None:
    run, after = new_run(FROM_BEST), []
    for score in scores:
        train_epoch(run)
        after.append({name: tensor.clone() for name, tensor in run.model.state_dict().items()})
        next_epoch(run, score)
    assert (run.stage, run.epoch, run.step) == (1, 0, 0)
    assert run.teacher is not None
    assert_equal(dict(run.model.state_dict()), after[best])
    assert_equal(dict(run.teacher.state_dict()), after[best])
    assert not torch.equal(after[best]["heads.qqp.weight"], after[-1]["heads.qqp.weight"])
    assert optimizer_tensors(run.optimizer, run.model) == {}
    note_stage_best(run, 1.0)
    assert run.stage_best is None, "no stage starts from the best epoch of this one"


@pytest.mark.parametrize("start", ["last", "best"])
def test_the_next_stage_starts_from_the_average(start: str, new_run: NewRun) -> None:
    run = new_run({**TWO_TASKS, **TEACHING, "optimizer.average_power": 1, "stages.1.start_from": start})
    train_epoch(run)
    before = tensors_of(run)
    next_epoch(run, 0.5)
    after = tensors_of(run)
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(tensor, before[f"average.{name}"]), name
        assert torch.equal(tensor, after[f"teacher.{name}"]), name
    assert not torch.equal(after["heads.qqp.weight"], before["heads.qqp.weight"])
    assert any(name.endswith(MOMENTS) for name in after) == (start == "last")


@pytest.mark.parametrize(
    ("changes", "steps"),
    [(TWO_TASKS, 0), (TWO_TASKS, 4), (LEARNING, 6), (LEARNING, 4 + SECOND), (FAMO, 3)],
)
def test_a_run_restored_from_a_folder_continues_bit_for_bit(
    changes: dict[str, Any], steps: int, new_run: NewRun, tmp_path: Path
) -> None:
    """Before any step, at a stage's and at an epoch's end, and within epochs of both stages."""
    run, again, folder = new_run(changes), new_run(changes), StateFolder(path=tmp_path)
    advance(run, steps)
    run.best = {"qqp": (0.1 + 0.2, 1), "overall": (1 / 3, 2)}
    save_state(folder, run.total_step, state_of(run))
    state = load_state(folder)
    assert state is not None
    restore(again, state)
    assert optimizer_names(run) == optimizer_names(again)
    for more in (0, 5):
        torch.manual_seed(more)  # another process would have another global stream
        for one in (run, again):
            advance(one, more)
        assert_equal(tensors_of(run), tensors_of(again))
        assert (run.stage, run.epoch, run.step, run.sums) == (again.stage, again.epoch, again.step, again.sums)
        assert (run.stage_best or [None])[0] == (again.stage_best or [None])[0]
        assert run.best == again.best


def test_a_state_of_another_origin_is_refused_before_any_change(run: Run) -> None:
    state, before = state_of(run), tensors_of(run)
    foreign = dataclasses.replace(state, numbers=changed({**state.numbers, "step": 3}, data="f" * 64))
    with pytest.raises(ValueError, match=r"^a saved state must be of the same data, \w{12}, got f{12}$"):
        restore(run, foreign)
    assert run.step == 0
    assert_equal(tensors_of(run), before)


def test_a_state_of_another_environment_is_used_and_all_later_states_say_so(run: Run, new_run: NewRun) -> None:
    state, again = state_of(run), new_run(TWO_TASKS)
    restore(run, dataclasses.replace(state, numbers=changed({**state.numbers, "step": 3}, environment="f" * 64)))
    assert (run.step, run.environments) == (3, ("f" * 64,))
    restore(again, state_of(run))
    assert again.environments == ("f" * 64, state.numbers["origin"]["environment"])
    restore(again, state)
    assert not again.environments


def test_a_state_beyond_the_trials_epochs_is_refused(run: Run, new_run: NewRun) -> None:
    advance(run, 4 + SECOND)
    other = new_run({**TWO_TASKS, "stages.1.epochs": 1})
    restore(other, state_of(run))  # after its last epoch
    assert other.is_over
    state = state_of(run)
    for place in ({"epoch": 3}, {"stage": 2}):
        with pytest.raises(ValueError, match=r"must be of the same configuration, got one after epoch \d of stage \d$"):
            restore(run, dataclasses.replace(state, numbers={**state.numbers, **place}))


def test_a_state_without_the_best_weights_of_the_next_stage_is_refused(new_run: NewRun) -> None:
    plain, from_best = new_run({**FROM_BEST, "stages.1.start_from": "last"}), new_run(FROM_BEST)
    restore(from_best, state_of(plain))  # none yet: no epoch has been scored
    for one in (plain, from_best):
        next_epoch(one, 0.5)
    with pytest.raises(ValueError, match="must hold the stage's best weights"):
        restore(from_best, state_of(plain))
    restore(plain, state_of(from_best))  # more than it needs
    assert plain.stage_best is None
