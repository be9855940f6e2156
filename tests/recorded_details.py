"""What trainings do, recorded to compare them: the details of every batch, reports and final weights."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import mtlib.training.step
from mtlib.config.trial import TrialConfig
from mtlib.data.token_cache import Corpus
from mtlib.loss.objective import Objective
from mtlib.model.encoder import PretrainedEncoder
from mtlib.train import train
from mtlib.training.epoch_report import EpochReport


@dataclasses.dataclass
class Trace:
    """Reports and final weights of a run, to compare runs bit for bit."""

    reports: dict[int, EpochReport] = dataclasses.field(default_factory=dict)
    weights: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)

    def watch(self, objective: nn.Module) -> nn.Module:
        assert isinstance(objective, Objective)
        self.model = objective.model
        return objective

    def note(self, report: EpochReport) -> bool:
        self.reports[report.epoch] = report
        self.weights = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        return True

    def values(self) -> list[tuple[Any, ...]]:
        return [values for report in self.reports.values() for values in values_of(report)]


def values_of(report: EpochReport) -> list[tuple[Any, ...]]:
    """The points of an epoch without their seconds."""
    return [(point.step, point.task, point.split, point.metric, point.value) for point in report.points]


def run_whole(config: TrialConfig, corpus: Corpus, encoder: PretrainedEncoder, **arguments: Any) -> Trace:
    """Trains a trial; its reports and final weights."""
    trace = Trace()
    train(config, corpus, encoder, wrap=trace.watch, on_epoch=trace.note, **arguments)
    return trace


def record_details(
    config: TrialConfig, corpus: Corpus, encoder: PretrainedEncoder, wrap: Callable[[nn.Module], nn.Module]
) -> torch.Tensor:
    """Sums of every batch of the first steps over the global batch; (batches, terms)."""
    seen: list[list[float]] = []
    count_details = mtlib.training.step.count_details

    def recording(run: Any, batches: Any, places: Any, values: list[float], step: int) -> None:
        seen.extend(torch.tensor(values[:-1]).view(len(batches), -1).tolist())
        count_details(run, batches, places, values, step)

    mtlib.training.step.count_details = recording
    try:
        train(config, corpus, encoder, wrap=wrap)
    finally:
        mtlib.training.step.count_details = count_details
    return torch.tensor(seen)
