"""The details of every batch of a training, as its steps count them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import mtlib.training.step
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.model.encoder import PretrainedEncoder
from mtlib.train import train


def record_details(
    config: TrialConfig, corpus: Corpus, encoder: PretrainedEncoder, wrap: Callable[[nn.Module], nn.Module]
) -> torch.Tensor:
    """Sums of every batch of the first steps over the global batch; (batches, terms)."""
    seen: list[list[float]] = []
    count_details = mtlib.training.step.count_details

    def recording(run: Any, batches: Any, places: Any, details: list[list[float]], step: int) -> None:
        seen.extend(details)
        count_details(run, batches, places, details, step)

    mtlib.training.step.count_details = recording
    try:
        train(config, corpus, encoder, wrap=wrap)
    finally:
        mtlib.training.step.count_details = count_details
    return torch.tensor(seen)
