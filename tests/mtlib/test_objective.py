"""The objective by hand: means, weights, short batches and shards, and SMART's noise."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, kl_divergence
from torch.nn import functional

import mtlib.objective
from mtlib.batches import Batch, make_batch
from mtlib.encoder import embedding_layer
from mtlib.objective import first_noise
from mtlib.run_state import Run

NewRun = Callable[..., Run]
PLAIN = {"encoder.dropout": 0, "encoder.attention_dropout": 0, "smart.weight": 0}
SMART = {**PLAIN, "smart.weight": 7, "smart.tasks": "sst,qqp,sts", "smart.mode": "random", "smart.epsilon": 0.1}
SMART["smart.noise_std"] = 0.1
SIZES = {"sst": 8, "qqp": 8, "sts": 5}


def shards_of(run: Run, task: str, rows: int, world_size: int = 1) -> list[Batch]:
    """The parts of one global batch of the first rows of a task's train."""
    return [
        make_batch(
            run.corpus.tables[task, "train"],
            np.arange(rows),
            encoding=run.config.tasks[task].encoding,
            max_length=run.config.encoder.max_length,
            special=run.corpus.special,
            rank=rank,
            world_size=world_size,
        )
        for rank in range(world_size)
    ]


def ask(run: Run, batches: Sequence[Batch], seed: int = 11) -> tuple[Tensor, Tensor]:
    """Loss and details; the noise of each batch has the same seed."""
    loss, details = run.objective(batches, [seed] * len(batches))
    return loss, details


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
    if batch.task == "sts":
        return functional.mse_loss(moved, clean.logits, reduction="none")[:, 0]
    if batch.task == "sst":
        p, q = Categorical(logits=moved), Categorical(logits=clean.logits)
        return kl_divergence(p, q) + kl_divergence(q, p)
    one, other = Bernoulli(logits=moved[:, 0]), Bernoulli(logits=clean.logits[:, 0])
    return kl_divergence(one, other) + kl_divergence(other, one)


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
    loss, details = ask(run, batches)
    assert loss.item() == pytest.approx(2.5 * expected.mean().item(), rel=1e-5)
    assert details[0].tolist() == pytest.approx([expected.sum().item(), 0, 0], rel=1e-5)
    assert details.shape == (1, 3)
    assert not details.requires_grad


@pytest.mark.parametrize("rows", [1, 3, 7])
@pytest.mark.parametrize("changes", [PLAIN, SMART])
def test_each_row_of_a_short_batch_counts_as_much_as_one_of_a_full_batch(
    changes: dict[str, Any], rows: int, new_run: NewRun
) -> None:
    run = new_run(changes)
    batches = shards_of(run, "sst", rows)
    expected = losses_by_hand(run, batches[0]).sum() / 8
    if run.config.smart.weight:
        expected = expected + 7 * penalties_by_hand(run, batches[0]).sum() / 8
    loss, details = ask(run, batches)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    assert details[0, 0].item() == pytest.approx(losses_by_hand(run, batches[0]).sum().item(), rel=1e-5)


def test_a_pass_cut_into_full_and_short_batches_adds_up_to_its_rows(new_run: NewRun) -> None:
    run, parts = new_run(PLAIN), []
    for rows in (np.arange(8), np.arange(8, 16), np.arange(16, 19)):
        batch = make_batch(
            run.corpus.tables["sst", "train"], rows, encoding="single", max_length=32, special=run.corpus.special
        )
        parts.append(ask(run, [batch])[0])
    whole = losses_by_hand(run, shards_of(run, "sst", 19)[0]).sum() / 8
    assert torch.stack(parts).sum().item() == pytest.approx(whole.item(), rel=1e-4)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(("task", "encoding"), [("sst", "single"), ("qqp", "cross"), ("qqp", "bi"), ("sts", "cross")])
def test_the_penalty_by_hand_is_added_as_mean_or_as_sum(
    task: str, encoding: str, reduction: str, new_run: NewRun
) -> None:
    changes = {"smart.reduction": reduction, f"tasks.{task}.encoding": encoding, f"tasks.{task}.loss_weight": 0.25}
    run = new_run({**SMART, **changes})
    (batch,) = shards_of(run, task, SIZES[task])
    losses, penalties = losses_by_hand(run, batch), penalties_by_hand(run, batch)
    smooth = penalties.mean() if reduction == "mean" else penalties.sum()
    loss, details = ask(run, [batch])
    assert loss.item() == pytest.approx(0.25 * (losses.mean() + 7 * smooth).item(), rel=1e-3)
    assert 7 * penalties.mean() > 0.01 * losses.mean()  # or it would not show
    largest = torch.stack([part.abs().amax(dim=(1, 2)) for part in noise_by_hand(run, batch)]).amax(0)
    assert details[0].tolist() == pytest.approx([part.sum().item() for part in (losses, penalties, largest)], rel=1e-3)


def test_a_short_batchs_penalty_is_weighted_by_its_rows_as_mean_and_not_at_all_as_sum(new_run: NewRun) -> None:
    for reduction, divisor in (("mean", 8), ("sum", 1)):
        run = new_run({**SMART, "smart.reduction": reduction})
        (batch,) = shards_of(run, "qqp", 3)
        expected = losses_by_hand(run, batch).sum() / 8 + 7 * penalties_by_hand(run, batch).sum() / divisor
        assert ask(run, [batch])[0].item() == pytest.approx(expected.item(), rel=1e-3)


def test_the_loss_of_a_step_is_the_sum_over_its_batches(new_run: NewRun) -> None:
    run = new_run({**SMART, "tasks.qqp.loss_weight": 3, "smart.tasks": "sst,qqp"})
    batches = [shards_of(run, task, size)[0] for task, size in SIZES.items()]
    alone = [ask(run, [batch]) for batch in batches]
    loss, details = ask(run, batches)
    assert loss.item() == pytest.approx(sum(part.item() for part, _ in alone), rel=1e-5)
    assert torch.allclose(details, torch.cat([part for _, part in alone]))


def passes_of(run: Run, task: str) -> int:
    """How often a batch goes through the encoder."""
    count: list[int] = []
    handle = run.model.encoder.register_forward_hook(lambda *_: count.append(1))
    ask(run, shards_of(run, task, 5))
    handle.remove()
    return len(count)


@pytest.mark.parametrize(("mode", "passes"), [("random", 2), ("unit_norm", 4), ("paper", 4)])
def test_only_tasks_under_smart_pay_for_it(mode: str, passes: int, new_run: NewRun) -> None:
    run = new_run({**SMART, "smart.tasks": "qqp", "smart.mode": mode, "smart.num_steps": 2})
    assert [passes_of(run, task) for task in ("sst", "qqp", "sts")] == [1, passes, 1]
    assert passes_of(new_run({**SMART, "smart.weight": 0, "smart.mode": mode}), "qqp") == 1
    assert ask(run, shards_of(run, "sst", 5))[1][0, 1:].tolist() == [0, 0]


def test_a_weight_of_nearly_nothing_gives_nearly_the_plain_loss_and_gradient(new_run: NewRun) -> None:
    plain, smooth = new_run(PLAIN), new_run({**SMART, "smart.weight": 1e-9, "smart.mode": "unit_norm"})
    losses = [ask(run, shards_of(run, "qqp", 8))[0] for run in (plain, smooth)]
    assert losses[0].item() == pytest.approx(losses[1].item())
    one, other = (gradients_of(run, loss) for run, loss in zip((plain, smooth), losses, strict=True))
    assert one.keys() == other.keys()
    assert all(torch.allclose(one[name], other[name], rtol=1e-4, atol=1e-6) for name in one)


SHARDED = {
    "plain": PLAIN,
    "random": SMART,
    "ascent": {**SMART, "smart.mode": "paper", "smart.num_steps": 2},
    "sum": {**SMART, "smart.reduction": "sum", "smart.mode": "unit_norm"},
    "bi-encoder": {**SMART, "tasks.qqp.encoding": "bi"},
}


@pytest.mark.parametrize("rows", [8, 5, 1])
@pytest.mark.parametrize("name", SHARDED)
def test_the_average_gradient_of_two_shards_is_that_of_the_global_batch(
    name: str, rows: int, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run(SHARDED[name])
    whole, details = ask(run, shards_of(run, "qqp", rows))
    expected = gradients_of(run, whole)
    monkeypatch.setattr(mtlib.objective, "num_workers", lambda: 2)
    parts = [ask(run, [shard]) for shard in shards_of(run, "qqp", rows, world_size=2)]
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
    expected = gradients_of(run, ask(run, [shards_of(run, task, rows)[0] for task, rows in sizes.items()])[0])
    monkeypatch.setattr(mtlib.objective, "num_workers", lambda: 3)
    shards = [shards_of(run, task, rows, world_size=3) for task, rows in sizes.items()]
    found = [gradients_of(run, ask(run, [parts[rank] for parts in shards])[0]) for rank in range(3)]
    scale = max(gradient.abs().max().item() for gradient in expected.values())
    for key, gradient in expected.items():
        averaged = torch.stack([part[key] for part in found]).mean(0)
        assert torch.allclose(averaged, gradient, rtol=1e-3, atol=1e-5 * scale), key


@pytest.mark.parametrize("changes", [PLAIN, SMART, {**SMART, "smart.mode": "unit_norm"}])
def test_an_empty_shard_takes_part_with_weight_0(changes: dict[str, Any], new_run: NewRun) -> None:
    run = new_run(changes)
    full, empty = shards_of(run, "sst", 1, world_size=2)
    assert empty.is_empty
    loss, details = ask(run, [empty])
    assert loss.item() == 0
    assert details.tolist() == [[0, 0, 0]]
    gradients = gradients_of(run, loss)
    assert gradients.keys() == gradients_of(run, ask(run, [full])[0]).keys()  # the workers wait for the same ones
    assert all(not gradient.any() for gradient in gradients.values())


@pytest.mark.parametrize(("task", "encoding"), [("sst", "single"), ("qqp", "cross"), ("qqp", "bi")])
@pytest.mark.parametrize("world_size", [2, 3, 8])
def test_noise_is_that_of_the_global_batch_sliced(world_size: int, task: str, encoding: str, new_run: NewRun) -> None:
    run = new_run({f"tasks.{task}.encoding": encoding})
    (whole,) = shards_of(run, task, 7)
    expected = first_noise(whole, run.model(whole, keep=True).embeddings, 5)
    assert len(expected) == len(whole.inputs)
    for rank, shard in enumerate(shards_of(run, task, 7, world_size)):
        found = first_noise(shard, run.model(shard, keep=True).embeddings, 5)
        rows = slice(rank, None, world_size) if rank < 7 else slice(0, 1)  # an empty shard holds row 0
        assert all(torch.equal(one, other[rows]) for one, other in zip(found, expected, strict=True))


def test_first_noise_is_standard_normal_fp32_and_follows_its_seed_alone(new_run: NewRun) -> None:
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
    penalties = [ask(run, batches, seed)[1][0, 1].item() for seed in (1, 1, 2)]
    assert penalties[0] == penalties[1]
    assert penalties[0] != penalties[2]


@pytest.mark.parametrize("mode", ["unit_norm", "paper", "random"])
def test_the_smallest_noise_enters_in_fp32_also_under_bf16(
    mode: str, new_run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = {"smart.noise_std": 1e-6, "smart.epsilon": 1e-5, "smart.mode": mode}
    run = new_run({**SMART, **tiny, "precision": "bf16"})
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
    loss, _ = ask(run, [batch])
    assert loss.dtype == torch.float32
    mask = batch.inputs[0].attention_mask.bool()
    for moved in entered[1:]:
        assert moved.dtype == torch.float32
        assert (moved - entered[0]).abs().amax(2)[mask].min() > 0
        assert torch.equal(moved[~mask], entered[0][~mask])


def test_bf16_runs_the_products_in_bfloat16_and_fp32_does_not(new_run: NewRun) -> None:
    for precision, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        run = new_run({**PLAIN, "precision": precision})
        seen: list[Tensor] = []
        run.model.heads["sst"].register_forward_hook(lambda _module, _given, output, seen=seen: seen.append(output))
        loss, details = ask(run, shards_of(run, "sst", 8))
        assert [output.dtype for output in seen] == [dtype]
        assert (loss.dtype, details.dtype) == (torch.float32, torch.float32)


def test_clean_and_perturbed_pass_draw_their_own_dropout(new_run: NewRun) -> None:
    still = {"smart.noise_std": 0.0}  # no noise: what differs is dropout
    run = new_run({**SMART, **still, "encoder.dropout": 0.3})
    torch.manual_seed(0)
    _, details = ask(run, shards_of(run, "qqp", 8))
    assert details[0, 1] > 0
    assert details[0, 2] == 0
    silent = new_run({**SMART, **still})
    assert ask(silent, shards_of(silent, "qqp", 8))[1][0, 1] == 0
