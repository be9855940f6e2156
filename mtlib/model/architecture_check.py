"""Checks that an architecture is a bidirectional encoder, by running a small model of it with random weights.

Names do not tell: `BertModel` is a decoder if its configuration says so, and Gemma can be an encoder. Trials need a
state for each token, and a first token that attends to later ones.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from mtlib.model.encoder_inputs import encoder_arguments
from mtlib.runtime.errors import first_line, require

TRIED_FAMILIES = (
    *("albert", "bert", "big_bird", "camembert", "convbert", "deberta", "deberta-v2", "distilbert", "electra"),
    *("eurobert", "flaubert", "funnel", "gte", "longformer", "mobilebert", "modernbert", "mpnet", "qwen2", "roberta"),
    *("squeezebert", "xlm", "xlm-roberta", "xlnet"),
)
"""Families, by `model_type`, that have been tried with every feature: the table of docs/encoders.md."""
WORKING = "bert, roberta, electra and others (docs/encoders.md)"
"""Named where an encoder is refused: families that work with every feature."""
NUM_TOKENS = 6
"""The length of a test input."""
SMALL = {"num_hidden_layers": 1, "vocab_size": 64, "pad_token_id": 0}
"""Settings that make a model small without changing its attention mask."""

MAX_PARAMETERS = 2 * 10**9
"""The largest model that is built in full size because its architecture cannot be made small: 8 GB of memory in
fp32."""


def unsupported_encoder(feature: str, encoder: nn.Module, why: str) -> ValueError:
    """Returns the error for a feature that an encoder's architecture does not support."""
    return ValueError(f"{feature} must be used with {WORKING}, not with {type(encoder).__name__}: {why}")


def check_architecture(name: str, config: Any) -> None:
    """Checks that an architecture is a bidirectional encoder.

    Raises:
        ValueError: in one line: it is an encoder-decoder, cannot be built or is too large to be, cannot be called with
            text alone, does not return a state of `hidden_size` for each token, or its first token does not attend to
            later ones, as that of a decoder.
    """
    rule, kind = f"encoder '{name}' must be bidirectional, as {WORKING} are", config.model_type
    require(not getattr(config, "is_encoder_decoder", False), rule, f"an encoder-decoder ({kind})")
    width = getattr(config, "hidden_size", None)
    require(isinstance(width, int), rule, f"one without a hidden_size ({kind})")
    texts = two_texts(config)
    states = try_small(name, config, texts)
    is_whole = isinstance(states, Tensor) and states.shape == (*texts.shape, width)
    require(is_whole, rule, f"one that does not give each token a state of its hidden_size, {width} ({kind})")
    sees_others = not torch.equal(states[0, 0], states[1, 0])
    require(sees_others, rule, f"a decoder, whose first token does not attend to later tokens ({kind})")


def two_texts(config: Any) -> Tensor:
    """Ids (2, tokens) of two texts without special tokens that share their first token only."""
    special = {value for key, value in config.to_dict().items() if key.endswith(("_token_id", "_index"))}
    known = range(getattr(config, "vocab_size", None) or SMALL["vocab_size"])
    first, *others = [token for token in known[: SMALL["vocab_size"]] if token not in special][: 2 * NUM_TOKENS - 1]
    half = len(others) // 2
    return torch.tensor([[first, *others[:half]], [first, *others[half : 2 * half]]])


def try_small(name: str, config: Any, texts: Tensor) -> Any:
    """Returns the last hidden states that a small model of this architecture, or else one of full size,
    returns for texts."""
    try:
        return last_states(small_model(config, SMALL), texts)
    except Exception:  # some architectures cannot be made smaller; other faults show in full size too
        model = whole_model(name, config)
    try:
        return last_states(model, texts)
    except Exception as error:  # the type depends on what it lacks
        fault = f"{config.model_type}, which cannot be given a text: {first_line(error)}"
        raise ValueError(f"encoder '{name}' must be bidirectional, as {WORKING} are, got {fault}") from error


def whole_model(name: str, config: Any) -> nn.Module:
    """Returns a model of full size with random weights; ValueError if it cannot be built or is too large."""
    try:
        with torch.device("meta"):  # counts without memory
            size = sum(weight.numel() for weight in small_model(config, {}).parameters())
        if size <= MAX_PARAMETERS:
            return small_model(config, {})
    except KeyError as error:  # such as the name of an activation
        raise ValueError(f"encoder '{name}' cannot be loaded: {error} of config.json is not known") from error
    except Exception as error:  # whatever the configuration's content leads to
        raise ValueError(f"encoder '{name}' cannot be loaded: {first_line(error)}") from error
    rule = f"encoder '{name}' must have at most {MAX_PARAMETERS:,} parameters to be tried whole"
    raise ValueError(f"{rule}, got {size:,} ({config.model_type})")


def small_model(config: Any, changes: dict[str, Any]) -> nn.Module:
    """Returns a model with random weights, in evaluation mode, from a changed configuration."""
    from transformers import AutoModel

    changed = copy.deepcopy(config)
    for key, value in changes.items():
        setattr(changed, key, value)
    with torch.random.fork_rng(devices=[]):
        model: nn.Module = AutoModel.from_config(changed, dtype=torch.float32)
    return model.eval()


def last_states(model: nn.Module, texts: Tensor) -> Any:
    """Returns the last hidden states that a model returns for texts without padding."""
    with torch.no_grad():
        arguments = encoder_arguments(model.config, texts, torch.ones_like(texts), torch.zeros_like(texts))
        return getattr(model(**arguments), "last_hidden_state", None)
