"""One optimizer step against AdamW by hand, agreement of workers, and refused steps that change nothing."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torchjd.scalarization import FAMO

import mtlib.loss.gradient_aggregation
import mtlib.loss.objective
import mtlib.training.step
from mtlib.config.penalties import PENALTIES
from mtlib.data.batches import Batch, make_batch
from mtlib.loss.clean_pass import Place
from mtlib.runtime.errors import TrainingDiverged
from mtlib.stages.sampler import Step, StepBatch, epoch_steps
from mtlib.training.epoch_report import score_epoch
from mtlib.training.optimizer import optimizer_tensors
from mtlib.training.run import Run, begin_next_stage, end_epoch, load_weights
from mtlib.training.step import (
    Interrupted,
    batch_of,
    batch_place,
    count_details,
    stop_if_unwanted,
    stream_of,
    sum_details,
    take_step,
)
from tests.combinations import SUMMED_ONLY, Changes
from tests.method_tables import TERMS

NewRun = Callable[..., Run]
PLAIN = {"encoder.dropout": 0, "encoder.attention_dropout": 0, "smart.weight": 0}
SST_PART = StepBatch(set="sst", rows=np.arange(8, 14), turn=0)
QQP_PART = StepBatch(set="qqp", rows=np.arange(8), turn=0)
QQP = (QQP_PART,)
BOTH = (SST_PART, QQP_PART)


def everything(run: Run) -> dict[str, Any]:
    """Copies of everything that a step changes."""
    tensors = {**run.model.state_dict(), **optimizer_tensors(run.optimizer, run.model), **run.method_state}
    for kind, average in run.averages.items():
        tensors |= {f"{kind}.{name}": tensor for name, tensor in average.state_dict().items()}
    return {
        "tensors": {name: tensor.clone() for name, tensor in tensors.items()},
        "sums": {task: dict(sums) for task, sums in run.sums.items()},
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


def step_gradients(run: Run, step: Step) -> dict[str, Tensor]:
    """The gradients of a step."""
    run.optimizer.step = lambda *_: None  # type: ignore[method-assign]
    take_step(run, step)
    return {name: one.grad.to_dense().clone() for name, one in run.model.named_parameters() if one.grad is not None}


@pytest.mark.parametrize(
    "changes",
    [
        {"encoder.dropout": 0.1, "encoder.attention_dropout": 0.1},
        {"smart.weight": 1, "smart.tasks": ["sst", "qqp"], "smart.masks": "shared"},
        {"simcse.weight": 1, "simcse.tasks": ["qqp"]},
        {"adapter.method": "lora", "adapter.dropout": 0.2},
    ],
)
def test_checkpointed_layers_give_the_gradients_of_plain_ones(changes: dict[str, Any], new_run: NewRun) -> None:
    kernel = {**SUMMED, **changes, "encoder.attention": "eager"}
    plain, checkpointed = (
        step_gradients(new_run({**kernel, "encoder.gradient_checkpointing": on}), BOTH) for on in (False, True)
    )
    assert plain.keys() == checkpointed.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(checkpointed[name], gradient, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_every_attention_gives_the_gradients_of_our_layers(attention: str, new_run: NewRun) -> None:
    changes = {**SUMMED, "encoder.dropout": 0, "encoder.attention_dropout": 0}
    ours, theirs = (
        step_gradients(new_run({**changes, "encoder.attention": kernel}), BOTH) for kernel in ("auto", attention)
    )
    assert ours.keys() == theirs.keys()
    for name, gradient in ours.items():
        torch.testing.assert_close(theirs[name], gradient, rtol=1e-3, atol=1e-5 * float(gradient.abs().max() + 1))


def test_the_first_step_matches_adamw_by_hand(new_run: NewRun) -> None:
    run = new_run({**PLAIN, "optimizer.schedule": "slanted_triangular", "tasks.qqp.loss_weight": 0.5})
    loss = 0.5 * loss_by_hand(run, batch_of(run, QQP_PART))
    parameters = {name: part for name, part in run.model.named_parameters() if not name.startswith("heads.s")}
    gradients = dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))
    before = {name: parameter.detach().clone() for name, parameter in run.model.named_parameters()}
    take_step(run, QQP)
    rate = 1e-3 * (4 - 0.5) / (4 - 0.4)  # the middle of the first of 4 steps, of which .4 rise
    assert [group["lr"] for group in run.optimizer.param_groups] == [pytest.approx(rate)]
    assert run.words is not None
    run.words.settle()
    for name, parameter in run.model.named_parameters():
        if name in gradients:  # with bias correction of both moments the step is nearly the gradient's sign
            stepped = gradients[name] / (gradients[name].abs() + 1e-8)
            # The sign of a gradient of rounding errors is arbitrary.
            is_clear = gradients[name].abs() > 1e-6
            expected = before[name] * (1 - rate * 0.01) - rate * stepped
            assert torch.allclose(parameter[is_clear], expected[is_clear], rtol=1e-5, atol=2e-5), name
        else:
            assert torch.equal(parameter, before[name]), name
            assert parameter.grad is None
    assert gradients["heads.qqp.weight"].abs().max() > 1e-3
    assert (run.step, run.total_step) == (1, 1)


def test_the_batches_of_a_summed_step_sum_to_one_gradient(new_run: NewRun) -> None:
    run = new_run({**PLAIN, "stages.0.tasks": "sst,qqp", "stages.0.sum_losses": True})
    sst, qqp = (batch_of(run, part) for part in BOTH)
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


def test_losses_are_summed_over_rows_and_steps(new_run: NewRun) -> None:
    run = new_run({**PLAIN, "stages.0.tasks": "sst,qqp", "stages.0.sum_losses": True})
    expected = {"sst": 0.0, "qqp": 0.0}
    for step in (BOTH, QQP, BOTH):
        for part in step:
            expected[part.set] += loss_by_hand(run, batch_of(run, part)).item() * len(part.rows)
        take_step(run, step)
    sums: Any = {task: {"loss": own["loss"]} for task, own in run.sums.items()}
    assert sums == {
        "sst": {"loss": (pytest.approx(expected["sst"], rel=1e-4), 12)},
        "qqp": {"loss": (pytest.approx(expected["qqp"], rel=1e-4), 24)},
    }


def test_a_step_depends_on_the_runs_position_and_not_on_earlier_draws(new_run: NewRun) -> None:
    changes = {"encoder.dropout": 0.3, "smart.weight": 1, "smart.noise_std": 0.1}
    runs = [new_run(changes) for _ in range(2)]
    for number, run in enumerate(runs):
        torch.manual_seed(number)
        for _ in range(2):
            take_step(run, QQP)
    assert_unchanged(runs[0], everything(runs[1]))
    other = new_run(changes)
    other.step = 1  # the same rows at another step draw different dropout and noise
    take_step(other, QQP)
    assert other.sums["qqp"] != runs[0].sums["qqp"]
    assert everything(other)["position"] == (0, 0, 2)


def test_streams_differ_exactly_by_their_names(new_run: NewRun) -> None:
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
    run, drawn_seeds = new_run(), []
    monkeypatch.setattr(mtlib.training.step, "num_workers", lambda: 2)

    def objective(_batches: list[Batch], places: list[Place]) -> tuple[Tensor, Tensor]:
        drawn_seeds.append((torch.initial_seed(), *(place.noise_seed for place in places)))
        return torch.tensor(0.0), torch.full((2, len(TERMS)), float("nan"))

    monkeypatch.setattr(run.objective, "forward", objective)
    for rank in (0, 1):
        monkeypatch.setattr(mtlib.training.step, "worker_rank", lambda rank=rank: rank)
        with pytest.raises(TrainingDiverged):
            take_step(run, BOTH)
    assert drawn_seeds[0][0] != drawn_seeds[1][0]
    assert drawn_seeds[0][1:] == drawn_seeds[1][1:]
    assert len(set(drawn_seeds[0])) == 3


def test_each_worker_takes_its_own_rows(new_run: NewRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run, rows = new_run(), np.array([9, 3, 60, 4, 17])
    part = StepBatch(set="qqp", rows=rows, turn=0)
    whole = batch_of(run, part)
    assert whole.rows.tolist() == rows.tolist()
    assert np.array_equal(whole.labels.numpy(), run.corpus["qqp", "train"].labels[rows])
    monkeypatch.setattr(mtlib.training.step, "num_workers", lambda: 2)
    monkeypatch.setattr(mtlib.training.step, "worker_rank", lambda: 1)
    shard = batch_of(run, part)
    assert (shard.rows.tolist(), shard.num_rows) == ([3, 4], 5)
    assert torch.equal(shard.inputs[0].input_ids, whole.inputs[0].input_ids[1::2])


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_loss_that_is_not_finite_ends_the_step_before_any_change(
    value: float, name: str, place: int, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run({**PLAIN, "stages.0.tasks": "sst,qqp"})
    for _ in range(3):
        take_step(run, BOTH)
    before, forward = everything(run), run.objective.forward

    def poisoned(batches: list[Batch], places: list[Place]) -> tuple[Tensor, Tensor]:
        loss, details = forward(batches, places)
        details[place, TERMS.index(name)] = value
        return loss, details

    monkeypatch.setattr(run.objective, "forward", poisoned)
    task = ("sst", "qqp")[place]
    with pytest.raises(TrainingDiverged, match=rf"^{task}: {name} is {value} at step 4$"):
        take_step(run, BOTH)
    assert_unchanged(run, before)


@pytest.mark.parametrize(("value", "is_signed"), [(-1.3, True), (-1.3, False), (-1e-5, False), (0.0, False)])
def test_a_penalty_below_0_must_be_declared_and_rounding_is_no_fault(
    value: float, is_signed: bool, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PENALTIES, "proximal", dataclasses.replace(PENALTIES["proximal"], is_signed=is_signed))
    run = new_run({"proximal.weight": 1, "proximal.tasks": "sst"})
    batch, place = batch_of(run, SST_PART), batch_place(run, SST_PART)
    details = [0.0 if term != "proximal" else value * batch.num_rows for term in TERMS]
    if value < -1 and not is_signed:
        with pytest.raises(ValueError, match=r"proximal_penalty must return values of at least 0, .*, got -1\.3 "):
            count_details(run, [batch], [place], [details], 1)
        assert run.sums == {}
    else:
        count_details(run, [batch], [place], [details], 1)
        assert run.sums["sst"]["proximal"] == (value * batch.num_rows, batch.num_rows)


def test_the_reported_step_counts_over_all_stages(new_run: NewRun) -> None:
    run = new_run()
    run.stage, run.epoch, run.step = 1, 1, 2
    batch, place = batch_of(run, SST_PART), batch_place(run, SST_PART)
    steps = 4 + run.plan[1].steps[0] + 2
    with pytest.raises(TrainingDiverged, match=rf"^sst: loss is nan at step {steps + 1}$"):
        count_details(run, [batch], [place], [[float("nan"), 0.0, 0.0, 0.0, 0.0]], run.total_step + 1)


def test_details_are_counted_with_the_rows_of_the_global_batch(
    new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run({"smart.every_batches": 2, "proximal.weight": 1, "proximal.tasks": "sst"})
    monkeypatch.setattr(mtlib.training.step, "num_workers", lambda: 2)
    parts = [StepBatch(set="sst", rows=np.arange(rows), turn=turn) for turn, rows in enumerate((7, 5, 3))]
    batches, places = [batch_of(run, part) for part in parts], [batch_place(run, part) for part in parts]
    assert [len(batch.rows) for batch in batches] == [4, 3, 2]
    count_details(run, batches[:2], places[:2], [[1.5, 0.25, 7.0, 3.0, 0.0], [1.0, 0.0, 0.0, 1.0, 0.0]], 1)
    count_details(run, batches[2:], places[2:], [[0.5, 0.5, 7.0, 2.0, 0.0]], 2)
    assert run.sums == {
        "sst": {"loss": (3.0, 15), "smart_penalty": (0.75, 10), "noise_norm": (14.0, 10), "proximal": (6.0, 15)}
    }


def test_a_stopped_run_ends_before_any_change(new_run: NewRun) -> None:
    run = new_run({**PLAIN})
    take_step(run, QQP)
    before, run.is_wanted = everything(run), False
    with pytest.raises(Interrupted, match=r"^ended after step 1$"):
        take_step(run, QQP)
    assert_unchanged(run, before)


def other_worker(sums: list[list[float]], refuses: bool) -> Callable[[Tensor], Tensor]:
    """A sum over workers with one more worker that has these numbers."""
    numbers = [value for row in sums for value in row] + [float(refuses)]
    return lambda values: values.add_(torch.tensor(numbers))


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("other", [True, False])
def test_workers_sum_their_details_and_continue_only_if_all_agree(
    own: bool, other: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    details = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    monkeypatch.setattr(mtlib.training.step, "sum_over_workers", other_worker([[10, 20, 30], [40, 50, 60]], not other))
    assert sum_details(details, own).tolist() == [11, 22, 33, 44, 55, 66, (not own) + (not other)]


def test_another_workers_stop_ends_the_step(new_run: NewRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run(PLAIN)
    before = everything(run)
    monkeypatch.setattr(mtlib.training.step, "sum_over_workers", other_worker([[0, 0, 0, 0, 0]], True))
    with pytest.raises(Interrupted, match=r"^ended after step 0$"):
        take_step(run, QQP)
    assert_unchanged(run, before)


def test_another_workers_nan_ends_the_step(new_run: NewRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run(PLAIN)
    before = everything(run)
    monkeypatch.setattr(mtlib.training.step, "sum_over_workers", other_worker([[float("nan"), 0, 0, 0, 0]], False))
    with pytest.raises(TrainingDiverged, match=r"^qqp: loss is nan at step 1$"):
        take_step(run, QQP)
    assert_unchanged(run, before)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("other", [True, False])
def test_a_run_stops_between_steps_if_one_worker_stops(
    own: bool, other: bool, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run()
    run.step, run.is_wanted = 4, own
    monkeypatch.setattr(mtlib.training.step, "sum_over_workers", other_worker([], not other))
    if own and other:
        stop_if_unwanted(run)
    else:
        with pytest.raises(Interrupted, match=r"^ended after step 4$"):
            stop_if_unwanted(run)


SUMMED = {**PLAIN, "stages.0.tasks": "sst,qqp", "stages.0.sum_losses": True}
SMOOTH_ADAMW = {"optimizer.epsilon": 0.01}  # otherwise the first update is the gradient's sign, even of rounding errors


def conflicting_step(run: Run) -> Step:
    """The first step whose two tasks have conflicting gradients of the encoder."""
    for first in range(0, 22, 2):
        rows = np.arange(first, first + 8)
        step = (StepBatch(set="sst", rows=rows, turn=0), StepBatch(set="qqp", rows=rows, turn=0))
        one, other = gradients_by_hand(run, step)
        if sum((one[name] * other[name]).sum() for name in one.keys() & other.keys()) < 0:
            return step
    raise AssertionError("no step with a conflict")


def gradients_by_hand(run: Run, step: Step) -> list[dict[str, Tensor]]:
    """Each task's gradients by name, of its mean loss."""
    found = []
    parameters = dict(run.model.named_parameters())
    for part in step:
        loss = loss_by_hand(run, batch_of(run, part))
        gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        found.append({name: part for name, part in zip(parameters, gradients, strict=True) if part is not None})
    return found


def pcgrad_by_hand(one: dict[str, Tensor], other: dict[str, Tensor]) -> dict[str, Tensor]:
    """Yu et al. 2020 for two tasks: conflicting components are removed on shared parameters only."""
    shared = one.keys() & other.keys()

    def product(first: dict[str, Tensor], second: dict[str, Tensor]) -> float:
        return float(sum((first[name].double() * second[name].double()).sum() for name in shared))

    conflict = min(product(one, other), 0)
    joined = {**one, **other}
    for name in shared:
        projected = one[name] - conflict / product(other, other) * other[name]
        joined[name] = projected + other[name] - conflict / product(one, one) * one[name]
    return joined


def test_a_step_with_pcgrad_matches_adamw_on_the_combination_by_hand(new_run: NewRun) -> None:
    run = new_run({**SUMMED, **SMOOTH_ADAMW, "gradients": "pcgrad"})
    step = conflicting_step(run)
    one, other = gradients_by_hand(run, step)
    expected = pcgrad_by_hand(one, other)
    named = {name: part.detach().clone().requires_grad_() for name, part in run.model.named_parameters()}
    for name, parameter in named.items():
        parameter.grad = expected.get(name)
    by_hand = torch.optim.AdamW(
        [part for part in named.values() if part.grad is not None], lr=1e-3, eps=0.01, weight_decay=0.01
    )
    by_hand.step()
    take_step(run, step)
    moments = optimizer_tensors(run.optimizer, run.model)
    scale = max(gradient.abs().max().item() for gradient in expected.values())
    for name, gradient in expected.items():
        assert torch.allclose(moments[f"{name}.exp_avg"], 0.1 * gradient, rtol=1e-3, atol=1e-5 * scale), name
    assert run.words is not None
    run.words.settle()
    for name, parameter in run.model.named_parameters():
        assert torch.allclose(parameter, named[name], rtol=1e-5, atol=1e-5), name
    assert run.sums.keys() == {"sst", "qqp"}
    assert run.step == 1
    summed = new_run({**SUMMED, **SMOOTH_ADAMW})
    take_step(summed, step)
    encoder = "encoder.encoder.layer.0.output.dense.weight"
    apart = (summed.model.get_parameter(encoder) - run.model.get_parameter(encoder)).abs().max()
    assert apart > 1e-4  # the plain sum gives a different step
    assert totals(summed) == pytest.approx(totals(run), rel=1e-5)


def totals(run: Run) -> dict[str, float]:
    """The summed loss of each task."""
    return {task: sums["loss"][0] for task, sums in run.sums.items()}


@pytest.mark.parametrize("method", SUMMED_ONLY.values(), ids=SUMMED_ONLY)
def test_a_step_of_one_task_is_the_plain_step_with_every_method(
    method: Changes, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {key: value for key, value in method.items() if key not in ("gradients", "loss_weighting")}
    run, plain = new_run({**SUMMED, **method}), new_run({**SUMMED, **others})
    monkeypatch.setattr(mtlib.training.step, "combine", None)
    twice = (QQP_PART, StepBatch(set="qqp", rows=np.arange(20, 28), turn=1))
    for one in (run, plain):
        take_step(one, QQP)
        take_step(one, twice)
    assert_unchanged(run, everything(plain))


def test_famo_learns_from_the_losses_before_and_after_a_step(new_run: NewRun) -> None:
    run, theirs = new_run({**SUMMED, "loss_weighting": "famo", "encoder.dropout": 0.3}), FAMO(2)
    for _ in range(3):
        before = losses_of_next_step(run)
        theirs(before)
        number = run.step
        take_step(run, BOTH)
        run.step = number  # whose masks the losses after it have too
        theirs.update(losses_of_next_step(run))
        run.step = number + 1
    (logits,) = (tensor for name, tensor in theirs.state_dict().items() if name != "min_losses")
    found = torch.stack([run.method_state[f"famo.logit.{part.set}"] for part in BOTH])
    assert torch.allclose(found, logits, atol=1e-5)
    assert logits.abs().min() > 0.01


def losses_of_next_step(run: Run) -> Tensor:
    """The losses of the two tasks of `BOTH` with the masks of the step that comes next; (tasks,)."""
    batches, places = [batch_of(run, part) for part in BOTH], [batch_place(run, part) for part in BOTH]
    torch.manual_seed(stream_of(run, "dropout", 0))
    with torch.no_grad():
        _, details = run.objective(batches, places)
    losses: Tensor = details[:, 0] / torch.tensor([float(place.full_size) for place in places])
    return losses


def test_the_random_order_of_a_method_is_equal_on_every_worker_and_new_at_each_step(
    new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    combine = mtlib.loss.gradient_aggregation.combine

    def listening(*arguments: Any) -> Any:
        seen.append(torch.initial_seed())
        return combine(*arguments)

    monkeypatch.setattr(mtlib.training.step, "combine", listening)
    for rank in (0, 1):
        run = new_run({**SUMMED, "gradients": "pcgrad"})
        monkeypatch.setattr(mtlib.training.step, "worker_rank", lambda rank=rank: rank)
        monkeypatch.setattr(mtlib.training.step, "batch_of", lambda run, part, *_: whole_batch(run, part))
        for _ in range(2):
            take_step(run, BOTH)
    assert seen[:2] == seen[2:]
    assert seen[0] != seen[1]


def whole_batch(run: Run, part: StepBatch) -> Batch:
    """The global batch of a single worker."""
    table = run.corpus[part.set, "train"]
    return make_batch(table, part.rows, encoding=run.config.tasks[table.task].encoding, max_length=32)


@pytest.mark.parametrize("gradients", ["sum", "pcgrad"])
def test_the_teacher_follows_the_model_in_training_only(gradients: str, new_run: NewRun) -> None:
    teaching = {"proximal.weight": 2, "proximal.tasks": "sst,qqp", "proximal.decay": 0.9}
    run = new_run({**SUMMED, **teaching, "gradients": gradients})
    assert run.teacher is not None
    expected = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    for _ in range(3):
        take_step(run, BOTH)
        for name, tensor in run.model.state_dict().items():
            expected[name] = 0.9 * expected[name] + (1 - 0.9) * tensor
    teacher = run.teacher.state_dict()
    for name, tensor in expected.items():
        assert torch.allclose(teacher[name], tensor, rtol=1e-5, atol=1e-6), name
        is_trained = not name.startswith("heads.sts.")
        assert torch.equal(teacher[name], run.model.state_dict()[name]) != is_trained, name
    before = everything(run)
    report = score_epoch(run)
    assert report.predictions
    assert_unchanged(run, before)
    assert not any(module.training for module in run.teacher.modules())
    assert run.sums["qqp"]["proximal"][0] > 0


def test_the_teachers_decay_changes_once_in_each_stage(new_run: NewRun) -> None:
    teaching = {"proximal.weight": 1, "proximal.tasks": "qqp", "proximal.decay": 0.2}
    changes = {**PLAIN, **teaching, "proximal.late_decay": 0.9, "proximal.early_fraction": 0.5}
    run = new_run({**changes, "stages.0.epochs": 2, "stages.0.steps_per_epoch": 3, "stages.1.steps_per_epoch": 2})
    assert run.teacher is not None
    expected = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    for decay in (0.2, 0.2, 0.2, 0.9, 0.9, 0.9, 0.2, 0.2, 0.9, 0.9):  # 6 steps, then 2 epochs of 2
        if run.step == run.plan[run.stage].steps[run.epoch]:
            end_epoch(run)
        if run.is_stage_over:
            begin_next_stage(run)
        take_step(run, QQP)
        for name, tensor in run.model.state_dict().items():
            expected[name] = decay * expected[name] + (1 - decay) * tensor
        for name, tensor in run.teacher.state_dict().items():
            assert torch.allclose(tensor, expected[name], rtol=1e-5, atol=1e-6), (run.total_step, name)
    assert (run.stage, run.stage_step) == (1, 4)


def test_without_decay_the_teacher_equals_the_model(new_run: NewRun) -> None:
    run = new_run({**PLAIN, "proximal.weight": 1, "proximal.tasks": "qqp", "proximal.decay": 0})
    assert run.teacher is not None
    take_step(run, QQP)
    for one, other in zip(run.teacher.parameters(), run.model.parameters(), strict=True):
        assert torch.allclose(one, other, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("gradients", ["sum", "pcgrad"])
def test_the_average_is_over_the_stages_steps_and_is_scored(gradients: str, new_run: NewRun) -> None:
    run, plain = (
        new_run({**SUMMED, **changes, "gradients": gradients}) for changes in ({"optimizer.average_power": 1}, {})
    )
    assert run.average is not None
    assert plain.scored_model is plain.model
    expected: dict[str, Tensor] = {}
    for step in range(1, 5):
        take_step(run, BOTH)
        take_step(plain, BOTH)
        for name, tensor in run.model.state_dict().items():  # step s of t counts s / (1 + ... + t)
            expected[name] = (
                tensor.clone() if step == 1 else expected[name] + 2 / (step + 1) * (tensor - expected[name])
            )
    assert all(torch.equal(tensor, plain.model.state_dict()[name]) for name, tensor in run.model.state_dict().items())
    for name, tensor in run.average.state_dict().items():
        assert torch.allclose(tensor, expected[name], rtol=1e-5, atol=1e-6), name
        is_trained = not name.startswith("heads.sts.")
        assert torch.equal(tensor, run.model.state_dict()[name]) != is_trained, name
    before, reports = everything(run), [score_epoch(run), score_epoch(plain)]
    assert_unchanged(run, before)
    load_weights(plain.model, run.average.state_dict())
    logits = [[part.logits for part in report.predictions] for report in (*reports, score_epoch(plain))]
    assert all(np.array_equal(*pair) for pair in zip(logits[0], logits[2], strict=True))
    assert not any(np.allclose(*pair, atol=1e-3) for pair in zip(logits[0], logits[1], strict=True))


def test_the_average_is_over_all_epochs_of_a_stage_and_begins_again_in_the_next(new_run: NewRun) -> None:
    stages = {"stages.0.epochs": 2, "stages.0.steps_per_epoch": 2, "stages.1.steps_per_epoch": 2}
    run = new_run({**PLAIN, "optimizer.average_power": 0, **stages})
    assert run.average is not None
    seen: list[dict[str, Tensor]] = []
    for num_averaged in (1, 2, 3, 4, 1, 2, 3, 4):  # 2 epochs of 2 steps, twice
        if run.step == run.plan[run.stage].steps[run.epoch]:
            end_epoch(run)
        if run.is_stage_over:
            begin_next_stage(run)
        take_step(run, QQP)
        seen.append({name: tensor.clone() for name, tensor in run.model.state_dict().items()})
        for name, tensor in run.average.state_dict().items():
            mean = torch.stack([own[name] for own in seen[-num_averaged:]]).mean(dim=0)
            assert torch.allclose(tensor, mean, rtol=1e-5, atol=1e-6), (run.total_step, name)
    assert (run.stage, run.stage_step) == (1, 4)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("method", ["pcgrad", "mgda", "upgrad", "dualproj", "imtl_g", "aligned_mtl"])
def test_a_divergent_loss_changes_nothing_with_any_method(method: str, value: float, new_run: NewRun) -> None:
    teaching = {"proximal.weight": 1, "proximal.tasks": "qqp"}
    run = new_run({**SUMMED, **teaching, "gradients": method})
    take_step(run, BOTH)
    with torch.no_grad():
        run.model.get_parameter("heads.qqp.bias").fill_(value)
    before = everything(run)
    gradients = {name: part.grad for name, part in run.model.named_parameters()}
    with pytest.raises(TrainingDiverged, match=r"^qqp: loss is (nan|inf) at step 2$"):
        take_step(run, BOTH)
    found = everything(run)
    assert found["sums"] == before["sums"]
    assert found["position"] == before["position"]
    for name, tensor in found["tensors"].items():
        assert torch.equal(tensor.nan_to_num(), before["tensors"][name].nan_to_num()), name
    assert {name: part.grad for name, part in run.model.named_parameters()} == gradients


def test_another_workers_stop_ends_a_step_with_a_method(new_run: NewRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run({**SUMMED, "gradients": "pcgrad"})
    before = everything(run)
    monkeypatch.setattr(mtlib.training.step, "sum_over_workers", other_worker([[0] * 5, [0] * 5], True))
    with pytest.raises(Interrupted, match=r"^ended after step 0$"):
        take_step(run, BOTH)
    assert_unchanged(run, before)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("method", ["pcgrad", "mgda", "upgrad", "dualproj", "imtl_g", "aligned_mtl"])
def test_a_gradient_that_is_not_finite_changes_nothing_with_any_method(
    method: str, value: float, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run({**SUMMED, "gradients": method, "proximal.weight": 1, "proximal.tasks": "qqp"})
    take_step(run, BOTH)
    before, real = everything(run), mtlib.loss.gradient_aggregation.gradients_by_task

    def poisoned(*arguments: Any) -> Any:
        gradients, details = real(*arguments)
        next(part for part in gradients[1] if part is not None).view(-1)[0] = value
        return gradients, details

    monkeypatch.setattr(mtlib.training.step, "gradients_by_task", poisoned)
    with pytest.raises(TrainingDiverged, match=r"^the gradient of a task is not finite$"):
        take_step(run, BOTH)
    run.sums = before["sums"]  # the finite losses have been counted
    assert_unchanged(run, before)


def in_layer(run: Run, number: int) -> dict[str, torch.nn.Parameter]:
    """The parameters of one layer of the encoder, by name."""
    return {name: part for name, part in run.model.named_parameters() if f".layer.{number}." in name}


@pytest.mark.parametrize("tasks", [("sst", "qqp", "sst", "qqp"), ("qqp", "sst", "sst", "qqp"), ("sst", "sst", "qqp")])
def test_with_alpha_0_a_layer_of_another_task_ignores_the_tasks_steps(tasks: tuple[str, ...], new_run: NewRun) -> None:
    chosen = {"tasks.sst.chosen_layers": "1", "tasks.qqp.chosen_layers": "0", "optimizer.other_scale": 0}
    run = new_run({**PLAIN, **chosen, "stages.0.tasks": "sst,qqp", "optimizer.chosen_scale": 2})
    alone = {name: part.detach().clone().requires_grad_() for name, part in in_layer(run, 0).items()}
    expected = torch.optim.AdamW(alone.values(), lr=2e-3, weight_decay=0.01, fused=True)
    for turn, task in enumerate(tasks):
        take_step(run, (StepBatch(set=task, rows=np.arange(8) + turn, turn=turn),))
        assert all((part.grad is None) == (task == "sst") for part in in_layer(run, 0).values())
        assert all((part.grad is None) == (task == "qqp") for part in in_layer(run, 1).values())
        if task == "qqp":
            for name, part in in_layer(run, 0).items():
                alone[name].grad = part.grad
            expected.step()
        assert all(torch.equal(part, alone[name]) for name, part in in_layer(run, 0).items())
    moments = optimizer_tensors(run.optimizer, run.model)
    for name, own in alone.items():
        assert moments[f"{name}.step"] == tasks.count("qqp")
        assert torch.equal(moments[f"{name}.exp_avg"], expected.state[own]["exp_avg"])


def test_a_tiny_rate_keeps_its_gradient(new_run: NewRun) -> None:
    chosen = {"tasks.sst.chosen_layers": "1", "optimizer.other_scale": 1e-30}
    run = new_run({**PLAIN, **chosen, "stages.0.tasks": "sst,qqp"})
    take_step(run, (SST_PART,))
    assert all(part.grad is not None for part in in_layer(run, 0).values())


def test_the_rates_of_a_steps_task_reach_the_optimizers_groups(new_run: NewRun) -> None:
    rates = {
        "optimizer.chosen_scale": 4,
        "optimizer.other_scale": 0.5,
        "tasks.sst.chosen_layers": "1",
        "tasks.qqp.chosen_layers": "0",
        "optimizer.head_learning_rate": 5e-3,
    }
    run = new_run({**PLAIN, **rates, "stages.0.tasks": "sst,qqp"})
    for part, first, second in ((SST_PART, 0.5, 4), (QQP_PART, 4, 0.5)):
        take_step(run, (part,))
        of = {id(held): group["lr"] for group in run.optimizer.param_groups for held in group["params"]}
        for name, parameter in run.model.named_parameters():
            if name.startswith("heads.sts."):
                assert id(parameter) not in of
                continue
            plain = 5e-3 if name.startswith("heads.") else 1e-3
            scale = first if ".layer.0." in name else second if ".layer.1." in name else 1
            assert of[id(parameter)] == pytest.approx(plain * scale), name


@pytest.mark.parametrize(
    ("changes", "shared"),
    [({}, set()), ({"gradients": "pcgrad", "relational_tasks": "sst,qqp"}, {"relational.weight", "relational.bias"})],
)
def test_a_frozen_encoder_does_not_move_and_the_modules_after_it_do(
    changes: dict[str, Any], shared: set[str], new_run: NewRun
) -> None:
    run = new_run({**SUMMED, "encoder.trained_layers": "", **changes})
    before = {name: part.detach().clone() for name, part in run.model.named_parameters()}
    for step in (BOTH, QQP):
        take_step(run, step)
    moved = {name for name, part in run.model.named_parameters() if not torch.equal(part, before[name])}
    assert moved == {f"heads.{task}.{part}" for task in ("sst", "qqp") for part in ("weight", "bias")} | shared


def test_extra_data_has_its_tasks_head_and_its_own_batch_size_and_noise(new_run: NewRun) -> None:
    run = new_run({**PLAIN, "stages.0.tasks": "sst", "data.sources.cfimdb.batch_size": 4})
    run.corpus = {**run.corpus, ("cfimdb", "train"): run.corpus["sst", "dev"]}
    part = StepBatch(set="cfimdb", rows=np.array([3, 1, 2]), turn=5)
    batch, place = batch_of(run, part), batch_place(run, part)
    assert batch.task == "sst"
    assert np.array_equal(batch.labels.numpy(), run.corpus["sst", "dev"].labels[[3, 1, 2]])
    assert (place.full_size, place.turn) == (4, 5)
    assert place.noise_seed == stream_of(run, "noise", "cfimdb") != batch_place(run, SST_PART).noise_seed
    loss = loss_by_hand(run, batch)
    found, _ = run.objective([batch], [place])
    assert found.item() == pytest.approx(loss.item() * 3 / 4, rel=1e-5)
    take_step(run, (part,))
    assert totals(run) == {"sst": pytest.approx(3 * loss.item(), rel=1e-4)}
    assert run.sums["sst"]["loss"][1] == 3


EVERY_TERM = {
    "encoder.dropout": 0,
    "encoder.attention_dropout": 0,
    "smart.tasks": "sst",
    "smart.masks": "shared",
    "proximal.weight": 3,
    "proximal.tasks": "sst",
    "simcse.weight": 2,
    "simcse.tasks": "sst",
}


@pytest.mark.parametrize(
    "changes",
    [PLAIN, EVERY_TERM, {**EVERY_TERM, "smart.reduction": "sum"}, {**EVERY_TERM, "loss_weighting": "uncertainty"}],
)
def test_a_set_smaller_than_its_batch_size_is_one_full_batch(changes: dict[str, Any], new_run: NewRun) -> None:
    num_rows, losses = 30, []
    for batch_size in (num_rows, num_rows + 1, 4 * num_rows):
        same_order = {"data.bucket_by_length": False}  # noise is drawn by a row's index in its batch
        run = new_run({**changes, **same_order, "stages.0.tasks": "sst", "tasks.sst.batch_size": batch_size})
        (step,) = epoch_steps(run.config, 0, 0, run.lengths, run.own_rows)[:1]
        assert sorted(step[0].rows) == list(range(num_rows))
        loss, _ = run.objective([batch_of(run, step[0])], [batch_place(run, step[0])])
        losses.append(loss.item())
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-5)
    if changes is PLAIN:
        assert losses[0] == pytest.approx(loss_by_hand(run, batch_of(run, step[0])).item(), rel=1e-5)


def test_small_extra_data_is_one_full_batch_for_a_task_of_any_size(new_run: NewRun) -> None:
    run = new_run({**PLAIN, "stages.0.tasks": "sst", "data.sources.cfimdb.batch_size": 16})
    run.corpus = {**run.corpus, ("cfimdb", "train"): run.corpus["sst", "dev"]}
    part = StepBatch(set="cfimdb", rows=np.arange(13), turn=0)
    found, _ = run.objective([batch_of(run, part)], [batch_place(run, part)])
    assert found.item() == pytest.approx(loss_by_hand(run, batch_of(run, part)).item(), rel=1e-5)


def test_the_short_batch_of_a_larger_set_counts_by_its_rows(new_run: NewRun) -> None:
    run = new_run({**PLAIN, "stages.0.tasks": "sst", "tasks.sst.batch_size": 20})
    part = StepBatch(set="sst", rows=np.arange(20, 30), turn=1)
    found, _ = run.objective([batch_of(run, part)], [batch_place(run, part)])
    assert found.item() == pytest.approx(loss_by_hand(run, batch_of(run, part)).item() / 2, rel=1e-5)


@pytest.mark.parametrize("num_workers", [2, 3])
def test_shards_of_a_small_batch_average_to_the_mean_over_it(
    num_workers: int, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run({**PLAIN, "stages.0.tasks": "sst", "tasks.sst.batch_size": 64})
    part = StepBatch(set="sst", rows=np.arange(30), turn=0)
    expected = loss_by_hand(run, batch_of(run, part)).item()
    for module in (mtlib.training.step, mtlib.loss.objective):
        monkeypatch.setattr(module, "num_workers", lambda: num_workers)
    losses = []
    for rank in range(num_workers):
        monkeypatch.setattr(mtlib.training.step, "worker_rank", lambda rank=rank: rank)
        losses.append(run.objective([batch_of(run, part)], [batch_place(run, part)])[0].item())
    assert sum(losses) / num_workers == pytest.approx(expected, rel=1e-5)


def test_learned_weights_are_trained_and_do_not_decay(new_run: NewRun) -> None:
    run = new_run({**SUMMED, **SMOOTH_ADAMW, "loss_weighting": "uncertainty", "optimizer.weight_decay": 0.5})
    with torch.no_grad():
        for log_variance in run.model.log_variances.values():
            log_variance.fill_(0.25)
    losses = {part.set: loss_by_hand(run, batch_of(run, part)).item() for part in BOTH}
    take_step(run, BOTH)
    for part in BOTH:
        rows = len(part.rows) / 8
        gradient = rows * (0.5 - np.exp(-0.25) * losses[part.set])
        expected = 0.25 - 1e-3 * gradient / (abs(gradient) + 0.01)
        assert run.model.log_variances[part.set].item() == pytest.approx(expected, rel=1e-4)
    assert run.model.log_variances["sts"].item() == 0.25
