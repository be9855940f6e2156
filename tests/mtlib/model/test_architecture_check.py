"""The check that a model is an encoder."""

from typing import Any

import pytest
import torch
from transformers import BertConfig, FunnelConfig

from mtlib.model.architecture_check import WORKING, check_architecture
from tests.architectures import DECODERS, ENCODER_DECODERS, ENCODERS, NO_TEXT_ENCODERS
from tests.one_line_error import one_line_error


@pytest.mark.parametrize("name", ["bert", "distilbert", "funnel", "gemma3, both ways", "longformer", "xlnet"])
def test_bidirectional_models_are_encoders(name: str) -> None:
    check_architecture("it", ENCODERS[name])


REFUSED: dict[str, tuple[Any, str]] = {
    **{name: (DECODERS[name], "a decoder, ") for name in ("bert, as a decoder", "gemma3", "mamba", "xlm, causal")},
    "t5": (ENCODER_DECODERS["t5"], "an encoder-decoder"),
    **NO_TEXT_ENCODERS,
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_gives_tokens_no_states_of_the_whole_text_is_refused(name: str) -> None:
    config, fault = REFUSED[name]
    assert f"must be bidirectional, as {WORKING} are, got {fault}" in one_line_error(check_architecture, "it", config)


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
