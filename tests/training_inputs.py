"""What trials are trained from, read from files as a driver reads it."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from mtlib.checkpoints.initial_weights import read_starting_weights
from mtlib.config.trial import TrialConfig
from mtlib.data.load import read_data
from mtlib.data.token_cache import Corpus, tokenize
from mtlib.model.encoder import PretrainedEncoder, load_encoder
from search_spaces.space import encoder_names
from sweeps.lanes.loaded_trial import LoadedTrial, load_trial
from sweeps.lanes.training_inputs import TrainingInputs, read_training_inputs
from sweeps.options import SweepPlan
from sweeps.plan.inputs import read_points

cached_encoder = functools.cache(load_encoder)
"""Loads an encoder once in a process."""


@dataclass(frozen=True)
class FileReader:
    """Reads from files what a lane reads from the object store."""

    encoder: PretrainedEncoder
    data: Path
    cache: Path

    def read_corpus(self, config: TrialConfig) -> Corpus:
        return tokenize(read_data(config, self.data), self.encoder.tokenizer, self.cache)

    def read_encoder(self, _config: TrialConfig) -> PretrainedEncoder:
        return self.encoder

    def read_start(self, config: TrialConfig) -> dict[str, Tensor] | None:
        return read_starting_weights(config.encoder)


def load_from_files(config: TrialConfig, data: Path, cache: Path, environment: Mapping[str, Any]) -> LoadedTrial:
    """A trial that is trained in this process."""
    reader = FileReader(cached_encoder(config.encoder.name), data, cache)
    return load_trial(config, reader.encoder, reader.read_corpus(config), reader.read_start(config), environment)


def read_inputs_of(plan: SweepPlan) -> TrainingInputs:
    """The inputs of all trials of a sweep."""
    tables, encoders = read_points(plan.space, plan.data_folder), map(cached_encoder, encoder_names(plan.space))
    named = dict(zip(encoder_names(plan.space), encoders, strict=True))
    return read_training_inputs(plan.space, tables, named, plan.data_folder, plan.options.cache_folder)
