"""Heads: from the pooled text (or the two pooled texts of a pair) to a task's logits."""

import torch
from torch import nn

from mtlib.config import TrialConfig
from mtlib.seeds import torch_stream
from mtlib.tasks import TASKS

INITIAL_STD = 0.02
"""Standard deviation of a new head's weights. Source: Devlin et al. 2019."""


def linear_head(config: TrialConfig, task: str, hidden_size: int) -> nn.Linear:
    """A linear layer from the encoder to the task's logits, initialised from the task's own stream.

    Args:
        config: gives encoding, seed and replicate.
        task: name of the task.
        hidden_size: width of the encoder.

    Returns:
        A layer from hidden_size (twice that for a bi-encoder) to `TASKS[task].num_logits`; weights N(0, .02), bias 0.
    """
    width = hidden_size * (2 if config.tasks[task].encoding == "bi" else 1)
    # Made without values, so that the global stream is left alone.
    head = nn.Linear(width, TASKS[task].num_logits, device="meta").to_empty(device="cpu")
    stream = torch_stream(config.seed, config.replicate, "head", task)
    with torch.no_grad():
        head.weight.normal_(0.0, INITIAL_STD, generator=stream)
        head.bias.zero_()
    return head
