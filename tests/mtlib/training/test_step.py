"""One optimizer step against AdamW by hand, agreement of workers, and refused steps that change nothing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torchjd.scalarization import FAMO

import mtlib.loss.gradient_aggregation
import mtlib.training.step
from mtlib.loss.objective import all_terms
from mtlib.runtime.errors import TrainingDiverged
from mtlib.stages.sampler import StepBatch, epoch_steps
from mtlib.training.epoch_report import report_epoch
from mtlib.training.evaluation import predict
from mtlib.training.optimizer import optimizer_tensors
from mtlib.training.run import Run, begin_next_stage, end_epoch
from mtlib.training.step import (
    Interrupted,
    batch_place,
    count_details,
    shard_of,
    stop_if_unwanted,
    stream_of,
    take_step,
)
from tests.method_tables import TERMS

NewRun = Callable[..., Run]
PLAIN = {"encoder.dropout": 0, "encoder.attention_dropout": 0, "smart.weight": 0}
TWO_TASKS = {**PLAIN, "stages.0.tasks": "sst,qqp"}
SUMMED = {**TWO_TASKS, "stages.0.sum_losses": True}
PCGRAD = {**SUMMED, "gradients": "pcgrad"}
SMOOTH_ADAMW = {"optimizer.epsilon": 0.01}  # otherwise the first update is the gradient's sign, even of rounding errors
TWO_STAGES = {"stages.0.epochs": 2, "stages.0.steps_per_epoch": 3, "stages.1.steps_per_epoch": 2}
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


def loss_by_hand(run: Run, part: StepBatch) -> Tensor:
    """The mean loss of a batch of SST or QQP, from torch's own functions."""
    batch = shard_of(run.config, run.corpus, part)
    logits = run.model(batch).logits
    if batch.task == "sst":
        return functional.cross_entropy(logits, batch.labels.long())
    return functional.binary_cross_entropy_with_logits(logits[:, 0], batch.labels)


def loss_of(run: Run, part: StepBatch) -> float:
    """The objective's loss of a batch alone."""
    loss, _ = run.objective([shard_of(run.config, run.corpus, part)], [batch_place(run, part)])
    return float(loss.detach())


def gradients_by_hand(run: Run, part: StepBatch) -> dict[str, Tensor]:
    """The gradient of a batch's mean loss by name of parameter."""
    parameters = dict(run.model.named_parameters())
    found = torch.autograd.grad(loss_by_hand(run, part), list(parameters.values()), allow_unused=True)
    return {name: gradient for name, gradient in zip(parameters, found, strict=True) if gradient is not None}


def totals(run: Run) -> dict[str, float]:
    """The summed loss of each task."""
    return {task: sums["loss"][0] for task, sums in run.sums.items()}


def test_the_first_step_matches_adamw_by_hand(new_run: NewRun) -> None:
    run = new_run({**PLAIN, "optimizer.schedule": "slanted_triangular", "tasks.qqp.loss_weight": 0.5})
    gradients = {name: 0.5 * gradient for name, gradient in gradients_by_hand(run, QQP_PART).items()}
    before = {name: parameter.detach().clone() for name, parameter in run.model.named_parameters()}
    take_step(run, QQP)
    rate = 1e-3 * (4 - 0.5) / (4 - 0.4)  # the middle of the first of 4 steps, of which .4 rise
    assert [group["lr"] for group in run.optimizer.param_groups] == [pytest.approx(rate)]
    for name, parameter in run.model.named_parameters():
        if name in gradients:  # with bias correction of both moments the step is nearly the gradient's sign
            stepped = gradients[name] / (gradients[name].abs() + 1e-8)
            # The sign of a gradient of rounding errors is arbitrary.
            is_clear = gradients[name].abs() > 1e-6
            expected = before[name] * (1 - rate * 0.01) - rate * stepped
            assert torch.allclose(parameter[is_clear], expected[is_clear], rtol=1e-5, atol=2e-5), name
        else:
            assert torch.equal(parameter, before[name]), name
    assert gradients["heads.qqp.weight"].abs().max() > 1e-3
    assert (run.step, run.total_step) == (1, 1)


def test_a_summed_step_has_one_gradient_and_losses_are_summed_over_rows(new_run: NewRun) -> None:
    run = new_run(SUMMED)
    weight = "encoder.encoder.layer.0.output.dense.weight"
    sst, qqp = (gradients_by_hand(run, part)[weight] for part in BOTH)
    losses = {part.set: loss_by_hand(run, part).item() for part in BOTH}
    take_step(run, BOTH)
    moments = optimizer_tensors(run.optimizer, run.model)
    assert torch.allclose(moments[f"{weight}.exp_avg"], 0.1 * (6 / 8 * sst + qqp), rtol=1e-3, atol=1e-7)  # 6 rows of 8
    losses["qqp"] += loss_by_hand(run, QQP_PART).item()
    take_step(run, QQP)
    found: Any = {task: sums["loss"] for task, sums in run.sums.items()}
    assert found == {
        "sst": (pytest.approx(6 * losses["sst"], rel=1e-4), 6),
        "qqp": (pytest.approx(8 * losses["qqp"], rel=1e-4), 16),
    }


def test_checkpointed_layers_give_the_gradients_of_plain_ones(new_run: NewRun) -> None:
    changes = {**SUMMED, "encoder.dropout": 0.1, "encoder.attention_dropout": 0.1, "encoder.attention": "eager"}
    smart = {"smart.weight": 1, "smart.tasks": ["sst", "qqp"], "smart.masks": "shared"}
    found = []
    for is_on in (False, True):
        run = new_run({**changes, **smart, "encoder.gradient_checkpointing": is_on})
        take_step(run, BOTH)
        found.append({name: one.grad.to_dense() for name, one in run.model.named_parameters() if one.grad is not None})
    assert found[0].keys() == found[1].keys()
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient, rtol=1e-5, atol=1e-7)


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


def test_streams_differ_exactly_by_their_names(new_run: NewRun) -> None:
    run = new_run()
    seeds = [stream_of(run, purpose, part) for purpose in ("noise", "dropout") for part in ("sst", "qqp", 0, 1)]
    seeds += [stream_of(new_run(change), "noise", "sst") for change in ({"seed": 1}, {"replicate": 1})]
    for run.stage, run.step in ((0, 1), (1, 0)):
        seeds.append(stream_of(run, "noise", "sst"))
    assert len(set(seeds)) == len(seeds)
    assert stream_of(new_run({"optimizer.learning_rate": 1, "smart.weight": 0}), "noise", "sst") == seeds[0]


def test_workers_have_their_own_rows_and_dropout_and_the_same_noise(
    new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, part = new_run(), StepBatch(set="qqp", rows=np.array([9, 3, 60, 4, 17]), turn=0)
    whole, drawn = shard_of(run.config, run.corpus, part), []
    assert np.array_equal(whole.labels.numpy(), run.corpus["qqp", "train"].labels[part.rows])
    monkeypatch.setattr(mtlib.training.step, "num_workers", lambda: 2)
    for rank in (0, 1):
        monkeypatch.setattr(mtlib.training.step, "worker_rank", lambda rank=rank: rank)
        shard = shard_of(run.config, run.corpus, part)
        assert (shard.rows.tolist(), shard.num_rows) == (part.rows[rank::2].tolist(), 5)
        assert torch.equal(shard.inputs[0].input_ids, whole.inputs[0].input_ids[rank::2])
        take_step(new_run(), (part,))
        drawn.append((batch_place(run, part).noise_seed, torch.initial_seed()))
    assert drawn[0][0] == drawn[1][0]
    assert drawn[0][1] != drawn[1][1]


@pytest.mark.parametrize(
    ("changes", "value", "term", "place"),
    [(TWO_TASKS, float("nan"), "loss", 0), (PCGRAD, float("inf"), TERMS[-1], 1)],
)
def test_a_loss_that_is_not_finite_ends_the_step_before_any_change(
    changes: dict[str, Any], value: float, term: str, place: int, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run({**changes, "proximal.weight": 1, "proximal.tasks": "qqp"})
    take_step(run, BOTH)
    task, before, sum_details = ("sst", "qqp")[place], everything(run), mtlib.training.step.sum_details

    def poisoned(details: Tensor, is_wanted: bool) -> Tensor:
        details[place, TERMS.index(term)] = value
        return sum_details(details, is_wanted)

    monkeypatch.setattr(mtlib.training.step, "sum_details", poisoned)
    with pytest.raises(TrainingDiverged, match=rf"^{task}: {term} is {value} at step 2$"):
        take_step(run, BOTH)
    assert_unchanged(run, before)


@pytest.mark.parametrize("is_other", [False, True])
def test_a_stop_of_any_worker_ends_the_step_before_any_change(
    is_other: bool, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run(PCGRAD)
    take_step(run, BOTH)
    before, run.is_wanted = everything(run), is_other

    def of_workers(values: Tensor) -> Tensor:
        return torch.cat([values[:-1], values[-1:] + is_other])

    monkeypatch.setattr(mtlib.training.step, "sum_over_workers", of_workers)
    with pytest.raises(Interrupted, match=r"^ended after step 1$"):
        take_step(run, BOTH)
    with pytest.raises(Interrupted, match=r"^ended after step 1$"):
        stop_if_unwanted(run)
    assert_unchanged(run, before)


def test_a_gradient_that_is_not_finite_moves_nothing_where_gradients_are_combined(
    new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run({**PCGRAD, "proximal.weight": 1, "proximal.tasks": "qqp"})
    take_step(run, BOTH)
    before, gradients_by_task = everything(run), mtlib.loss.gradient_aggregation.gradients_by_task

    def poisoned(*arguments: Any) -> Any:
        gradients, details = gradients_by_task(*arguments)
        next(part for part in gradients[1] if part is not None).view(-1)[0] = float("nan")
        return gradients, details

    monkeypatch.setattr(mtlib.training.step, "gradients_by_task", poisoned)
    with pytest.raises(TrainingDiverged, match=r"^the gradient of a task is not finite$"):
        take_step(run, BOTH)
    run.sums = before["sums"]  # the finite losses have been counted
    assert_unchanged(run, before)


def test_details_are_counted_with_the_rows_of_the_global_batch(
    new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run({"smart.every_batches": 2, "proximal.weight": 1, "proximal.tasks": "sst"})
    monkeypatch.setattr(mtlib.training.step, "num_workers", lambda: 2)
    parts = [StepBatch(set="sst", rows=np.arange(rows), turn=turn) for turn, rows in enumerate((7, 5, 3))]
    batches = [shard_of(run.config, run.corpus, part) for part in parts]
    places = [batch_place(run, part) for part in parts]
    assert [len(batch.rows) for batch in batches] == [4, 3, 2]
    rest = [0.0] * (len(all_terms(run.config)) - 4)
    count_details(run, batches[:2], places[:2], [1.5, 0.25, 7.0, 3.0, *rest, 1.0, 0.0, 0.0, 1.0, *rest], 1)
    count_details(run, batches[2:], places[2:], [0.5, 0.5, 7.0, 2.0, *rest], 2)
    assert run.sums == {
        "sst": {"loss": (3.0, 15), "smart_penalty": (0.75, 10), "noise_norm": (14.0, 10), "proximal": (6.0, 15)}
    }


def pcgrad_by_hand(one: dict[str, Tensor], other: dict[str, Tensor]) -> dict[str, Tensor]:
    """Yu et al. 2020 for two tasks: conflicting components are removed on shared parameters only."""
    shared = one.keys() & other.keys()

    def product(first: dict[str, Tensor], second: dict[str, Tensor]) -> float:
        return float(sum((first[name].double() * second[name].double()).sum() for name in shared))

    conflict = product(one, other)
    assert conflict < 0, "the tasks of the step conflict"
    joined = {**one, **other}
    for name in shared:
        projected = one[name] - conflict / product(other, other) * other[name]
        joined[name] = projected + other[name] - conflict / product(one, one) * one[name]
    return joined


def test_a_step_with_pcgrad_matches_adamw_on_the_combination_by_hand(new_run: NewRun) -> None:
    run = new_run({**PCGRAD, **SMOOTH_ADAMW})
    step = (StepBatch(set="sst", rows=np.arange(8), turn=0), QQP_PART)
    expected = pcgrad_by_hand(*(gradients_by_hand(run, part) for part in step))
    named = {name: part.detach().clone().requires_grad_() for name, part in run.model.named_parameters()}
    for name, parameter in named.items():
        parameter.grad = expected.get(name)
    trained = [part for part in named.values() if part.grad is not None]
    torch.optim.AdamW(trained, lr=1e-3, eps=0.01, weight_decay=0.01).step()
    take_step(run, step)
    for name, parameter in run.model.named_parameters():
        assert torch.allclose(parameter, named[name], rtol=1e-5, atol=1e-5), name
    summed = new_run({**SUMMED, **SMOOTH_ADAMW})
    take_step(summed, step)
    encoder = "encoder.encoder.layer.0.output.dense.weight"
    apart = (summed.model.get_parameter(encoder) - run.model.get_parameter(encoder)).abs().max()
    assert apart > 1e-4, "the plain sum gives a different step"
    assert totals(summed) == pytest.approx(totals(run), rel=1e-5)


@pytest.mark.parametrize("method", [{"gradients": "pcgrad"}, {"loss_weighting": "famo"}])
def test_a_step_of_one_task_is_the_plain_step_with_every_method(method: dict[str, str], new_run: NewRun) -> None:
    run, plain = new_run({**SUMMED, **method}), new_run(SUMMED)
    for one in (run, plain):
        take_step(one, QQP)
        take_step(one, (QQP_PART, StepBatch(set="qqp", rows=np.arange(20, 28), turn=1)))
    assert_unchanged(run, everything(plain))


def test_famo_learns_from_the_losses_before_and_after_a_step(new_run: NewRun) -> None:
    run, theirs = new_run({**SUMMED, "loss_weighting": "famo", "encoder.dropout": 0.3}), FAMO(2)
    for _ in range(3):
        theirs(losses_of_next_step(run))
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
    batches = [shard_of(run.config, run.corpus, part) for part in BOTH]
    places = [batch_place(run, part) for part in BOTH]
    torch.manual_seed(stream_of(run, "dropout", 0))
    with torch.no_grad():
        _, details = run.objective(batches, places)
    losses: Tensor = details[:, 0] / torch.tensor([float(place.full_size) for place in places])
    return losses


def test_the_teacher_follows_by_its_decay_and_the_average_is_the_mean_over_a_stage(new_run: NewRun) -> None:
    teaching = {"proximal.weight": 1, "proximal.tasks": "qqp", "proximal.decay": 0.2}
    late = {"proximal.late_decay": 0.9, "proximal.early_fraction": 0.5}
    run = new_run({**PLAIN, **TWO_STAGES, **teaching, **late, "optimizer.average_power": 0})
    assert run.teacher is not None
    assert run.average is not None
    expected, seen = (
        {name: tensor.clone() for name, tensor in run.model.state_dict().items()},
        list[dict[str, Tensor]](),
    )
    for decay in (0.2, 0.2, 0.2, 0.9, 0.9, 0.9):  # 2 epochs of 3 steps
        if run.step == 3:
            end_epoch(run)
        take_step(run, QQP)
        seen.append({name: tensor.clone() for name, tensor in run.model.state_dict().items()})
        for name, tensor in seen[-1].items():
            expected[name] = decay * expected[name] + (1 - decay) * tensor
            assert torch.allclose(run.teacher.state_dict()[name], expected[name], rtol=1e-5, atol=1e-6), name
            mean = torch.stack([own[name] for own in seen]).mean(dim=0)
            assert torch.allclose(run.average.state_dict()[name], mean, rtol=1e-5, atol=1e-6), name
    assert run.sums["qqp"]["proximal"][0] > 0
    before = everything(run)
    report = report_epoch(run)
    assert_unchanged(run, before)
    run.model.load_state_dict(run.average.state_dict())
    again = predict(run.model, run.config, run.corpus, "qqp", "dev", run.device)
    assert np.array_equal(report.predictions[0].logits, again.logits), "the average is scored"
    end_epoch(run)
    begin_next_stage(run)
    before = everything(run)["tensors"]
    take_step(run, QQP)
    for name, tensor in run.model.state_dict().items():
        moved = 0.2 * before[f"teacher.{name}"] + 0.8 * tensor
        assert torch.allclose(run.teacher.state_dict()[name], moved, rtol=1e-5, atol=1e-6), name
        assert torch.allclose(run.average.state_dict()[name], tensor, rtol=1e-5, atol=1e-6), name


def in_layer(run: Run, number: int) -> dict[str, torch.nn.Parameter]:
    """The parameters of one layer of the encoder, by name."""
    return {name: part for name, part in run.model.named_parameters() if f".layer.{number}." in name}


def test_with_alpha_0_a_layer_of_another_task_ignores_the_tasks_steps(new_run: NewRun) -> None:
    chosen = {"tasks.sst.chosen_layers": "1", "tasks.qqp.chosen_layers": "0", "optimizer.other_scale": 0}
    run = new_run({**TWO_TASKS, **chosen, "optimizer.chosen_scale": 2})
    alone = {name: part.detach().clone().requires_grad_() for name, part in in_layer(run, 0).items()}
    expected = torch.optim.AdamW(alone.values(), lr=2e-3, weight_decay=0.01, fused=True)
    for turn, task in enumerate(("qqp", "sst", "sst", "qqp")):
        take_step(run, (StepBatch(set=task, rows=np.arange(8) + turn, turn=turn),))
        assert all((part.grad is None) == (task == "qqp") for part in in_layer(run, 1).values())
        if task == "qqp":
            for name, part in in_layer(run, 0).items():
                alone[name].grad = part.grad
            expected.step()
        assert all(torch.equal(part, alone[name]) for name, part in in_layer(run, 0).items())
    moments = optimizer_tensors(run.optimizer, run.model)
    for name, own in alone.items():
        assert torch.equal(moments[f"{name}.exp_avg"], expected.state[own]["exp_avg"])


def test_a_step_at_rate_0_of_a_schedule_enters_the_moments_and_moves_nothing(new_run: NewRun) -> None:
    """As in transformers, where the first step of a warm-up has rate 0."""
    run = new_run({**PLAIN, "optimizer.schedule": "cosine", "optimizer.warmup_fraction": 0.5})
    before = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    gradient = gradients_by_hand(run, QQP_PART)["heads.qqp.weight"]
    take_step(run, QQP)
    assert all(torch.equal(tensor, before[name]) for name, tensor in run.model.state_dict().items())
    moment = optimizer_tensors(run.optimizer, run.model)["heads.qqp.weight.exp_avg"]
    torch.testing.assert_close(moment, 0.1 * gradient, rtol=1e-4, atol=1e-7)
    take_step(run, QQP)
    assert not torch.equal(run.model.state_dict()["heads.qqp.weight"], before["heads.qqp.weight"])


def test_extra_data_has_its_tasks_head_and_its_own_batch_size_and_noise(new_run: NewRun) -> None:
    run = new_run({**PLAIN, "stages.0.tasks": "sst", "data.sources.cfimdb.batch_size": 4})
    run.corpus = {**run.corpus, ("cfimdb", "train"): run.corpus["sst", "dev"]}
    part = StepBatch(set="cfimdb", rows=np.array([3, 1, 2]), turn=5)
    batch, place = shard_of(run.config, run.corpus, part), batch_place(run, part)
    assert batch.task == "sst"
    assert np.array_equal(batch.labels.numpy(), run.corpus["sst", "dev"].labels[[3, 1, 2]])
    assert (place.full_size, place.turn) == (4, 5)
    assert place.noise_seed == stream_of(run, "noise", "cfimdb") != batch_place(run, SST_PART).noise_seed
    loss = loss_by_hand(run, part).item()
    assert loss_of(run, part) == pytest.approx(loss * 3 / 4, rel=1e-5)
    take_step(run, (part,))
    assert totals(run) == {"sst": pytest.approx(3 * loss, rel=1e-4)}


def test_a_set_smaller_than_its_batch_size_is_one_full_batch(new_run: NewRun) -> None:
    """With every term; noise is drawn by a row's index in its batch, so that the order must be the same."""
    terms = {f"{name}.tasks": "sst" for name in ("smart", "proximal", "simcse")}
    weights = {"smart.weight": 1, "smart.masks": "shared", "proximal.weight": 3, "simcse.weight": 2}
    num_rows, losses = 30, []
    for batch_size in (num_rows, num_rows + 1, 4 * num_rows):
        sizes = {"data.bucket_by_length": False, "stages.0.tasks": "sst", "tasks.sst.batch_size": batch_size}
        run = new_run({**PLAIN, **terms, **weights, **sizes})
        (step,) = epoch_steps(run.config, 0, 0, run.lengths, run.own_rows)[:1]
        assert sorted(step[0].rows) == list(range(num_rows))
        losses.append(loss_of(run, step[0]))
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-5)
