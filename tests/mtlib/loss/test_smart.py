"""SMART: norms and ascent by hand, and its properties on the tiny model."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mtlib.config.penalties import SmartConfig
from mtlib.config.trial import TrialConfig
from mtlib.data.batches import Batch, make_batch
from mtlib.data.token_cache import Corpus
from mtlib.kinds import Kind
from mtlib.loss.divergences import symmetric_divergence
from mtlib.loss.smart import smoothness, step_noise, unit_norm
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.tasks import TASKS

ROWS, TOKENS, HIDDEN = 3, 4, 2
SIZEABLE = {"noise_std": 1e-3, "step_size": 0.1, "epsilon": 0.1}
MODES = ("unit_norm", "paper", "random")


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


def test_unit_norm_by_hand_divides_each_token_by_its_largest_entry_plus_epsilon() -> None:
    noise = torch.tensor([[[3.0, -1.0], [0.5, 0.0], [0.0, 0.0]]])
    expected = torch.tensor([[[3 / 4, -1 / 4], [0.5 / 1.5, 0.0], [0.0, 0.0]]])
    assert torch.allclose(unit_norm(noise, 1.0), expected)
    assert unit_norm(noise, 1e-6).abs().amax(dim=2)[0, :2].tolist() == pytest.approx([1, 1], abs=1e-5)


def test_a_step_in_unit_norm_mode_by_hand() -> None:
    noise, gradient = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[0.0, -10.0]]])
    stepped = step_noise(smart(mode="unit_norm", step_size=0.2, epsilon=0.5), noise, gradient)
    assert torch.allclose(stepped, torch.tensor([[[1 / 2.5, -2 / 2.5]]]))  # (1, -2) over 2 + .5


def test_a_step_in_paper_mode_by_hand() -> None:
    noise = torch.tensor([[[0.1, 0.0], [0.0, -0.15]], [[0.0, 0.0], [0.0, 0.0]]])
    gradient = torch.tensor([[[4.0, -1.0], [2.0, -4.0]], [[0.0, 0.0], [0.0, 0.0]]])
    stepped = step_noise(smart(mode="paper", step_size=0.1, epsilon=0.2), noise, gradient)
    # Row 0: plus .1 times (1, -1/4; 1/2, -1), then held within .2; row 1 has no gradient.
    assert torch.allclose(stepped, torch.tensor([[[0.2, -0.025], [0.05, -0.2]], [[0.0, 0.0], [0.0, 0.0]]]))


@pytest.mark.parametrize("num_steps", [1, 3])
@pytest.mark.parametrize("mode", ["unit_norm", "paper"])
def test_the_ascent_follows_the_gradient_of_a_linear_model_by_hand(mode: str, num_steps: int) -> None:
    config, model = smart(mode=mode, num_steps=num_steps), Linear()
    first, mask = random_noise(3), torch.ones(ROWS, TOKENS, dtype=torch.long)
    result = smoothness(config, "regression", model.clean, [first], [mask], model)

    weight, noise = model.weight.detach().numpy(), config.noise_std * first.numpy()
    for _ in range(num_steps):
        moved = (noise * weight).sum(axis=(1, 2), keepdims=True)
        gradient = 2 * moved * weight  # of moved^2
        if mode == "paper":
            step = config.step_size * gradient / np.abs(gradient).max(axis=(1, 2), keepdims=True)
            noise = np.clip(noise + step, -config.epsilon, config.epsilon)
        else:
            noise = noise + config.step_size * gradient
            noise = noise / (np.abs(noise).max(axis=2, keepdims=True) + config.epsilon)
    assert len(model.seen) == num_steps + 1
    assert np.allclose(model.seen[-1], noise, atol=1e-6)
    assert np.allclose(result[0].detach(), (noise * weight).sum(axis=(1, 2)) ** 2, rtol=1e-4)
    assert np.allclose(result[1], np.abs(noise).max(axis=(1, 2)), rtol=1e-5)


def test_random_mode_takes_no_ascent_step() -> None:
    config, model, first = smart(mode="random", num_steps=5), Linear(), random_noise(4)
    result = smoothness(config, "regression", model.clean, [first], [torch.ones(ROWS, TOKENS)], model)
    expected = config.noise_std * first
    expected = expected / (expected.abs().amax(dim=2, keepdim=True) + config.epsilon)
    assert len(model.seen) == 1
    assert torch.allclose(model.seen[0], expected)
    assert not result[1].requires_grad


@pytest.mark.parametrize("mode", MODES)
def test_padding_gets_no_noise_in_any_pass(mode: str) -> None:
    model, mask = Linear(), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]])
    smoothness(smart(mode=mode, num_steps=2), "regression", model.clean, [random_noise(5)], [mask], model)
    for noise in model.seen:
        assert torch.equal(noise.abs().sum(dim=2) > 0, mask.bool())


@pytest.mark.parametrize("mode", ["unit_norm", "paper"])
def test_each_row_ascends_independently_of_its_batch(mode: str) -> None:
    together, alone, first = Linear(), Linear(), random_noise(6)
    mask = torch.ones(ROWS, TOKENS)
    whole = smoothness(smart(mode=mode), "regression", together.clean, [first], [mask], together)
    alone.clean = alone.clean[1:2]
    single = smoothness(smart(mode=mode), "regression", alone.clean, [first[1:2]], [mask[1:2]], alone)
    assert torch.allclose(single[0], whole[0][1:2])
    assert torch.equal(alone.seen[-1], together.seen[-1][1:2])


def test_the_noise_norm_is_the_largest_entry_over_both_inputs() -> None:
    first = [random_noise(7, 2, 3, 4), random_noise(8, 2, 5, 4)]
    masks = [torch.ones(2, 3), torch.ones(2, 5)]
    clean = torch.zeros(2, 1)
    seen: list[Sequence[Tensor]] = []

    def perturbed(noise: Sequence[Tensor]) -> Tensor:
        seen.append(noise)
        return (noise[0].sum(dim=(1, 2)) + 3 * noise[1].sum(dim=(1, 2))).unsqueeze(1)

    result = smoothness(smart(mode="paper", epsilon=9.0), "regression", clean, first, masks, perturbed)
    last = torch.cat([part.flatten(1) for part in seen[-1]], dim=1)
    assert torch.equal(result[1], last.abs().amax(dim=1))


@pytest.mark.parametrize("kind", ["classes", "binary", "regression"])
def test_the_penalty_has_gradients_in_both_predictions(kind: Kind) -> None:
    width = 3 if kind == "classes" else 1
    text, weight = random_noise(9, 2, 4).double(), random_noise(10, 4, width).double().requires_grad_()
    seen: list[Tensor] = []

    def perturbed(noise: Sequence[Tensor]) -> Tensor:
        seen.append(noise[0].squeeze(1).double())
        return (text + seen[-1]) @ weight

    config, mask = smart(mode="random", noise_std=1.0), torch.ones(2, 1)
    result = smoothness(config, kind, text @ weight, [random_noise(11, 2, 1, 4).double()], [mask], perturbed)
    (gradient,) = torch.autograd.grad(result[0].sum(), weight)

    # In the logits it is q - p at the moved and p - q at the clean text, so in the weight the text itself cancels out;
    # for a regression 2 (moved - clean).
    moved, clean = ((text + part) @ weight.detach() for part in (seen[-1], torch.zeros_like(text)))
    if kind == "regression":
        difference = 2 * (moved - clean)
    else:
        difference = moved.softmax(1) - clean.softmax(1) if kind == "classes" else moved.sigmoid() - clean.sigmoid()
    assert torch.allclose(gradient, seen[-1].T @ difference, rtol=1e-9, atol=1e-12)
    assert gradient.abs().min() > 1e-3


Prepared = tuple[MultiTaskModel, Batch, Tensor, list[Tensor], Callable[[Sequence[Tensor]], Tensor]]


@pytest.fixture(params=["sst single", "qqp cross", "qqp bi", "sts cross", "sts bi"])
def prepared(
    request: pytest.FixtureRequest, tiny_config: TrialConfig, tiny_corpus: Corpus, tiny_encoder: PretrainedEncoder
) -> Prepared:
    """The tiny model in training mode with dropout off, a batch, its clean logits and embedded texts."""
    task, encoding = request.param.split()
    off = {"encoder.dropout": 0, "encoder.attention_dropout": 0, f"tasks.{task}.encoding": encoding}
    config = tiny_config.override(off)
    model = MultiTaskModel(config, tiny_encoder).train()
    for weight in model.heads.parameters():
        torch.nn.init.normal_(weight, std=0.5, generator=torch.Generator().manual_seed(0))
    table = tiny_corpus[task, "train"]
    batch = make_batch(table, np.arange(8), encoding=encoding, max_length=32)
    output = model(batch, keep=True)

    def perturbed(noise: Sequence[Tensor]) -> Tensor:
        moved = [text + part for text, part in zip(output.embeddings, noise, strict=True)]
        logits: Tensor = model(batch, embeddings=moved).logits
        return logits

    first = [random_noise(12 + index, *text.shape) for index, text in enumerate(output.embeddings)]
    return model, batch, output.logits, first, perturbed


def masks_of(batch: Batch) -> list[Tensor]:
    return [inputs.attention_mask for inputs in batch.inputs]


def test_zero_noise_gives_exactly_zero_penalty(prepared: Prepared) -> None:
    _, batch, clean, first, perturbed = prepared
    zero = [torch.zeros_like(part) for part in first]
    assert torch.equal(perturbed(zero), clean)
    for config in (smart(mode="random"), smart(mode="random", noise_std=0.0)):
        noise = zero if config.noise_std else first
        result = smoothness(config, TASKS[batch.task].kind, clean, noise, masks_of(batch), perturbed)
        assert torch.equal(result[0], torch.zeros(8))
        assert torch.equal(result[1], torch.zeros(8))


@pytest.mark.parametrize("mode", MODES)
def test_noise_gives_a_penalty_above_zero(prepared: Prepared, mode: str) -> None:
    _, batch, clean, first, perturbed = prepared
    result = smoothness(smart(mode=mode), TASKS[batch.task].kind, clean, first, masks_of(batch), perturbed)
    assert (result[0] > 0).all()
    assert (result[1] > 0).all()


def test_the_ascent_of_paper_mode_raises_the_divergence(prepared: Prepared) -> None:
    _, batch, clean, first, perturbed = prepared
    kind, masks = TASKS[batch.task].kind, masks_of(batch)
    config = smart(mode="paper", **SIZEABLE)
    before = symmetric_divergence(kind, perturbed([1e-3 * noise for noise in first]), clean)
    climbed = smoothness(config, kind, clean, first, masks, perturbed)
    # Noise of the same size per entry in random directions, for comparison.
    signs = [0.1 * noise.sign() * mask.unsqueeze(2) for noise, mask in zip(first, masks, strict=True)]
    at_random = symmetric_divergence(kind, perturbed(signs), clean)
    further = smoothness(smart(mode="paper", num_steps=4, **SIZEABLE), kind, clean, first, masks, perturbed)
    assert (climbed[0] > 10 * before).all()
    assert further[0].mean() > at_random.mean()
    assert further[0].mean() > climbed[0].mean()
    assert climbed[1].max() <= 0.1 + 1e-6


@pytest.mark.parametrize("mode", MODES)
def test_the_ascent_leaves_no_gradient_in_parameters(prepared: Prepared, mode: str) -> None:
    model, batch, clean, first, perturbed = prepared
    result = smoothness(smart(mode=mode), TASKS[batch.task].kind, clean, first, masks_of(batch), perturbed)
    assert all(parameter.grad is None for parameter in model.parameters())
    result[0].sum().backward()  # type: ignore[no-untyped-call]
    reached = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert "encoder.embeddings.word_embeddings.weight" in reached
    heads = {name for name in reached if name.startswith("heads.")}
    assert heads == {f"heads.{batch.task}.{name}" for name, _ in model.heads[batch.task].named_parameters()}


def test_the_clean_loss_is_differentiable_after_the_ascent(prepared: Prepared) -> None:
    _, batch, clean, first, perturbed = prepared
    smoothness(smart(mode="paper", num_steps=2), TASKS[batch.task].kind, clean, first, masks_of(batch), perturbed)
    clean.sum().backward()  # type: ignore[no-untyped-call]
