"""A run's position by hand, the optimizer over a stage's end, and states restored from a folder."""

import dataclasses
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mtlib.checkpoints.state import State, StateFolder, load_state, save_state
from mtlib.stages.keys import key_parts
from mtlib.stages.sampler import epoch_steps
from mtlib.training.optimizer import MOMENTS, optimizer_tensors, trained_parameters
from mtlib.training.run import (
    Run,
    begin_next_stage,
    end_epoch,
    group_of,
    kept_weights,
    note_stage_best,
    restore,
    state_of,
)
from mtlib.training.step import take_step

NewRun = Callable[..., Run]
SECOND = 8  # steps of an epoch of the second stage: 4 of SST and 4 of QQP
POSITIONS = [
    # stage, epoch and step within it; steps done within the stage and over all; the epoch over all
    ((0, 0, 0), (0, 0), 1),
    ((0, 0, 3), (3, 3), 1),
    ((1, 0, 0), (0, 4), 2),
    ((1, 0, 5), (5, 9), 2),
    ((1, 1, 0), (SECOND, 4 + SECOND), 3),
    ((1, 1, 7), (SECOND + 7, 11 + SECOND), 3),
]


@pytest.fixture
def run(new_run: NewRun) -> Run:
    """4 steps of QQP, then two epochs of 8 steps of SST and QQP; dropout and SMART on."""
    return new_run({"stages.1.tasks": "sst,qqp"})


def advance(run: Run, steps: int) -> None:
    """Trains `steps` steps, through the ends of epochs."""
    for _ in range(steps):
        take_step(run, epoch_steps(run.config, run.stage, run.epoch, run.lengths, run.own_rows)[run.step])
        if run.step == run.plan[run.stage].steps[run.epoch]:
            next_epoch(run)


def next_epoch(run: Run) -> None:
    """Ends the epoch, and begins the next stage at a stage's end."""
    end_epoch(run)
    if run.is_stage_over and not run.is_over:
        begin_next_stage(run)


def tensors_of(run: Run) -> dict[str, Tensor]:
    """Copies of weights, moments, and the weights of the teacher and of the average."""
    tensors = {**run.model.state_dict(), **optimizer_tensors(run.optimizer, run.model)}
    for kind, average in run.averages.items():
        tensors |= {f"{kind}.{name}": tensor for name, tensor in average.state_dict().items()}
    return {name: tensor.clone() for name, tensor in tensors.items()}


def optimizer_names(run: Run) -> set[str]:
    """Names of the optimizer's parameters."""
    held = {id(parameter) for group in run.optimizer.param_groups for parameter in group["params"]}
    return {name for name, parameter in run.model.named_parameters() if id(parameter) in held}


@pytest.mark.parametrize(("position", "steps", "epoch"), POSITIONS)
def test_the_position_by_hand(position: tuple[int, ...], steps: tuple[int, ...], epoch: int, run: Run) -> None:
    assert [stage.num_steps for stage in run.plan] == [4, 2 * SECOND]
    run.stage, run.epoch, run.step = position
    assert (run.stage_step, run.total_step) == steps
    assert run.total_epoch == epoch
    assert run.is_last_epoch == (epoch == 3)
    assert run.num_steps == 4 + 2 * SECOND


def test_seconds_continue_from_those_before(run: Run) -> None:
    run.seconds_before = 100.0
    run.started = time.monotonic() - 5
    assert 105 <= run.seconds < 106


def test_a_run_continues_until_it_is_stopped(run: Run) -> None:
    assert run.is_wanted
    assert (run.sums, run.best) == ({}, {})


def test_the_next_epoch_of_a_stage_keeps_the_optimizer_and_resets_the_sums(run: Run) -> None:
    advance(run, 4)
    advance(run, SECOND - 1)
    assert (run.stage, run.epoch, run.step) == (1, 0, SECOND - 1)
    assert set(run.sums) == {"sst", "qqp"}
    optimizer, best = run.optimizer, {"qqp": (0.5, 1)}
    run.best = dict(best)
    advance(run, 1)
    assert (run.stage, run.epoch, run.step) == (1, 1, 0)
    assert run.sums == {}
    assert run.best == best
    assert run.optimizer is optimizer


def test_after_the_last_epoch_the_position_is_past_the_end(run: Run) -> None:
    run.stage, run.epoch, run.step = 1, 1, SECOND
    optimizer = run.optimizer
    next_epoch(run)
    assert (run.stage, run.epoch, run.step) == (1, 2, 0)
    assert run.epoch == run.plan[1].epochs
    assert run.total_step == run.num_steps
    assert run.optimizer is optimizer


def test_the_optimizer_is_carried_over_a_stages_end_with_new_heads_added(run: Run) -> None:
    advance(run, 3)
    assert optimizer_names(run) == set(trained_parameters(run.config, run.model, ("qqp",)))
    take_step(run, epoch_steps(run.config, 0, 0, run.lengths, run.own_rows)[3])
    before = tensors_of(run)
    next_epoch(run)
    assert (run.stage, run.epoch, run.step, run.sums) == (1, 0, 0, {})
    after = tensors_of(run)
    assert after.keys() == before.keys()
    assert all(torch.equal(tensor, before[name]) for name, tensor in after.items())
    assert after["heads.qqp.weight.step"] == 4
    assert optimizer_names(run) == set(trained_parameters(run.config, run.model, ("sst", "qqp")))
    assert not [name for name in after if name.startswith("heads.sst.") and name.endswith(MOMENTS)]
    advance(run, 2)  # one of SST, one of QQP
    counts = {name: tensor.item() for name, tensor in tensors_of(run).items() if name.endswith(".step")}
    assert (counts["heads.sst.weight.step"], counts["heads.qqp.weight.step"]) == (1, 5)
    assert counts["encoder.embeddings.word_embeddings.weight.step"] == 6


def test_a_state_holds_weights_and_moments_by_name(run: Run) -> None:
    advance(run, 2)
    state = state_of(run)
    names = trained_parameters(run.config, run.model, ("qqp",))
    moments = {f"optimizer.{name}.{moment}" for name in names for moment in MOMENTS}
    of_others = {"heads.sst.weight", "heads.sst.bias"}  # initial values, which every run that loads the state has
    assert set(state.tensors) == {f"model.{name}" for name in run.model.state_dict().keys() - of_others} | moments
    assert torch.equal(state.tensors["model.heads.qqp.bias"], run.model.get_parameter("heads.qqp.bias"))
    assert state.tensors["optimizer.heads.qqp.bias.step"] == 2
    own = {"stage", "epoch", "step", "sums", "best", "stage_best", "origin", "environments", "seconds"}
    assert set(state.numbers) == own


@pytest.mark.parametrize("steps", [0, 1, 4, 5, 4 + SECOND, 5 + SECOND])
def test_a_run_restored_from_a_folder_continues_bit_for_bit(
    steps: int, run: Run, new_run: NewRun, tmp_path: Path
) -> None:
    folder = StateFolder(path=tmp_path)
    advance(run, steps)
    run.best = {"qqp": (0.1 + 0.2, 1), "overall": (1 / 3, 2)}
    save_state(folder, run.total_step, state_of(run))
    state = load_state(folder)
    assert state is not None
    again = new_run({"stages.1.tasks": "sst,qqp"})
    restore(again, state)
    for one, other in ((run, again), (again, run)):
        assert (one.stage, one.epoch, one.step) == (other.stage, other.epoch, other.step)
        assert (one.sums, one.best) == (other.sums, other.best)
        assert optimizer_names(one) == optimizer_names(other)
    assert all(type(best) is tuple for best in again.best.values())
    for more in (0, 5):
        torch.manual_seed(more)  # another process would have another global stream
        for one in (run, again):
            advance(one, more)
        found = tensors_of(again)
        assert found.keys() == tensors_of(run).keys()
        assert all(torch.equal(tensor, found[name]) for name, tensor in tensors_of(run).items())
        assert run.sums == again.sums


def test_seconds_of_a_resumed_run_exclude_the_interruption(run: Run, new_run: NewRun) -> None:
    run.seconds_before, run.started = 40.0, time.monotonic() - 2
    state = state_of(run)
    assert math.isclose(state.numbers["seconds"], 42, abs_tol=1)
    again = new_run({"stages.1.tasks": "sst,qqp"})
    again.started = time.monotonic() - 10
    restore(again, state)
    assert again.seconds == pytest.approx(state.numbers["seconds"] + 10, abs=1)


KINDS = ["configuration", "data", "encoder", "starting weights", "environment"]


@pytest.mark.parametrize("name", KINDS[:-1])
def test_a_state_of_another_origin_is_refused_in_one_line_before_any_change(name: str, run: Run) -> None:
    state = state_of(run)
    before = {key: tensor.clone() for key, tensor in tensors_of(run).items()}
    origin = state.numbers["origin"]
    assert list(origin) == KINDS
    foreign: dict[str, Any] = {**state.numbers, "origin": {**origin, name: "f" * 64}, "step": 3}
    with pytest.raises(ValueError) as caught:
        restore(run, dataclasses.replace(state, numbers=foreign))
    rule = f"a saved state must be of the same {name}, {origin[name][:12]}"
    assert str(caught.value) == f"{rule}, got {'f' * 12}"
    assert run.step == 0
    assert all(torch.equal(tensor, before[key]) for key, tensor in tensors_of(run).items())
    restore(run, state)


def test_a_state_of_another_environment_is_used_and_all_later_states_say_so(run: Run, new_run: NewRun) -> None:
    state, own = state_of(run), state_of(run).numbers["origin"]["environment"]
    foreign = {**state.numbers, "origin": {**state.numbers["origin"], "environment": "f" * 64}, "step": 3}
    restore(run, dataclasses.replace(state, numbers=foreign))
    assert (run.step, run.environments) == (3, ("f" * 64,))
    later = state_of(run)
    assert later.numbers["origin"]["environment"] == own
    again = new_run({"stages.1.tasks": "sst,qqp"})
    restore(again, later)
    assert again.environments == ("f" * 64, own)
    restore(again, state)
    assert not again.environments


def test_the_origin_of_a_state_holds_only_what_affects_it(run: Run, new_run: NewRun) -> None:
    origin = state_of(run).numbers["origin"]
    assert origin == key_parts(run.config, 0, 0, run.origin)
    for changes, differing in (({"seed": 1}, {"configuration"}), ({"tasks.sst.batch_size": 3}, set())):
        other = state_of(new_run({"stages.1.tasks": "sst,qqp", **changes})).numbers["origin"]
        assert {name for name in KINDS if other[name] != origin[name]} == differing


def test_a_state_of_an_equal_first_stage_is_restored_and_new_heads_are_kept(run: Run, new_run: NewRun) -> None:
    advance(run, 3)
    other = new_run({"stages.1.tasks": "sst,qqp", "tasks.sst.hidden_units": 5, "stages.1.order": "uniform"})
    before = tensors_of(other)
    restore(other, state_of(run))
    after, trained = tensors_of(other), tensors_of(run)
    for name in other.model.state_dict():
        expected = before if name.startswith("heads.sst.") else trained
        assert torch.equal(after[name], expected[name]), name
    assert after["heads.sst.hidden.weight"].shape[0] == 5


def test_a_state_beyond_the_trials_stages_or_epochs_is_refused(run: Run, new_run: NewRun) -> None:
    advance(run, 4 + SECOND)
    other = new_run({"stages.1.tasks": "sst,qqp", "stages.1.epochs": 1})
    restore(other, state_of(run))  # after its last epoch
    assert other.is_over
    numbers = {**state_of(run).numbers, "epoch": 3}
    with pytest.raises(ValueError, match="a saved state must be of the same configuration, got one after epoch 3 of"):
        restore(run, dataclasses.replace(state_of(run), numbers=numbers))


def test_a_state_without_the_best_weights_of_the_next_stage_is_refused(new_run: NewRun) -> None:
    plain, from_best = new_run({**FROM_BEST, "stages.1.start_from": "last"}), new_run(FROM_BEST)
    restore(from_best, state_of(plain))  # none yet: no epoch has been scored
    finish_epoch(plain, 0.5)
    with pytest.raises(ValueError, match=r"must hold the stage's best weights, .*, got one without them$"):
        restore(from_best, state_of(plain))
    finish_epoch(from_best, 0.5)
    restore(plain, state_of(from_best))  # more than it needs
    assert plain.stage_best is None


def test_tensors_are_grouped_by_the_prefix_of_their_names() -> None:
    a, b = torch.zeros(1), torch.ones(1)
    state = State(tensors={"model.a": a, "optimizer.model.a": b, "modelled": b}, numbers={})
    assert group_of(state, "model.") == {"a": a}
    assert group_of(state, "optimizer.") == {"model.a": b}


TWO_TASKS = {"stages.1.tasks": "sst,qqp"}
TEACHING = {"proximal.weight": 1, "proximal.tasks": "qqp", "proximal.decay": 0.8}
FROM_BEST = {**TWO_TASKS, **TEACHING, "stages.0.epochs": 3, "stages.1.start_from": "best"}


def finish_epoch(run: Run, score: float) -> dict[str, Tensor]:
    """Trains the rest of an epoch of the first stage and records its score; returns the final weights."""
    while run.step < run.plan[0].steps[run.epoch]:
        take_step(run, epoch_steps(run.config, 0, run.epoch, run.lengths, run.own_rows)[run.step])
    note_stage_best(run, score)
    weights = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    next_epoch(run)
    return weights


@pytest.mark.parametrize(
    ("scores", "best"), [((0.5, 0.7, 0.6), 1), ((0.7, 0.6, 0.5), 0), ((0.1, 0.2, 0.3), 2), ((0.4, 0.4, 0.3), 0)]
)
def test_a_stage_that_starts_from_the_best_epoch_has_its_weights_and_a_new_optimizer_and_teacher(
    scores: tuple[float, ...], best: int, new_run: NewRun
) -> None:
    run = new_run(FROM_BEST)
    after = [finish_epoch(run, score) for score in scores]
    assert (run.stage, run.epoch, run.step) == (1, 0, 0)
    assert not all(torch.equal(after[best][name], tensor) for name, tensor in after[best - 1].items())
    assert run.teacher is not None
    for name, tensor in after[best].items():
        assert torch.equal(run.model.state_dict()[name], tensor), name
        assert torch.equal(run.teacher.state_dict()[name], tensor), name
    assert optimizer_tensors(run.optimizer, run.model) == {}
    assert optimizer_names(run) == set(trained_parameters(run.config, run.model, ("sst", "qqp")))
    assert run.stage_best is None  # no stage starts from the best epoch of this one
    assert not any(module.training for module in run.teacher.modules())
    assert run.model.training


def test_best_weights_are_kept_only_for_a_stage_that_starts_from_them(new_run: NewRun) -> None:
    run = new_run({**FROM_BEST, "stages.1.start_from": "last"})
    weights = [finish_epoch(run, score) for score in (0.9, 0.2, 0.1)][-1]
    assert run.stage_best is None
    assert all(torch.equal(tensor, weights[name]) for name, tensor in run.model.state_dict().items())
    last = new_run(FROM_BEST)
    last.stage = 1
    note_stage_best(last, 0.5)
    assert last.stage_best is None


def test_kept_weights_do_not_change_with_the_model(new_run: NewRun) -> None:
    run = new_run(FROM_BEST)
    weights = finish_epoch(run, 0.5)
    finish_epoch(run, 0.4)
    assert run.stage_best is not None
    score, kept = run.stage_best
    assert score == 0.5
    assert kept.keys() == kept_weights(run, run.model).keys()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in kept.items())
    assert not torch.equal(kept["heads.qqp.weight"], run.model.get_parameter("heads.qqp.weight"))


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_new_optimizer_keeps_the_last_weights_and_the_teacher(is_reset: bool, new_run: NewRun) -> None:
    run = new_run({**TWO_TASKS, **TEACHING, "stages.1.reset_optimizer": is_reset})
    advance(run, 3)
    take_step(run, epoch_steps(run.config, 0, 0, run.lengths, run.own_rows)[3])
    before = tensors_of(run)
    next_epoch(run)
    after = tensors_of(run)
    moments = {name for name in before if name.endswith(MOMENTS)}
    assert moments
    assert after.keys() == (before.keys() - moments if is_reset else before.keys())
    assert all(torch.equal(tensor, before[name]) for name, tensor in after.items())
    assert [name for name in after if name.startswith("teacher.")]
    advance(run, 1)
    assert tensors_of(run)["encoder.embeddings.word_embeddings.weight.step"] == (1 if is_reset else 5)


@pytest.mark.parametrize("start", ["last", "best"])
def test_the_next_stage_starts_from_the_average(start: str, new_run: NewRun) -> None:
    run = new_run({**TWO_TASKS, **TEACHING, "optimizer.average_power": 1, "stages.1.start_from": start})
    advance(run, 3)
    take_step(run, epoch_steps(run.config, 0, 0, run.lengths, run.own_rows)[3])
    before = tensors_of(run)
    note_stage_best(run, 0.5)
    next_epoch(run)
    after = tensors_of(run)
    changed = []
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(tensor, before[f"average.{name}"]), name
        assert torch.equal(tensor, after[f"teacher.{name}"]), name
        changed += [name] * (not torch.equal(tensor, before[name]))
    assert any(name.startswith("encoder.") for name in changed)
    has_moments = any(name.endswith(MOMENTS) for name in after)
    assert has_moments == (start == "last")
    advance(run, 1)
    first = tensors_of(run)
    assert all(torch.equal(first[name], first[f"average.{name}"]) for name in run.model.state_dict())
    advance(run, 1)
    second = tensors_of(run)
    assert not torch.equal(second["heads.qqp.weight"], second["average.heads.qqp.weight"])


@pytest.mark.parametrize("steps", [2, 4, 6, 9, 13])
def test_a_run_with_teacher_and_best_weights_is_restored_bit_for_bit(
    steps: int, new_run: NewRun, tmp_path: Path
) -> None:
    learning = {**FROM_BEST, "loss_weighting": "uncertainty", "optimizer.average_power": 2}
    folder, run = StateFolder(path=tmp_path), new_run(learning)
    advance_with_best(run, steps)
    save_state(folder, run.total_step, state_of(run))
    state = load_state(folder)
    assert state is not None
    assert (state.numbers["stage_best"] is None) == (run.stage_best is None) == (steps not in (4, 6, 9))
    assert {name.split(".")[0] for name in state.tensors} >= {"teacher", "average"}
    again = new_run(learning)
    restore(again, state)
    for more in (0, 2, 4, 5):
        torch.manual_seed(more)  # another process would have another global stream
        for one in (run, again):
            advance_with_best(one, more)
        assert_equal(tensors_of(run), tensors_of(again))
        assert (run.stage, run.epoch, run.step, run.sums) == (again.stage, again.epoch, again.step, again.sums)
        assert (run.stage_best is None) == (again.stage_best is None)
        if run.stage_best is not None and again.stage_best is not None:
            assert run.stage_best[0] == again.stage_best[0]
            assert_equal(run.stage_best[1], again.stage_best[1])


def advance_with_best(run: Run, steps: int) -> None:
    """Trains `steps` steps; the second epoch of the first stage is its best."""
    for _ in range(steps):
        take_step(run, epoch_steps(run.config, run.stage, run.epoch, run.lengths, run.own_rows)[run.step])
        if run.step == run.plan[run.stage].steps[run.epoch]:
            note_stage_best(run, (1 / 3, 2 / 3, 1 / 2)[run.epoch])
            next_epoch(run)


def assert_equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
