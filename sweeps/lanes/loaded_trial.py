"""A trial loaded for training: its configuration, encoder, data and cuts, cached in memory between trials."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtlib.checkpoints.initial_weights import load_start
from mtlib.config.trial import TrialConfig
from mtlib.data.load import TableKey, find_row_sources, read_all
from mtlib.data.row_sources import RowSources
from mtlib.data.token_cache import Corpus, tokenize
from mtlib.model.encoder import PretrainedEncoder, load_encoder
from mtlib.model.multitask import MultiTaskModel
from mtlib.stages.effective_settings import length_counts
from mtlib.stages.keys import Cut, Origin, list_cuts
from mtlib.stages.plan import plan_stages
from mtlib.train import origin_of


@dataclass(frozen=True, kw_only=True)
class LoadedTrial:
    """A trial with everything that its result depends on."""

    config: TrialConfig
    encoder: PretrainedEncoder
    corpus: Corpus
    origin: Origin
    cuts: tuple[Cut, ...]
    """First to last."""

    @property
    def can_be_extended(self) -> bool:
        """Whether a trial with more epochs could continue from this one's end."""
        return not length_counts(self.config, len(self.config.stages) - 1)

    def end_of(self, stage: int) -> Cut:
        """The cut at a stage's end."""
        return next(cut for cut in self.cuts if cut.stage == stage and cut.is_end)

    def next_end(self, epochs: int) -> Cut:
        """The first end of a stage after `epochs` epochs of the trial."""
        return next(cut for cut in self.cuts if cut.is_end and cut.total_epochs > epochs)


def load_trial(
    config: TrialConfig, data_folder: Path, cache_folder: Path, environment: Mapping[str, Any]
) -> LoadedTrial:
    """Loads a trial; `environment` is that of `describe_environment`. Raises ValueError as `load_start` does."""
    encoder, corpus = cached_encoder(config.encoder.name), cached_corpus(config, data_folder, cache_folder)
    has_start = config.encoder.start_from is not None
    started = load_start(config.encoder, MultiTaskModel(config, encoder)) if has_start else {}
    origin = origin_of(corpus, encoder, started, environment)
    plan = plan_stages(config, {name: corpus[name, "train"].num_rows for name in config.train_sets})
    cuts = tuple(list_cuts(config, plan, origin))
    return LoadedTrial(config=config, encoder=encoder, corpus=corpus, origin=origin, cuts=cuts)


@functools.lru_cache(maxsize=1)
def cached_encoder(name: str) -> PretrainedEncoder:
    """The pretrained encoder; the last one stays in memory."""
    return load_encoder(name)


def cached_corpus(config: TrialConfig, data_folder: Path, cache_folder: Path) -> Corpus:
    """The tokenized data of a trial, shared by trials that read the same rows."""
    wanted = tuple(find_row_sources(config, data_folder).items())
    return load_corpus(config.encoder.name, wanted, data_folder, cache_folder)


@functools.lru_cache(maxsize=4)
def load_corpus(
    encoder: str, wanted: tuple[tuple[TableKey, RowSources], ...], data_folder: Path, cache_folder: Path
) -> Corpus:
    """The token cache, memory-mapped, so that all workers of a machine share it."""
    return tokenize(read_all(dict(wanted), data_folder), cached_encoder(encoder).tokenizer, cache_folder)
