"""Resolves `precision=auto`."""

import torch

from mtlib.config.trial import TrialConfig
from mtlib.model.encoder import PretrainedEncoder
from mtlib.runtime.bf16 import does_bf16_pay
from mtlib.runtime.workers import gather_from_workers


def choose_precision(config: TrialConfig, encoder: PretrainedEncoder, device: torch.device) -> TrialConfig:
    """The configuration with a precision: bf16 where that is allowed and pays on this device, otherwise fp32.

    A collective call; the first worker's answer counts. A precision that is given stays.
    """
    if config.precision != "auto":
        return config
    try:
        in_bf16 = config.override({"precision": "bf16"})
    except ValueError:  # a setting of the trial needs fp32
        return config.override({"precision": "fp32"})
    width = int(encoder.config.hidden_size)
    answer = does_bf16_pay(width, torch.get_num_threads(), on_gpu=device.type == "cuda")
    return in_bf16 if gather_from_workers(answer.pays)[0] else config.override({"precision": "fp32"})
