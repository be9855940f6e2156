"""The arguments that an encoder is called with."""

from typing import Any

from torch import Tensor

COMPARES_SEGMENTS = ("funnel", "xlnet")
"""Model types that use segment ids without an embedding table for them."""


def encoder_arguments(config: Any, input_ids: Tensor, attention_mask: Tensor, segments: Tensor) -> dict[str, Tensor]:
    """Returns the arguments of an encoder, (rows, tokens) each: segment ids only if it uses more than one segment, as
    embeddings or relative between tokens."""
    arguments = {"input_ids": input_ids, "attention_mask": attention_mask}
    takes_segments = getattr(config, "type_vocab_size", 0) > 1 or config.model_type in COMPARES_SEGMENTS
    return {**arguments, "token_type_ids": segments} if takes_segments else arguments
