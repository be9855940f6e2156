"""Whether an architecture reads a text as an encoder does: tried on a small model of its kind, without its weights.

Names do not tell: `BertModel` is a decoder if its configuration says so, and Gemma an encoder. What is tried is what
trials need: a state for each token, and a first token that sees those behind it.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from mtlib.errors import first_line, require

COMPARES_SEGMENTS = ("funnel", "xlnet")
"""Types of encoders that know segments without a table of them."""
NUM_TOKENS = 6
"""Of a text that is tried."""
SMALL = {"num_hidden_layers": 1, "vocab_size": 64, "pad_token_id": 0}
"""What makes a model small and leaves open how its tokens see one another."""

MOST_PARAMETERS = 2 * 10**9
"""Of a model that is built whole because its architecture cannot be made small; at 4 bytes each, 8 GB of memory."""


def check_architecture(name: str, config: Any) -> None:
    """Checks that an architecture reads a text both ways.

    Args:
        name: of the encoder, for the message.
        config: its `transformers` configuration.

    Raises:
        ValueError: in one line: it is an encoder-decoder, makes no model or too large a one to be tried, cannot be
            given a text alone, does not give a state of `hidden_size` for each token, or its first token does not see
            those behind it, as in decoders.
    """
    rule, kind = f"encoder '{name}' must be one that reads a text both ways", config.model_type
    require(not getattr(config, "is_encoder_decoder", False), rule, f"an encoder-decoder ({kind})")
    width = getattr(config, "hidden_size", None)
    require(isinstance(width, int), rule, f"one without a hidden_size ({kind})")
    texts = two_texts(config)
    states = try_small(name, config, texts)
    is_whole = isinstance(states, Tensor) and states.shape == (*texts.shape, width)
    require(is_whole, rule, f"one that does not give each token a state of its hidden_size, {width} ({kind})")
    sees_others = not torch.equal(states[0, 0], states[1, 0])
    require(sees_others, rule, f"one whose first token does not see those behind it, as in decoders ({kind})")


def two_texts(config: Any) -> Tensor:
    """Ids (2, tokens) of two texts without special tokens that have their first token in common, and no other."""
    special = {value for key, value in config.to_dict().items() if key.endswith(("_token_id", "_index"))}
    known = range(getattr(config, "vocab_size", None) or SMALL["vocab_size"])
    first, *others = [token for token in known[: SMALL["vocab_size"]] if token not in special][: 2 * NUM_TOKENS - 1]
    half = len(others) // 2
    return torch.tensor([[first, *others[:half]], [first, *others[half : 2 * half]]])


def try_small(name: str, config: Any, texts: Tensor) -> Any:
    """What a model of this architecture, as small as can be, gives for texts (rows, tokens): states, if all is well."""
    try:
        return last_states(small_model(config, SMALL), texts)
    except Exception:  # some architectures cannot be made smaller; what else is wrong, the whole one shows
        model = whole_model(name, config)
    try:
        return last_states(model, texts)
    except Exception as error:  # of which kind depends on what it misses
        fault = f"{config.model_type}, which cannot be given a text: {first_line(error)}"
        raise ValueError(f"encoder '{name}' must be one that reads a text both ways, got {fault}") from error


def whole_model(name: str, config: Any) -> nn.Module:
    """A model with random weights as its configuration says; ValueError if that makes no model, or too large a one."""
    try:
        with torch.device("meta"):  # counts without memory
            size = sum(weight.numel() for weight in small_model(config, {}).parameters())
        if size <= MOST_PARAMETERS:
            return small_model(config, {})
    except Exception as error:  # whatever the configuration's content leads to
        raise ValueError(f"encoder '{name}' cannot be loaded: {first_line(error)}") from error
    rule = f"encoder '{name}' must have at most {MOST_PARAMETERS:,} parameters to be tried whole"
    raise ValueError(f"{rule}, got {size:,} ({config.model_type})")


def small_model(config: Any, changes: dict[str, Any]) -> nn.Module:
    """A model with random weights, in evaluation mode, after some changes of its configuration."""
    from transformers import AutoModel

    changed = copy.deepcopy(config)
    for key, value in changes.items():
        setattr(changed, key, value)
    with torch.random.fork_rng(devices=[]):
        model: nn.Module = AutoModel.from_config(changed, dtype=torch.float32)
    return model.eval()


def last_states(model: nn.Module, texts: Tensor) -> Any:
    """The last hidden states that a model gives for the ids of texts without padding."""
    with torch.no_grad():
        arguments = encoder_arguments(model.config, texts, torch.ones_like(texts), torch.zeros_like(texts))
        return getattr(model(**arguments), "last_hidden_state", None)


def encoder_arguments(config: Any, input_ids: Tensor, attention_mask: Tensor, segments: Tensor) -> dict[str, Tensor]:
    """What an encoder is called with, (rows, tokens) each: segment ids only where it knows more than one segment."""
    arguments = {"input_ids": input_ids, "attention_mask": attention_mask}
    return {**arguments, "token_type_ids": segments} if takes_segments(config) else arguments


def takes_segments(config: Any) -> bool:
    """Whether an encoder knows segments, from a table of its own or by asking whether two tokens are of the same."""
    return getattr(config, "type_vocab_size", 0) > 1 or config.model_type in COMPARES_SEGMENTS
