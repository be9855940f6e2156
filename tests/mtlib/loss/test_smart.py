"""SMART: norms and ascent by hand, its noise, rows, masks and precision in runs of the tiny trial."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torch import Tensor
from torch.nn import functional

import mtlib.loss.smart
from mtlib.config.penalties import SmartConfig
from mtlib.data.batches import Batch
from mtlib.loss.smart import carrying_positions, first_noise, smoothness, step_noise
from mtlib.model.encoder import embedding_layer
from mtlib.training.run import Run
from tests.mtlib.loss.by_hand import (
    NOISY,
    SIZES,
    SMART,
    NewRun,
    column,
    divergence_by_hand,
    evaluate,
    passes_of,
    shards_of,
)

ROWS, TOKENS, HIDDEN = 3, 4, 2
MODES = ("unit_norm", "paper", "random")
VANISHING = 1e-30
"""A standard deviation of noise so small that adding it does not change the embeddings in fp32."""


def smart(**changes: Any) -> SmartConfig:
    """Settings with noise large enough for fp32."""
    return SmartConfig(**{"noise_std": 0.1, "step_size": 0.3, "epsilon": 0.2, **changes})


def random_noise(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape or (ROWS, TOKENS, HIDDEN), generator=torch.Generator().manual_seed(seed))


class Linear:
    """A model that is linear in its noise and records the noise of each call."""

    def __init__(self) -> None:
        self.weight = random_noise(1, TOKENS, HIDDEN).requires_grad_()
        self.clean = random_noise(2, ROWS, 1)
        self.seen: list[Tensor] = []

    def __call__(self, noise: Sequence[Tensor]) -> Tensor:
        self.seen.append(noise[0].detach().clone())
        return self.clean + (noise[0] * self.weight).sum(dim=(1, 2)).unsqueeze(1)


def test_a_step_in_paper_mode_by_hand() -> None:
    noise = torch.tensor([[[0.1, 0.0], [0.0, -0.15]], [[0.0, 0.0], [0.0, 0.0]]])
    gradient = torch.tensor([[[4.0, -1.0], [2.0, -4.0]], [[0.0, 0.0], [0.0, 0.0]]])
    stepped = step_noise(smart(mode="paper", step_size=0.1, epsilon=0.2), noise, gradient)
    # Row 0: plus .1 times (1, -1/4; 1/2, -1), then held within .2; row 1 has no gradient.
    assert torch.allclose(stepped, torch.tensor([[[0.2, -0.025], [0.05, -0.2]], [[0.0, 0.0], [0.0, 0.0]]]))


@pytest.mark.parametrize("mode", MODES)
def test_the_ascent_follows_the_gradient_of_a_linear_model_by_hand(mode: str) -> None:
    config, model, first = smart(mode=mode, num_steps=3), Linear(), random_noise(3)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]])
    result = smoothness(config, "regression", model.clean, [first], [mask], model)

    weight, keep, noise = model.weight.detach().numpy(), mask.numpy()[:, :, None], config.noise_std * first.numpy()
    noise = noise * keep
    for _ in range(0 if mode == "random" else 3):
        gradient = 2 * (noise * weight).sum(axis=(1, 2), keepdims=True) * weight * keep  # of moved^2
        if mode == "paper":
            step = config.step_size * gradient / np.abs(gradient).max(axis=(1, 2), keepdims=True)
            noise = np.clip(noise + step, -config.epsilon, config.epsilon)
        else:
            noise = noise + config.step_size * gradient
            noise = noise / (np.abs(noise).max(axis=2, keepdims=True) + config.epsilon)
    if mode == "random":
        noise = noise / (np.abs(noise).max(axis=2, keepdims=True) + config.epsilon)
    assert len(model.seen) == (1 if mode == "random" else 4)
    assert np.allclose(model.seen[-1], noise, atol=1e-6)
    assert np.allclose(result[0].detach(), (noise * weight).sum(axis=(1, 2)) ** 2, rtol=1e-4)
    assert np.allclose(result[1], np.abs(noise).max(axis=(1, 2)), rtol=1e-5)
    assert all(torch.equal(seen.abs().sum(dim=2) > 0, mask.bool()) for seen in model.seen)  # none on padding


def test_the_penalty_has_gradients_in_both_predictions() -> None:
    text, weight = random_noise(9, 2, 4).double(), random_noise(10, 4, 3).double().requires_grad_()
    seen: list[Tensor] = []

    def perturbed(noise: Sequence[Tensor]) -> Tensor:
        seen.append(noise[0].squeeze(1).double())
        return (text + seen[-1]) @ weight

    config, mask = smart(mode="random", noise_std=1.0), torch.ones(2, 1)
    result = smoothness(config, "classes", text @ weight, [random_noise(11, 2, 1, 4).double()], [mask], perturbed)
    (gradient,) = torch.autograd.grad(result[0].sum(), weight)
    # In the logits it is q - p at the moved and p - q at the clean text, so in the weight the text itself cancels out.
    moved, clean = ((text + part) @ weight.detach() for part in (seen[-1], torch.zeros_like(text)))
    difference = moved.softmax(1) - clean.softmax(1)
    assert torch.allclose(gradient, seen[-1].T @ difference, rtol=1e-9, atol=1e-12)


def noise_by_hand(run: Run, batch: Batch) -> list[Tensor]:
    """The noise of the mode `random`: normal draws, none on padding, each token's scaled to inf-norm 1."""
    config, stream, noise = run.config.smart, torch.Generator().manual_seed(11), []
    for inputs in batch.inputs:
        rows, tokens = inputs.attention_mask.shape
        draw = config.noise_std * torch.randn(rows, tokens, 32, generator=stream) * inputs.attention_mask[:, :, None]
        noise.append(draw / (draw.abs().max(dim=2, keepdim=True).values + config.epsilon))
    return noise


@pytest.mark.parametrize("row_share", [1, 0.4])
@pytest.mark.parametrize(("task", "encoding"), [("sst", "single"), ("qqp", "cross"), ("sts", "bi")])
def test_the_penalty_of_a_run_by_hand(task: str, encoding: str, row_share: float, new_run: NewRun) -> None:
    """Where only some rows have it, their mean counts for all rows."""
    run = new_run({**SMART, f"tasks.{task}.encoding": encoding, "smart.row_share": row_share})
    (batch,) = shards_of(run, task, 5)
    clean, noise = run.model(batch, keep=True), noise_by_hand(run, batch)
    moved = [text + part for text, part in zip(clean.embeddings, noise, strict=True)]
    penalties = divergence_by_hand(task, run.model(batch, embeddings=moved).logits, clean.logits)
    norms = torch.stack([part.abs().amax(dim=(1, 2)) for part in noise]).amax(0)
    carrying = carrying_positions(5, row_share, 11)
    assert len(carrying) == (5 if row_share == 1 else 2)
    _, details = evaluate(run, [batch])
    assert column(details, "smart_penalty") == pytest.approx(5 * penalties[carrying].mean().item(), rel=1e-3)
    assert column(details, "noise_norm") == pytest.approx(5 * norms[carrying].mean().item(), rel=1e-3)


@pytest.mark.parametrize(("rows", "share", "count"), [(1, 1e-9, 1), (16, 0.24, 4)])
def test_each_row_is_as_likely_to_carry_the_penalty(rows: int, share: float, count: int) -> None:
    drawn = [carrying_positions(rows, share, seed) for seed in range(1000)]
    assert {len(set(one.tolist())) for one in drawn} == {count}
    shares = np.bincount(np.concatenate(drawn), minlength=rows) / 1000
    assert np.abs(shares - count / rows).max() < 0.07  # over four standard errors
    assert np.array_equal(drawn[5], carrying_positions(rows, share, 5))


@pytest.mark.parametrize(("mode", "passes"), [("random", [8, 2]), ("paper", [8, 2, 2, 2])])
def test_only_smart_tasks_and_rows_that_carry_the_penalty_cost_further_passes(
    mode: str, passes: list[int], new_run: NewRun
) -> None:
    changes = {"smart.tasks": "qqp", "smart.mode": mode, "smart.num_steps": 2, "smart.row_share": 0.25}
    run = new_run({**SMART, **changes})
    assert [passes_of(run, task) for task in SIZES] == [[8], passes, [8]]


@pytest.mark.parametrize("world_size", [3, 8])
def test_noise_of_a_shard_is_a_slice_of_that_of_the_global_batch(world_size: int, new_run: NewRun) -> None:
    run = new_run({"tasks.qqp.encoding": "bi"})
    (whole,) = shards_of(run, "qqp", 7)
    expected = first_noise(whole, run.model(whole, keep=True).embeddings, 5)
    for rank, shard in enumerate(shards_of(run, "qqp", 7, world_size)):
        found = first_noise(shard, run.model(shard, keep=True).embeddings, 5)
        rows = slice(rank, None, world_size) if rank < 7 else slice(0, 1)  # an empty shard holds row 0
        assert all(torch.equal(one, other[rows]) for one, other in zip(found, expected, strict=True))


def test_initial_noise_is_standard_normal_fp32_and_depends_on_its_seed_alone(new_run: NewRun) -> None:
    run = new_run({"tasks.qqp.encoding": "bi"})
    (batch,) = shards_of(run, "qqp", 30)
    embeddings = [torch.zeros(30, 12, 32, dtype=torch.bfloat16) for _ in range(2)]
    state = torch.get_rng_state()
    first, second = first_noise(batch, embeddings, 5)
    assert torch.equal(torch.get_rng_state(), state)
    assert first.dtype == torch.float32
    assert kstest(torch.cat([first, second]).flatten().numpy(), "norm").pvalue > 1e-3
    assert not torch.equal(first, second)
    assert torch.equal(first_noise(batch, embeddings, 5)[1], second)
    assert not torch.equal(first_noise(batch, embeddings, 6)[0], first)


def test_tiny_noise_is_added_in_fp32_under_bf16(new_run: NewRun, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = {"smart.noise_std": 1e-6, "smart.epsilon": 1e-5, "smart.mode": "unit_norm"}
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
    evaluate(run, [batch])
    mask = batch.inputs[0].attention_mask.bool()
    assert len(entered) == 3
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
    assert len(passes_of(new_run({**settings, "precision": "bf16"}), "sst")) == passes


@pytest.mark.parametrize(
    "changes",
    [
        {"smart.noise_std": VANISHING, "smart.row_share": 0.5, "tasks.qqp.encoding": "bi"},
        {"smart.mode": "paper", "smart.num_steps": 3, "smart.noise_std": 1e-6, "smart.epsilon": 1e-6},
    ],
)
def test_tiny_noise_gives_no_penalty_only_with_shared_masks(changes: dict[str, Any], new_run: NewRun) -> None:
    penalties, losses = {}, {}
    for masks in ("shared", "independent"):
        run = new_run({**SMART, **NOISY, **changes, "smart.masks": masks})
        torch.manual_seed(4)
        _, details = evaluate(run, shards_of(run, "qqp", 5))
        penalties[masks], losses[masks] = column(details, "smart_penalty"), column(details, "loss")
    assert abs(penalties["shared"]) < 1e-6
    assert penalties["independent"] > 1e-4
    assert losses["shared"] == losses["independent"]  # the same draws as in the clean pass
