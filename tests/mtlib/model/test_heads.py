"""Heads and shared layers: values by hand, widths, initial values and their random streams."""

import dataclasses
from typing import Any

import torch
from scipy.spatial.distance import cosine as cosine_distance
from scipy.stats import kstest
from torch import Tensor
from torch.nn import functional

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.model.heads import CosineHead, compare_texts, make_head, make_projection, make_relational
from mtlib.runtime.seeds import torch_stream

BASE = TrialConfig(stages=(StageConfig(tasks=("sst", "qqp", "sts")),))
BI = {"tasks.qqp.encoding": "bi", "tasks.sts.encoding": "bi"}
COSINE = {**BI, "tasks.qqp.head": "cosine", "tasks.sts.head": "cosine"}
PLAIN_COSINE = {**COSINE, "tasks.qqp.cosine_projection": False, "tasks.sts.cosine_projection": False}
SIMCSE = {"simcse.weight": 0.1, "simcse.tasks": ["sts"]}


def vectors(count: int, rows: int = 3, width: int = 32) -> tuple[Tensor, ...]:
    stream = torch.Generator().manual_seed(7)
    return tuple(torch.randn(rows, width, generator=stream) for _ in range(count))


def head_of(task: str, changes: dict[str, Any] | None = None) -> Any:
    return make_head(BASE.override(changes or {}), task, 32)


def cosines(pair: tuple[Tensor, ...]) -> Tensor:
    """By scipy, (rows, 1)."""
    return torch.tensor([[1 - cosine_distance(*row)] for row in zip(*pair, strict=True)]).float()


def test_a_linear_head_is_a_linear_layer_on_the_joined_vectors() -> None:
    head, (first, second) = head_of("sts", BI), vectors(2)
    by_hand = first @ head.weight[:, :32].T + second @ head.weight[:, 32:].T + head.bias
    assert torch.allclose(head((first, second)), by_hand, atol=1e-6)
    assert torch.equal(head((torch.cat((first, second), dim=1),)), head((first, second)))  # as the relational layer's
    assert list(head.state_dict()) == ["weight", "bias"]


def test_a_hidden_layer_is_a_relu_layer_by_hand() -> None:
    head, (vector,) = head_of("sst", {"tasks.sst.hidden_units": 7}), vectors(1)
    with torch.no_grad():
        head.hidden.bias.normal_()
        head.bias.normal_()
    inner = torch.clamp(vector @ head.hidden.weight.T + head.hidden.bias, min=0)
    assert inner.shape == (3, 7)
    assert (inner == 0).any()
    assert torch.allclose(head((vector,)), inner @ head.weight.T + head.bias, atol=1e-6)


def test_a_comparison_is_of_both_texts_in_any_order_and_of_any_length() -> None:
    first, second = vectors(2)
    one, two = (text * 32**0.25 / text.norm(dim=1, keepdim=True) for text in (first, second))
    difference, product = compare_texts(first, second)
    assert torch.allclose(difference, (one - two).abs(), atol=1e-6)
    assert torch.allclose(product, one * two, atol=1e-6)
    assert torch.allclose(product.sum(dim=1, keepdim=True), 32**0.5 * cosines((first, second)), atol=1e-5)
    again = compare_texts(3 * second, 0.1 * first)
    assert torch.allclose(torch.cat(again), torch.cat([difference, product]), atol=1e-6)


def test_equal_texts_and_a_text_of_zeros_have_finite_values_with_gradients() -> None:
    text = torch.zeros(2, 32)
    text[0] = 1.0
    text.requires_grad_()
    found = (*compare_texts(text, text.detach().clone()), CosineHead(None, -1, 1)((text, torch.ones(2, 32))))
    torch.autograd.backward([part.sum() for part in found])
    assert all(torch.isfinite(part).all() for part in (*found, text.grad))  # type: ignore[arg-type]


def test_the_softmax_loss_of_two_outputs_equals_the_sigmoid_loss_of_the_logit() -> None:
    head, (vector,), labels = head_of("qqp", {"tasks.qqp.loss": "cross_entropy"}), vectors(1), torch.tensor([0, 1, 1])
    head.weight.data *= 50
    outputs = vector @ head.weight.T
    assert outputs.shape == (3, 2)
    logit = head((vector,))[:, 0]
    expected = functional.cross_entropy(outputs, labels, reduction="none")
    found = functional.binary_cross_entropy_with_logits(logit, labels.float(), reduction="none")
    assert torch.allclose(found, expected, atol=1e-6)


def test_a_cosine_without_projection_matches_scipy() -> None:
    pair, binary, graded = vectors(2), head_of("qqp", PLAIN_COSINE), head_of("sts", PLAIN_COSINE)
    assert torch.allclose(binary(pair), cosines(pair), atol=1e-6)
    assert torch.allclose(graded(pair), 2.5 + 2.5 * cosines(pair), atol=1e-5)
    assert not list(binary.parameters())


def test_the_cosine_is_fp32_under_autocast() -> None:
    pair, projected = vectors(2), head_of("qqp", COSINE)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        first, second = (projected.projection(vector) for vector in pair)
        assert first.dtype == torch.bfloat16
        found = projected(pair)
    assert torch.equal(found[:, 0], functional.cosine_similarity(first.float(), second.float()))


def all_modules(config: TrialConfig, width: int = 32) -> dict[str, Tensor]:
    """Every weight that heads.py builds for a configuration, by name."""
    modules = {task: make_head(config, task, width) for task in config.active_tasks}
    shared = {"relational": make_relational(config, width), "projection": make_projection(config, width)}
    named = {**modules, **{name: module for name, module in shared.items() if module is not None}}
    return {f"{name}.{key}": value for name, module in named.items() for key, value in module.state_dict().items()}


EVERYTHING = BASE.override(
    {**COSINE, **SIMCSE, "tasks.sst.hidden_units": 32, "relational_tasks": ["sst"], "encoder.name": "x"}
)


def test_weights_are_normal_with_deviation_0_02_and_biases_zero() -> None:
    for name, value in all_modules(EVERYTHING, width=300).items():
        if name.endswith("bias"):
            assert not value.any()
        else:
            assert kstest(value.flatten().numpy() / 0.02, "norm").pvalue > 1e-3, name


def test_every_weight_is_drawn_from_a_stream_of_seed_replicate_and_purpose_alone() -> None:
    torch.manual_seed(99)
    state, before = torch.get_rng_state(), all_modules(EVERYTHING)
    assert torch.equal(torch.get_rng_state(), state)
    assert len({float(value.flatten()[0]) for name, value in before.items() if name.endswith("weight")}) == 6
    torch.manual_seed(98)
    inert = {"optimizer.learning_rate": 1e-3, "tasks.sst.batch_size": 4, "smart.weight": 3, "smart.tasks": "sst"}
    alone = dataclasses.replace(EVERYTHING, stages=(StageConfig(tasks=("sst", "sts"), epochs=3),)).override(inert)
    for name, value in all_modules(alone).items():
        assert torch.equal(value, before[name])
    for change in ({"seed": 1}, {"replicate": 1}, {"encoder.start_from": "folder"}):
        other = all_modules(EVERYTHING.override(change))
        assert all(torch.equal(other[name], value) == name.endswith("bias") for name, value in before.items())
    first_draw = torch.empty(1, 32).normal_(0.0, 0.02, generator=torch_stream(0, 0, "head", "qqp"))
    assert torch.equal(head_of("qqp").weight, first_draw)


def test_the_relational_layer_has_the_width_of_the_vectors_of_active_tasks() -> None:
    assert make_relational(BASE, 32) is None
    related = BASE.override({**BI, "relational_tasks": ["qqp", "sts"]})
    layer = make_relational(dataclasses.replace(related, stages=(StageConfig(tasks=("sst", "sts")),)), 32)
    assert layer is not None
    assert layer.weight.shape == (64, 64)


def test_the_contrastive_projection_by_hand() -> None:
    inputs = torch.stack(vectors(2), dim=1)  # (rows, inputs, hidden)

    def projection(**changes: Any) -> Any:
        return make_projection(BASE.override({**SIMCSE, **{f"simcse.{key}": to for key, to in changes.items()}}), 32)

    linear = projection(projection="linear")
    assert torch.allclose(linear(inputs), inputs @ linear.weight.T, atol=1e-6)
    assert torch.allclose(projection()(inputs), torch.tanh(linear(inputs)), atol=1e-6)
    assert projection(projection="none")(inputs) is inputs
    assert projection(weight=0) is None
