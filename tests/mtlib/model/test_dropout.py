"""Random states and temporary probabilities of dropout in several architectures."""

import contextlib
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers import AlbertConfig, AutoModel, BertConfig, DistilBertConfig, MPNetConfig

from mtlib.model.dropout import hidden_dropout_set_to, hidden_dropouts, random_state, restore_random_state

HIDDEN, ATTENTION = 0.3, 0.2
SIZES = {
    "vocab_size": 20,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "hidden_dropout_prob": HIDDEN,
    "attention_probs_dropout_prob": ATTENTION,
}
DISTIL_SIZES = {"vocab_size": 20, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 16}
ENCODERS = {
    "bert": BertConfig(**SIZES),
    "mpnet": MPNetConfig(**SIZES),
    "albert": AlbertConfig(**SIZES, embedding_size=16),
    "distilbert": DistilBertConfig(**DISTIL_SIZES, dropout=HIDDEN, attention_dropout=ATTENTION),
}
NUM_HIDDEN = {"bert": 5, "mpnet": 5, "albert": 3, "distilbert": 3}
"""In the embeddings, and after attention and feed-forward of each layer; ALBERT's layers share one module, and
DistilBERT has none after attention."""


def encoder(name: str) -> nn.Module:
    model: nn.Module = AutoModel.from_config(ENCODERS[name]).train()
    return model


def probabilities(module: nn.Module) -> dict[str, float]:
    return {name: part.p for name, part in module.named_modules() if isinstance(part, nn.Dropout)}


def states(model: nn.Module) -> Any:
    return model(input_ids=torch.arange(20).view(2, 10)).last_hidden_state


def test_a_restored_state_draws_the_same_masks() -> None:
    device, ones = torch.device("cpu"), torch.ones(1000)
    state = random_state(device)
    first, second = functional.dropout(ones, 0.5), functional.dropout(ones, 0.5)
    for _ in range(2):
        restore_random_state(device, state)
        assert torch.equal(functional.dropout(ones, 0.5), first)
    assert torch.equal(functional.dropout(ones, 0.5), second)
    assert not torch.equal(first, second)


def test_a_state_does_not_change_with_later_draws() -> None:
    state = random_state(torch.device("cpu"))
    copy = state.clone()
    torch.rand(10)
    assert torch.equal(state, copy)
    assert not torch.equal(random_state(torch.device("cpu")), copy)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_restored_state_draws_the_same_masks_on_a_gpu() -> None:
    device = torch.device("cuda", 0)
    ones, before = torch.ones(1000, device=device), random_state(torch.device("cpu"))
    state = random_state(device)
    first = functional.dropout(ones)
    restore_random_state(device, state)
    assert torch.equal(functional.dropout(ones), first)
    assert torch.equal(random_state(torch.device("cpu")), before)


@pytest.mark.parametrize("name", ENCODERS)
def test_only_dropout_of_hidden_states_is_set(name: str) -> None:
    model = encoder(name)
    before = probabilities(model)
    with hidden_dropout_set_to(model, 0.1):
        inside = probabilities(model)
    changed = {key for key, value in inside.items() if value != before[key]}
    assert changed == {key for key, value in before.items() if value == HIDDEN}
    assert len(changed) == NUM_HIDDEN[name]
    assert {inside[key] for key in changed} == {0.1}
    assert {before[key] for key in set(before) - changed} <= {ATTENTION}
    assert probabilities(model) == before


def test_the_attention_dropout_of_bert_is_recognised() -> None:
    model = encoder("bert")
    names = {part: name for name, part in model.named_modules()}
    kept = set(probabilities(model)) - {names[part] for part in hidden_dropouts(model)}
    assert kept == {f"encoder.layer.{layer}.attention.self.dropout" for layer in range(2)}


def test_none_keeps_every_probability() -> None:
    model = encoder("bert")
    before = probabilities(model)
    with hidden_dropout_set_to(model, None):
        assert probabilities(model) == before
    assert probabilities(model) == before


def test_every_probability_is_restored_after_an_exception() -> None:
    shared = nn.Dropout(0.5)
    module = nn.Sequential(nn.Dropout(0.1), shared, nn.Sequential(shared, nn.Dropout(0.7)))
    with contextlib.suppress(RuntimeError), hidden_dropout_set_to(module, 0.0):
        assert set(probabilities(module).values()) == {0.0}
        raise RuntimeError
    assert probabilities(module) == {"0": 0.1, "1": 0.5, "2.1": 0.7}


def test_the_forward_pass_uses_the_set_probability() -> None:
    model = encoder("bert")
    for part in model.modules():
        if type(part).__name__ == "BertSelfAttention":
            part.dropout.p = 0.0  # type: ignore[union-attr]
    with hidden_dropout_set_to(model, 0.0):
        assert torch.equal(states(model), states(model))
    assert not torch.equal(states(model), states(model))


def test_attention_dropout_stays_on_while_hidden_dropout_is_zero() -> None:
    model = encoder("bert")
    with hidden_dropout_set_to(model, 0.0):
        assert not torch.equal(states(model), states(model))


def test_contexts_can_be_nested() -> None:
    module = nn.Sequential(nn.Dropout(0.5))
    with hidden_dropout_set_to(module, 0.1):
        with hidden_dropout_set_to(module, 0.2):
            assert probabilities(module) == {"0": 0.2}
        assert probabilities(module) == {"0": 0.1}
    assert probabilities(module) == {"0": 0.5}
