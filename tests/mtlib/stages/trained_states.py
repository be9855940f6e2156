"""Trials trained up to a cut, with their reports and the keys of the cut."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mtlib.checkpoints.initial_weights import load_start, read_starting_weights
from mtlib.config.trial import TrialConfig
from mtlib.data.load import find_row_sources, read_data
from mtlib.data.row_sources import RowSources
from mtlib.data.token_cache import Corpus, tokenize
from mtlib.model.encoder import PretrainedEncoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.runtime.environment import describe_environment
from mtlib.stages.keys import Cut, Origin, make_cut
from mtlib.stages.plan import plan_stages
from mtlib.train import origin_of, prepare_run, train_epoch
from mtlib.training.epoch_report import EpochReport, report_epoch
from mtlib.training.run import begin_next_stage, end_epoch, state_of

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Outcome:
    """The state and reports of a trial at a cut."""

    tensors: dict[str, Tensor]
    numbers: dict[str, Any]
    """Without the seconds."""
    scores: list[tuple[Any, ...]]
    """Every point of every epoch without its seconds."""
    predictions: list[tuple[str, str, list[str], np.ndarray]]


@dataclass
class Trainer:
    """Trains configurations on one folder of data; corpora are made once."""

    folder: Path
    cache: Path
    encoder: PretrainedEncoder
    corpora: dict[frozenset[tuple[tuple[str, str], RowSources, str]], Corpus] = field(default_factory=dict)

    def corpus(self, config: TrialConfig) -> Corpus:
        """The data of a configuration."""
        found = find_row_sources(config, self.folder).items()
        sources = frozenset((key, own, config.tasks[config.task_of(key[0])].prefix) for key, own in found)
        if sources not in self.corpora:
            self.corpora[sources] = tokenize(read_data(config, self.folder), self.encoder.tokenizer, self.cache)
        return self.corpora[sources]

    def origin(self, config: TrialConfig) -> Origin:
        """The origin of a trial."""
        start = read_starting_weights(config.encoder)
        started = load_start(config.encoder, MultiTaskModel(config, self.encoder), start) if start else {}
        return origin_of(self.corpus(config), self.encoder, started, describe_environment(CPU))

    def cut(self, config: TrialConfig, stage: int = 0, epochs: int = 1) -> Cut:
        """A cut of a trial, with its key."""
        tables = self.corpus(config)
        plan = plan_stages(config, {name: tables[name, "train"].num_rows for name in config.train_sets})
        return make_cut(config, plan, stage, epochs, self.origin(config))

    def outcome(self, config: TrialConfig, stage: int = 0, epochs: int = 1) -> Outcome:
        """Trains until `epochs` epochs of a stage are done."""
        corpus, start = self.corpus(config), read_starting_weights(config.encoder)
        run = prepare_run(config, corpus, self.encoder, CPU, lambda objective: objective, None, start)
        reports = []
        while (run.stage, run.epoch) != (stage, epochs):
            if run.is_stage_over:
                begin_next_stage(run)
            train_epoch(run, lambda _: True, None)
            reports.append(report_epoch(run))
            end_epoch(run)
        state = state_of(run)
        numbers = {name: value for name, value in state.numbers.items() if name != "seconds"}
        scores, predictions = plain_reports(reports)
        return Outcome(dict(state.tensors), numbers, scores, predictions)


def plain_reports(
    reports: list[EpochReport],
) -> tuple[list[tuple[Any, ...]], list[tuple[str, str, list[str], np.ndarray]]]:
    """Points and predictions of some epochs."""
    points = [point for report in reports for point in report.points]
    parts = [part for report in reports for part in report.predictions]
    return (
        [(point.step, point.epoch, point.task, point.split, point.metric, point.value) for point in points],
        [(part.task, part.split, part.ids, part.logits) for part in parts],
    )


def difference(first: Outcome, second: Outcome, ignored: Callable[[str], bool] = lambda _: False) -> str | None:
    """The first difference of two outcomes' states; None if they are equal bit for bit."""
    names = {name for name in first.tensors.keys() | second.tensors.keys() if not ignored(name)}
    for name in sorted(names):
        one, other = first.tensors.get(name), second.tensors.get(name)
        if one is None or other is None or one.dtype != other.dtype or not torch.equal(one, other):
            return name
    numbers = (name for name in first.numbers.keys() | second.numbers.keys() if not ignored(name))
    return next((name for name in sorted(numbers) if first.numbers.get(name) != second.numbers.get(name)), None)


def assert_equal(first: Outcome, second: Outcome) -> None:
    """States, scores and predictions are equal bit for bit."""
    assert difference(first, second) is None
    assert first.scores == second.scores
    assert len(first.predictions) == len(second.predictions) > 0
    for (*one, logits), (*other, others) in zip(first.predictions, second.predictions, strict=True):
        assert one == other
        assert np.array_equal(logits, others)
