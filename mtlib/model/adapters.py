"""Adapters by `peft`: low-rank matrices beside an encoder's frozen linear layers."""

import math
from typing import Any

import torch
from torch import nn

from mtlib.config.network import AdapterConfig
from mtlib.config.trial import TrialConfig
from mtlib.model.heads import new_stream
from mtlib.runtime.errors import require, require_name
from mtlib.runtime.seeds import torch_stream

QUERIES_AND_VALUES = (
    ("query", "value"),  # BERT and relatives
    ("query_proj", "value_proj"),  # DeBERTa-v2
    ("q_lin", "v_lin"),  # DistilBERT, XLM
    ("q_head", "v_head"),  # Funnel
    ("q_proj", "v_proj"),  # EuroBERT, Gemma
    ("q", "v"),  # MPNet
    ("in_proj",),  # DeBERTa, joined
    ("Wqkv",),  # ModernBERT, joined
)
"""What families call the linear layers that make queries and values."""
BASE_LAYER = ".base_layer."
"""What `peft` puts into the names of the weights beside which it adds others."""


def add_adapter(encoder: nn.Module, config: TrialConfig) -> None:
    """Freezes an encoder and adds the configured adapter, whose random weights come from streams of the trial.

    Raises:
        ValueError: `peft` is missing, the encoder has no linear layers of these names, or none that are known to make
            queries and values.
    """
    with torch.random.fork_rng(devices=[]):
        import_peft().inject_adapter_in_model(adapter_settings(encoder, config.adapter), encoder)
    for name, parameter in encoder.named_parameters():
        if parameter.requires_grad and ".lora_A." in name and not parameter.is_meta:  # B is 0
            stream = torch_stream(*new_stream(config, "adapter", name))
            nn.init.kaiming_uniform_(parameter, a=math.sqrt(5), generator=stream)  # as `peft` and nn.Linear do


def import_peft() -> Any:
    """Returns the package `peft`; ValueError if it is not installed."""
    try:
        import peft
    except ImportError as error:
        raise ValueError("adapter.method lora needs peft: pip install 'multitask-sweeps[adapters]'") from error
    return peft


def adapter_settings(encoder: nn.Module, config: AdapterConfig) -> Any:
    """Returns what `peft` is told: a `LoraConfig`; raises as `add_adapter`."""
    return import_peft().LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=list(target_layers(encoder, config.targets)),
    )


def target_layers(encoder: nn.Module, named: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the named layers, or those that make queries and values; raises as `add_adapter`."""
    paths = [f".{path}" for path, module in encoder.named_modules() if type(module) is nn.Linear]
    endings = {path.rpartition(".")[2]: None for path in paths}
    for target in named:
        if not any(path.endswith(f".{target}") for path in paths):
            require_name(target, endings, "linear layer of the encoder in adapter.targets")
    found = next((names for names in QUERIES_AND_VALUES if set(names) <= endings.keys()), ())
    known = ", ".join(endings) or "it has none"
    rule = f"adapter.targets must name linear layers of {type(encoder).__name__} ({known})"
    require(bool(named or found), rule, "none, and none is known to make queries and values")
    return named or found


def without_adapter(name: str) -> str:
    """Returns the name that a weight of a model had before an adapter was added to its encoder."""
    return name.replace(BASE_LAYER, ".") if name.startswith("encoder.") else name
