"""The objective by hand: means, weights, short batches, shards, and each added term."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical, Normal, kl_divergence
from torch.nn import functional
from torchjd.scalarization import DWA, FAMO, IMTLL, STCH, Scalarizer

import mtlib.loss.objective
import mtlib.loss.simcse
import mtlib.loss.smart
from mtlib.config.penalties import PENALTIES, SmartConfig
from mtlib.data.batches import Batch, make_batch
from mtlib.loss.clean_pass import Place
from mtlib.loss.objective import Objective, learned_weight, terms_of
from mtlib.loss.smart import carrying_positions, first_noise, step_noise
from mtlib.model.encoder import embedding_layer
from mtlib.model.multitask import MultiTaskModel
from mtlib.runtime.lazy_functions import load_function
from mtlib.training.run import Run
from mtlib.training.weight_average import averaged_copy
from tests.method_tables import TERMS

NewRun = Callable[..., Run]
PLAIN = {"encoder.dropout": 0, "encoder.attention_dropout": 0, "smart.weight": 0}
SMART = {**PLAIN, "smart.weight": 7, "smart.tasks": "sst,qqp,sts", "smart.mode": "random", "smart.epsilon": 0.1}
SMART["smart.noise_std"] = 0.1
VANISHING = 1e-30
"""A standard deviation of noise so small that adding it does not change the embeddings in fp32."""
SIZES = {"sst": 8, "qqp": 8, "sts": 5}
ALL = "sst,qqp,sts"
BI = {"tasks.qqp.encoding": "bi", "tasks.sts.encoding": "bi"}
TEACHER = {**PLAIN, "proximal.weight": 3, "proximal.tasks": ALL}
CONTRAST = {**PLAIN, "simcse.weight": 2, "simcse.tasks": ALL, "simcse.temperature": 0.5}
LEARNED = {**PLAIN, "loss_weighting": "uncertainty"}


def shards_of(run: Run, task: str, rows: int, world_size: int = 1) -> list[Batch]:
    """The parts of one global batch of the first rows of a task's train."""
    return [
        make_batch(
            run.corpus[task, "train"],
            np.arange(rows),
            encoding=run.config.tasks[task].encoding,
            max_length=run.config.encoder.max_length,
            rank=rank,
            world_size=world_size,
        )
        for rank in range(world_size)
    ]


def evaluate(run: Run, batches: Sequence[Batch], seed: int = 11, turn: int = 0) -> tuple[Tensor, Tensor]:
    """Loss and details; all batches have the same noise seed and turn."""
    places = [Place(noise_seed=seed, turn=turn, full_size=run.config.batch_size_of(batch.task)) for batch in batches]
    loss, details = run.objective(batches, places)
    return loss, details


def column(details: Tensor, name: str) -> float:
    """The sum over all rows of one term."""
    return details[:, TERMS.index(name)].sum().item()


def losses_by_hand(run: Run, batch: Batch) -> Tensor:
    """The loss of each row, from torch's own functions."""
    logits, labels = run.model(batch).logits, batch.labels
    if batch.task == "sst":
        return functional.cross_entropy(logits, labels.long(), reduction="none")
    if batch.task == "qqp":
        return functional.binary_cross_entropy(logits[:, 0].sigmoid(), labels, reduction="none")
    return functional.mse_loss(logits[:, 0], labels, reduction="none")


def noise_by_hand(run: Run, batch: Batch, seed: int = 11) -> list[Tensor]:
    """The noise of the mode `random`: normal draws, none on padding, each token's scaled to inf-norm 1."""
    smart, stream, noise = run.config.smart, torch.Generator().manual_seed(seed), []
    for inputs in batch.inputs:
        rows, tokens = inputs.attention_mask.shape
        draw = smart.noise_std * torch.randn(rows, tokens, 32, generator=stream) * inputs.attention_mask[:, :, None]
        noise.append(draw / (draw.abs().max(dim=2, keepdim=True).values + smart.epsilon))
    return noise


def penalties_by_hand(run: Run, batch: Batch) -> Tensor:
    """The penalty of each row: both KL divergences between clean and perturbed predictions, or their squared gap."""
    clean = run.model(batch, keep=True)
    pairs = zip(clean.embeddings, noise_by_hand(run, batch), strict=True)
    moved = run.model(batch, embeddings=[text + noise for text, noise in pairs]).logits
    return divergence_by_hand(batch.task, moved, clean.logits)


def divergence_by_hand(task: str, one: Tensor, other: Tensor) -> Tensor:
    """Both KL divergences between two predictions, (rows,), from torch's distributions; or their squared gap."""
    if task == "sts":
        return functional.mse_loss(one, other, reduction="none")[:, 0]
    p, q = (Categorical(logits=logits) if task == "sst" else Bernoulli(logits=logits[:, 0]) for logits in (one, other))
    return kl_divergence(p, q) + kl_divergence(q, p)


def gradients_of(run: Run, loss: Tensor) -> dict[str, Tensor]:
    """The gradient of every parameter that the loss reaches."""
    parameters = dict(run.model.named_parameters())
    found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    return {name: gradient for name, gradient in zip(parameters, found, strict=True) if gradient is not None}


@pytest.mark.parametrize(("task", "size"), SIZES.items())
def test_a_full_batch_gives_the_mean_of_its_losses_times_the_tasks_weight(
    task: str, size: int, new_run: NewRun
) -> None:
    run = new_run({**PLAIN, f"tasks.{task}.loss_weight": 2.5})
    batches = shards_of(run, task, size)
    expected = losses_by_hand(run, batches[0])
    loss, details = evaluate(run, batches)
    assert loss.item() == pytest.approx(2.5 * expected.mean().item(), rel=1e-5)
    assert details[0].tolist() == pytest.approx([expected.sum().item(), *[0] * (len(TERMS) - 1)], rel=1e-5)
    assert details.shape == (1, len(TERMS))
    assert not details.requires_grad


@pytest.mark.parametrize("rows", [1, 3, 7])
@pytest.mark.parametrize("changes", [PLAIN, SMART])
def test_each_row_of_a_short_batch_counts_like_one_of_a_full_batch(
    changes: dict[str, Any], rows: int, new_run: NewRun
) -> None:
    run = new_run(changes)
    batches = shards_of(run, "sst", rows)
    expected = losses_by_hand(run, batches[0]).sum() / 8
    if run.config.smart.weight:
        expected = expected + 7 * penalties_by_hand(run, batches[0]).sum() / 8
    loss, details = evaluate(run, batches)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    assert details[0, 0].item() == pytest.approx(losses_by_hand(run, batches[0]).sum().item(), rel=1e-5)


@pytest.mark.parametrize(
    "wrong", [torch.mean, torch.sum, lambda values: values[:1], lambda values: values.unsqueeze(1)]
)
@pytest.mark.parametrize("name", PENALTIES)
def test_a_penalty_that_is_no_value_for_each_row_is_refused(
    name: str, wrong: Callable[[Tensor], Tensor], new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_contract(path: str) -> Callable[..., tuple[Tensor, ...]]:
        return lambda *given: tuple(wrong(values) for values in load_function(path)(*given))

    monkeypatch.setattr(mtlib.loss.objective, "load_function", break_contract)
    run = new_run({**PLAIN, f"{name}.weight": 1, f"{name}.tasks": "sst"})
    rule = rf"{PENALTIES[name].function} must return \(rows,\) for each of {', '.join(PENALTIES[name].terms)}"
    with pytest.raises(ValueError, match=rule):
        evaluate(run, shards_of(run, "sst", 8))


def test_full_and_short_batches_of_a_pass_sum_to_its_rows(new_run: NewRun) -> None:
    run, parts = new_run(PLAIN), []
    for rows in (np.arange(8), np.arange(8, 16), np.arange(16, 19)):
        batch = make_batch(run.corpus["sst", "train"], rows, encoding="single", max_length=32)
        parts.append(evaluate(run, [batch])[0])
    whole = losses_by_hand(run, shards_of(run, "sst", 19)[0]).sum() / 8
    assert torch.stack(parts).sum().item() == pytest.approx(whole.item(), rel=1e-4)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(("task", "encoding"), [("sst", "single"), ("qqp", "cross"), ("qqp", "bi"), ("sts", "cross")])
def test_the_penalty_is_added_as_mean_or_sum(task: str, encoding: str, reduction: str, new_run: NewRun) -> None:
    changes = {"smart.reduction": reduction, f"tasks.{task}.encoding": encoding, f"tasks.{task}.loss_weight": 0.25}
    run = new_run({**SMART, **changes})
    (batch,) = shards_of(run, task, SIZES[task])
    losses, penalties = losses_by_hand(run, batch), penalties_by_hand(run, batch)
    smooth = penalties.mean() if reduction == "mean" else penalties.sum()
    loss, details = evaluate(run, [batch])
    assert loss.item() == pytest.approx(0.25 * (losses.mean() + 7 * smooth).item(), rel=1e-3)
    assert 7 * penalties.mean() > 0.01 * losses.mean()  # otherwise the penalty is too small to test
    largest = torch.stack([part.abs().amax(dim=(1, 2)) for part in noise_by_hand(run, batch)]).amax(0)
    sums = {"loss": losses, "smart_penalty": penalties, "noise_norm": largest}
    expected = [sums[name].sum().item() if name in sums else 0 for name in TERMS]
    assert details[0].tolist() == pytest.approx(expected, rel=1e-3)


def test_a_short_batch_weights_a_mean_penalty_by_its_rows_and_a_sum_not_at_all(new_run: NewRun) -> None:
    for reduction, divisor in (("mean", 8), ("sum", 1)):
        run = new_run({**SMART, "smart.reduction": reduction})
        (batch,) = shards_of(run, "qqp", 3)
        expected = losses_by_hand(run, batch).sum() / 8 + 7 * penalties_by_hand(run, batch).sum() / divisor
        assert evaluate(run, [batch])[0].item() == pytest.approx(expected.item(), rel=1e-3)


def test_the_loss_of_a_step_is_the_sum_over_its_batches(new_run: NewRun) -> None:
    run = new_run({**SMART, "tasks.qqp.loss_weight": 3, "smart.tasks": "sst,qqp"})
    batches = [shards_of(run, task, size)[0] for task, size in SIZES.items()]
    alone = [evaluate(run, [batch]) for batch in batches]
    loss, details = evaluate(run, batches)
    assert loss.item() == pytest.approx(sum(part.item() for part, _ in alone), rel=1e-5)
    assert torch.allclose(details, torch.cat([part for _, part in alone]))


def with_moved_weights(run: Run) -> Run:
    """The run with weights that differ from the teacher's and log variances other than 0."""
    stream = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in run.model.named_parameters():
            size = 0.4 if name.startswith("log_variances") else 0.05 * parameter.abs().mean()
            parameter.add_(size * torch.randn(parameter.shape, generator=stream))
    return run


def share_views(run: Run, shards: list[Batch], monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives each simulated worker the second views of all, with gradients in the one model."""

    def gather(values: Tensor) -> Tensor:
        parts = []
        for shard in shards:
            assert run.model.projection is not None
            view = functional.normalize(run.model.projection(run.model.encode_texts(shard)[0]).float(), dim=2)
            parts.append(torch.cat([view, view.new_zeros(len(values) - len(view), *view.shape[1:])]))
        assert any(torch.allclose(values, part, atol=1e-5) for part in parts)
        return torch.stack(parts)

    monkeypatch.setattr(mtlib.loss.simcse, "num_workers", lambda: len(shards))
    monkeypatch.setattr(mtlib.loss.simcse, "gather_with_gradient", gather)


def first_layer_output(model: MultiTaskModel) -> nn.Module:
    """A module that every pass through the encoder calls once."""
    return model.get_submodule("encoder.encoder.layer.0.output.dense")


def passes_of(run: Run, task: str) -> int:
    """The number of encoder passes of a batch."""
    count: list[int] = []
    handle = first_layer_output(run.model).register_forward_hook(lambda *_: count.append(1))
    evaluate(run, shards_of(run, task, 5))
    handle.remove()
    return len(count)


@pytest.mark.parametrize(("mode", "passes"), [("random", 2), ("unit_norm", 4), ("paper", 4)])
def test_only_smart_tasks_cost_further_passes(mode: str, passes: int, new_run: NewRun) -> None:
    run = new_run({**SMART, "smart.tasks": "qqp", "smart.mode": mode, "smart.num_steps": 2})
    assert [passes_of(run, task) for task in ("sst", "qqp", "sts")] == [1, passes, 1]
    assert passes_of(new_run({**SMART, "smart.weight": 0, "smart.mode": mode}), "qqp") == 1
    assert evaluate(run, shards_of(run, "sst", 5))[1][0, 1:].tolist() == [0, 0, 0, 0]


def test_a_tiny_weight_gives_nearly_the_plain_loss_and_gradient(new_run: NewRun) -> None:
    plain, smooth = new_run(PLAIN), new_run({**SMART, "smart.weight": 1e-9, "smart.mode": "unit_norm"})
    losses = [evaluate(run, shards_of(run, "qqp", 8))[0] for run in (plain, smooth)]
    assert losses[0].item() == pytest.approx(losses[1].item())
    one, other = (gradients_of(run, loss) for run, loss in zip((plain, smooth), losses, strict=True))
    assert one.keys() == other.keys()
    assert all(torch.allclose(one[name], other[name], rtol=1e-4, atol=1e-6) for name in one)


SHARDED = {
    "plain": PLAIN,
    "random": SMART,
    "ascent": {**SMART, "smart.mode": "paper", "smart.num_steps": 2},
    "sum": {**SMART, "smart.reduction": "sum", "smart.mode": "unit_norm"},
    "some rows": {**SMART, "smart.mode": "unit_norm", "smart.row_share": 0.4},
    "some rows, sum, bi-encoder": {**SMART, **BI, "smart.reduction": "sum", "smart.row_share": 0.3},
    "bi-encoder": {**SMART, "tasks.qqp.encoding": "bi"},
    "cross- and bi-encoder": {**SMART, "tasks.qqp.encoding": "cross_and_bi", "smart.mode": "unit_norm"},
    "mean teacher": TEACHER,
    "contrast": CONTRAST,
    "contrast, bi-encoder": {**CONTRAST, **BI, "simcse.projection": "linear", "simcse.dropout": 0},
    "learned weights": {**SMART, **LEARNED, "smart.weight": 7},
    "everything": {**TEACHER, **CONTRAST, **LEARNED, **SMART, "smart.masks": "shared", "smart.row_share": 0.4},
}


@pytest.mark.parametrize(("name", "rows"), [*((name, 5) for name in SHARDED), ("everything", 8), ("everything", 1)])
def test_the_average_gradient_of_two_shards_is_that_of_the_global_batch(
    name: str, rows: int, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = with_moved_weights(new_run(SHARDED[name]))
    whole, details = evaluate(run, shards_of(run, "qqp", rows))
    expected = gradients_of(run, whole)
    monkeypatch.setattr(mtlib.loss.objective, "num_workers", lambda: 2)
    share_views(run, shards_of(run, "qqp", rows, world_size=2), monkeypatch)
    parts = [evaluate(run, [shard]) for shard in shards_of(run, "qqp", rows, world_size=2)]
    found = [gradients_of(run, loss) for loss, _ in parts]
    assert sum(loss.item() for loss, _ in parts) / 2 == pytest.approx(whole.item(), rel=1e-4)
    assert torch.allclose(parts[0][1] + parts[1][1], details, rtol=1e-4)
    scale = max(gradient.abs().max().item() for gradient in expected.values())
    for key, gradient in expected.items():
        averaged = (found[0][key] + found[1][key]) / 2
        assert torch.allclose(averaged, gradient, rtol=1e-3, atol=1e-5 * scale), key


def test_shards_of_a_step_with_several_tasks_average_to_its_gradient(
    new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run({**SMART, "tasks.sst.loss_weight": 0.5})
    sizes = {"sst": 1, "qqp": 8, "sts": 3}
    expected = gradients_of(run, evaluate(run, [shards_of(run, task, rows)[0] for task, rows in sizes.items()])[0])
    monkeypatch.setattr(mtlib.loss.objective, "num_workers", lambda: 3)
    shards = [shards_of(run, task, rows, world_size=3) for task, rows in sizes.items()]
    found = [gradients_of(run, evaluate(run, [parts[rank] for parts in shards])[0]) for rank in range(3)]
    scale = max(gradient.abs().max().item() for gradient in expected.values())
    for key, gradient in expected.items():
        averaged = torch.stack([part[key] for part in found]).mean(0)
        assert torch.allclose(averaged, gradient, rtol=1e-3, atol=1e-5 * scale), key


@pytest.mark.parametrize(
    "changes",
    [
        PLAIN,
        SMART,
        {**SMART, "smart.mode": "unit_norm"},
        {**SMART, "smart.row_share": 0.5},
        TEACHER,
        CONTRAST,
        {**CONTRAST, **TEACHER, **LEARNED},
    ],
)
def test_an_empty_shard_has_weight_0(changes: dict[str, Any], new_run: NewRun) -> None:
    run = new_run(changes)
    full, empty = shards_of(run, "sst", 1, world_size=2)
    assert empty.is_empty
    loss, details = evaluate(run, [empty])
    assert loss.item() == 0
    assert details.tolist() == [[0, 0, 0, 0, 0]]
    gradients = gradients_of(run, loss)
    assert (
        gradients.keys() == gradients_of(run, evaluate(run, [full])[0]).keys()
    )  # the same collective calls on every worker
    assert all(not gradient.any() for gradient in gradients.values())


@pytest.mark.parametrize(("task", "encoding"), [("sst", "single"), ("qqp", "cross"), ("qqp", "bi")])
@pytest.mark.parametrize("world_size", [2, 3, 8])
def test_noise_of_a_shard_is_a_slice_of_that_of_the_global_batch(
    world_size: int, task: str, encoding: str, new_run: NewRun
) -> None:
    run = new_run({f"tasks.{task}.encoding": encoding})
    (whole,) = shards_of(run, task, 7)
    expected = first_noise(whole, run.model(whole, keep=True).embeddings, 5)
    assert len(expected) == len(whole.inputs)
    for rank, shard in enumerate(shards_of(run, task, 7, world_size)):
        found = first_noise(shard, run.model(shard, keep=True).embeddings, 5)
        rows = slice(rank, None, world_size) if rank < 7 else slice(0, 1)  # an empty shard holds row 0
        assert all(torch.equal(one, other[rows]) for one, other in zip(found, expected, strict=True))


def test_initial_noise_is_standard_normal_fp32_and_depends_on_its_seed_alone(new_run: NewRun) -> None:
    run = new_run({"tasks.qqp.encoding": "bi"})
    (batch,) = shards_of(run, "qqp", 30)
    embeddings = [torch.zeros(30, 12, 32, dtype=torch.bfloat16) for _ in range(2)]
    torch.manual_seed(1)
    first, second = first_noise(batch, embeddings, 5)
    assert first.dtype == torch.float32
    assert first.shape == (30, 12, 32)
    assert kstest(torch.cat([first, second]).flatten().numpy(), "norm").pvalue > 1e-3
    assert not torch.equal(first, second)
    expected = torch.rand(3, generator=torch.Generator().manual_seed(1))
    assert torch.equal(torch.rand(3), expected)  # nothing was drawn from the global stream
    assert torch.equal(first_noise(batch, embeddings, 5)[1], second)
    assert not torch.equal(first_noise(batch, embeddings, 6)[0], first)


def test_noise_of_another_seed_gives_another_penalty(new_run: NewRun) -> None:
    run = new_run(SMART)
    batches = shards_of(run, "qqp", 8)
    penalties = [evaluate(run, batches, seed)[1][0, 1].item() for seed in (1, 1, 2)]
    assert penalties[0] == penalties[1]
    assert penalties[0] != penalties[2]


@pytest.mark.parametrize("mode", ["unit_norm", "random"])
def test_tiny_noise_is_added_in_fp32_under_bf16(mode: str, new_run: NewRun, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = {"smart.noise_std": 1e-6, "smart.epsilon": 1e-5, "smart.mode": mode}
    run = new_run({**SMART, **tiny, "precision": "bf16", "encoder.dropout": 0.1})
    (batch,) = shards_of(run, "sst", 8)
    # BERT's LayerNorm gives fp32 under autocast; other embeddings may not.
    embedding_layer(run.model.encoder).register_forward_hook(lambda _module, _given, output: output.bfloat16())
    entered: list[Tensor] = []
    forward = run.model.forward

    def listening(batch: Batch, embeddings: Any = None, keep: bool = False) -> Any:
        output = forward(batch, embeddings, keep)
        entered.append(output.embeddings[0].float() if embeddings is None else embeddings[0])
        return output

    monkeypatch.setattr(run.model, "forward", listening)
    loss, _ = evaluate(run, [batch])
    assert loss.dtype == torch.float32
    mask = batch.inputs[0].attention_mask.bool()
    for moved in entered[1:]:
        assert moved.dtype == torch.float32
        assert (moved - entered[0]).abs().amax(2)[mask].min() > 0
        assert torch.equal(moved[~mask], entered[0][~mask])


@pytest.mark.parametrize(
    ("changes", "passes"),
    [
        ({"encoder.dropout": 0.1}, 3),
        ({"encoder.dropout": 0.1, "smart.masks": "shared"}, 4),
        ({}, 4),  # no dropout, so that both passes have the same masks
    ],
)
def test_the_ascent_has_the_direction_of_fp32_under_bf16(
    changes: dict[str, Any], passes: int, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    climbed: list[Tensor] = []

    def listening(config: SmartConfig, noise: Tensor, gradient: Tensor) -> Tensor:
        climbed.append(gradient.flatten(1))
        return step_noise(config, noise, gradient)

    monkeypatch.setattr(mtlib.loss.smart, "step_noise", listening)
    settings = {**SMART, "smart.mode": "unit_norm", "smart.noise_std": 1e-4, **changes}
    for precision in ("fp32", "bf16"):
        run = new_run({**settings, "precision": precision})
        torch.manual_seed(0)
        evaluate(run, shards_of(run, "sst", 8))
    exact, rounded = climbed
    assert functional.cosine_similarity(exact, rounded).min() > 0.95
    assert passes_of(new_run({**settings, "precision": "bf16"}), "sst") == passes


def test_only_bf16_multiplies_in_bfloat16(new_run: NewRun) -> None:
    for precision, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        run = new_run({**PLAIN, "precision": precision})
        seen: list[Tensor] = []
        run.model.heads["sst"].register_forward_hook(lambda _module, _given, output, seen=seen: seen.append(output))
        loss, details = evaluate(run, shards_of(run, "sst", 8))
        assert [output.dtype for output in seen] == [dtype]
        assert (loss.dtype, details.dtype) == (torch.float32, torch.float32)


def test_clean_and_perturbed_passes_draw_different_dropout(new_run: NewRun) -> None:
    still = {"smart.noise_std": VANISHING}  # only dropout differs
    run = new_run({**SMART, **still, "encoder.dropout": 0.3})
    torch.manual_seed(0)
    _, details = evaluate(run, shards_of(run, "qqp", 8))
    assert details[0, TERMS.index("smart_penalty")] > 0
    assert details[0, TERMS.index("noise_norm")] < 1e-20
    silent = new_run({**SMART, **still})
    assert evaluate(silent, shards_of(silent, "qqp", 8))[1][0, TERMS.index("smart_penalty")] == 0


@pytest.mark.parametrize(
    ("every", "carrying"), [(1, [0, 1, 2, 3, 4, 5, 6]), (2, [0, 2, 4, 6]), (3, [0, 3, 6]), (9, [0])]
)
def test_every_kth_batch_of_a_task_has_the_penalty_and_the_rest_are_plain(
    every: int, carrying: list[int], new_run: NewRun
) -> None:
    run, plain = new_run({**SMART, "smart.every_batches": every}), new_run(PLAIN)
    batches = shards_of(run, "qqp", 8)
    smooth, rough = evaluate(run, batches, turn=0), evaluate(plain, batches)
    assert column(smooth[1], "smart_penalty") > 0
    for turn in range(7):
        expected = smooth if turn in carrying else rough
        assert [
            torch.equal(one, other) for one, other in zip(evaluate(run, batches, turn=turn), expected, strict=True)
        ] == [
            True,
            True,
        ]
        names = ("loss", "smart_penalty", "noise_norm") if turn in carrying else ("loss",)
        assert terms_of(run.config, "qqp", turn) == names


def test_the_terms_of_each_task_by_hand(new_run: NewRun) -> None:
    changes = {"smart.tasks": "sst", "smart.every_batches": 2, "proximal.tasks": "sst,qqp", "simcse.tasks": "sts"}
    config = new_run({**SMART, **TEACHER, **CONTRAST, **changes, "smart.weight": 1}).config
    assert terms_of(config, "sst", 0) == ("loss", "smart_penalty", "noise_norm", "proximal")
    assert terms_of(config, "sst", 1) == ("loss", "proximal")
    assert terms_of(config, "qqp", 0) == ("loss", "proximal")
    assert terms_of(config, "sts", 5) == ("loss", "simcse")
    off = config.override({"smart.weight": 0, "proximal.weight": 0, "simcse.weight": 0})
    assert {terms_of(off, task, 0) for task in SIZES} == {("loss",)}
    assert all(set(terms_of(config, task, 0)) <= set(TERMS) for task in SIZES)


@pytest.mark.parametrize(("reduction", "rows"), [("mean", 8), ("sum", 3), ("mean", 1)])
@pytest.mark.parametrize(("task", "encoding"), [("sst", "single"), ("qqp", "cross"), ("sts", "bi")])
def test_the_mean_penalty_of_the_rows_that_carry_it_counts_for_all_rows(
    task: str, encoding: str, reduction: str, rows: int, new_run: NewRun
) -> None:
    changes = {"smart.row_share": 0.4, "smart.reduction": reduction, f"tasks.{task}.encoding": encoding}
    run = new_run({**SMART, **changes})
    (batch,) = shards_of(run, task, rows)
    carrying = carrying_positions(rows, 0.4, 11)
    mean = penalties_by_hand(run, batch)[torch.from_numpy(carrying)].mean()
    loss, details = evaluate(run, [batch])
    size = run.config.batch_size_of(task)
    factor = 7 * rows / size * (size if reduction == "sum" else 1)
    expected = losses_by_hand(run, batch).sum() / size + factor * mean
    assert loss.item() == pytest.approx(expected.item(), rel=1e-3)
    assert column(details, "smart_penalty") == pytest.approx(rows * mean.item(), rel=1e-3)
    norms = torch.stack([part.abs().amax(dim=(1, 2)) for part in noise_by_hand(run, batch)]).amax(0)
    norm = norms[torch.from_numpy(carrying)].mean().item()
    assert column(details, "noise_norm") == pytest.approx(rows * norm, rel=1e-3)


@pytest.mark.parametrize("mode", ["random", "unit_norm", "paper"])
def test_only_rows_that_carry_the_penalty_are_passed_again(mode: str, new_run: NewRun) -> None:
    run = new_run({**SMART, "smart.mode": mode, "smart.row_share": 0.25})
    seen: list[int] = []
    first_layer_output(run.model).register_forward_hook(lambda _module, _given, output: seen.append(len(output)))
    evaluate(run, shards_of(run, "qqp", 8))
    assert seen == [8, 2] if mode == "random" else [8, 2, 2]


def test_a_row_that_carries_the_penalty_has_what_it_has_where_all_rows_do(new_run: NewRun) -> None:
    changes = {**SMART, "smart.mode": "paper", "smart.num_steps": 2}
    run, some = new_run(changes), new_run({**changes, "smart.row_share": 0.5})
    place = Place(noise_seed=11, turn=0, full_size=8)
    (batch,) = shards_of(run, "qqp", 8)
    whole, part = (Objective(one.config, one.model).terms(batch, place)["smart_penalty"] for one in (run, some))
    carrying = carrying_positions(8, 0.5, 11)
    assert part.count_nonzero() == len(carrying) == 4
    assert torch.allclose(part[carrying], 2 * whole[carrying], rtol=1e-4)


def test_a_shard_without_a_row_that_carries_the_penalty_adds_none(new_run: NewRun) -> None:
    run, plain = new_run({**SMART, "smart.row_share": 0.1}), new_run(PLAIN)
    shards = shards_of(run, "qqp", 8, world_size=8)
    found = [column(evaluate(run, [shard])[1], "smart_penalty") for shard in shards]
    assert [value > 0 for value in found] == [rank in carrying_positions(8, 0.1, 11) for rank in range(8)]
    silent = found.index(0)
    one, other = evaluate(run, [shards[silent]]), evaluate(plain, [shards[silent]])
    assert torch.equal(one[0], other[0])
    assert gradients_of(run, one[0]).keys() == gradients_of(plain, other[0]).keys()


@pytest.mark.parametrize(
    ("rows", "share", "count"), [(1, 1e-9, 1), (16, 0.25, 4), (16, 0.24, 4), (3, 0.5, 2), (8, 1, 8)]
)
def test_each_row_is_as_likely_to_carry_the_penalty(rows: int, share: float, count: int) -> None:
    drawn = [carrying_positions(rows, share, seed) for seed in range(1000)]
    assert {len(set(one.tolist())) for one in drawn} == {count}
    shares = np.bincount(np.concatenate(drawn), minlength=rows) / 1000
    assert np.abs(shares - count / rows).max() < 0.07  # over four standard errors
    assert np.array_equal(drawn[5], carrying_positions(rows, share, 5))


NOISY = {"encoder.dropout": 0.3, "encoder.attention_dropout": 0.3}


@pytest.mark.parametrize("task", SIZES)
def test_tiny_noise_gives_no_penalty_only_with_shared_masks(task: str, new_run: NewRun) -> None:
    penalties, losses = {}, {}
    for masks in ("shared", "independent"):
        run = new_run({**SMART, **NOISY, "smart.noise_std": VANISHING, "smart.masks": masks})
        torch.manual_seed(4)
        _, details = evaluate(run, shards_of(run, task, 5))
        penalties[masks], losses[masks] = column(details, "smart_penalty"), column(details, "loss")
    assert penalties["shared"] == 0
    assert penalties["independent"] > 1e-4
    assert losses["shared"] == losses["independent"]  # the same draws as in the clean pass


@pytest.mark.parametrize("task", SIZES)
def test_masks_are_shared_by_the_rows_that_carry_the_penalty(task: str, new_run: NewRun) -> None:
    penalties = {}
    for masks in ("shared", "independent"):
        changes = {"smart.masks": masks, "smart.row_share": 0.5, "tasks.qqp.encoding": "bi"}
        run = new_run({**SMART, **NOISY, "smart.noise_std": VANISHING, **changes})
        torch.manual_seed(4)
        penalties[masks] = column(evaluate(run, shards_of(run, task, 5))[1], "smart_penalty")
    assert penalties["shared"] == 0
    assert penalties["independent"] > 1e-4


def test_shared_masks_hold_in_every_ascent_step(new_run: NewRun) -> None:
    small = {"smart.mode": "paper", "smart.num_steps": 3, "smart.noise_std": 1e-6, "smart.epsilon": 1e-6}
    found = {}
    for masks in ("shared", "independent"):
        run = new_run({**SMART, **NOISY, **small, "smart.masks": masks})
        torch.manual_seed(4)
        found[masks] = column(evaluate(run, shards_of(run, "qqp", 8))[1], "smart_penalty")
    assert abs(found["shared"]) < 1e-6
    assert found["independent"] > 1e-3


def test_after_shared_masks_the_random_stream_continues_after_the_clean_pass(new_run: NewRun) -> None:
    run, plain = new_run({**SMART, **NOISY, "smart.masks": "shared"}), new_run({**PLAIN, **NOISY})
    drawn = []
    for one in (run, plain):
        torch.manual_seed(4)
        evaluate(one, shards_of(one, "sst", 8))
        drawn.append(torch.rand(3))
    assert torch.equal(*drawn)


@pytest.mark.parametrize("rows", [5, 2])
@pytest.mark.parametrize("task", SIZES)
def test_the_proximal_term_is_the_divergence_from_the_teacher(task: str, rows: int, new_run: NewRun) -> None:
    run = with_moved_weights(new_run({**TEACHER, f"tasks.{task}.loss_weight": 0.5}))
    assert run.teacher is not None
    (batch,) = shards_of(run, task, rows)
    teacher = run.teacher(batch).logits
    expected = divergence_by_hand(task, run.model(batch).logits, teacher)
    assert expected.min() > 1e-4
    loss, details = evaluate(run, [batch])
    size = run.config.batch_size_of(task)
    whole = 0.5 * (losses_by_hand(run, batch).sum() + 3 * expected.sum()) / size
    assert loss.item() == pytest.approx(whole.item(), rel=1e-4)
    assert column(details, "proximal") == pytest.approx(expected.sum().item(), rel=1e-3)
    assert column(details, "smart_penalty") == column(details, "simcse") == 0


def test_the_proximal_term_has_gradients_of_both_divergences_and_none_in_the_teacher(
    new_run: NewRun,
) -> None:
    run = with_moved_weights(new_run(TEACHER))
    assert run.teacher is not None
    (batch,) = shards_of(run, "sst", 8)
    proximal = divergence_by_hand("sst", run.model(batch).logits, run.teacher(batch).logits.detach())
    expected = gradients_of(run, losses_by_hand(run, batch).mean() + 3 * proximal.mean())
    found = gradients_of(run, evaluate(run, [batch])[0])
    for name, gradient in expected.items():
        assert torch.allclose(found[name], gradient, rtol=1e-3, atol=1e-5), name
    torch.autograd.backward(evaluate(run, [batch])[0])
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in run.teacher.parameters())
    assert {
        name for name, _ in run.objective.named_parameters() if name.startswith("teacher.")
    }  # DDP sees the parameters


def test_the_teacher_has_no_dropout_and_starts_as_the_model(new_run: NewRun) -> None:
    run = new_run({**TEACHER, **NOISY})
    (batch,) = shards_of(run, "qqp", 8)
    assert run.teacher is not None
    assert run.model.training
    assert not any(module.training for module in run.teacher.modules())
    silent = averaged_copy(run.model).requires_grad_(False)
    assert torch.equal(silent(batch).logits, run.teacher(batch).logits)
    assert run.model.training  # a copy: the mode of the model does not change
    assert silent.get_parameter("heads.sst.weight") is not run.model.get_parameter("heads.sst.weight")
    torch.manual_seed(0)
    clean = run.model(batch).logits
    torch.manual_seed(0)
    proximal = column(evaluate(run, [batch])[1], "proximal")
    assert proximal == pytest.approx(divergence_by_hand("qqp", clean, run.teacher(batch).logits).sum().item(), rel=1e-3)
    still = new_run(TEACHER)
    assert column(evaluate(still, [batch])[1], "proximal") == pytest.approx(0, abs=1e-12)


def test_only_proximal_tasks_run_the_teacher(new_run: NewRun) -> None:
    run = new_run({**TEACHER, "proximal.tasks": "qqp"})
    assert run.teacher is not None
    count: list[int] = []
    first_layer_output(run.teacher).register_forward_hook(lambda *_: count.append(1))
    for task in SIZES:
        evaluate(run, shards_of(run, task, 5))
    assert len(count) == 1
    assert new_run(PLAIN).teacher is None


def contrast_by_hand(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """SimCSE's loss of each row, text by text against all second views, (rows,); from (rows, texts, hidden)."""
    rows, texts = first.shape[:2]
    candidates = second.flatten(0, 1)
    losses = []
    for row in range(rows):
        own = []
        for text in range(texts):
            scores = functional.cosine_similarity(first[row, text].expand_as(candidates), candidates, dim=1)
            own.append(functional.cross_entropy(scores / temperature, torch.tensor(row * texts + text)))
        losses.append(torch.stack(own).mean())
    return torch.stack(losses)


def hidden_dropouts_by_hand(run: Run) -> list[torch.nn.Dropout]:
    """BERT's dropout of hidden states, by name."""
    layers = ("attention.output", "output")
    names = ["embeddings.dropout", *(f"encoder.layer.{n}.{part}.dropout" for n in (0, 1) for part in layers)]
    found = [run.model.encoder.get_submodule(name) for name in names]
    assert all(isinstance(module, torch.nn.Dropout) for module in found)
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("projection", ["mlp", "linear", "none"])
@pytest.mark.parametrize(
    ("task", "encoding"),
    [("sst", "single"), ("qqp", "cross"), ("qqp", "bi"), ("sts", "bi"), ("sts", "cross_and_bi")],
)
def test_the_contrastive_term_matches_a_loop_over_two_views(
    task: str, encoding: str, projection: str, new_run: NewRun
) -> None:
    changes = {f"tasks.{task}.encoding": encoding, "simcse.projection": projection}
    run = new_run({**CONTRAST, **NOISY, **changes})
    (batch,) = shards_of(run, task, 4)
    torch.manual_seed(6)
    clean = run.model(batch)  # the first view comes from the pass of the loss
    first = 1 if encoding == "cross_and_bi" else 0  # the pair comes before its texts, and has no views beside theirs
    again = run.model.encode_texts(replace(batch, inputs=batch.inputs[first:]))[0]
    views = [clean.vectors[:, first:], again]
    if projection != "none":
        assert run.model.projection is not None
        weight, bias = run.model.projection.parameters()
        views = [view @ weight.T + bias for view in views]
    if projection == "mlp":
        views = [torch.tanh(view) for view in views]
    expected = contrast_by_hand(views[0], views[1], 0.5)
    torch.manual_seed(6)
    loss, details = evaluate(run, [batch])
    assert column(details, "simcse") == pytest.approx(expected.sum().item(), rel=1e-4)
    plain = column(details, "loss")
    torch.manual_seed(6)
    assert plain == pytest.approx(losses_by_hand(run, batch).sum().item(), rel=1e-4)
    size = run.config.batch_size_of(task)
    assert loss.item() == pytest.approx((plain + 2 * expected.sum().item()) / size, rel=1e-4)
    assert expected.std() > 0


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.6])
def test_the_contrastive_terms_dropout_applies_to_its_two_views_only(rate: float, new_run: NewRun) -> None:
    run = new_run({**CONTRAST, **NOISY, "simcse.dropout": rate, "simcse.projection": "none"})
    (batch,) = shards_of(run, "sst", 6)
    torch.manual_seed(6)
    clean = run.model(batch).logits
    for dropout in hidden_dropouts_by_hand(run):
        dropout.p = rate
    views = [run.model.encode_texts(batch)[0] for _ in range(2)]
    for dropout in hidden_dropouts_by_hand(run):
        dropout.p = 0.3
    torch.manual_seed(6)
    _, details = evaluate(run, [batch])
    assert column(details, "simcse") == pytest.approx(contrast_by_hand(views[0], views[1], 0.5).sum().item(), rel=1e-4)
    losses = functional.cross_entropy(clean, batch.labels.long(), reduction="sum")
    assert column(details, "loss") == pytest.approx(losses.item(), rel=1e-5)
    assert {dropout.p for dropout in hidden_dropouts_by_hand(run)} == {0.3}
    run = new_run({**CONTRAST, **NOISY, "simcse.projection": "none"})  # different with the encoder's dropout
    torch.manual_seed(6)
    assert column(evaluate(run, [batch])[1], "simcse") != column(details, "simcse")


def test_contrast_costs_one_pass_or_two_with_its_own_dropout(new_run: NewRun) -> None:
    run = new_run({**CONTRAST, "simcse.tasks": "qqp"})
    assert [passes_of(run, task) for task in SIZES] == [1, 2, 1]
    assert passes_of(new_run({**CONTRAST, "simcse.dropout": 0.1}), "qqp") == 3
    bi = new_run({**CONTRAST, **BI})
    assert passes_of(bi, "qqp") == 4


def test_the_projection_is_used_for_the_contrastive_term_alone(new_run: NewRun) -> None:
    run = new_run(CONTRAST)
    (batch,) = shards_of(run, "sst", 8)
    before = run.model(batch).logits
    assert run.model.projection is not None
    with torch.no_grad():
        for parameter in run.model.projection.parameters():
            parameter.fill_(float("nan"))
    assert torch.equal(run.model(batch).logits, before)
    assert torch.equal(run.model.eval()(batch).logits, before)
    _, details = evaluate(run, [batch])
    assert np.isfinite(column(details, "loss"))
    assert np.isnan(column(details, "simcse"))
    reached = gradients_of(new_run(PLAIN), evaluate(new_run(PLAIN), [batch])[0])
    assert not [name for name in reached if name.startswith("projection.")]


def test_terms_add_up_each_with_its_own_weight(new_run: NewRun) -> None:
    run = with_moved_weights(new_run({**TEACHER, **CONTRAST, **SMART, "tasks.qqp.loss_weight": 0.5}))
    (batch,) = shards_of(run, "qqp", 8)
    loss, details = evaluate(run, [batch])
    sums = dict(zip(TERMS, details[0].tolist(), strict=True))
    assert min(sums.values()) > 0
    total = sums["loss"] + 7 * sums["smart_penalty"] + 3 * sums["proximal"] + 2 * sums["simcse"]
    assert loss.item() == pytest.approx(0.5 * total / 8, rel=1e-4)


@pytest.mark.parametrize(("task", "factor"), [("qqp", 1.0), ("sts", 0.5)])
def test_a_learned_weight_scales_all_terms_of_its_task(task: str, factor: float, new_run: NewRun) -> None:
    run = with_moved_weights(new_run({**TEACHER, **CONTRAST, **SMART, **LEARNED, "smart.weight": 7}))
    with torch.no_grad():
        run.model.log_variances[task].fill_(0.4)
    (batch,) = shards_of(run, task, SIZES[task])
    loss, details = evaluate(run, [batch])
    sums = dict(zip(TERMS, details[0].tolist(), strict=True))
    assert min(sums.values()) > 0
    total = sums["loss"] + 7 * sums["smart_penalty"] + 3 * sums["proximal"] + 2 * sums["simcse"]
    assert loss.item() == pytest.approx(factor * np.exp(-0.4) * total / SIZES[task] + 0.2, rel=1e-4)


@pytest.mark.parametrize("log_variance", [-0.7, 0.0, 1.3])
def test_a_learned_weight_of_a_squared_error_is_a_normal_likelihood(log_variance: float, new_run: NewRun) -> None:
    run = new_run(LEARNED)
    (batch,) = shards_of(run, "sts", 5)
    with torch.no_grad():
        run.model.log_variances["sts"].fill_(log_variance)
    predicted = run.model(batch).logits[:, 0]
    likelihood = Normal(predicted, np.exp(log_variance / 2)).log_prob(batch.labels)  # type: ignore[no-untyped-call]  # Kendall et al. 2018, equation 5
    expected = (-likelihood - 0.5 * np.log(2 * np.pi)).mean()
    loss, _ = evaluate(run, [batch])
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("rows", [8, 3])
@pytest.mark.parametrize("task", ["sst", "qqp"])
def test_a_learned_weight_of_a_cross_entropy_by_hand(task: str, rows: int, new_run: NewRun) -> None:
    run = new_run({**SMART, **LEARNED, "smart.weight": 7})
    (batch,) = shards_of(run, task, rows)
    deviation = 1.7
    with torch.no_grad():
        run.model.log_variances[task].fill_(2 * np.log(deviation))
    total = losses_by_hand(run, batch) + 7 * penalties_by_hand(run, batch)
    expected = (total / deviation**2 + np.log(deviation)).sum() / 8  # Kendall et al. 2018, equation 10
    loss, details = evaluate(run, [batch])
    assert loss.item() == pytest.approx(expected.item(), rel=1e-3)
    assert column(details, "loss") == pytest.approx(losses_by_hand(run, batch).sum().item(), rel=1e-4)


@pytest.mark.parametrize(("task", "half"), [("sst", 1.0), ("qqp", 1.0), ("sts", 0.5)])
def test_the_gradient_of_a_log_variance_by_hand_and_its_minimum(task: str, half: float, new_run: NewRun) -> None:
    run = new_run(LEARNED)
    (batch,) = shards_of(run, task, SIZES[task])
    mean = losses_by_hand(run, batch).mean().item()
    name = f"log_variances.{task}"
    at_rest = np.log(2 * half * mean)  # of exp(-s) half L + s / 2
    for log_variance in (0.0, 0.4, at_rest):
        with torch.no_grad():
            run.model.log_variances[task].fill_(log_variance)
        gradients = gradients_of(run, evaluate(run, [batch])[0])
        expected = 0.5 - half * mean * np.exp(-log_variance)
        assert gradients[name].item() == pytest.approx(expected, rel=1e-3, abs=1e-5)
        assert {key for key in gradients if key.startswith("log_variances")} == {name}
    weight = learned_weight(run.config, task, torch.tensor(at_rest))
    assert weight.item() == pytest.approx(1 / (2 * mean), rel=1e-5)


def test_learned_weights_start_at_0_and_fixed_ones_have_no_parameters(new_run: NewRun) -> None:
    assert {name: part.item() for name, part in new_run(LEARNED).model.log_variances.items()} == dict.fromkeys(SIZES, 0)
    assert not list(new_run(PLAIN).model.log_variances)


@pytest.mark.parametrize("changes", [PLAIN, {**SMART, "smart.reduction": "sum"}, LEARNED, TEACHER])
def test_a_set_with_its_own_batch_size_is_divided_by_it(changes: dict[str, Any], new_run: NewRun) -> None:
    run = with_moved_weights(new_run(changes))
    (batch,) = shards_of(run, "sst", 3)
    found = {}
    for size in (3, 6, 8):
        loss, details = run.objective([batch], [Place(noise_seed=11, turn=0, full_size=size)])
        found[size] = (loss.item(), details)
    assert torch.equal(found[3][1], found[6][1])
    by_sum = run.config.smart.weight * column(found[3][1], "smart_penalty")
    constant = by_sum if run.config.smart.reduction == "sum" else 0.0  # a sum over the batch is not divided
    assert 3 * (found[3][0] - constant) == pytest.approx(6 * (found[6][0] - constant), rel=1e-4, abs=1e-5)
    assert found[8][0] == pytest.approx(evaluate(run, [batch])[0].item(), rel=1e-6)


def test_imtl_l_is_torchjds_scalarization_of_the_losses(new_run: NewRun) -> None:
    run, theirs = new_run({**PLAIN, "loss_weighting": "imtl_l"}), IMTLL(3)
    batches = [shards_of(run, task, size)[0] for task, size in SIZES.items()]
    with torch.no_grad():
        for number, part in enumerate(run.model.log_variances.values()):
            part.fill_(0.3 * number - 0.4)
        theirs.log_scale.copy_(-torch.stack([run.model.log_variances[task] for task in SIZES]))
    losses = torch.stack([losses_by_hand(run, batch).mean() for batch in batches])
    assert evaluate(run, batches)[0].item() == pytest.approx(theirs(losses).item(), rel=1e-5)


@pytest.mark.parametrize(("name", "theirs"), [("famo", FAMO(3)), ("stch", STCH(0.1)), ("dwa", DWA())])
def test_the_gradient_of_weighted_losses_is_that_of_torchjds_scalarization(
    name: str, theirs: Scalarizer, new_run: NewRun
) -> None:
    changes = {**PLAIN, "stages.0.tasks": list(SIZES), "stages.0.sum_losses": True}
    run = new_run({**changes, "loss_weighting": name})
    batches = [shards_of(run, task, size)[0] for task, size in SIZES.items()]
    found = gradients_of(run, evaluate(run, batches)[0])
    expected = gradients_of(run, theirs(torch.stack([evaluate(run, [batch])[0] for batch in batches])))
    for parameter, gradient in found.items():
        assert torch.allclose(gradient, expected[parameter], rtol=1e-4, atol=1e-6), parameter
