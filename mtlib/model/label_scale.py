"""The scale of a regression's labels: the mean and deviation of train, in which its loss is computed.

A loss on raw labels, such as 0 to 5, is many times a loss of classes, and the head has to travel to the mean first.
"""

import numpy as np
import torch
from torch import Tensor, nn


class LabelScale(nn.Module):
    """Mean and standard deviation of labels: buffers, so that they are kept with the weights."""

    mean: Tensor
    deviation: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("deviation", torch.ones(()))

    def fit(self, labels: np.ndarray) -> None:
        """Takes both from train labels, (rows,); a deviation of 0 counts as 1."""
        self.mean.fill_(float(labels.mean()))
        self.deviation.fill_(float(labels.std()) or 1.0)

    def to_unit(self, labels: Tensor) -> Tensor:
        """Labels as deviations from the mean."""
        return (labels - self.mean) / self.deviation

    def from_unit(self, values: Tensor) -> Tensor:
        """Returns the inverse of `to_unit`."""
        return values * self.deviation + self.mean
