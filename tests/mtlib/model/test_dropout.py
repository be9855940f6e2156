"""Random states and temporary probabilities of dropout in several architectures."""

import contextlib

import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers import AutoModel, BertConfig, DistilBertConfig

from mtlib.model.dropout import hidden_dropout_set_to, random_state, restore_random_state

HIDDEN, ATTENTION = 0.3, 0.2
SIZES = {
    **{"vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16},
    **{"hidden_dropout_prob": HIDDEN, "attention_probs_dropout_prob": ATTENTION},
}
DISTIL_SIZES = {"vocab_size": 20, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 16}
ENCODERS = {
    "bert": BertConfig(**SIZES),
    "distilbert": DistilBertConfig(**DISTIL_SIZES, dropout=HIDDEN, attention_dropout=ATTENTION),
}
NUM_HIDDEN = {"bert": 5, "distilbert": 3}
"""In the embeddings, and after attention and feed-forward of each layer; DistilBERT has none after attention."""


def probabilities(module: nn.Module) -> dict[str, float]:
    return {name: part.p for name, part in module.named_modules() if isinstance(part, nn.Dropout)}


def test_a_restored_state_draws_the_same_masks() -> None:
    device, ones = torch.device("cpu"), torch.ones(1000)
    state = random_state(device)
    first, second = functional.dropout(ones, 0.5), functional.dropout(ones, 0.5)
    for _ in range(2):
        restore_random_state(device, state)
        assert torch.equal(functional.dropout(ones, 0.5), first)
    assert torch.equal(functional.dropout(ones, 0.5), second)
    assert not torch.equal(first, second)


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
    model = AutoModel.from_config(ENCODERS[name]).train()
    before = probabilities(model)
    with hidden_dropout_set_to(model, 0.1):
        inside = probabilities(model)
    changed = {key for key, value in inside.items() if value != before[key]}
    assert changed == {key for key, value in before.items() if value == HIDDEN}
    assert len(changed) == NUM_HIDDEN[name]
    assert {inside[key] for key in changed} == {0.1}
    assert {before[key] for key in set(before) - changed} <= {ATTENTION}
    assert probabilities(model) == before
    with hidden_dropout_set_to(model, None):
        assert probabilities(model) == before


def test_every_probability_is_restored_after_an_exception() -> None:
    shared = nn.Dropout(0.5)
    module = nn.Sequential(nn.Dropout(0.1), shared, nn.Sequential(shared, nn.Dropout(0.7)))
    with contextlib.suppress(RuntimeError), hidden_dropout_set_to(module, 0.0):
        assert torch.equal(module(torch.ones(9)), torch.ones(9))
        raise RuntimeError
    assert probabilities(module) == {"0": 0.1, "1": 0.5, "2.1": 0.7}
