"""One optimizer step against AdamW by hand, what workers agree on, and that a refused step changes nothing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

import mtlib.step
from mtlib.batches import Batch
from mtlib.losses import TrainingDiverged
from mtlib.optim import optimizer_tensors
from mtlib.run_state import Run
from mtlib.samplers import Step
from mtlib.step import Interrupted, agree, batch_of, count_details, stop_if_unwanted, stream_of, take_step

NewRun = Callable[..., Run]
PLAIN = {"encoder.dropout": 0, "encoder.attention_dropout": 0, "smart.weight": 0}
QQP = Step(batches=(("qqp", np.arange(8)),))
BOTH = Step(batches=(("sst", np.arange(8, 14)), ("qqp", np.arange(8))))


def everything(run: Run) -> dict[str, Any]:
    """Whatever a step changes, as copies."""
    tensors = {**run.model.state_dict(), **optimizer_tensors(run.optimizer, run.model)}
    return {
        "tensors": {name: tensor.clone() for name, tensor in tensors.items()},
        "sums": {task: list(sums) for task, sums in run.sums.items()},
        "position": (run.stage, run.epoch, run.step),
        "rate": [group["lr"] for group in run.optimizer.param_groups],
    }


def assert_unchanged(run: Run, before: dict[str, Any]) -> None:
    now = everything(run)
    assert {key: now[key] for key in now if key != "tensors"} == {key: before[key] for key in now if key != "tensors"}
    assert now["tensors"].keys() == before["tensors"].keys()
    assert all(torch.equal(tensor, before["tensors"][name]) for name, tensor in now["tensors"].items())


def loss_by_hand(run: Run, batch: Batch) -> Tensor:
    """The mean loss of a full batch of SST or QQP, from torch's own functions."""
    logits = run.model(batch).logits
    if batch.task == "sst":
        return functional.cross_entropy(logits, batch.labels.long())
    return functional.binary_cross_entropy_with_logits(logits[:, 0], batch.labels)


def test_the_first_step_is_that_of_adamw_by_hand(new_run: NewRun) -> None:
    run = new_run({**PLAIN, "optimizer.schedule": "slanted_triangular", "tasks.qqp.loss_weight": 0.5})
    loss = 0.5 * loss_by_hand(run, batch_of(run, *QQP.batches[0]))
    parameters = {name: part for name, part in run.model.named_parameters() if not name.startswith("heads.s")}
    gradients = dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))
    before = {name: parameter.detach().clone() for name, parameter in run.model.named_parameters()}
    take_step(run, QQP)
    rate = 1e-3 * (4 - 0.5) / (4 - 0.4)  # the middle of the first of 4 steps, of which .4 rise
    assert [group["lr"] for group in run.optimizer.param_groups] == [pytest.approx(rate)]
    for name, parameter in run.model.named_parameters():
        if name in gradients:  # both moments are corrected for their start: the step is the gradient's sign, nearly
            stepped = gradients[name] / (gradients[name].abs() + 1e-8)
            # Where a gradient is nothing but rounding, so is its sign.
            is_clear = gradients[name].abs() > 1e-6
            expected = before[name] * (1 - rate * 0.01) - rate * stepped
            assert torch.allclose(parameter[is_clear], expected[is_clear], rtol=1e-5, atol=2e-5), name
        else:
            assert torch.equal(parameter, before[name]), name
            assert parameter.grad is None
    assert gradients["heads.qqp.weight"].abs().max() > 1e-3
    assert (run.step, run.total_step) == (1, 1)


def test_the_batches_of_a_summed_step_add_up_to_one_gradient(new_run: NewRun) -> None:
    run = new_run({**PLAIN, "stages.0.tasks": "sst,qqp", "stages.0.sum_losses": True})
    sst, qqp = (batch_of(run, *batch) for batch in BOTH.batches)
    loss = loss_by_hand(run, sst) * 6 / 8 + loss_by_hand(run, qqp)  # 6 rows of 8
    weight = run.model.get_parameter("encoder.encoder.layer.0.output.dense.weight")
    (gradient,) = torch.autograd.grad(loss, weight)
    take_step(run, BOTH)
    moments = optimizer_tensors(run.optimizer, run.model)
    first = moments["encoder.encoder.layer.0.output.dense.weight.exp_avg"]
    assert torch.allclose(first, 0.1 * gradient, rtol=1e-3, atol=1e-7)
    assert {name for name in moments if name.startswith("heads.") and name.endswith(".step")} == {
        f"heads.{task}.{part}.step" for task in ("sst", "qqp") for part in ("weight", "bias")
    }
    assert run.step == 1


def test_losses_are_summed_over_rows_from_step_to_step(new_run: NewRun) -> None:
    run = new_run({**PLAIN, "stages.0.tasks": "sst,qqp", "stages.0.sum_losses": True})
    expected = {"sst": [0.0, 0.0, 0.0, 0], "qqp": [0.0, 0.0, 0.0, 0]}
    for step in (BOTH, QQP, BOTH):
        for task, rows in step.batches:
            expected[task][0] += loss_by_hand(run, batch_of(run, task, rows)).item() * len(rows)
            expected[task][3] += len(rows)
        take_step(run, step)
    assert {task: pytest.approx(sums, rel=1e-4) for task, sums in expected.items()} == run.sums
    assert [run.sums[task][3] for task in ("sst", "qqp")] == [12, 24]


def test_a_step_follows_from_the_runs_position_and_not_from_what_was_drawn_before(new_run: NewRun) -> None:
    changes = {"encoder.dropout": 0.3, "smart.weight": 1, "smart.noise_std": 0.1}
    runs = [new_run(changes) for _ in range(2)]
    for number, run in enumerate(runs):
        torch.manual_seed(number)
        for _ in range(2):
            take_step(run, QQP)
    assert_unchanged(runs[0], everything(runs[1]))
    other = new_run(changes)
    other.step = 1  # the same rows at another place of the stage draw other dropout and noise
    take_step(other, QQP)
    assert other.sums["qqp"] != runs[0].sums["qqp"]
    assert everything(other)["position"] == (0, 0, 2)


def test_streams_differ_by_all_that_names_them_and_by_nothing_else(new_run: NewRun) -> None:
    run = new_run()
    seeds = {stream_of(run, purpose, part) for purpose in ("noise", "dropout") for part in ("sst", "qqp", 0, 1)}
    for change in ({"seed": 1}, {"replicate": 1}):
        seeds.add(stream_of(new_run(change), "noise", "sst"))
    run.step = 1
    seeds.add(stream_of(run, "noise", "sst"))
    run.stage, run.step = 1, 0
    seeds.add(stream_of(run, "noise", "sst"))
    assert len(seeds) == 12
    assert stream_of(new_run({"optimizer.learning_rate": 1, "smart.weight": 0}), "noise", "sst") in seeds


def test_dropout_differs_by_worker_and_noise_does_not(new_run: NewRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run, asked = new_run(), []
    monkeypatch.setattr(mtlib.step, "num_workers", lambda: 2)

    def objective(_batches: list[Batch], seeds: list[int]) -> tuple[Tensor, Tensor]:
        asked.append((torch.initial_seed(), *seeds))
        return torch.tensor(0.0), torch.full((2, 3), float("nan"))

    monkeypatch.setattr(run.objective, "forward", objective)
    for rank in (0, 1):
        monkeypatch.setattr(mtlib.step, "worker_rank", lambda rank=rank: rank)
        with pytest.raises(TrainingDiverged):
            take_step(run, BOTH)
    assert asked[0][0] != asked[1][0]
    assert asked[0][1:] == asked[1][1:]
    assert len(set(asked[0])) == 3


def test_each_worker_takes_its_own_rows(new_run: NewRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run, rows = new_run(), np.array([9, 3, 60, 4, 17])
    whole = batch_of(run, "qqp", rows)
    assert whole.rows.tolist() == rows.tolist()
    assert np.array_equal(whole.labels.numpy(), run.corpus.tables["qqp", "train"].labels[rows])
    monkeypatch.setattr(mtlib.step, "num_workers", lambda: 2)
    monkeypatch.setattr(mtlib.step, "worker_rank", lambda: 1)
    shard = batch_of(run, "qqp", rows)
    assert (shard.rows.tolist(), shard.num_rows) == ([3, 4], 5)
    assert torch.equal(shard.inputs[0].input_ids, whole.inputs[0].input_ids[1::2])


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("column", [0, 1, 2])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_not_finite_ends_the_step_before_anything_changes(
    value: float, column: int, place: int, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run({**PLAIN, "stages.0.tasks": "sst,qqp"})
    for _ in range(3):
        take_step(run, BOTH)
    before, forward = everything(run), run.objective.forward

    def poisoned(batches: list[Batch], seeds: list[int]) -> tuple[Tensor, Tensor]:
        loss, details = forward(batches, seeds)
        details[place, column] = value
        return loss, details

    monkeypatch.setattr(run.objective, "forward", poisoned)
    name, task = ("loss", "smart_penalty", "noise_norm")[column], ("sst", "qqp")[place]
    with pytest.raises(TrainingDiverged, match=rf"^{task}: {name} is {value} at step 4$"):
        take_step(run, BOTH)
    assert_unchanged(run, before)


def test_the_step_that_is_named_counts_over_all_stages(new_run: NewRun) -> None:
    run = new_run()
    run.stage, run.epoch, run.step = 1, 1, 2
    batch = batch_of(run, "sst", np.arange(3))
    steps = 4 + run.plan[1].steps_per_epoch + 2
    with pytest.raises(TrainingDiverged, match=rf"^sst: loss is nan at step {steps + 1}$"):
        count_details(run, [batch], [[float("nan"), 0.0, 0.0]])


def test_details_are_counted_with_the_rows_of_the_global_batch(
    new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run()
    monkeypatch.setattr(mtlib.step, "num_workers", lambda: 2)
    batch = batch_of(run, "sst", np.arange(7))
    assert len(batch.rows) == 4
    count_details(run, [batch], [[1.5, 0.25, 7.0]])
    count_details(run, [batch], [[1.0, 0.5, 7.0]])
    assert run.sums == {"sst": [2.5, 0.75, 14.0, 14.0]}


def test_an_unwanted_run_ends_before_anything_changes(new_run: NewRun) -> None:
    run = new_run({**PLAIN})
    take_step(run, QQP)
    before, run.is_wanted = everything(run), False
    with pytest.raises(Interrupted, match=r"^ended after step 1$"):
        take_step(run, QQP)
    assert_unchanged(run, before)


def other_worker(sums: list[list[float]], refuses: bool) -> Callable[[Tensor], Tensor]:
    """What a sum over workers gives when there is one more with these numbers."""
    numbers = [value for row in sums for value in row] + [float(refuses)]
    return lambda values: values.add_(torch.tensor(numbers))


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("other", [True, False])
def test_workers_add_up_their_details_and_go_on_only_if_all_want_to(
    own: bool, other: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    details = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    monkeypatch.setattr(mtlib.step, "sum_over_workers", other_worker([[10, 20, 30], [40, 50, 60]], not other))
    assert agree(details, own) == (own and other)
    assert details.tolist() == [[11, 22, 33], [44, 55, 66]]


def test_another_workers_wish_to_end_ends_the_step_here_too(new_run: NewRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run(PLAIN)
    before = everything(run)
    monkeypatch.setattr(mtlib.step, "sum_over_workers", other_worker([[0, 0, 0]], True))
    with pytest.raises(Interrupted, match=r"^ended after step 0$"):
        take_step(run, QQP)
    assert_unchanged(run, before)


def test_another_workers_loss_that_is_no_number_ends_the_step_here_too(
    new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run(PLAIN)
    before = everything(run)
    monkeypatch.setattr(mtlib.step, "sum_over_workers", other_worker([[float("nan"), 0, 0]], False))
    with pytest.raises(TrainingDiverged, match=r"^qqp: loss is nan at step 1$"):
        take_step(run, QQP)
    assert_unchanged(run, before)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("other", [True, False])
def test_a_run_is_stopped_between_steps_if_some_worker_does_not_want_it(
    own: bool, other: bool, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run()
    run.step, run.is_wanted = 4, own
    monkeypatch.setattr(mtlib.step, "sum_over_workers", other_worker([], not other))
    if own and other:
        stop_if_unwanted(run)
    else:
        with pytest.raises(Interrupted, match=r"^ended after step 4$"):
            stop_if_unwanted(run)
