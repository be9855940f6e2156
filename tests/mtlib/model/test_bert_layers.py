"""The layers of BERT and its relatives against the code of `transformers`: values, gradients, PALs."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModel, BertConfig

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from mtlib.model.bert_layers import PRODUCT_TOKENS, attend, encode_bert, has_bert_layers, project
from mtlib.model.pals import beside_layers, make_pals
from tests.architectures import ENCODERS

SAME_LAYERS = ("bert", "camembert", "electra", "roberta", "xlm-roberta")
IDS = torch.tensor([[5, 7, 8, 9, 3, 11], [5, 11, 3, 1, 1, 1], [5, 6, 7, 3, 1, 1]])
TEXT = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0]])
FULL = torch.ones_like(TEXT)


def built(name: str) -> Any:
    """An encoder with random weights, large enough that tokens differ and attention is far from uniform."""
    torch.manual_seed(0)
    encoder = AutoModel.from_config(ENCODERS[name])
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.mul_(3 if parameter.dim() > 1 else 1).add_(0.01)
    return encoder


def theirs(encoder: Any, mask: Tensor) -> Tensor:
    states: Tensor = encoder(input_ids=IDS, attention_mask=mask).last_hidden_state
    return states


def ours(encoder: Any, mask: Tensor, pals: Any = None, only_first: bool = False) -> Tensor:
    return encode_bert(encoder, encoder.embeddings(input_ids=IDS), mask, pals, only_first)


def gradients(encoder: nn.Module, states: Tensor) -> dict[str, Tensor]:
    """The gradient of every parameter that the first tokens' states depend on, by name."""
    encoder.zero_grad()
    torch.autograd.backward(states[:, 0].square().sum())
    return {name: part.grad for name, part in encoder.named_parameters() if part.grad is not None}


def test_encoders_with_such_layers_are_known() -> None:
    found = {name for name, config in ENCODERS.items() if has_bert_layers(AutoModel.from_config(config))}
    assert found == {*SAME_LAYERS}
    crossed = BertConfig(**{**ENCODERS["bert"].to_dict(), "is_decoder": True, "add_cross_attention": True})
    assert not has_bert_layers(AutoModel.from_config(crossed))


@torch.no_grad()
@pytest.mark.parametrize("name", ["electra", "roberta"])
def test_states_of_all_text_are_those_of_transformers(name: str) -> None:
    encoder = built(name).eval()
    for mask in (TEXT, FULL):
        expected, is_text = theirs(encoder, mask), mask.bool()
        torch.testing.assert_close(ours(encoder, mask)[is_text], expected[is_text], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(ours(encoder, mask, only_first=True), expected[:, :1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("only_first", [False, True])
def test_gradients_in_training_are_those_of_transformers(only_first: bool) -> None:
    encoder = built("electra").train()
    for dropout in (module for module in encoder.modules() if isinstance(module, nn.Dropout)):
        dropout.p = 0.0
    expected = gradients(encoder, theirs(encoder, TEXT))
    found = gradients(encoder, ours(encoder, TEXT, only_first=only_first))
    assert found.keys() == expected.keys()
    for weight, gradient in found.items():
        torch.testing.assert_close(gradient, expected[weight], rtol=1e-4, atol=1e-5, msg=weight)


def test_attention_with_dropout_leaves_padding_out() -> None:
    """By the path with explicit scores: what padding holds changes nothing."""
    encoder, found = built("bert").train(), []
    for filler in (1, 40):
        torch.manual_seed(0)
        ids = torch.where(TEXT.bool(), IDS, filler)
        found.append(encode_bert(encoder, encoder.embeddings(input_ids=ids), TEXT, None, only_first=True))
    assert torch.equal(*found)
    assert not torch.equal(found[0], ours(encoder, TEXT, only_first=True))  # other masks


def test_dropout_of_attention_keeps_its_mean() -> None:
    """The mean over masks is the attention without dropout: kept weights are scaled by 1 / (1 - p)."""
    attention, hidden = built("bert").encoder.layer[0].attention.self, torch.randn(1, 6, 16).repeat(4000, 1, 1)
    attention.dropout.p = 0.4
    expected, found = (attend(attention.train(mode), hidden, hidden, None).detach() for mode in (False, True))
    assert (found.std(0) > 0).all()
    errors = found.std(0) / len(found) ** 0.5
    assert ((found.mean(0) - expected[0]).abs() < 5 * errors).all()


@torch.no_grad()
@pytest.mark.parametrize("placement", ["attention", "layer"])
def test_pals_are_added_as_by_hooks(placement: str) -> None:
    encoder = built("bert").eval()
    changes = {"pals.size": 8, "pals.num_heads": 2, "pals.tasks": ["sst"], "pals.placement": placement}
    config = TrialConfig(stages=(StageConfig(tasks=("sst",)),)).override(changes)
    pals = make_pals(config, "sst", encoder.config.hidden_size, encoder.config.num_hidden_layers)
    for parameter in pals.parameters():
        parameter.mul_(20).add_(0.05)
    with beside_layers(pals, encoder, TEXT):
        expected = theirs(encoder, TEXT)
    assert (expected - theirs(encoder, TEXT)).abs().max() > 0.01
    is_text = TEXT.bool()
    torch.testing.assert_close(ours(encoder, TEXT, pals)[is_text], expected[is_text], rtol=1e-5, atol=1e-5)
    found = ours(encoder, TEXT, pals, only_first=True)
    torch.testing.assert_close(found, expected[:, :1], rtol=1e-5, atol=1e-5)


def test_one_product_gives_queries_keys_and_values_as_three_do() -> None:
    """In training in bf16, where a text attends to itself."""
    attention = built("bert").train().encoder.layer[0].attention.self
    hidden = torch.randn(2, 6, 16, requires_grad=True)
    found = []
    for own in (hidden, hidden.clone()):  # by one product, by three
        with torch.autocast("cpu", torch.bfloat16):
            parts = project(attention, own, hidden)
        loss = torch.stack([part.float() for part in parts]).square().sum()
        found.append([*parts, *torch.autograd.grad(loss, [hidden, *attention.parameters()])])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0.02, atol=0.02 * other.abs().max().item())


@torch.no_grad()
@pytest.mark.parametrize("tokens", [PRODUCT_TOKENS, PRODUCT_TOKENS + 1])
def test_attention_in_bf16_is_that_in_fp32(tokens: int) -> None:
    """By products up to a number of tokens, by torch's kernel above it."""
    attention, hidden = built("bert").eval().encoder.layer[0].attention.self, torch.randn(2, tokens, 16)
    mask = torch.arange(tokens).expand(2, 1, 1, -1) < torch.tensor([tokens, 3]).view(2, 1, 1, 1)
    expected = attend(attention, hidden, hidden, mask)
    with torch.autocast("cpu", torch.bfloat16):
        found = attend(attention, hidden, hidden, mask)
    torch.testing.assert_close(found.float(), expected, rtol=0.05, atol=0.05 * expected.abs().max().item())
