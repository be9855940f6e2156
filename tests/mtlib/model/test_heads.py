"""Heads and shared layers: values by hand, widths, initial values and their random streams."""

import dataclasses
from typing import Any

import pytest
import torch
from scipy.spatial.distance import cosine as cosine_distance
from scipy.stats import kstest
from torch import Tensor, nn
from torch.nn import functional

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.model.heads import (
    CosineHead,
    LinearHead,
    compare_texts,
    make_head,
    make_projection,
    make_relational,
    new_linear,
)
from mtlib.runtime.seeds import torch_stream
from mtlib.tasks import TASKS

BASE = TrialConfig(stages=(StageConfig(tasks=("sst", "qqp", "sts")),))
BI = {"tasks.qqp.encoding": "bi", "tasks.sts.encoding": "bi"}
COSINE = {**BI, "tasks.qqp.head": "cosine", "tasks.sts.head": "cosine"}
SIMCSE = {"simcse.weight": 0.1, "simcse.tasks": ["sts"]}


def vectors(count: int, rows: int = 3, width: int = 32) -> tuple[Tensor, ...]:
    stream = torch.Generator().manual_seed(7)
    return tuple(torch.randn(rows, width, generator=stream) for _ in range(count))


def head_of(task: str, changes: dict[str, Any] | None = None, width: int = 32) -> Any:
    return make_head(BASE.override(changes or {}), task, width)


@pytest.mark.parametrize(
    ("task", "changes", "inputs", "logits"),
    [
        ("sst", {}, 1, 5),
        ("qqp", {}, 1, 1),
        ("sts", {}, 1, 1),
        ("qqp", BI, 2, 1),
        ("sts", BI, 2, 1),
        ("qqp", {"tasks.qqp.encoding": "cross_and_bi"}, 3, 1),
        ("sts", {"tasks.sts.encoding": "cross_and_bi", "tasks.sts.hidden_units": 7}, 3, 1),
        ("qqp", COSINE, 2, 1),
        ("sts", COSINE, 2, 1),
        ("sst", {"tasks.sst.hidden_units": 7}, 1, 5),
        ("qqp", {"tasks.qqp.loss": "cross_entropy"}, 1, 1),
        ("qqp", {**BI, "tasks.qqp.loss": "cross_entropy", "tasks.qqp.hidden_units": 7}, 2, 1),
    ],
)
@pytest.mark.parametrize("rows", [1, 3])
def test_a_head_gives_the_logits_of_its_task(task: str, changes: Any, inputs: int, logits: int, rows: int) -> None:
    head = head_of(task, changes)
    assert head(vectors(inputs, rows)).shape == (rows, logits)
    assert all(parameter.requires_grad for parameter in head.parameters())


def test_a_linear_head_is_a_linear_layer_on_the_joined_vectors() -> None:
    head, (first, second) = head_of("sts", BI), vectors(2)
    by_hand = first @ head.weight[:, :32].T + second @ head.weight[:, 32:].T + head.bias
    assert torch.allclose(head((first, second)), by_hand, atol=1e-6)
    assert list(head.state_dict()) == ["weight", "bias"]


def test_a_linear_head_after_the_relational_layer_reads_one_vector_of_the_joined_width() -> None:
    head, joined = head_of("sts", BI), torch.cat(vectors(2), dim=1)
    assert torch.equal(head((joined,)), head(vectors(2)))


def test_a_comparison_is_of_both_texts_in_any_order_and_of_any_length() -> None:
    first, second = vectors(2)
    one, two = (text * 32**0.25 / text.norm(dim=1, keepdim=True) for text in (first, second))
    difference, product = compare_texts(first, second)
    assert torch.allclose(difference, (one - two).abs(), atol=1e-6)
    assert torch.allclose(product, one * two, atol=1e-6)
    again = compare_texts(3 * second, 0.1 * first)
    assert torch.allclose(torch.cat(again), torch.cat([difference, product]), atol=1e-6)


def test_equal_weights_on_the_product_give_the_cosine() -> None:
    texts = vectors(2)
    found = compare_texts(*texts)[1].sum(dim=1) * 32**-0.5
    expected = [1 - cosine_distance(first, second) for first, second in zip(*texts, strict=True)]
    assert found.tolist() == pytest.approx(expected, abs=1e-6)


def test_equal_texts_and_a_text_of_zeros_have_a_finite_comparison_with_its_gradient() -> None:
    text = torch.zeros(2, 32)
    text[0] = 1.0
    text.requires_grad_()
    compared = torch.cat(compare_texts(text, text.detach().clone()))
    torch.autograd.backward(compared.sum())
    assert torch.isfinite(compared).all()
    assert text.grad is not None
    assert torch.isfinite(text.grad).all()


def test_a_plain_heads_weights_are_the_first_draw_of_the_tasks_stream() -> None:
    for task in ("sst", "qqp", "sts"):
        expected = torch.empty(TASKS[task].num_logits, 32)
        expected.normal_(0.0, 0.02, generator=torch_stream(0, 0, "head", task))
        assert torch.equal(head_of(task).weight, expected)


def test_a_hidden_layer_is_a_relu_layer_by_hand() -> None:
    head, (vector,) = head_of("sst", {"tasks.sst.hidden_units": 7}), vectors(1)
    assert {name: tuple(value.shape) for name, value in head.state_dict().items()} == {
        "weight": (5, 7),
        "bias": (5,),
        "hidden.weight": (7, 32),
        "hidden.bias": (7,),
    }
    with torch.no_grad():
        head.hidden.bias.normal_()
        head.bias.normal_()
    inner = torch.clamp(vector @ head.hidden.weight.T + head.hidden.bias, min=0)
    assert (inner == 0).any()
    assert torch.allclose(head((vector,)), inner @ head.weight.T + head.bias, atol=1e-6)


def test_the_softmax_loss_of_two_outputs_equals_the_sigmoid_loss_of_the_logit() -> None:
    head, (vector,), labels = head_of("qqp", {"tasks.qqp.loss": "cross_entropy"}), vectors(1), torch.tensor([0, 1, 1])
    outputs = 50 * vector @ head.weight.T
    assert outputs.shape == (3, 2)
    head.weight.data *= 50
    logit = head((vector,))[:, 0]
    expected = functional.cross_entropy(outputs, labels, reduction="none")
    found = functional.binary_cross_entropy_with_logits(logit, labels.float(), reduction="none")
    assert torch.allclose(found, expected, atol=1e-6)
    assert torch.equal(logit > 0, outputs.argmax(dim=1) == 1)


def test_only_binary_tasks_can_have_two_outputs() -> None:
    assert head_of("sst", {"tasks.sst.loss": "cross_entropy"}).weight.shape == (5, 32)
    assert head_of("qqp").weight.shape == (1, 32)
    assert head_of("qqp", {"tasks.qqp.loss": "cross_entropy"}).weight.shape == (2, 32)


def test_a_cosine_without_projection_matches_scipy() -> None:
    pair = vectors(2)
    expected = torch.tensor([[1 - cosine_distance(first, second)] for first, second in zip(*pair, strict=True)])
    binary = head_of("qqp", {**COSINE, "tasks.qqp.cosine_projection": False})
    graded = head_of("sts", {**COSINE, "tasks.sts.cosine_projection": False})
    assert torch.allclose(binary(pair), expected.float(), atol=1e-6)
    assert torch.allclose(graded(pair), 2.5 + 2.5 * expected.float(), atol=1e-5)
    assert not list(binary.parameters())


@pytest.mark.parametrize(("second", "score"), [([3.0, 4.0], 5.0), ([-6.0, -8.0], 0.0), ([-4.0, 3.0], 2.5)])
def test_equal_opposite_and_orthogonal_texts_have_the_highest_lowest_and_middle_label(
    second: list[float], score: float
) -> None:
    head = head_of("sts", {**COSINE, "tasks.sts.cosine_projection": False})
    assert head((torch.tensor([[3.0, 4.0]]), torch.tensor([second]))).item() == pytest.approx(score, abs=1e-6)


def test_both_texts_share_the_projection_before_the_cosine() -> None:
    head, (first, second) = head_of("qqp", COSINE), vectors(2)
    with torch.no_grad():
        head.projection.bias.normal_()
    one, two = (vector @ head.projection.weight.T + head.projection.bias for vector in (first, second))
    by_hand = (one * two).sum(1) / (one.norm(dim=1) * two.norm(dim=1))
    assert torch.allclose(head((first, second)), by_hand[:, None], atol=1e-6)
    assert torch.allclose(head((first, second)), head((second, first)), atol=1e-7)
    assert head.projection.weight.shape == (32, 32)


def test_the_cosine_of_an_empty_vector_is_finite_with_its_gradient() -> None:
    first, second = torch.zeros(1, 4, requires_grad=True), torch.ones(1, 4)
    logits = CosineHead(None, -1, 1)((first, second))
    logits.sum().backward()
    assert first.grad is not None
    assert torch.isfinite(logits).all()
    assert torch.isfinite(first.grad).all()


def test_the_cosine_is_fp32_under_autocast() -> None:
    head, pair = head_of("qqp", {**COSINE, "tasks.qqp.cosine_projection": False}), vectors(2)
    projected = head_of("qqp", COSINE)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(head(pair), head_of("qqp", {**COSINE, "tasks.qqp.cosine_projection": False})(pair))
        assert head(pair).dtype == projected(pair).dtype == torch.float32
        linear = [projected.projection(vector) for vector in pair]
        assert linear[0].dtype == torch.bfloat16
        found = projected(pair)
    assert torch.equal(found[:, 0], functional.cosine_similarity(linear[0].float(), linear[1].float()))


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
    for name, value in all_modules(EVERYTHING, width=700).items():
        if name.endswith("bias"):
            assert torch.equal(value, torch.zeros_like(value))
        else:
            assert kstest(value.flatten().numpy(), "norm", args=(0, 0.02)).pvalue > 1e-3, name


def test_every_weight_has_its_own_stream() -> None:
    firsts = [float(value.flatten()[0]) for name, value in all_modules(EVERYTHING).items() if name.endswith("weight")]
    assert len(firsts) == 6
    assert len(set(firsts)) == len(firsts)


def test_weights_depend_on_seed_replicate_and_task_alone() -> None:
    before = all_modules(EVERYTHING)
    torch.manual_seed(99)
    inert = {"optimizer.learning_rate": 1e-3, "tasks.sst.batch_size": 4, "smart.weight": 3, "smart.tasks": "sst"}
    alone = dataclasses.replace(EVERYTHING, stages=(StageConfig(tasks=("sst", "sts"), epochs=3),)).override(inert)
    for name, value in all_modules(alone).items():
        assert torch.equal(value, before[name])
    for change in ({"seed": 1}, {"replicate": 1}):
        other = all_modules(EVERYTHING.override(change))
        assert all(torch.equal(other[name], value) == name.endswith("bias") for name, value in before.items())


def test_building_modules_does_not_use_the_global_stream() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    all_modules(EVERYTHING)
    assert torch.equal(torch.rand(3), expected)


def test_a_new_layer_may_have_no_bias() -> None:
    assert new_linear(3, 2, "x", bias=False).bias is None
    assert torch.equal(new_linear(3, 2, "x", bias=False).weight, new_linear(3, 2, "x").weight)


def test_a_fourth_task_has_its_own_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "nli", dataclasses.replace(TASKS["sst"], name="nli", label_range=(0, 2)))
    config = TrialConfig(stages=(StageConfig(tasks=("sst", "nli")),))
    head = make_head(config, "nli", 32)
    assert isinstance(head, LinearHead)
    assert head.weight.shape == (3, 32)


@pytest.mark.parametrize(("changes", "width"), [({}, 32), (BI, 64)])
def test_the_relational_layer_has_the_width_of_its_tasks_vectors(changes: Any, width: int) -> None:
    layer = make_relational(BASE.override({**changes, "relational_tasks": ["qqp", "sts"]}), 32)
    assert isinstance(layer, nn.Linear)
    assert layer.weight.shape == (width, width)
    assert layer.bias.shape == (width,)


def test_the_relational_layer_exists_where_an_active_task_uses_it() -> None:
    assert make_relational(BASE, 32) is None
    related = BASE.override({"relational_tasks": ["qqp", "sts"]})
    assert make_relational(dataclasses.replace(related, stages=(StageConfig(tasks=("sst", "sts")),)), 32) is not None


def test_the_contrastive_projection_by_hand() -> None:
    inputs = torch.stack(vectors(2), dim=1)  # (rows, inputs, hidden)
    mlp: Any = make_projection(BASE.override(SIMCSE), 32)
    linear: Any = make_projection(BASE.override({**SIMCSE, "simcse.projection": "linear"}), 32)
    none: Any = make_projection(BASE.override({**SIMCSE, "simcse.projection": "none"}), 32)
    with torch.no_grad():
        linear.bias.normal_()
    assert torch.allclose(linear(inputs), inputs @ linear.weight.T + linear.bias, atol=1e-6)
    assert torch.allclose(mlp(inputs), torch.tanh(inputs @ linear.weight.T), atol=1e-6)
    assert none(inputs) is inputs


def test_the_projection_exists_where_an_active_task_uses_simcse() -> None:
    assert make_projection(BASE, 32) is None
    assert make_projection(BASE.override({**SIMCSE, "simcse.weight": 0}), 32) is None
    both = {**SIMCSE, "simcse.tasks": ["qqp", "sts"], "stages.0.tasks": ["sst", "sts"]}
    assert make_projection(BASE.override(both), 32) is not None
