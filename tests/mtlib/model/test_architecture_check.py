"""The check that a model is an encoder."""

from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModel, BertConfig, FunnelConfig, LlamaConfig

from mtlib.model.architecture_check import SMALL, WORKING, check_architecture, two_texts
from tests.architectures import DECODERS, ENCODER_DECODERS, ENCODERS, NO_TEXT_ENCODERS
from tests.one_line_error import one_line_error

RULE = f"encoder 'it' must be bidirectional, as {WORKING} are, got "


def architecture_error(config: Any) -> str:
    """What follows the rule in the error of an architecture that is refused."""
    message = one_line_error(check_architecture, "it", config)
    assert message.startswith(RULE)
    return message.removeprefix(RULE)


@pytest.mark.parametrize("name", ENCODERS)
def test_bidirectional_models_are_encoders(name: str) -> None:
    check_architecture("it", ENCODERS[name])


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_is_refused(name: str) -> None:
    assert architecture_error(DECODERS[name]).startswith("a decoder, ")


REFUSED = {**{name: (config, "an encoder-decoder") for name, config in ENCODER_DECODERS.items()}, **NO_TEXT_ENCODERS}


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_gives_a_text_no_states_of_its_tokens_is_refused(name: str) -> None:
    config, fault = REFUSED[name]
    assert architecture_error(config).startswith(fault)


def test_a_large_decoder_is_refused_after_building_one_small_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    build, sizes = AutoModel.from_config, list[int]()

    def count(*arguments: Any, **options: Any) -> nn.Module:
        model: nn.Module = build(*arguments, **options)
        sizes.append(sum(parameter.numel() for parameter in model.parameters()))
        return model

    monkeypatch.setattr(AutoModel, "from_config", count)
    width = {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2}
    architecture_error(LlamaConfig(**width, num_hidden_layers=10**4, vocab_size=10**7, pad_token_id=10**7 - 1))
    assert sizes == [64 * SMALL["vocab_size"] + 4 * 64 * 64 + 3 * 64 * 64 + 3 * 64]  # words, attention, layer, norms


def test_a_model_that_cannot_be_shrunk_is_refused_by_its_size() -> None:
    small = {"d_model": 64, "d_inner": 64, "n_head": 2, "d_head": 32, "block_sizes": [1, 1]}
    config = FunnelConfig(**small, vocab_size=10**13, architectures=["FunnelModel"])
    with pytest.raises(
        ValueError, match=r"at most 2,000,000,000 parameters .* got 640,000,000,\d{3},\d{3} \(funnel\)$"
    ):
        check_architecture("it", config)


def test_a_configuration_that_cannot_be_built_is_refused_in_one_line() -> None:
    config = BertConfig(num_attention_heads=5)  # of 768
    assert one_line_error(check_architecture, "it", config).startswith("encoder 'it' cannot be loaded: ")


def test_the_configuration_and_the_global_stream_do_not_change() -> None:
    config = BertConfig(**{"num_hidden_layers": 3, "vocab_size": 90, "hidden_size": 16, "num_attention_heads": 2})
    before, state = config.to_dict(), torch.get_rng_state()
    check_architecture("it", config)
    assert torch.equal(torch.get_rng_state(), state)
    assert config.to_dict() == before


@pytest.mark.parametrize("vocabulary", [20, 10**5])
def test_the_two_texts_share_only_their_first_token(vocabulary: int) -> None:
    texts = two_texts(BertConfig(vocab_size=vocabulary, pad_token_id=0, bos_token_id=3))
    assert texts.shape == (2, 6)
    assert texts[0, 0] == texts[1, 0]
    assert len({*texts.flatten().tolist()}) == 11
    assert not {0, 3} & {*texts.flatten().tolist()}
    assert texts.max() < vocabulary
