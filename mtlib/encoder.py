"""The text encoder: loaded once, kept, and copied fresh for each trial."""

import contextlib
import copy
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mtlib.config import EncoderConfig
from mtlib.seeds import stream_seed

HIDDEN_DROPOUTS = ("hidden_dropout_prob", "dropout", "embedding_dropout", "mlp_dropout")
"""What encoders call the dropout of hidden states in their configuration."""
ATTENTION_DROPOUTS = ("attention_probs_dropout_prob", "attention_dropout")
"""What encoders call the dropout of attention weights."""


@dataclass(frozen=True, kw_only=True)
class PretrainedEncoder:
    """An encoder as it was loaded; trials train copies of it."""

    name: str
    config: Any
    """The `transformers` configuration."""
    weights: Mapping[str, Tensor]
    """Pretrained weights by name, on the CPU, fp32."""
    tokenizer: Any
    """A fast `transformers` tokenizer."""
    fingerprint: str
    """SHA-256 of configuration and weights."""

    @property
    def num_parameters(self) -> int:
        return sum(weight.numel() for weight in self.weights.values())


def load_encoder(name: str) -> PretrainedEncoder:
    """Loads an encoder and its tokenizer.

    Args:
        name: a hub name such as `bert-base-uncased`, or a local folder.

    Raises:
        ValueError: it cannot be had, or is no text encoder; one line that says which and why.
    """
    from transformers import AutoModel, AutoTokenizer

    with quiet_transformers():
        try:
            tokenizer = AutoTokenizer.from_pretrained(name, use_fast=True)
            # A checkpoint may lack some weights (a pooler, say): those are drawn from a stream of their own.
            torch.manual_seed(stream_seed("encoder", "missing weights"))
            model = AutoModel.from_pretrained(name, dtype=torch.float32)
        except (OSError, ValueError, KeyError) as error:
            raise ValueError(f"encoder '{name}' cannot be loaded: {first_line(error)}") from error
    drop_pooler(model)
    weights = {key: weight.detach().clone() for key, weight in model.state_dict().items()}
    fingerprint = fingerprint_of(model.config, weights)
    return PretrainedEncoder(
        name=name, config=model.config, weights=weights, tokenizer=tokenizer, fingerprint=fingerprint
    )


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keeps loading bars and reports of unused weights off the terminal."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def drop_pooler(model: nn.Module) -> None:
    """Takes off the layer that BERT puts on [CLS] for its own pretraining; our heads read the hidden state."""
    if getattr(model, "pooler", None) is not None:
        model.pooler = None


def fingerprint_of(config: Any, weights: Mapping[str, Tensor]) -> str:
    """SHA-256 over the architecture and every weight."""
    described = {key: value for key, value in config.to_dict().items() if not key.startswith("_")}
    described.pop("transformers_version", None)
    digest = hashlib.sha256(json.dumps(described, sort_keys=True, default=str).encode())
    for key in sorted(weights):
        digest.update(key.encode())
        digest.update(weights[key].contiguous().numpy().tobytes())
    return digest.hexdigest()


def build_encoder(pretrained: PretrainedEncoder, config: EncoderConfig) -> nn.Module:
    """A fresh trainable copy of a pretrained encoder with the configured dropout.

    Raises:
        ValueError: a dropout is set that this encoder's configuration does not know, or max_length is beyond its
            positions.
    """
    from transformers import AutoModel

    architecture = copy.deepcopy(pretrained.config)
    set_dropout(architecture, HIDDEN_DROPOUTS, config.dropout, pretrained.name, "dropout")
    set_dropout(architecture, ATTENTION_DROPOUTS, config.attention_dropout, pretrained.name, "attention_dropout")
    longest = longest_input(pretrained)
    if config.max_length > longest:
        raise ValueError(f"encoder.max_length must be at most {longest} for {pretrained.name}, got {config.max_length}")
    with quiet_transformers(), torch.random.fork_rng(devices=[]):
        model: nn.Module = AutoModel.from_config(architecture)
    drop_pooler(model)
    model.load_state_dict(pretrained.weights)
    return model


def longest_input(pretrained: PretrainedEncoder) -> int:
    """The most word pieces that the encoder has positions for; RoBERTa's tokenizer knows of two that it spends."""
    positions = getattr(pretrained.config, "max_position_embeddings", None)
    return int(min(pretrained.tokenizer.model_max_length, positions or pretrained.tokenizer.model_max_length))


def set_dropout(architecture: Any, names: tuple[str, ...], value: float | None, encoder: str, key: str) -> None:
    """Sets every dropout among `names` that the encoder's configuration has; None leaves them."""
    known = [name for name in names if isinstance(getattr(architecture, name, None), int | float)]
    if value is not None and not known:
        raise ValueError(f"encoder.{key} cannot be set for {encoder} ({architecture.model_type}): set it to none")
    for name in known if value is not None else ():
        setattr(architecture, name, value)


def embedding_layer(encoder: nn.Module) -> nn.Module:
    """The module whose output enters the first layer: where SMART's noise is added.

    Raises:
        ValueError: the architecture has none that we know.
    """
    layer = getattr(encoder, "embeddings", None)
    if not isinstance(layer, nn.Module):
        raise ValueError(f"SMART cannot enter {type(encoder).__name__}: it has no module called 'embeddings'")
    return layer
