"""Projected attention: values against torch's and formulas, both placements by hand."""

import math
from typing import Any

import pytest
import torch
from scipy.stats import kstest
from torch import Tensor, nn
from transformers import AutoModel, BertConfig

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import PretrainedEncoder, build_encoder
from mtlib.model.pals import LowRank, Pals, beside_layers, make_pals
from tests.architectures import ENCODERS

BASE = TrialConfig(stages=(StageConfig(tasks=("sst", "qqp", "sts")),)).override(
    {"pals.size": 8, "pals.num_heads": 2, "pals.tasks": ["sst", "qqp"]}
)
WIDTH, LAYERS = 32, 2
IDS = torch.tensor([[2, 7, 8, 9, 3], [2, 11, 3, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
FUNCTIONS = ("attention", "identity", "low_rank")


@pytest.fixture
def encoder(tiny_encoder: PretrainedEncoder, tiny_config: TrialConfig) -> nn.Module:
    return build_encoder(tiny_encoder, tiny_config.encoder).eval()


def large_pals(scale: float = 20.0, width: int = WIDTH, **changes: Any) -> Any:
    """Modules with large weights, so that attention is far from uniform, and biases other than 0."""
    config = BASE.override({f"pals.{key}": value for key, value in changes.items()})
    pals = make_pals(config, "sst", width, LAYERS)
    stream = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, parameter in pals.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.1, generator=stream)
            parameter.mul_(scale)
    return pals


def states(encoder: nn.Module, pals: Pals | LowRank | None = None) -> Tensor:
    """Hidden states of a pass, with the modules if given."""
    if pals is None:
        hidden: Tensor = encoder(input_ids=IDS, attention_mask=MASK).last_hidden_state
        return hidden
    with beside_layers(pals, encoder, MASK):
        return states(encoder)


@torch.no_grad()
@pytest.mark.parametrize("num_heads", [1, 4])
def test_attention_is_torchs_between_two_matrices(num_heads: int) -> None:
    pals, hidden = large_pals(num_heads=num_heads).train(), torch.randn(2, 5, WIDTH)  # it has no dropout
    attention = nn.MultiheadAttention(8, num_heads, bias=False, batch_first=True)
    attention.out_proj.weight.copy_(torch.eye(8))
    for layer in range(LAYERS):
        attention.in_proj_weight.copy_(pals.mixing[layer].weight)
        small = hidden @ pals.down.weight.T
        expected = attention(small, small, small, key_padding_mask=MASK == 0)[0] @ pals.up.weight.T
        assert torch.allclose(pals(layer, hidden, MASK.bool()), expected, rtol=1e-4, atol=1e-4)
        assert expected.abs().max() > 1


@torch.no_grad()
def test_identity_pals_are_two_matrices_of_any_size() -> None:
    pals, hidden = large_pals(function="identity", size=3).train(), torch.randn(2, 5, WIDTH)
    for layer in range(LAYERS):
        expected = hidden @ pals.down.weight.T @ pals.up.weight.T
        assert torch.allclose(pals(layer, hidden, MASK.bool()), expected, atol=1e-4)
    assert {name for name, _ in pals.named_parameters()} == {"down.weight", "up.weight"}


@torch.no_grad()
def test_low_rank_layers_match_their_formula() -> None:
    pals, hidden = large_pals(function="low_rank", size=3).train(), torch.randn(2, 5, WIDTH)
    for layer in range(LAYERS):
        v_e, b_e, v_d, b_d = (
            pals.get_parameter(f"{part}.{layer}.{kind}") for part in ("down", "up") for kind in ("weight", "bias")
        )
        small = hidden @ v_e.T + b_e
        gelu = small * (1 + torch.erf(small / math.sqrt(2))) / 2
        assert torch.allclose(pals(layer, hidden, MASK.bool()), gelu @ v_d.T + b_d, rtol=1e-4, atol=1e-4)


def layer_by_hand(layer: Any, hidden: Tensor, added: Tensor, placement: str) -> Tensor:
    """A BERT layer from its submodules, with TS(h) added as in the formula."""
    bias = torch.where(MASK.bool(), 0.0, -1e9)[:, None, None, :]
    attended = layer.attention.output.dense(layer.attention.self(hidden, bias)[0])
    inside, outside = (added, 0) if placement == "attention" else (0, added)
    a = layer.attention.output.LayerNorm(hidden + attended + inside)
    result: Tensor = layer.output.LayerNorm(a + layer.output.dense(layer.intermediate(a)) + outside)
    return result


@pytest.mark.parametrize(("placement", "function"), [("attention", "attention"), ("layer", "low_rank")])
def test_a_pass_matches_layers_assembled_by_hand(placement: str, function: str, encoder: Any) -> None:
    pals = large_pals(5.0, placement=placement, function=function)
    with torch.no_grad():
        hidden = encoder.embeddings(input_ids=IDS)
        for number, layer in enumerate(encoder.encoder.layer):
            hidden = layer_by_hand(layer, hidden, pals(number, hidden, MASK.bool()), placement)
        assert torch.allclose(states(encoder, pals), hidden, atol=1e-5)
        assert (states(encoder) - hidden).abs().max() > 0.1


@pytest.mark.parametrize(("name", "placement"), [("deberta", "attention"), ("distilbert", "layer")])
def test_zero_initialised_modules_change_nothing_in_any_architecture(name: str, placement: str) -> None:
    torch.manual_seed(0)
    encoder = AutoModel.from_config(ENCODERS[name]).eval()
    zero, large = (large_pals(width=16, placement=placement, zero_start=is_zero) for is_zero in (True, False))
    plain = states(encoder)
    assert torch.equal(states(encoder, zero), plain)
    assert not torch.allclose(states(encoder, large), plain, atol=1e-2)
    assert torch.equal(states(encoder), plain)  # no hook remains


def test_the_papers_modules_for_eight_tasks_have_0_13_times_the_weights_of_bert() -> None:
    pals = make_pals(BASE.override({"pals.size": 204, "pals.num_heads": 12}), "sst", 768, 12)
    count = sum(parameter.numel() for parameter in pals.parameters())
    assert count == 2 * 768 * 204 + 12 * 3 * 204**2 == 1_811_520
    with torch.device("meta"):
        bert = sum(parameter.numel() for parameter in AutoModel.from_config(BertConfig()).parameters())
    assert round(1 + 8 * count / bert, 2) == 1.13  # Stickland and Murray 2019


@pytest.mark.parametrize("function", FUNCTIONS)
def test_weights_are_normal_with_deviation_0_02_and_biases_zero(function: str) -> None:
    pals = make_pals(BASE.override({"pals.size": 60, "pals.function": function}), "sst", 100, 2)
    for name, value in pals.state_dict().items():
        if name.endswith("bias"):
            assert not value.any()
        else:
            assert kstest(value.flatten().numpy() / 0.02, "norm").pvalue > 1e-3, name


def values_of(config: TrialConfig, task: str = "sst", layers: int = LAYERS) -> list[float]:
    """The first value of every matrix."""
    weights = make_pals(config, task, WIDTH, layers).state_dict().items()
    return [float(value.flatten()[0]) for name, value in weights if name.endswith("weight")]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_matrix_is_drawn_from_a_stream_of_task_seed_replicate_and_layer_alone(function: str) -> None:
    torch.manual_seed(5)
    config, state = BASE.override({"pals.function": function}), torch.get_rng_state()
    before = values_of(config)
    assert torch.equal(torch.get_rng_state(), state)
    others = (config.override({"seed": 1}), "sst"), (config.override({"replicate": 1}), "sst"), (config, "qqp")
    drawn = {*before, *(value for changed, task in others for value in values_of(changed, task))}
    assert len(drawn) == 4 * len(before)
    torch.manual_seed(6)
    inert = config.override({"optimizer.learning_rate": 1e-3, "tasks.sst.batch_size": 4, "pals.tasks": ["sst"]})
    assert values_of(inert) == before
    assert {*before} <= {*values_of(config, layers=3)}
